"""The tables of a checkpoint, and how they are made from a fold.

    keys           one row per (group_id, topic, partition): stored value and last tombstone
    pending        the newest pending value of a producer and key; `key` is the row of `keys`
    producers      what each producer has open, and its first end marker
    groups         every group id, the log_offset of its last offset value, the number of its commits
    group_records  group records in log order; `group` is the row of `groups`
    undecodable    rows for undecodable_records, with their position in the log
    counters       name and number
    profile        the profile whose rules the fold follows

Values are stored as in the records (-1, zero UUIDs). A log_offset of NULL means "none".
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache

import numpy as np
import pyarrow as pa

from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.columns import key_columns
from sexton.kernels.layout import FoldState, Int64s
from sexton.kernels.profile_flags import new_state_of

Tables = dict[str, pa.Table]

VALUE_COLUMNS = {
    "committed_offset": L.COMMITTED,
    "leader_epoch": L.LEADER_EPOCH,
    "commit_timestamp_ms": L.COMMIT_MS,
    "expire_timestamp_ms": L.EXPIRE_MS,
    "topic_id_high": L.TOPIC_ID_HIGH,
    "topic_id_low": L.TOPIC_ID_LOW,
}
KEY_COLUMNS = {
    "last_tombstone_log_offset": L.LAST_TOMBSTONE,
    "values_since_tombstone": L.SINCE,
    "log_offset": L.LOG_OFFSET,
    "producer_id": L.PRODUCER_ID,
    **VALUE_COLUMNS,
}
PENDING_COLUMNS = {
    "key": L.PENDING_KEY,
    "log_offset": L.PENDING_LOG_OFFSET,
    "value_count": L.PENDING_VALUES,
    "timestamp_ms": L.PENDING_TIMESTAMP,
    "producer_epoch": L.PENDING_EPOCH,
    **VALUE_COLUMNS,
}
PRODUCER_COLUMNS = {
    "producer_id": L.P_ID,
    "producer_epoch": L.P_EPOCH,
    "first_log_offset": L.P_FIRST,
    "last_log_offset": L.P_LAST,
    "first_timestamp_ms": L.P_FIRST_MS,
    "cancelled_count": L.P_CANCELLED,
    "first_marker": L.P_MARKER,
    "first_marker_log_offset": L.P_MARKER_AT,
}
RECORD_COLUMNS = {
    "log_offset": L.R_LOG_OFFSET,
    "base_offset": L.R_BASE_OFFSET,
    "group": L.R_GROUP,
    "last_value_log_offset": L.R_LAST_VALUE,
}
COUNTERS = {
    "tombstoned": L.TOMBSTONED,
    "aborted": L.ABORTED,
    "data_records": L.SEEN_RECORDS,
    "control_records": L.SEEN_CONTROL,
    "offset_values": L.SEEN_VALUES,
    "offset_tombstones": L.SEEN_TOMBSTONES,
    "legacy_records": L.SEEN_LEGACY,
    "values_of_version_4": L.SEEN_V4,
    "max_commit_timestamp_ms": L.MAX_COMMIT_MS,
}
UNDECODABLE = pa.schema(
    [
        ("place", pa.int64()),
        ("base_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("record_type", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
    ]
)


def to_tables(
    state: FoldState,
    batch_counters: Int64s,
    profile: Profile,
    undecodable: list[tuple[int, Undecodable]],
    **marks: int | None,
) -> Tables:
    """The tables of a fold; `marks` are additional numbers to store with the counters."""
    counts = state.counts
    keys = state.keys[: counts[L.KEYS]]
    pending = state.pending[: counts[L.PENDING]]
    pending = pending[pending[:, L.PENDING_VALUES] != 0]
    numbers = {name: int(counts[at]) for name, at in COUNTERS.items()}
    numbers |= {f"batch_counter_{at}": int(batch_counters[at]) for at in range(L.READ_COUNTERS)}
    numbers |= {f"unknown_type_{at}": int(state.unknown_types[at]) for at in np.flatnonzero(state.unknown_types)}
    named = [*numbers.items(), *marks.items()]
    return {
        "keys": pa.table({**key_columns(state, keys), **_columns(keys, KEY_COLUMNS, state)}),
        "pending": pa.table(
            {
                "producer_id": pa.array(state.producers[pending[:, L.PENDING_PRODUCER], L.P_ID]),
                **_columns(pending, PENDING_COLUMNS, state),
            }
        ),
        "producers": pa.table(_columns(state.producers[: counts[L.PRODUCERS]], PRODUCER_COLUMNS)),
        "groups": _groups(state),
        "group_records": _group_records(state),
        "undecodable": pa.Table.from_pylist([{"place": at, **asdict(row)} for at, row in undecodable], UNDECODABLE),
        "counters": pa.table(
            {
                "name": pa.array([name for name, _ in named], pa.string()),
                "number": pa.array([number for _, number in named], pa.int64()),
            }
        ),
        "profile": pa.table({"profile": [profile.text]}),
    }


def _columns(table: Int64s, names: Mapping[str, int], state: FoldState | None = None) -> dict[str, pa.Array]:
    """Columns of `table` by name, and with a `state` the metadata of its rows."""
    found = cols.offsets(table, names)
    if state is not None:
        sizes = table[:, L.TEXT_SIZE]
        if L.LOG_OFFSET in names.values():
            sizes = np.where(table[:, L.LOG_OFFSET] == L.NONE, 0, sizes)
        found["metadata"] = cols.spans(state.text_bytes, table[:, L.TEXT_AT], sizes)
    return found


def _groups(state: FoldState) -> pa.Table:
    groups = state.groups[: state.counts[L.GROUPS]]
    return pa.table(
        {
            "group_id": cols.group_ids(state),
            **cols.offsets(groups, {"last_value_log_offset": L.LAST_VALUE}),
            "commits": pa.array(groups[:, L.COMMITS]),
        }
    )


def _group_records(state: FoldState) -> pa.Table:
    records = state.records[: state.counts[L.RECORDS]]
    at, key_size, value_size = records[:, L.R_AT], records[:, L.R_KEY_SIZE], records[:, L.R_VALUE_SIZE]
    values = cols.spans(state.record_bytes, at + key_size, np.maximum(value_size, 0))
    return pa.table(
        {
            **_columns(records, RECORD_COLUMNS),
            "key": cols.spans(state.record_bytes, at, key_size),
            "value": cols.masked(values, value_size < 0),
        }
    )


@cache
def no_rows() -> Tables:
    """The tables of an empty fold, without rows: the content of a table that was not written."""
    tables = to_tables(new_state_of(NEWEST, keys=16), np.zeros(L.READ_COUNTERS, np.int64), NEWEST, [])
    return {name: table.slice(0, 0) for name, table in tables.items()}
