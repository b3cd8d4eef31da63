"""Counts verdicts for a `Summary`: the policy's verdicts by entry and owner, orphans, and other findings."""

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pydantic import BaseModel

from sexton.policy import Hold, Policy, Rule
from sexton.policy.field_types import FOREVER_MS
from sexton.summary.arrow_counts import TOP, counts_by, first_rows
from sexton.summary.summary import EntryOutcome, Findings, HoldOutcome, OwnerOutcome, PolicyOutcome, TopicCount, TopRows
from sexton.verdicts.keeping import NOT_KEPT

POLICY_COLUMNS = (
    *("group_id", "policy_verdict", "policy_rule", "policy_owner", "keep_status", "keep_error", "keep_at_ms"),
    *("client_commit_timestamp_ms", "client_state_timestamp_ms", "kept_until_ms", "broker_expires_at_ms"),
)
ORPHAN_COLUMNS = ("topic", "orphan")
"""Columns of offset_verdicts that the functions here read."""

_Counts = dict[str, int]
_Row = TypeVar("_Row", bound=BaseModel)


def policy_outcome(verdicts: pa.Table, policy: Policy) -> PolicyOutcome:
    """The verdicts of `policy` on every offset, the largest losses first."""
    every: list[Hold | Rule] = [*policy.holds, *policy.rules]
    entries = {entry.name: entry for entry in every}
    by_entry, by_owner = (_outcomes(verdicts, name) for name in ("policy_rule", "policy_owner"))
    verdict_sums = {kind: sum(counts[kind] for counts in by_entry.values()) for kind in ("expire", "keep", "hold")}
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
        **verdict_sums,
        unmatched=by_entry.get(None, {}).get("keep", 0),
        entries=_listing(sorted(rows, key=lambda row: (-row.expire, -row.hold, -row.keep, row.name))),
        owners=_listing(sorted(owners, key=lambda row: (-row.expire, -row.hold, -row.keep, row.owner))),
        kept=_listing(_kept(verdicts)),
    )


def _kept(verdicts: pa.Table) -> list[HoldOutcome]:
    """Offsets under holds with `keep`, by hold, status and reason; those that were not kept first."""
    status = verdicts["keep_status"]
    why = pc.if_else(pc.fill_null(pc.equal(status, NOT_KEPT), False), verdicts["keep_error"], None)
    rows = verdicts.append_column("why", why).filter(pc.is_valid(status))
    found = rows.group_by(["policy_rule", "keep_status", "why"]).aggregate(
        [
            ("group_id", "count_distinct"),
            ([], "count_all"),
            ("client_commit_timestamp_ms", "count"),
            ("client_state_timestamp_ms", "count"),
            ("kept_until_ms", "max"),
            ("broker_expires_at_ms", "min"),
            ("keep_at_ms", "max"),
        ]
    )
    outcomes = [
        HoldOutcome(
            hold=row["policy_rule"],
            status=row["keep_status"],
            why=row["why"],
            groups=row["group_id_count_distinct"],
            offsets=row["count_all"],
            commits=row["client_commit_timestamp_ms_count"],
            joins=row["client_state_timestamp_ms_count"],
            until_ms=None if row["kept_until_ms_max"] == FOREVER_MS else row["kept_until_ms_max"],
            expires_at_ms=row["broker_expires_at_ms_min"],
            last_ms=row["keep_at_ms_max"],
        )
        for row in found.to_pylist()
    ]
    return sorted(outcomes, key=lambda one: (one.status != NOT_KEPT, one.hold, one.status, one.why or ""))


def oddities(verdicts: ds.Dataset, *, sees_all_topics: bool | None) -> Findings:
    """Counts of offsets that are pinned by a transaction, no longer subscribed, outside of their log, or orphans."""
    return Findings(
        pinned=verdicts.count_rows(filter=pc.field("pinned_by_producer_id").is_valid()),
        pinned_due=verdicts.count_rows(filter=pc.field("broker_reason") == "pending_transaction"),
        left_topic=verdicts.count_rows(filter=pc.field("left_topic")),
        behind_log_start=verdicts.count_rows(filter=pc.field("behind_log_start")),
        beyond_log_end=verdicts.count_rows(filter=pc.field("beyond_log_end")),
        orphans_by_kind=counts_by(verdicts.to_table(["orphan"], filter=pc.field("orphan").is_valid()), "orphan"),
        sees_all_topics=sees_all_topics,
    )


def orphaned_topics(verdicts: pa.Table) -> TopRows[TopicCount]:
    """Topics with orphans, the topic with the most first."""
    orphans = verdicts.filter(pc.is_valid(verdicts["orphan"]))
    counted = orphans.group_by(["topic", "orphan"]).aggregate([([], "count_all")])
    order = [("count_all", "descending"), ("topic", "ascending"), ("orphan", "ascending")]
    rows = [
        TopicCount(topic=row["topic"], kind=row["orphan"], offsets=row["count_all"])
        for row in first_rows(counted, order)
    ]
    return TopRows(rows=rows, total=counted.num_rows)


def _outcomes(verdicts: pa.Table, name: str) -> dict[str | None, _Counts]:
    """For each value of a column: the number of offsets by verdict, and of the groups that have them."""
    found: dict[str | None, _Counts] = {}
    groups = verdicts.group_by(name).aggregate([("group_id", "count_distinct")])
    for row in groups.to_pylist():
        found[row[name]] = {"groups": row["group_id_count_distinct"], "expire": 0, "keep": 0, "hold": 0}
    for row in verdicts.group_by([name, "policy_verdict"]).aggregate([([], "count_all")]).to_pylist():
        if row["policy_verdict"] is not None:
            found[row[name]][row["policy_verdict"]] = row["count_all"]
    return found


def _listing(rows: list[_Row]) -> TopRows[_Row]:
    return TopRows(rows=rows[:TOP], total=len(rows))
