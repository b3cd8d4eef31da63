"""find_expired: what the broker would do with every offset at as_of, and why (the table offset_verdicts).

Policies will add their own verdict beside the broker's; without one the policy columns are NULL.
"""

import pyarrow as pa

from sexton.coordinator.profiles import profile_of
from sexton.kernels.sweep import held_offsets, judge
from sexton.stages.run import RunFolder, RunRecord
from sexton.stages.spark import Engine
from sexton.tables import TABLES

TABLE = "offset_verdicts"
_FORECAST = "expiry_forecast"
_NOT_TOLD = (
    "policy_verdict",
    "policy_reason",
    "policy_rule",
    "policy_expires_at_ms",
    "policy_owner",
    "changes_by",
    "orphan",
    "behind_log_start",
    "pinned_by_producer_id",
    "pinned_first_log_offset",
    "pinned_since_ms",
)


def run(engine: Engine, folder: RunFolder) -> RunRecord:
    """Write offset_verdicts from the state tables of `folder`."""
    record = folder.read_run()
    counts = engine.map(
        "Judging offsets",
        record.log_partitions,
        lambda part: _judge(folder, record, part),
        work_bytes=folder.size_bytes("committed_offsets", "groups"),
    )
    record = record.model_copy(update={"counts": {**record.counts, TABLE: sum(counts)}})
    folder.write_run(record)
    return record


def read_held(folder: RunFolder, log_partition: int) -> pa.Table:
    """The offsets that the sweep of one log partition walks over; verdicts are rows of the same order."""
    committed, unreachable = (folder.read_table(name, log_partition) for name in _HELD)
    return held_offsets(committed, unreachable)


_HELD = ("committed_offsets", "unreachable_offsets")


def _judge(folder: RunFolder, record: RunRecord, log_partition: int) -> int:
    offsets = read_held(folder, log_partition)
    verdicts = judge(
        offsets,
        folder.read_table("groups", log_partition),
        folder.read_table("pending_offsets", log_partition),
        retention_ms=record.retention_ms,
        now_ms=record.as_of_ms,
        profile=profile_of(record.profile),
    )
    verdicts = verdicts.append_column("log_partition", offsets["log_partition"])
    verdicts = verdicts.append_column("left_topic", pa.repeat(pa.scalar(False), verdicts.num_rows))
    for name in _NOT_TOLD:
        verdicts = verdicts.append_column(name, pa.nulls(verdicts.num_rows, TABLES[TABLE].column(name).type))
    folder.write_table(record, _FORECAST, TABLES[_FORECAST].arrow_schema(with_run=False).empty_table(), log_partition)
    return folder.write_table(record, TABLE, verdicts, log_partition)
