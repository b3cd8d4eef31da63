"""plan_tombstones: the tombstones that the verdicts ask for, as rows and as a coordinator's record batches.

They become the table `tombstones`, and with all that has to be known before anybody acts on them the folder
`<run>/plan/` (plans). The forecast of the next days is written with them (analysis.forecast).

Nothing is planned for a log partition whose log could not be read in full or whose load would fail, since an unread
record might be a newer value; nor, without a policy, for one whose sweep fails, since the broker writes nothing there.
Nothing is written to Kafka here.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast import TABLE as FORECAST
from sexton.analysis.forecast import write_forecast
from sexton.coordinator.api.broker_settings import broker_settings
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import encode_batches, plan_id, tombstones_sha256
from sexton.failpoints import failpoint
from sexton.pipeline.find_expired import read_held
from sexton.plans.encode_keys import encode_keys
from sexton.plans.limits import policy_of
from sexton.plans.write_plan import Page, write_plan
from sexton.runs.engine import Engine
from sexton.runs.fold_log import UNPACKED
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.judging import sweep_fails
from sexton.verdicts.expiry import appended, plan
from sexton.verdicts.policy import plan_by_policy

TABLE = "tombstones"
_PLANNED = "planned"


def run(engine: Engine, folder: RunFolder, *, page: Page | None = None) -> RunRecord:
    """Write tombstones, their batches, the plan and the forecast from the verdicts of `folder`.

    The record gets the plan's id. `page` makes the plan's page for people; without it the plan has none.
    """
    record = folder.read_run()
    work_bytes = UNPACKED * folder.size_bytes("offset_verdicts", "groups")
    planned = engine.map(
        "Planning tombstones", record.log_partitions, lambda part: _plan(folder, record, part), work_bytes=work_bytes
    )
    identity = plan_id(
        cluster_id=record.cluster_id,
        topic_id=record.topic_id,
        as_of_ms=record.as_of_ms,
        cuts=record.cuts,
        profile=record.profile,
        retention_ms=record.retention_ms,
        policy_sha256=record.policy_sha256,
        tombstones={part.log_partition: part.sha256 for part in planned if part.tombstones},
    )
    engine.map(
        "Naming tombstones",
        record.log_partitions,
        lambda part: _name(folder, record, part, identity),
        work_bytes=work_bytes,
    )
    tombstones, forecast = sum(part.tombstones for part in planned), sum(part.forecast for part in planned)
    counts = {**record.counts, TABLE: tombstones, FORECAST: forecast}
    record = record.model_copy(update={"plan_id": identity, "counts": counts})
    write_plan(folder, record, page=page)
    failpoint("plan.made")
    folder.write_run(record)
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """How many tombstones and rows of the forecast a log partition has, and the SHA-256 of its tombstones."""

    log_partition: int
    tombstones: int
    sha256: str
    forecast: int


def _plan(folder: RunFolder, record: RunRecord, log_partition: int) -> _Planned:
    """Write rows and batches of one log partition; none at all where planning is blocked."""
    profile = profile_of(record.profile)
    rows = _swept(folder, record, log_partition)
    if log_partition in record.blocked:
        rows = rows.slice(0, 0)
    keys = encode_keys(rows)
    rows = (
        rows.append_column("key", keys)
        .append_column("position", pa.array(np.arange(rows.num_rows), pa.int64()))
        .append_column("log_partition", pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows))
    )
    folder.write_internal(_PLANNED, rows, log_partition)
    if rows.num_rows:
        topic = broker_settings(record.recorded, profile=profile).topic
        batches = encode_batches(
            list(zip(rows["group_id"].to_pylist(), keys.to_pylist(), strict=True)),
            base_offset=record.cuts[log_partition],
            as_of_ms=record.as_of_ms,
            profile=profile,
            codec=topic.codec,
            magic=topic.magic(profile),
        )
        folder.write(batches, "batches", f"{log_partition}.log")
    return _Planned(
        log_partition=log_partition,
        tombstones=rows.num_rows,
        sha256=tombstones_sha256(rows["key"], rows["cause"]),
        forecast=write_forecast(folder, record, log_partition),
    )


def _name(folder: RunFolder, record: RunRecord, log_partition: int, plan_id: str) -> None:
    """Write the table of one log partition, now that the plan has its id."""
    rows = folder.read_internal(_PLANNED, log_partition)
    rows = rows.append_column("plan_id", pa.repeat(pa.scalar(plan_id), rows.num_rows))
    folder.write_table(record, TABLE, rows, log_partition)


def _swept(folder: RunFolder, record: RunRecord, log_partition: int) -> pa.Table:
    """What a sweep appends to one log partition: tombstones of the groups that it holds.

    Where one cache holds the groups of all log partitions (Profile.one_cache), those of the groups that hash to it.
    """
    if not (profile_of(record.profile).one_cache and record.misplaced_sources and record.partition_count is not None):
        return _plan_of(folder, record, log_partition)
    holders = (log_partition, *sorted(record.misplaced_sources.get(log_partition, [])))
    swept = (
        (_plan_of(folder, record, part), folder.read_table("groups", part, ["group_id"])["group_id"])
        for part in holders
    )
    return appended(log_partition, swept, partition_count=record.partition_count)


def _plan_of(folder: RunFolder, record: RunRecord, log_partition: int) -> pa.Table:
    """The tombstones of what one log partition holds: those of the broker's sweep, or those that the policy wants."""
    held = read_held(folder, log_partition)
    verdicts = folder.read_table("offset_verdicts", log_partition, ["broker_verdict", "policy_verdict", "policy_rule"])
    groups = folder.read_table("groups", log_partition)
    own = folder.read_internal("group_tombstones", log_partition)
    profile, policy = profile_of(record.profile), policy_of(record)
    if policy is None:
        is_blocked = sweep_fails(folder, record, log_partition, held, groups)
        rows = plan(held, pc.equal(verdicts["broker_verdict"], "expire"), groups, own, profile=profile)
        rows = rows.slice(0, 0) if is_blocked else rows
    else:
        rows = plan_by_policy(policy, held, verdicts, groups, own, now_ms=record.as_of_ms, profile=profile)
    here = pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows)
    rows = rows.append_column("target_log_partition", here)
    return rows.slice(0, 0) if log_partition in record.blocked else rows
