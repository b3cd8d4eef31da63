"""From a plan to calls: one group after the other, in the order of the plan, each call within one record batch.

A coordinator writes what a request deletes as one batch, and cannot when that is larger than the topic takes: then it
refuses all of it. So a request asks for no more than fits. A group is only ever deleted as a group where the
plan removes everything that it has; what is too much for one batch goes offset by offset first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sexton.coordinator.tombstones import MAX_BATCH_BYTES
from sexton.ledger.entries import Item, Value
from sexton.plans.record import Plan
from sexton.records import OFFSET_TYPES

_BATCH_BYTES = 61
_ITEM_FIELDS = ("log_partition", "position", "record_type", "group_id", "topic", "partition")
_VALUE_FIELDS = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms", "log_offset")
_RECORD_BYTES = 29  # of a record without a value, beside its key, at most (coordinator.tombstones)

Call = Literal["delete_offsets", "delete_group"]
Identity = tuple[object, ...]
"""What a record is about: an offset's topic and partition, or the key of a record of the group itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A row of the plan, with the value that it removes, and the bytes of its key."""

    item: Item
    key: bytes

    @property
    def place(self) -> tuple[int, int]:
        return self.item.place

    @property
    def is_offset(self) -> bool:
        return self.item.record_type in OFFSET_TYPES

    @property
    def identity(self) -> Identity:
        return identity_of(self.item.record_type, self.key, self.item.topic, self.item.partition)

    @property
    def topic_partition(self) -> tuple[str, int]:
        assert self.item.topic is not None
        assert self.item.partition is not None
        return self.item.topic, self.item.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call."""

    call: Call
    rows: tuple[Planned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """All that a plan removes of one group. `is_whole`: the group goes with it."""

    group_id: str
    log_partition: int
    cut: int
    rows: tuple[Planned, ...]

    @property
    def is_whole(self) -> bool:
        return any(not row.is_offset for row in self.rows)

    def steps(self, rows: Sequence[Planned], *, max_batch_bytes: int) -> Iterator[Step]:
        """The calls for some of the rows; those of a group that goes as a whole end with the group."""
        chunks = list(_chunks(rows, max_batch_bytes)) if rows else []
        for chunk in chunks[:-1] if self.is_whole else chunks:
            yield Step(call="delete_offsets", rows=tuple(chunk))
        if self.is_whole and chunks:
            yield Step(call="delete_group", rows=tuple(chunks[-1]))


def identity_of(record_type: int, key: bytes, topic: str | None, partition: int | None) -> Identity:
    """What no two records of a group share unless one replaces the other: key types 0 and 1 are one."""
    return ("offset", topic, partition) if record_type in OFFSET_TYPES else (record_type, key)


def work_of(plan: Plan) -> list[GroupWork]:
    """The plan by group, in its order."""
    undo = iter(plan.undo.to_pylist())
    found: dict[tuple[int, str], list[Planned]] = {}
    for row in plan.tombstones.to_pylist():
        before = None
        if row["record_type"] in OFFSET_TYPES:
            value = next(undo)
            before = Value(**{name: value[name] for name in _VALUE_FIELDS})
        item = Item(**{name: row[name] for name in _ITEM_FIELDS}, before=before)
        found.setdefault((item.log_partition, item.group_id), []).append(Planned(item=item, key=row["key"]))
    return [
        GroupWork(
            group_id=group_id,
            log_partition=log_partition,
            cut=plan.record.cuts[log_partition],
            rows=tuple(rows),
        )
        for (log_partition, group_id), rows in found.items()
    ]


def batch_limit(*limits_bytes: int | None) -> int:
    """What a batch may have, by the plan's and by the cluster's word; Kafka's default where neither says."""
    return min((limit for limit in limits_bytes if limit is not None), default=MAX_BATCH_BYTES)


def chunks_for_log(rows: Sequence[Planned], *, max_batch_bytes: int) -> Iterator[list[Planned]]:
    """Rows that fit one batch each, for tombstones that we encode ourselves."""
    return _chunks(rows, max_batch_bytes)


def _chunks(rows: Sequence[Planned], max_batch_bytes: int) -> Iterator[list[Planned]]:
    """Offsets by what fits; records of the group itself all go with the last ones, as one call writes them."""
    offsets = [row for row in rows if row.is_offset]
    others = [row for row in rows if not row.is_offset]
    left_bytes = max_batch_bytes - _BATCH_BYTES - sum(map(_size_bytes, others))
    chunks: list[list[Planned]] = [[]]
    size_bytes = 0
    # From the end, so that the last chunk, which the group's own records are in, is the one that is filled first.
    for row in reversed(offsets):
        if chunks[-1] and size_bytes + _size_bytes(row) > left_bytes:
            chunks.append([])
            size_bytes, left_bytes = 0, max_batch_bytes - _BATCH_BYTES
        chunks[-1].append(row)
        size_bytes += _size_bytes(row)
    chunks[0] = list(reversed(others)) + chunks[0]
    return (list(reversed(chunk)) for chunk in reversed(chunks))


def _size_bytes(row: Planned) -> int:
    return len(row.key) + _RECORD_BYTES
