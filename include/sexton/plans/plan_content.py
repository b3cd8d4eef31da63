"""The content of a run's plan: every tombstone, every value that would be removed, and the counts for approvers.

It is computed from the tables that the run has written, so a plan cannot say anything that they do not. write_plan
makes files of it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.api.broker_settings import broker_settings
from sexton.coordinator.profiles import profile_of
from sexton.log.batch import Batch, read_batches
from sexton.log.entry import CODECS
from sexton.plans.check_content import offset_rows
from sexton.plans.limits import VERDICTS, default_limits, entry_of, limits_exceeded, not_held, policy_of
from sexton.plans.plan import TOMBSTONES, UNDO, Batches, Beyond, Losses, PlanRecord
from sexton.policy import Counts, Policy
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.judging import judge_offsets, read_held
from sexton.tables import TABLES
from sexton.verdicts.expiry import is_of_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContent:
    """A plan before it is written: `record` names no files yet. `tombstones` and `undo` are those of `plan.Plan`.

    `verdicts` has the columns VERDICT of offset_verdicts for each row of `undo`, `groups` the columns GROUP of the
    groups that lose something, in no order.
    """

    record: PlanRecord
    tombstones: pa.Table
    undo: pa.Table
    verdicts: pa.Table
    groups: pa.Table


VERDICT = (
    "broker_reason",
    "broker_expires_at_ms",
    "policy_reason",
    "policy_rule",
    "policy_expires_at_ms",
    "base_timestamp_ms",
    "orphan",
)
GROUP = ("group_id", "group_type", "state", "offset_count")


def content_of(folder: RunFolder, record: RunRecord) -> PlanContent:
    """The plan of a run folder, from its tables."""
    assert record.plan_id is not None, "plan_tombstones names the plan first"
    parts = sorted(record.log_partitions)
    tombstones = _all([folder.read_table("tombstones", part, TOMBSTONES.names) for part in parts], TOMBSTONES)
    undo, verdicts, by_broker = _undo(folder, record, offset_rows(tombstones))
    policy = policy_of(record)
    losses = losses_of(tombstones, policy)
    judged = pa.concat_tables([folder.read_table("offset_verdicts", part, list(VERDICTS)) for part in parts])
    held_expiring, not_kept = (0, []) if policy is None else not_held(policy, judged)
    topic = broker_settings(record.recorded, profile=profile_of(record.profile)).topic
    batches = [_batches(folder, part, count) for part, count in _counts(tombstones["log_partition"])]
    losing = pc.unique(tombstones["group_id"])
    groups = pa.concat_tables([folder.read_table("groups", part, list(GROUP)) for part in parts])
    return PlanContent(
        record=PlanRecord(
            plan_id=record.plan_id,
            cluster_id=record.cluster_id,
            topic_id=record.topic_id,
            as_of_ms=record.as_of_ms,
            cuts=dict(sorted(record.cuts.items())),
            profile=record.profile,
            retention_ms=record.retention_ms,
            broker_retention_ms=record.broker_retention_ms,
            policy_sha256=record.policy_sha256,
            code_version=record.code_version,
            counts={
                "tombstones": tombstones.num_rows,
                "offsets": undo.num_rows,
                "group_records": tombstones.num_rows - undo.num_rows,
                "groups_losing": len(losing),
                "groups_deleted": len(pc.unique(_group_rows(tombstones)["group_id"])),
                "groups_total": groups.num_rows,
                "held_expiring": held_expiring,
            },
            beyond=None if record.broker_retention_ms is None else _beyond(undo, by_broker),
            losses=losses,
            batches=batches,
            largest_batch_bytes=max((one.largest_batch_bytes for one in batches), default=0),
            max_message_bytes=record.max_message_bytes,
            codec=CODECS[topic.codec],
            record_format=topic.magic(profile_of(record.profile)),
            over_limits=default_limits().exceeded(
                Counts(offset_count=undo.num_rows, group_count=len(losing), groups_total=groups.num_rows)
            )
            if policy is None
            else limits_exceeded(
                policy, judged, taken_by(losses), groups_losing=len(losing), groups_total=groups.num_rows
            ),
            warnings=[*not_kept, *_warnings(record)],
            files={},
        ),
        tombstones=tombstones,
        undo=undo,
        verdicts=verdicts,
        groups=groups.filter(pc.is_in(groups["group_id"], value_set=losing)),
    )


def _warnings(record: RunRecord) -> list[str]:
    """What a reader of the plan must know, as any run of the same instant would say it."""
    blocked = sorted(record.blocked.items())
    found = [*record.profile_doubts, *(f"nothing is planned for log partition {part}: {why}" for part, why in blocked)]
    if record.coverage != "complete":
        found.append(f"coverage is {record.coverage}: {record.coverage_reason or 'the log is not whole'}")
    return found


def losses_of(tombstones: pa.Table, policy: Policy | None = None) -> list[Losses]:
    """What is removed for each cause, by cause."""
    offsets, of_groups = offset_rows(tombstones), _group_rows(tombstones)
    last = offsets.group_by("group_id", use_threads=False).aggregate([("cause", "last")])
    deleted = of_groups.group_by("group_id", use_threads=False).aggregate([("cause", "first")])
    of_offset = last["cause_last"].take(pc.index_in(deleted["group_id"], value_set=last["group_id"].combine_chunks()))
    deleted_by = dict(_counts(pc.coalesce(of_offset, deleted["cause_first"])))
    lost = offsets.group_by("cause").aggregate([([], "count_all"), ("group_id", "count_distinct")]).to_pylist()
    by_cause = {row["cause"]: (row["count_all"], row["group_id_count_distinct"]) for row in lost}
    found = []
    for cause in sorted({*by_cause, *deleted_by}):
        offset_count, group_count = by_cause.get(cause, (0, 0))
        rule = None if policy is None else entry_of(policy, cause)
        found.append(
            Losses(
                cause=cause,
                owner=rule.owner if rule else None,
                reason=rule.reason if rule else None,
                ticket=rule.ticket if rule else None,
                offsets=offset_count,
                groups=group_count,
                deleted_groups=deleted_by.get(cause, 0),
            )
        )
    return found


def taken_by(losses: list[Losses]) -> dict[str, int]:
    """Removed offsets by owner of the rule."""
    taken: dict[str, int] = {}
    for loss in losses:
        if loss.owner is not None:
            taken[loss.owner] = taken.get(loss.owner, 0) + loss.offsets
    return taken


def _group_rows(tombstones: pa.Table) -> pa.Table:
    return tombstones.filter(pc.invert(is_of_offset(tombstones)))


def _all(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(table.select(schema.names).cast(schema) for table in tables)])


def _undo(folder: RunFolder, record: RunRecord, planned: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """For each offset tombstone, in order: the value that it removes, its verdict, and broker_verdict by the broker's
    own retention."""
    targets = np.asarray(planned["target_log_partition"])
    values, verdicts, order = [UNDO.empty_table()], [_VERDICTS.empty_table()], [np.zeros(0, np.int64)]
    by_broker = [_BY_BROKER.empty_table()]
    for part in np.unique(targets).tolist():
        mine = np.flatnonzero(targets == part)
        held = read_held(folder, part)
        at = pc.index_in(
            planned["target_log_offset"].take(pa.array(mine)), value_set=held["log_offset"].combine_chunks()
        )
        assert not at.null_count, "a tombstone targets a value that the run holds"
        values.append(held.select(UNDO.names).take(at).cast(UNDO))
        verdicts.append(folder.read_table("offset_verdicts", part, list(VERDICT)).take(at).cast(_VERDICTS))
        by_broker.append(_broker_verdicts(folder, record, part).take(at).cast(_BY_BROKER))
        order.append(mine)
    found, judged, own = map(pa.concat_tables, (values, verdicts, by_broker))
    places = np.concatenate(order)
    if (np.diff(places) < 0).any():  # a group lies in another log partition than its tombstones
        back = pa.array(np.argsort(places))
        found, judged, own = found.take(back), judged.take(back), own.take(back)
    return found, judged, own


_VERDICTS = pa.schema([TABLES["offset_verdicts"].column(name).field for name in VERDICT])
_BY_BROKER = pa.schema([TABLES["offset_verdicts"].column("broker_verdict").field])


def _broker_verdicts(folder: RunFolder, record: RunRecord, log_partition: int) -> pa.Table:
    """broker_verdict of each held offset by the broker's own retention; judged again where the run used another."""
    if record.broker_retention_ms in (None, record.retention_ms):
        return folder.read_table("offset_verdicts", log_partition, ["broker_verdict"])
    own = record.model_copy(update={"retention_ms": record.broker_retention_ms})
    return judge_offsets(folder, own, log_partition).select(["broker_verdict"])


def _beyond(undo: pa.Table, by_broker: pa.Table) -> Beyond:
    kept = undo["group_id"].filter(pc.equal(by_broker["broker_verdict"], "keep"))
    return Beyond(offsets=len(kept), groups=len(pc.unique(kept)))


def _batches(folder: RunFolder, log_partition: int, tombstones: int) -> Batches:
    data = folder.read("batches", f"{log_partition}.log")
    sizes = [batch.size_bytes for batch in read_batches(data) if isinstance(batch, Batch)]
    return Batches(
        log_partition=log_partition,
        tombstones=tombstones,
        batches=len(sizes),
        size_bytes=len(data),
        largest_batch_bytes=max(sizes),
    )


def _counts(values: pa.ChunkedArray) -> list[tuple[int, int]]:
    """(value, how often), by value."""
    return sorted((item["values"], item["counts"]) for item in pc.value_counts(values).to_pylist())
