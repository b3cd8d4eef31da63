"""What the tables must hold, row by row, by the plain replay: the kernels are held against these rows."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from sexton.coordinator.load_model import MODEL
from sexton.coordinator.loading import HOT_GROUPS, Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.orphans import KnownTopics, orphan_of
from sexton.coordinator.partitioner import partition_of
from sexton.errors import LogError
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import decode_key
from sexton.tables import FATES
from tests.fates import fates_of, unreachable_offsets

Rows = list[dict[str, Any]]
_COUNTERS = (
    *("bytes", "batches", "records", "tombstones", "control_records", "largest_batch_bytes"),
    *("future_batches", "undecodable_records", "read_values"),
)
_AS_LOADED = ("first_log_offset", "next_log_offset", "load_would_fail", "load_failure", "load_outcome")
"""Columns of load_profile that the loader has under the same names."""


def oracle_tables(loaded: Loaded, log_partition: int, partition_count: int | None) -> dict[str, Rows]:
    """The rows of one log partition by table, each sorted by its key, without cluster_id, as_of_ms and run_id.

    `loaded` is by fates.load.
    """
    unreachable = unreachable_offsets(loaded, log_partition=log_partition, partition_count=partition_count)
    here = {"log_partition": log_partition}
    offsets = {key: {**_key_row(key), **asdict(offset), **here} for key, offset in loaded.offsets.items()}
    return {
        "committed_offsets": [offsets[key] for key in sorted(offsets) if key not in unreachable],
        "unreachable_offsets": [{**offsets[key], "reason": unreachable[key]} for key in sorted(unreachable)],
        "pending_offsets": [
            {**_key_row(key), **asdict(offset), **here}
            for _, entries in sorted(loaded.pending.items())
            for key, offset in sorted(entries.items())
        ],
        "groups": _groups(loaded, log_partition, partition_count, unreachable.keys()),
        "members": [
            {**row, **here} for _, group in sorted(loaded.groups.by_id.items()) for row in group.to_member_rows()
        ],
        "open_transactions": _open_transactions(loaded, log_partition),
        "undecodable_records": [{**asdict(row), **here} for row in loaded.undecodable],
        "load_profile": [_load_profile(loaded, log_partition, partition_count)],
    }


def _key_row(key: OffsetKey) -> dict[str, Any]:
    return dict(zip(("group_id", "topic", "partition"), key, strict=True))


def _groups(loaded: Loaded, log_partition: int, partition_count: int | None, unreachable: Container[OffsetKey]) -> Rows:
    committed = Counter(key[0] for key in loaded.offsets if key not in unreachable)
    pending = Counter(group_id for entries in loaded.pending.values() for group_id, _, _ in entries)
    open_groups = loaded.state.open_groups()
    return [
        {
            **group.to_group_row(),
            "offset_count": committed[group_id],
            "pending_count": pending[group_id],
            "has_open_transaction": group_id in open_groups,
            "home_log_partition": None if partition_count is None else partition_of(group_id, partition_count),
            "log_partition": log_partition,
        }
        for group_id, group in sorted(loaded.groups.by_id.items())
    ]


def _open_transactions(loaded: Loaded, log_partition: int) -> Rows:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": transaction.producer_epoch,
            "log_partition": log_partition,
            "first_log_offset": transaction.first_log_offset,
            "last_log_offset": transaction.last_log_offset,
            "first_timestamp_ms": transaction.first_timestamp_ms,
            "group_ids": sorted({group_id for group_id, _, _ in loaded.pending.get(producer_id, {})}),
        }
        for producer_id, transaction in sorted(loaded.open_transactions.items())
    ]


def _load_profile(loaded: Loaded, log_partition: int, partition_count: int | None) -> dict[str, Any]:
    counters = loaded.counters
    fates = fates_of(loaded, log_partition=log_partition, partition_count=partition_count)
    hot = sorted(loaded.commits.items(), key=lambda item: (-item[1], item[0]))[:HOT_GROUPS]
    misplaced = None
    if partition_count is not None:
        misplaced = sum(partition_of(group_id, partition_count) != log_partition for group_id in loaded.groups.by_id)
    return {
        "log_partition": log_partition,
        **{name: counters[name] for name in _COUNTERS},
        **{name: getattr(loaded, name) for name in _AS_LOADED},
        "hot_groups": [group_id for group_id, _ in hot],
        "predicted_load_ms": MODEL.predict_ms(
            records=counters["records"],
            control_records=counters["control_records"],
            live_records=loaded.live_record_count,
        ),
        "live_records": loaded.live_record_count,
        "misplaced_groups": misplaced,
        "garbage_share": 1 - loaded.live_record_count / counters["records"] if counters["records"] else None,
        "hottest_group_share": max(loaded.commits.values()) / loaded.commits.total() if loaded.commits else None,
        "first_unstable_log_offset": min(
            (transaction.first_log_offset for transaction in loaded.open_transactions.values()), default=None
        ),
        "unknown_types": loaded.unknown_types.total(),
        **{fate: fates[fate] for fate in FATES},
    }


def pin_of(key: OffsetKey, loaded: Loaded) -> tuple[int, int, int | None] | None:
    """(producer id, log_offset and timestamp of its first value) of the oldest open transaction that holds a value of
    `key`."""
    pins = [
        (producer_id, transaction.first_log_offset, transaction.first_timestamp_ms)
        for producer_id, transaction in loaded.open_transactions.items()
        if key in loaded.pending.get(producer_id, {})
    ]
    return min(pins, key=lambda pin: (pin[1], pin[0]), default=None)


def is_behind_log_start(key: OffsetKey, offset: StoredOffset, known: KnownTopics) -> bool | None:
    """Whether the offset points to deleted records; None for an orphan, or an unknown log start."""
    topic = known.by_name.get(key[1])
    if topic is None or not 0 <= key[2] < len(topic.log_starts) or topic.log_starts[key[2]] < 0:
        return None
    if orphan_of(key, offset, known) is not None:
        return None
    return offset.committed_offset < topic.log_starts[key[2]]


def is_beyond_log_end(key: OffsetKey, offset: StoredOffset, known: KnownTopics) -> bool | None:
    """Whether the offset points behind the last record; None for an orphan, an unknown log end, or a later commit."""
    topic = known.by_name.get(key[1])
    is_later = known.recorded_at_ms is not None and offset.commit_timestamp_ms >= known.recorded_at_ms
    if topic is None or is_later or not 0 <= key[2] < len(topic.log_ends) or topic.log_ends[key[2]] < 0:
        return None
    return None if orphan_of(key, offset, known) is not None else offset.committed_offset > topic.log_ends[key[2]]


def removed_groups(chunks: Iterable[bytes], *, cap_bytes: int) -> set[str]:
    """Classic groups whose last record of type 2 in a log partition is a tombstone; `chunks` in log order.

    Unreadable records are skipped: the replay reports them.
    """
    removed: set[str] = set()
    for record in _data_records(chunks, cap_bytes):
        try:
            record_type, key = decode_key(record.key or b"")
        except LogError:
            continue
        if record_type == 2:
            (removed.add if record.value is None else removed.discard)(key.group_id)
    return removed


def _data_records(chunks: Iterable[bytes], cap_bytes: int) -> Iterator[Record]:
    for chunk in chunks:
        for batch in read_batches(chunk):
            if isinstance(batch, Batch) and not batch.is_control:
                found = read_records(batch, cap_bytes=cap_bytes)
                yield from (record for record in found if isinstance(record, Record))
