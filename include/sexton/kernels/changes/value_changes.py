"""Rows of offset_changes for offsets whose value at the end of an interval differs from that at its start."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sexton.coordinator.changes.model import ChangeEvidence, restored_by
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.layout import FoldState
from sexton.tables.change_causes import ChangeKind

SCHEMA = cols.log_schema("offset_changes", "log_partition")


def set_rows(start: FoldState | None, end: FoldState, gone: Sequence[int], known: ChangeEvidence) -> pa.Table:
    """The rows of offsets whose value at the end of the interval differs from that at its start.

    `gone` are rows of `keys` that disappeared within the interval: for these, any value at its end is a change.
    """
    count = int(end.counts[L.KEYS])
    old = np.full(count, L.NONE, np.int64)
    was_there = np.zeros(count, bool)
    if start is not None:
        kept = start.keys[: start.counts[L.KEYS]]
        was_there[: len(kept)] = kept[:, L.LOG_OFFSET] != L.NONE
        old[: len(kept)] = np.where(was_there[: len(kept)], kept[:, L.COMMITTED], L.NONE)
    was_there[gone] = False
    keys = end.keys[:count]
    found = np.flatnonzero((keys[:, L.LOG_OFFSET] != L.NONE) & (~was_there | (keys[:, L.COMMITTED] != old)))
    was_there, keys = was_there[found], keys[found]

    def of_start(column: int) -> pa.Array:
        values = np.zeros(len(found), np.int64)
        if start is not None:
            values[was_there] = start.keys[found[was_there], column]
        return pa.array(values, pa.int64(), mask=~was_there)

    new = {"new_committed_offset": L.COMMITTED, "log_offset": L.LOG_OFFSET, "timestamp_ms": L.COMMIT_MS}
    table = pa.table(
        {
            **{field.name: pa.nulls(len(found), field.type) for field in SCHEMA},
            **cols.named_keys(end, keys),
            **cols.numbers(keys, new),
            "old_committed_offset": of_start(L.COMMITTED),
            "kind": pa.repeat(pa.scalar(ChangeKind.SET.value), len(found)),
            "old_log_offset": of_start(L.LOG_OFFSET),
            "old_commit_timestamp_ms": of_start(L.COMMIT_MS),
        },
        schema=SCHEMA,
    )
    return _with_restored(table, known) if known.restored else table


def _with_restored(table: pa.Table, known: ChangeEvidence) -> pa.Table:
    """The rows, with commits by a restore marked."""
    keys = zip(*(table[name].to_pylist() for name in ("group_id", "topic", "partition")), strict=True)
    stamps = table["timestamp_ms"].to_pylist()
    plans = [restored_by(known, key, at_ms) for key, at_ms in zip(keys, stamps, strict=True)]
    kinds = [ChangeKind.SET.value if plan_id is None else ChangeKind.RESTORED.value for plan_id in plans]
    names = table.column_names
    table = table.set_column(names.index("kind"), "kind", pa.array(kinds, pa.string()))
    return table.set_column(names.index("by_plan_id"), "by_plan_id", pa.array(plans, pa.string()))
