"""find_expired: what the broker would do with every offset at as_of, why, what would turn that, and what is odd about
the offset (the table offset_verdicts).

Policies will add their own verdict beside the broker's; without one the policy columns are NULL.
"""

import pyarrow as pa

from sexton.coordinator.profiles import profile_of
from sexton.kernels.orphans import KnownTopics, against_topics
from sexton.kernels.pins import pins
from sexton.kernels.sweep import held_offsets, judge
from sexton.stages.run import WHOLE_RUN, RunFolder, RunRecord
from sexton.stages.spark import Engine
from sexton.tables import TABLES

TABLE = "offset_verdicts"
_NOT_TOLD = (
    "policy_verdict",
    "policy_reason",
    "policy_rule",
    "policy_expires_at_ms",
    "policy_owner",
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


def known_topics(folder: RunFolder, record: RunRecord) -> KnownTopics | None:
    """The cluster's topics as the run knows them; None where nothing was recorded of them."""
    if not record.has_topics:
        return None
    return KnownTopics(
        partitions=folder.read_table("topic_partitions", WHOLE_RUN),
        sees_all=bool(record.sees_all_topics),
        recorded_at_ms=record.topics_at_ms,
    )


def _judge(folder: RunFolder, record: RunRecord, log_partition: int) -> int:
    offsets = read_held(folder, log_partition)
    pending = folder.read_table("pending_offsets", log_partition)
    verdicts = judge(
        offsets,
        folder.read_table("groups", log_partition),
        pending,
        retention_ms=record.retention_ms,
        now_ms=record.as_of_ms,
        profile=profile_of(record.profile),
    )
    verdicts = verdicts.append_column("log_partition", offsets["log_partition"])
    about_topics = against_topics(offsets, known_topics(folder, record))
    pinned = pins(offsets, pending, folder.read_table("open_transactions", log_partition))
    for more in (about_topics, pinned):
        for name in more.column_names:
            verdicts = verdicts.append_column(name, more[name])
    for name in _NOT_TOLD:
        verdicts = verdicts.append_column(name, pa.nulls(verdicts.num_rows, TABLES[TABLE].column(name).type))
    return folder.write_table(record, TABLE, verdicts, log_partition)
