"""`PlainView`: a log partition that the plain replay has loaded, as a `PartitionView` (view.py).

`removed_groups` are the classic groups whose last metadata record in the log is a tombstone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from sexton.coordinator.api.view import LoadedGroup, LoadedMember, TopicPartition
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.errors import LogError
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import decode_key

_GROUP_METADATA = 2


class PlainView:
    """A loaded log partition."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def group(self, group_id: str) -> LoadedGroup | None:
        group = self._loaded.groups.by_id.get(group_id)
        return None if group is None else LoadedGroup.from_row(group.to_group_row())

    def groups(self) -> Iterator[LoadedGroup]:
        for _, group in sorted(self._loaded.groups.by_id.items()):
            yield LoadedGroup.from_row(group.to_group_row())

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:
        group = self._loaded.groups.by_id.get(group_id)
        return () if group is None else tuple(map(LoadedMember.from_row, group.to_member_rows()))

    def offsets(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        return self._by_group.get(group_id, {})

    def pending(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset(
            (topic, partition) for holder, topic, partition in self._loaded.state.pending_keys() if holder == group_id
        )

    def offset_counts(self) -> Mapping[str, int]:
        return Counter(group_id for group_id, _, _ in self._loaded.offsets)

    def transactions(self) -> Mapping[int, Mapping[OffsetKey, StoredOffset]]:
        return {producer_id: values for producer_id, values in sorted(self._loaded.state.pending.items()) if values}

    @cached_property
    def _by_group(self) -> Mapping[str, Mapping[TopicPartition, StoredOffset]]:
        found: dict[str, dict[TopicPartition, StoredOffset]] = {}
        for (group_id, topic, partition), offset in self._loaded.offsets.items():
            found.setdefault(group_id, {})[topic, partition] = offset
        return found


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
        if record_type == _GROUP_METADATA:
            (removed.add if record.value is None else removed.discard)(key.group_id)
    return removed


def _data_records(chunks: Iterable[bytes], cap_bytes: int) -> Iterator[Record]:
    for chunk in chunks:
        for batch in read_batches(chunk):
            if isinstance(batch, Batch) and not batch.is_control:
                found = read_records(batch, cap_bytes=cap_bytes)
                yield from (record for record in found if isinstance(record, Record))
