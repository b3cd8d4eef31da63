"""Shows a fold in progress as a `StateBefore`, which `coordinator.changes` (rules, explain) reads.

Only the offsets of groups that a write of tombstones touches become Python objects. Keys never move while a fold grows
(nothing is pruned here), so an offset has the same row of `keys` throughout the interval.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import numpy as np

from sexton.coordinator.changes.model import TopicPartition
from sexton.coordinator.changes.replay import simple_group
from sexton.coordinator.groups.group import Group
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Profile
from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer, same_bytes
from sexton.kernels import index
from sexton.kernels import layout as L
from sexton.kernels.columns import group_name
from sexton.kernels.group_records import GroupRecords
from sexton.kernels.layout import FoldState, Int64s, view_of
from sexton.records import kafka_uuid

_LOW_64 = (1 << 64) - 1
_SIZE_BITS = 32
_INDEXED_AGAIN = 1 << 14
"""How many keys may be added without an index before all keys are indexed again."""


class StateView:
    """`StateBefore` over a fold. Set `state` before each query: folding may have replaced its arrays."""

    def __init__(self, profile: Profile, state: FoldState) -> None:
        self.state = state
        self.rows: dict[OffsetKey, int] = {}
        """The row of every offset that `offsets_of` has returned."""
        self._groups = GroupRecords(profile)
        self._index = _KeysByGroup()

    @property
    def has_failed(self) -> bool:
        """Whether a group record so far could not be replayed."""
        self._groups.catch_up(self.state)
        return self._groups.has_failed

    def offsets_of(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        group = find_group(self.state, group_id)
        if group < 0:
            return {}
        found: dict[TopicPartition, StoredOffset] = {}
        for row in self._index.rows_of(self.state, group):
            if self.state.keys[row, L.LOG_OFFSET] != L.NONE:
                key = _topic_partition(self.state, row)
                self.rows[(group_id, *key)] = row
                found[key] = _stored_offset(self.state, row)
        return found

    def pending_of(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset(_topic_partition(self.state, row) for row in self._pending_keys(group_id, of_values=True))

    def has_open_transaction(self, group_id: str) -> bool:
        return len(self._pending_keys(group_id, of_values=False)) > 0

    def group(self, group_id: str) -> Group | None:
        self._groups.catch_up(self.state)
        row = find_group(self.state, group_id)
        if row >= 0:
            self._groups.revive(self.state, row)
        return self._groups.groups.by_id.get(group_id) or simple_group(group_id, self._groups.profile)

    def holders_of(self, topic: str) -> Iterator[tuple[str, int, str | None]]:
        data = np.frombuffer(topic.encode(), np.uint8)
        for row in np.flatnonzero(_is_of_topic(self.state, data)).tolist():
            high, low = self.state.keys[row, [L.TOPIC_ID_HIGH, L.TOPIC_ID_LOW]].tolist()
            _, partition = _topic_partition(self.state, row)
            yield group_name(self.state, int(self.state.keys[row, L.KEY_GROUP])), partition, _topic_id(high, low)

    def _pending_keys(self, group_id: str, *, of_values: bool) -> list[int]:
        """Rows of the group's `keys` that wait for an end marker. `of_values` leaves out leaked transactions, which
        have no value to store."""
        group = find_group(self.state, group_id)
        pending = self.state.pending[: self.state.counts[L.PENDING]]
        counts = pending[:, L.PENDING_VALUES]
        keys = pending[(counts > 0) if of_values else (counts > 0) | (counts == L.LEAKED), L.PENDING_KEY]
        found: list[int] = keys[self.state.keys[keys, L.KEY_GROUP] == group].tolist()
        return found


def find_group(state: FoldState, group_id: str) -> int:
    """Row of a group in the state, -1 where it was never seen."""
    return int(_find_group(state, np.frombuffer(group_id.encode() or b"\0", np.uint8), len(group_id.encode())))


@compiled
def _find_group(arrays: FoldState, name: Any, size: int) -> int:
    return index.find_group(view_of(arrays), pointer(name), 0, size)


@compiled
def _is_of_topic(arrays: FoldState, topic: Any) -> Any:
    """For each key, whether it has a stored value and belongs to the topic."""
    state, data = view_of(arrays), pointer(topic)
    size = len(topic)
    found = np.zeros(state.counts[L.KEYS], np.bool_)
    for row in range(state.counts[L.KEYS]):
        if state.keys[row, L.LOG_OFFSET] == L.NONE:
            continue
        group_size = state.keys[row, L.KEY_SIZES] >> 32
        if (state.keys[row, L.KEY_SIZES] & 0xFFFFFFFF) - group_size - 8 != size:
            continue
        found[row] = same_bytes(state.key_bytes, state.keys[row, L.KEY_AT] + 4 + group_size, data, 0, size)
    return found


def _topic_partition(state: FoldState, row: int) -> TopicPartition:
    at, sizes = state.keys[row, [L.KEY_AT, L.KEY_SIZES]].tolist()
    size, group_size = sizes & ((1 << _SIZE_BITS) - 1), sizes >> _SIZE_BITS
    raw = state.key_bytes[at + 4 + group_size : at + size].tobytes()
    return raw[:-4].decode(), int.from_bytes(raw[-4:], signed=True)


def _stored_offset(state: FoldState, row: int) -> StoredOffset:
    values = state.keys[row].tolist()
    text = state.text_bytes[values[L.TEXT_AT] : values[L.TEXT_AT] + values[L.TEXT_SIZE]].tobytes()
    return StoredOffset(
        log_offset=values[L.LOG_OFFSET],
        committed_offset=values[L.COMMITTED],
        leader_epoch=None if values[L.LEADER_EPOCH] == -1 else values[L.LEADER_EPOCH],
        metadata=text.decode("utf-8", errors="replace"),
        commit_timestamp_ms=values[L.COMMIT_MS],
        expire_timestamp_ms=None if values[L.EXPIRE_MS] == L.NONE else values[L.EXPIRE_MS],
        topic_id=_topic_id(values[L.TOPIC_ID_HIGH], values[L.TOPIC_ID_LOW]),
        producer_id=values[L.PRODUCER_ID],
    )


def _topic_id(high: int, low: int) -> str | None:
    return kafka_uuid(UUID(int=(high & _LOW_64) << 64 | (low & _LOW_64)))


class _KeysByGroup:
    """Rows of `keys` by group, sorted once, and again after many new keys."""

    def __init__(self) -> None:
        self._order: Int64s = np.zeros(0, np.int64)
        self._groups: Int64s = np.zeros(0, np.int64)

    def rows_of(self, state: FoldState, group: int) -> list[int]:
        """The rows of a group, including keys without a value, in order of appearance."""
        count = int(state.counts[L.KEYS])
        if count - len(self._order) > max(_INDEXED_AGAIN, len(self._order) // 8):
            groups = state.keys[:count, L.KEY_GROUP]
            self._order = np.argsort(groups, kind="stable")
            self._groups = groups[self._order]
        first, end = np.searchsorted(self._groups, [group, group + 1]).tolist()
        later = np.flatnonzero(state.keys[len(self._order) : count, L.KEY_GROUP] == group) + len(self._order)
        found: list[int] = [*self._order[first:end].tolist(), *later.tolist()]
        return found
