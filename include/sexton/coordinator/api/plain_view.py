"""`PlainView`: a log partition loaded by the plain replay, as a `PartitionView` (view.py)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from sexton.coordinator.api.view import LoadedGroup, LoadedMember, TopicPartition
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset


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
