"""plan_tombstones: the tombstones that the verdicts ask for, as rows and as a coordinator's record batches.

Nothing is planned for a log partition whose log could not be read in full or whose load would fail: what we could not
read might be a newer value. Nothing is ever written to Kafka here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.tombstones import encode_batches, plan_id
from sexton.kernels.sweep import plan
from sexton.records import encode_key
from sexton.stages.find_expired import read_held
from sexton.stages.run import RunFolder, RunRecord, write_bytes
from sexton.stages.spark import Engine

TABLE = "tombstones"
_PLANNED = "planned"
_KEY_FIELDS = ("group_id", "topic", "partition", "member_id", "regular_expression")


def run(engine: Engine, folder: RunFolder) -> RunRecord:
    """Write tombstones and their batches from the verdicts of `folder`; the record gets the plan's id."""
    record = folder.read_run()
    engine.map(
        "Planning tombstones",
        record.log_partitions,
        lambda part: _plan(folder, record, part),
        work_bytes=folder.size_bytes("offset_verdicts", "groups"),
    )
    identity = plan_id(
        cluster_id=record.cluster_id,
        topic_id=record.topic_id,
        as_of_ms=record.as_of_ms,
        cuts=record.cuts,
        profile=record.profile,
        retention_ms=record.retention_ms,
        policy_sha256=record.policy_sha256,
        tombstones=_planned(folder, record),
    )
    count = 0
    for part in record.log_partitions:
        rows = folder.read_internal(_PLANNED, part)
        rows = rows.append_column("plan_id", pa.repeat(pa.scalar(identity), rows.num_rows))
        count += folder.write_table(record, TABLE, rows, part)
    record = record.model_copy(update={"plan_id": identity, "counts": {**record.counts, TABLE: count}})
    folder.write_run(record)
    return record


def _plan(folder: RunFolder, record: RunRecord, log_partition: int) -> None:
    """Rows and batches of one log partition; none at all where planning is blocked."""
    offsets = read_held(folder, log_partition)
    verdicts = folder.read_table("offset_verdicts", log_partition)
    rows = plan(
        offsets,
        pc.equal(verdicts["broker_verdict"], "expire"),
        folder.read_table("groups", log_partition),
        folder.read_internal("group_tombstones", log_partition),
    )
    if log_partition in record.blocked:
        rows = rows.slice(0, 0)
    keys = [_key(row) for row in rows.select(["record_type", *_KEY_FIELDS]).to_pylist()]
    rows = (
        rows.append_column("key", pa.array(keys, pa.binary()))
        .append_column("position", pa.array(np.arange(rows.num_rows), pa.int64()))
        .append_column("log_partition", pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows))
    )
    folder.write_internal(_PLANNED, rows, log_partition)
    if keys:
        batches = encode_batches(keys, base_offset=record.cuts[log_partition], as_of_ms=record.as_of_ms)
        write_bytes(folder.batches_file(log_partition), batches)


def _key(row: dict[str, Any]) -> bytes:
    """The key's bytes, as the coordinator writes them; fields that its type does not have are NULL."""
    return encode_key(row["record_type"], {name: row[name] for name in _KEY_FIELDS if row[name] is not None})


def _planned(folder: RunFolder, record: RunRecord) -> Iterator[tuple[int, bytes, str]]:
    """(log_partition, key, cause) of every planned tombstone, by log partition and position."""
    for part in record.log_partitions:
        rows = folder.read_internal(_PLANNED, part)
        for key, cause in zip(rows["key"].to_pylist(), rows["cause"].to_pylist(), strict=True):
            yield part, key, cause
