"""Offsets under holds that the broker would expire: the values of a restore that commits them again.

Which offsets are due is read from a run. Clients may have committed since the run: the diff finds newer commits.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast_result import RunTables
from sexton.coordinator.offsets import OffsetKey
from sexton.execution.restore.restore_plan import OffsetValue, Then
from sexton.execution.restore.sources import Source
from sexton.policy import Policy
from sexton.policy.durations import duration_text

_KEY = ("log_partition", "group_id", "topic", "partition")
_VERDICT = (
    *(*_KEY, "policy_verdict", "policy_rule", "broker_expires_at_ms", "base_timestamp_ms", "kept_until_ms"),
    *("client_commit_timestamp_ms", "client_state_timestamp_ms"),
)


def due_under_holds(tables: RunTables, policy: Policy, *, before_ms: int, now_ms: int) -> Source:
    """The offsets under a hold with `keep` that the broker expires before `before_ms`.

    The duration of a hold counts from the last commit of a client. Offsets that their hold no longer keeps are counted
    in a warning.
    """
    holds = {hold.name: hold for hold in policy.holds if hold.keep_ms is not None}
    verdicts = tables.read("offset_verdicts", _VERDICT)
    is_held = pc.and_(
        pc.equal(verdicts["policy_verdict"], "hold"), pc.less(verdicts["broker_expires_at_ms"], before_ms)
    )
    is_kept = pc.is_in(verdicts["policy_rule"], value_set=pa.array([*holds], pa.string()))
    due = verdicts.filter(pc.fill_null(pc.and_(is_held, is_kept), fill_value=False))
    verdict_of = {tuple(row[name] for name in _KEY): row for row in due.to_pylist()}
    committed = tables.read("committed_offsets")
    of_due = pc.is_in(committed["group_id"], value_set=due["group_id"].combine_chunks())
    values: dict[OffsetKey, Then] = {}
    due_ms: dict[OffsetKey, int] = {}
    ended: Counter[str] = Counter()
    for row in committed.filter(of_due).to_pylist():
        verdict = verdict_of.get(tuple(row[name] for name in _KEY))
        if verdict is None:
            continue
        key = row["group_id"], row["topic"], row["partition"]
        if now_ms >= verdict["kept_until_ms"]:
            ended[verdict["policy_rule"]] += 1
            continue
        due_ms[key] = verdict["broker_expires_at_ms"]
        committed_ms, base_ms = row["commit_timestamp_ms"], verdict["base_timestamp_ms"]
        is_since_empty = base_ms not in (None, committed_ms)
        values[key] = Then(
            value=OffsetValue(row["committed_offset"], row["leader_epoch"], row["metadata"]),
            commit_timestamp_ms=_first(verdict["client_commit_timestamp_ms"], committed_ms),
            expire_timestamp_ms=row["expire_timestamp_ms"],
            topic_id=row["topic_id"],
            empty_since_ms=_first(verdict["client_state_timestamp_ms"], base_ms) if is_since_empty else None,
        )
    return Source(
        name=f"policy {policy.sha256}",
        cluster_id=tables.row["cluster_id"],
        values=values,
        due_ms=due_ms,
        warnings=[
            f"{count} offsets fall due and are kept no longer: hold {name} keeps them for "
            f"{duration_text(holds[name].keep_ms or 0)} after the last commit"
            for name, count in sorted(ended.items())
        ],
    )


def _first(client_ms: int | None, own_ms: int) -> int:
    """The client's timestamp, if it is known because Sexton's own commit replaced it; else the record's."""
    return own_ms if client_ms is None else client_ms
