"""A plan's rows by group, in the plan's order, and the calls that remove them.

A coordinator writes the tombstones of one request as one record batch, and refuses the whole request when the batch
exceeds max.message.bytes. So a request names no more than fits. A group is deleted with DeleteGroups only if the plan
removes everything in it; rows that do not fit in one batch are deleted as offsets first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sexton.coordinator.batches import MAX_BATCH_BYTES
from sexton.execution.group_records import RecordKey, record_key
from sexton.execution.status import Call
from sexton.ledger.entries import Item, ItemId, Value
from sexton.plans.plan import Plan
from sexton.records import OFFSET_TYPES

_BATCH_BYTES = 61
_RECORD_BYTES = 29
"""Maximum size of a record without a value, not counting its key (coordinator.tombstones)."""
_ITEM_FIELDS = ("log_partition", "position", "record_type", "group_id", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """A row of the plan as an item of the ledger, with the bytes of its key."""

    item: Item
    key: bytes

    @property
    def item_id(self) -> ItemId:
        return self.item.item_id

    @property
    def is_offset(self) -> bool:
        return self.item.record_type in OFFSET_TYPES

    @property
    def record_key(self) -> RecordKey:
        return record_key(self.item.record_type, self.key, self.item.topic, self.item.partition)

    @property
    def topic_partition(self) -> tuple[str, int]:
        assert self.item.topic is not None
        assert self.item.partition is not None
        return self.item.topic, self.item.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """All rows of a plan for one group. `is_whole`: the group itself is deleted as well."""

    group_id: str
    log_partition: int
    cut: int
    rows: tuple[PlannedRow, ...]

    @property
    def is_whole(self) -> bool:
        return any(not row.is_offset for row in self.rows)

    def calls(self, rows: Sequence[PlannedRow], *, max_batch_bytes: int) -> Iterator[tuple[Call, list[PlannedRow]]]:
        """The calls that remove the rows, each with its rows; a group that is deleted as a whole is deleted by the last
        call."""
        chunks = batch_chunks(rows, max_batch_bytes=max_batch_bytes) if rows else []
        for number, chunk in enumerate(chunks, start=1):
            yield "delete_group" if self.is_whole and number == len(chunks) else "delete_offsets", chunk


def planned_groups(plan: Plan) -> list[PlannedGroup]:
    """The plan's rows by group, in the plan's order."""
    undo = iter(plan.undo.to_pylist())
    by_group: dict[tuple[int, str], list[PlannedRow]] = {}
    for row in plan.tombstones.to_pylist():
        before = None
        if row["record_type"] in OFFSET_TYPES:
            value = next(undo)
            before = Value(**{name: value[name] for name in Value.model_fields})
        item = Item(**{name: row[name] for name in _ITEM_FIELDS}, before=before)
        by_group.setdefault((item.log_partition, item.group_id), []).append(PlannedRow(item=item, key=row["key"]))
    return [
        PlannedGroup(
            group_id=group_id, log_partition=log_partition, cut=plan.record.cuts[log_partition], rows=tuple(rows)
        )
        for (log_partition, group_id), rows in by_group.items()
    ]


def batch_limit(*limits_bytes: int | None) -> int:
    """The smallest of the known limits of a batch; Kafka's default where none is known."""
    return min((limit for limit in limits_bytes if limit is not None), default=MAX_BATCH_BYTES)


def batch_chunks(rows: Sequence[PlannedRow], *, max_batch_bytes: int) -> list[list[PlannedRow]]:
    """Rows in chunks that each fit in one batch; the records of the group itself are all in the last chunk."""
    offsets = [row for row in rows if row.is_offset]
    others = [row for row in rows if not row.is_offset]
    left_bytes = max_batch_bytes - _BATCH_BYTES - sum(map(_size_bytes, others))
    chunks: list[list[PlannedRow]] = [[]]
    size_bytes = 0
    # From the end: the last chunk, which holds the group's own records, is filled first.
    for row in reversed(offsets):
        if chunks[-1] and size_bytes + _size_bytes(row) > left_bytes:
            chunks.append([])
            size_bytes, left_bytes = 0, max_batch_bytes - _BATCH_BYTES
        chunks[-1].append(row)
        size_bytes += _size_bytes(row)
    chunks[0] = list(reversed(others)) + chunks[0]
    return [list(reversed(chunk)) for chunk in reversed(chunks)]


def _size_bytes(row: PlannedRow) -> int:
    return len(row.key) + _RECORD_BYTES
