"""`PartitionView` from tables: of the kernels' fold, or of a run's Parquet files."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.api.view import LoadedGroup, LoadedMember, TopicPartition
from sexton.coordinator.offsets import OffsetKey, StoredOffset

TABLES = ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "members")
"""The tables that the view reads."""


class TablesView:
    """The rows of one log partition, by table. Unreachable offsets are in the coordinator's memory as well."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = {name: tables[name] for name in TABLES}

    def group(self, group_id: str) -> LoadedGroup | None:
        rows = self._rows("groups", group_id)
        return LoadedGroup.from_row(rows[0]) if rows else None

    def groups(self) -> Iterator[LoadedGroup]:
        groups = self._tables["groups"].select(list(LoadedGroup.__slots__)).sort_by("group_id")
        for batch in groups.to_batches(max_chunksize=10_000):
            yield from map(LoadedGroup.from_row, batch.to_pylist())

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:
        rows = sorted(self._rows("members", group_id), key=lambda row: str(row["member_id"]))
        return tuple(map(LoadedMember.from_row, rows))

    def offsets(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        return {
            (row["topic"], row["partition"]): _stored(row)
            for table in ("committed_offsets", "unreachable_offsets")
            for row in self._rows(table, group_id)
        }

    def pending(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset((row["topic"], row["partition"]) for row in self._rows("pending_offsets", group_id))

    def offset_counts(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for table in ("committed_offsets", "unreachable_offsets"):
            for row in pc.value_counts(self._tables[table]["group_id"]).to_pylist():
                counts[row["values"]] += row["counts"]
        return counts

    def transactions(self) -> Mapping[int, Mapping[OffsetKey, StoredOffset]]:
        found: dict[int, dict[OffsetKey, StoredOffset]] = {}
        for row in self._tables["pending_offsets"].sort_by("producer_id").to_pylist():
            key = row["group_id"], row["topic"], row["partition"]
            found.setdefault(row["producer_id"], {})[key] = _stored(row)
        return found

    def _rows(self, table: str, group_id: str) -> list[dict[str, Any]]:
        rows = self._tables[table]
        found: list[dict[str, Any]] = rows.filter(pc.equal(rows["group_id"], group_id)).to_pylist()
        return found


def _stored(row: Mapping[str, Any]) -> StoredOffset:
    return StoredOffset(**{name: row[name] for name in StoredOffset.__slots__})
