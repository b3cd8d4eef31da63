"""Counts verdicts for a `Summary`: what a policy makes of the offsets, by entry and owner, and what is odd about some.

As in `collect`, Arrow columns go in and small facts come out; names are cut to the first that matter.
"""

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from sexton.policy import Hold, Policy, Rule
from sexton.report.summary import TOP, EntryOutcome, Findings, OwnerOutcome, PolicyOutcome, TopicCount, TopRows

COLUMNS = (
    "topic",
    "policy_verdict",
    "policy_rule",
    "policy_owner",
    "orphan",
    "left_topic",
    "behind_log_start",
    "pinned_by_producer_id",
)
"""What is read here besides group_id and the broker's columns."""

_Counts = dict[str, int]
_Row = TypeVar("_Row", bound=BaseModel)


def policy_outcome(verdicts: pa.Table, policy: Policy) -> PolicyOutcome:
    """What `policy` makes of every offset: those that it takes most of come first."""
    every: list[Hold | Rule] = [*policy.holds, *policy.rules]
    entries = {entry.name: entry for entry in every}
    by_entry, by_owner = (_outcomes(verdicts, name) for name in ("policy_rule", "policy_owner"))
    total = _verdicts(verdicts)
    rows = [
        EntryOutcome(
            name=name,
            is_hold=isinstance(entries[name], Hold),
            owner=entries[name].owner,
            reason=entries[name].reason,
            ticket=entries[name].ticket,
            **counts,
        )
        for name, counts in by_entry.items()
        if name is not None and name in entries
    ]
    owners = [OwnerOutcome(owner=name, **counts) for name, counts in by_owner.items() if name is not None]
    return PolicyOutcome(
        sha256=policy.sha256,
        **total,
        unmatched=by_entry.get(None, {}).get("keep", 0),
        entries=_listing(sorted(rows, key=lambda row: (-row.expire, -row.hold, -row.keep, row.name))),
        owners=_listing(sorted(owners, key=lambda row: (-row.expire, -row.hold, -row.keep, row.owner))),
    )


def oddities(verdicts: pa.Table, *, sees_all_topics: bool | None) -> Findings:
    """Offsets that hang on a transaction, were left behind by their group, or point to nothing any more."""
    pinned = pc.is_valid(verdicts["pinned_by_producer_id"])
    return Findings(
        pinned=_count(pinned),
        pinned_due=_count(pc.equal(verdicts["broker_reason"], "pending_transaction")),
        left_topic=_count(verdicts["left_topic"]),
        behind_log_start=_count(verdicts["behind_log_start"]),
        orphans_by_kind=_orphan_kinds(verdicts),
        sees_all_topics=sees_all_topics,
    )


def orphaned_topics(verdicts: pa.Table) -> TopRows[TopicCount]:
    """Topics with orphans, those with most first."""
    orphans = verdicts.filter(pc.is_valid(verdicts["orphan"]))
    counted = orphans.group_by(["topic", "orphan"]).aggregate([([], "count_all")])
    order = [("count_all", "descending"), ("topic", "ascending"), ("orphan", "ascending")]
    first = counted.take(pc.select_k_unstable(counted, TOP, sort_keys=order)) if counted.num_rows else counted
    rows = [TopicCount(topic=row["topic"], kind=row["orphan"], offsets=row["count_all"]) for row in first.to_pylist()]
    return TopRows(rows=rows, total=counted.num_rows)


def _outcomes(verdicts: pa.Table, name: str) -> dict[str | None, _Counts]:
    """By the values of a column: offsets of each verdict, and how many groups these are of."""
    found: dict[str | None, _Counts] = {}
    groups = verdicts.group_by(name).aggregate([("group_id", "count_distinct")])
    for row in groups.to_pylist():
        found[row[name]] = {"groups": row["group_id_count_distinct"], "expire": 0, "keep": 0, "hold": 0}
    for row in verdicts.group_by([name, "policy_verdict"]).aggregate([([], "count_all")]).to_pylist():
        if row["policy_verdict"] is not None:
            found[row[name]][row["policy_verdict"]] = row["count_all"]
    return found


def _verdicts(verdicts: pa.Table) -> _Counts:
    counts = {row["values"]: row["counts"] for row in pc.value_counts(verdicts["policy_verdict"]).to_pylist()}
    return {verdict: counts.get(verdict, 0) for verdict in ("expire", "keep", "hold")}


def _orphan_kinds(verdicts: pa.Table) -> _Counts:
    counts = pc.value_counts(pc.drop_null(verdicts["orphan"])).to_pylist()
    return {row["values"]: row["counts"] for row in sorted(counts, key=lambda row: (-row["counts"], row["values"]))}


def _listing(rows: list[_Row]) -> TopRows[_Row]:
    return TopRows(rows=rows[:TOP], total=len(rows))


def _count(mask: pa.ChunkedArray) -> int:
    return pc.sum(mask).as_py() or 0
