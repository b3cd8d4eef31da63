"""`PartialFold`: the immutable result of folding adjacent slices of a log partition."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sexton.archive.folder import Folder
from sexton.coordinator.decoding import Undecodable, negative_end
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.errors import DamagedFold
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels import scan
from sexton.kernels.canonical import canonical
from sexton.kernels.checkpoint import files
from sexton.kernels.checkpoint.restore import from_tables
from sexton.kernels.checkpoint.tables import Tables, to_tables
from sexton.kernels.growth import copy_state
from sexton.kernels.layout import Bytes, FoldState, Int64s
from sexton.kernels.profile_flags import new_state_of
from sexton.kernels.slow_path import UNKNOWN_ORDER
from sexton.kernels.sorted_rows import place
from sexton.records.classic import GROUP_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFold:
    """The fold of adjacent slices of a log partition: an element of a monoid under `fold.merge`. Do not change it.

    `cut` is the log_offset where reading stopped for the requested instant, None when everything was read. `is_prefix`:
    the fold begins at the start of the log partition, so there is nothing to its left.
    """

    state: FoldState
    batch_counters: Int64s
    profile: Profile
    undecodable: list[tuple[int, Undecodable]]
    """Undecodable records, each with its `slow_path.log_order`; records without a row are only counted."""
    cut: int | None = None
    is_prefix: bool = False

    @classmethod
    def empty(cls, *, profile: Profile = NEWEST, is_prefix: bool = False) -> "PartialFold":
        """The fold of no records: the neutral element of `merge`."""
        return cls(
            state=new_state_of(profile, keys=16),
            batch_counters=scan.new_batch_counters(),
            profile=profile,
            undecodable=[],
            is_prefix=is_prefix,
        )

    def copy(self) -> "PartialFold":
        """A copy that shares no array."""
        return replace(
            self,
            state=copy_state(self.state),
            batch_counters=self.batch_counters.copy(),
            undecodable=list(self.undecodable),
        )

    @property
    def first_log_offset(self) -> int | None:
        """Base offset of the first batch; None when none was read."""
        first = int(self.batch_counters[L.READ_FIRST])
        return None if first < 0 else first

    @property
    def next_log_offset(self) -> int:
        """The log_offset after the last batch that was read, according to its header; 0 if none was read."""
        return int(self.batch_counters[L.READ_NEXT]) if self.batch_counters[L.READ_BATCHES] else 0

    @property
    def end(self) -> int:
        """Where reading stopped: at the cut, or where the log ended."""
        return self.next_log_offset if self.cut is None else self.cut

    @property
    def max_timestamp_ms(self) -> int:
        """The largest batch timestamp that is not in the future; -1 when no batch had one."""
        return int(self.batch_counters[L.READ_MAX_MS])

    @property
    def max_commit_timestamp_ms(self) -> int:
        """The largest commit timestamp of all offset values; -1 when there was none."""
        newest = int(self.state.counts[L.MAX_COMMIT_MS])
        return -1 if newest == L.NONE else newest

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts of what was read, like `coordinator.loading.Loaded.counters`; tombstones of offsets only."""
        counts, batch_counters = self.state.counts, self.batch_counters
        return {
            "bytes": int(batch_counters[L.READ_BYTES]),
            "batches": int(batch_counters[L.READ_BATCHES]),
            "largest_batch_bytes": int(batch_counters[L.READ_LARGEST]),
            "future_batches": int(batch_counters[L.READ_FUTURE]),
            "records": int(counts[L.SEEN_RECORDS] + counts[L.SEEN_CONTROL]),
            "control_records": int(counts[L.SEEN_CONTROL]),
            "offset_values": int(counts[L.SEEN_VALUES]) + self.undecodable_values,
            "offset_tombstones": int(counts[L.SEEN_TOMBSTONES]),
            "legacy_records": int(counts[L.SEEN_LEGACY]),
            "values_of_version_4": int(counts[L.SEEN_V4]),
            "tombstoned": int(counts[L.TOMBSTONED]),
            "aborted": int(counts[L.ABORTED]),
        }

    @property
    def undecodable_values(self) -> int:
        """Offset values that could not be decoded."""
        left_out = int(self.batch_counters[L.READ_LEFT_OUT_VALUES])
        return left_out + sum(row.is_offset_value for _, row in self.undecodable)

    @property
    def format_batches(self) -> tuple[int, int]:
        """Number of batches in record format 0 and in format 1."""
        return int(self.batch_counters[L.READ_MAGIC_0]), int(self.batch_counters[L.READ_MAGIC_1])

    @property
    def group_record_types(self) -> frozenset[int]:
        """The types of the group records that were seen."""
        records, data = self.state.records[: self.state.counts[L.RECORDS]], self.state.record_bytes
        return frozenset(np.unique(_int16s(data, records[:, L.R_AT])).tolist())

    @property
    def group_value_versions(self) -> frozenset[int]:
        """The versions of the values of classic groups that were seen."""
        records, data = self.state.records[: self.state.counts[L.RECORDS]], self.state.record_bytes
        is_value = (_int16s(data, records[:, L.R_AT]) == GROUP_METADATA.number) & (records[:, L.R_VALUE_SIZE] >= 2)
        values = records[is_value]
        return frozenset(np.unique(_int16s(data, values[:, L.R_AT] + values[:, L.R_KEY_SIZE])).tolist())

    @property
    def unknown_types(self) -> dict[int, int]:
        """The number of records of each type that the coordinator does not know."""
        seen = self.state.unknown_types
        return {(int(at) ^ 0x8000) - 0x8000: int(seen[at]) for at in np.flatnonzero(seen)}

    def group_ids(self, *, limit: int | None) -> list[str]:
        """Ids of the first `limit` groups with an offset value or a group record (None: all), in order of
        appearance."""
        return self._ids(self._made_groups()[:limit])

    def misplaced(self, log_partition: int, partition_count: int) -> dict[str, int]:
        """The groups in `group_ids` that hash to another log partition, with that log partition."""
        groups = self._made_groups()
        homes = np.empty(len(groups), np.int64)
        place(self.state.key_bytes, groups, partition_count, homes)
        away = homes != log_partition
        return dict(zip(self._ids(groups[away]), homes[away].tolist(), strict=True))

    def _made_groups(self) -> Int64s:
        groups = self.state.groups[: self.state.counts[L.GROUPS]]
        records = self.state.records[: self.state.counts[L.RECORDS]]
        is_made = groups[:, L.LAST_VALUE] != L.NONE
        is_made[records[records[:, L.R_VALUE_SIZE] >= 0, L.R_GROUP]] = True
        made: Int64s = groups[is_made]
        return made

    def _ids(self, groups: Int64s) -> list[str]:
        ids: list[str] = cols.names(self.state, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH]).to_pylist()
        return ids

    def as_kept_by_broker(self) -> "PartialFold":
        """The fold of a whole log as a broker has it after a restart: empty if the log ends below log_offset 0."""
        if self.cut is not None or self.next_log_offset >= 0:
            return self
        nothing = PartialFold.empty(profile=self.profile, is_prefix=self.is_prefix)
        return replace(nothing, undecodable=[(UNKNOWN_ORDER, negative_end(self.next_log_offset))])

    def to_bytes(self) -> bytes:
        """The fold as Arrow IPC, for `from_bytes` in another process."""
        return files.pack(self._tables(self.state))

    @classmethod
    def from_bytes(cls, data: bytes, *, is_indexed: bool = True) -> "PartialFold":
        """The fold that `to_bytes` wrote; DamagedFold for anything else. See `from_tables` for `is_indexed`."""
        return cls._restored(files.unpack(data), is_indexed=is_indexed)

    def write_parquet(self, folder: Folder) -> dict[str, str]:
        """Write the fold as a checkpoint: one Parquet file for each table that has rows. Returns the SHA-256 of each by
        name.

        A fold that begins at the start of the log is written in canonical form: the same log gives the same bytes,
        however it was split.
        """
        return files.write_parquet(self._tables(canonical(self.state) if self.is_prefix else self.state), folder)

    @classmethod
    def read_parquet(cls, folder: Folder, *, without_groups: bool = False) -> "PartialFold":
        """The fold that `write_parquet` wrote, with or without its groups.

        DamagedFold, with the name of the file, for anything else.
        """
        return cls._restored(files.read_parquet(folder, files.NOT_OF_GROUPS if without_groups else None))

    def _tables(self, state: FoldState) -> Tables:
        marks = {"cut": self.cut, "is_prefix": int(self.is_prefix)}
        return to_tables(state, self.batch_counters, self.profile, self.undecodable, **marks)

    @classmethod
    def _restored(cls, tables: Tables, *, is_indexed: bool = True) -> "PartialFold":
        state, batch_counters, profile, undecodable, marks = from_tables(tables, is_indexed=is_indexed)
        if marks.keys() != {"cut", "is_prefix"} or marks["is_prefix"] not in (0, 1) or (marks["cut"] or 0) < 0:
            raise DamagedFold(f"unknown marks: {marks}", where="counters")
        return cls(
            state=state,
            batch_counters=batch_counters,
            profile=profile,
            undecodable=undecodable,
            cut=marks["cut"],
            is_prefix=bool(marks["is_prefix"]),
        )


def _int16s(data: Bytes, at: Int64s) -> Int64s:
    """The unsigned 16-bit numbers at the positions `at`."""
    return data[at].astype(np.int64) << 8 | data[at + 1]
