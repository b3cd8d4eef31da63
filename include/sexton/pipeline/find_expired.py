"""find_expired: the broker's verdict on every offset at as_of, its reason, and what would change it (table
offset_verdicts); with a policy also the policy's verdict.

A policy cannot stop the broker: offsets that it holds or keeps but the broker deletes anyway become a warning. For
offsets that an open transaction pins, the transactional id is given if the input has `__transaction_state`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import HOUR_MS, some
from sexton.coordinator.profiles import profile_of
from sexton.errors import SextonError
from sexton.ledger.recorded_steps import keep_steps_of
from sexton.plans.limits import policy_of
from sexton.policy import Policy
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord, Shard
from sexton.runs.judging import TABLE, judge_offsets
from sexton.settings import settings
from sexton.topics import TRANSACTIONS_TOPIC
from sexton.transactions.reading import state_log
from sexton.transactions.rows import open_transactions, owners_of
from sexton.transactions.verdicts import TransactionClocks, judge_all
from sexton.verdicts.keeping import ALIVE, NOTHING_DONE, KeepSteps
from sexton.verdicts.pins import Owners

__all__ = ["TABLE", "run"]


def run(engine: Engine, folder: RunFolder, *, policy: Policy | None = None, names_owners: bool = True) -> RunRecord:
    """Write offset_verdicts from the state tables of `folder`, with `policy` or else the policy in the run record.

    The record gets the policy, and warnings about what the policy cannot do. Without `names_owners` no transactional
    ids are looked up.
    """
    record = folder.read_run()
    policy = policy if policy is not None else policy_of(record)
    if policy is not None:
        record = record.model_copy(update={"policy": policy.canonical, "policy_sha256": policy.sha256})
    owners, unread = _owners(engine, folder, record) if names_owners else ({}, [])
    steps = keep_steps_of(record) if policy is not None and record.positions else None
    judged = engine.map(
        "Judging offsets",
        record.shards,
        lambda shard: _judge(folder, record, shard, policy, owners, steps),
        work_bytes=folder.size_bytes("committed_offsets", "groups"),
    )
    warnings = [*unread, *([] if policy is None else [*_blind_rules(policy, record), *_unheeded(policy, judged)])]
    record = record.model_copy(
        update={
            "counts": {**record.counts, TABLE: sum(each.row_count for each in judged)},
            "warnings": [*record.warnings, *(text for text in warnings if text not in record.warnings)],
        }
    )
    folder.write_run(record)
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The number of verdicts of a shard, and what the broker removes in spite of the policy.

    `held` has one row for each hold that loses offsets: policy_rule, count_all, broker_expires_at_ms_min. `kept_count`
    counts offsets that the policy keeps and the broker already expires.
    """

    row_count: int
    held: pa.Table | None = None
    kept_count: int = 0


def _owners(engine: Engine, folder: RunFolder, record: RunRecord) -> tuple[Owners, list[str]]:
    """(transactional ids of the open transactions, warnings), from `__transaction_state` at as_of if the input has it.

    A failure to read it is only a warning, because the broker's verdicts do not depend on it.
    """
    if not record.counts.get("open_transactions"):
        return {}, []
    rows = [row for part in record.log_partitions for row in folder.read_table("open_transactions", part).to_pylist()]
    try:
        found = state_log(
            record.log_dirs or [record.source],
            record.cluster_id if record.positions else None,
            as_of_ms=record.as_of_ms,
            taken_at_ms=record.taken_at_ms,
            release=profile_of(record.profile).release,
        )
        if found is None:
            return {}, []
        states = found.load(
            lambda work, items: engine.map(
                "Loading transaction states", items, work, work_bytes=sum(item.size_bytes for item in items)
            )
        )
    except (SextonError, OSError) as error:
        note = f"{TRANSACTIONS_TOPIC} could not be read, so no transactional id of a pinned offset is known: {error}"
        return {}, [note]
    clocks = TransactionClocks(read_until_ms=record.as_of_ms, slack_ms=settings().settle_ms)
    return owners_of(judge_all(open_transactions(rows, ()), states, clocks).judged), []


def _judge(
    folder: RunFolder, record: RunRecord, shard: Shard, policy: Policy | None, owners: Owners, steps: KeepSteps | None
) -> _Judged:
    every_ms = None
    if steps is not None:
        every_ms = HOUR_MS if record.changes_since_ms is None else record.as_of_ms - record.changes_since_ms
    verdicts = judge_offsets(
        folder, record, shard, policy=policy, owners=owners, steps=steps or NOTHING_DONE, every_ms=every_ms
    )
    row_count = folder.write_table(record, TABLE, verdicts, shard)
    if policy is None:
        return _Judged(row_count=row_count)
    is_kept = pc.and_(pc.equal(verdicts["policy_verdict"], "keep"), pc.equal(verdicts["broker_verdict"], "expire"))
    return _Judged(row_count=row_count, held=_held_in_vain(policy, verdicts), kept_count=pc.sum(is_kept).as_py() or 0)


def _held_in_vain(policy: Policy, verdicts: pa.Table) -> pa.Table:
    """For each hold: the offsets that the broker expires before the hold ends, and the earliest expiry."""
    held = verdicts.filter(pc.equal(verdicts["policy_verdict"], "hold"))
    names = pa.array([hold.name for hold in policy.holds], pa.string())
    until = pa.array([hold.until_ms for hold in policy.holds], pa.int64())
    ends = until.take(pc.index_in(held["policy_rule"], value_set=names).combine_chunks())
    goes = held["broker_expires_at_ms"].combine_chunks()
    is_alive = pc.is_in(held["keep_status"], value_set=ALIVE)
    in_vain = pc.and_(pc.is_valid(goes), pc.fill_null(pc.less(goes, ends), True))
    lost = held.filter(pc.and_(in_vain, pc.invert(is_alive)))
    return lost.group_by("policy_rule").aggregate([([], "count_all"), ("broker_expires_at_ms", "min")])


def _unheeded(policy: Policy, judged: Sequence[_Judged]) -> Iterator[str]:
    """Warnings about what the broker removes in spite of the policy, and what to do about it."""
    parts = pa.concat_tables([each.held for each in judged if each.held is not None])
    held = parts.group_by("policy_rule").aggregate([("count_all", "sum"), ("broker_expires_at_ms_min", "min")])
    by_name = {row["policy_rule"]: row for row in held.to_pylist()}
    for hold in policy.holds:
        if row := by_name.get(hold.name):
            yield (
                f"hold {hold.name} ({hold.kind}, {hold.owner}) does not stop the broker, which deletes "
                f"{some(row['count_all_sum'], 'offset')} of it unless they are committed again, the first at "
                f"{_instant(row['broker_expires_at_ms_min_min'])}: {_REMEDY}"
            )
    if kept_count := sum(each.kept_count for each in judged):
        kept = some(kept_count, "offset")
        yield f"the policy keeps {kept} that the broker deletes now by its own retention: {_REMEDY}"


_REMEDY = "raise offsets.retention.minutes, or restore them from the archive afterwards"


def _blind_rules(policy: Policy, record: RunRecord) -> Iterator[str]:
    """Warnings about rules for orphans, if nothing was recorded that identifies orphans."""
    names = [rule.name for rule in policy.rules if rule.match.orphan]
    gone = [rule.name for rule in policy.rules if "topic_gone" in (rule.match.orphan or ())]
    if names and not record.has_topics:
        yield f"no orphan can be recognized, so {_rules(names)} nothing: the cluster's topics were not recorded"
    elif gone and not record.sees_all_topics:
        yield (
            f"{_rules(gone)} no offsets of deleted topics: it is not known whether the principal that recorded the "
            "topics could see all of them"
        )


def _rules(names: Sequence[str]) -> str:
    return f"rule{'' if len(names) == 1 else 's'} {', '.join(names)} find{'s' if len(names) == 1 else ''}"


def _instant(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):  # an explicit expiry may be any number
        return f"{at_ms} ms"
