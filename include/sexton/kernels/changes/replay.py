"""The changes of a log partition between two cuts, compiled; equal to `coordinator.changes.replay`.

The fold continues from the start of the interval. Before each write of offset tombstones it stops and reads the state
(state_view); only batches with such tombstones are read record by record. Values that were set are added at the end,
from the rows of both folds (value_changes). The cost is that of folding the interval, plus a little for each key and
each tombstone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sexton.coordinator.changes.explain import changes_of_write
from sexton.coordinator.changes.model import Change, ChangeEvidence, TombstoneRecord, Write, continues
from sexton.coordinator.changes.replay import removal_of, takes_pending_alone
from sexton.coordinator.profile import Profile
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels import scan
from sexton.kernels.changes.marks import BEGINS_WITH_REMOVAL, HAS_REMOVAL, mark_removals
from sexton.kernels.changes.state_view import StateView
from sexton.kernels.changes.value_changes import SCHEMA, set_rows
from sexton.kernels.fold import (
    COMPILED_FORMAT,
    NO_INSTANT,
    FoldBuilder,
    PartialFold,
    batch_of,
    frames_of,
    read_only,
)
from sexton.kernels.layout import Bytes, Int64s
from sexton.kernels.slow_path import read_slowly
from sexton.log.batch import Batch, Record, read_frame, read_records
from sexton.log.headers import batch_headers, is_batch
from sexton.log.segment import SegmentSlice

ORDER = [("group_id", "ascending"), ("topic", "ascending"), ("partition", "ascending"), ("log_offset", "ascending")]


def changes_between(
    start: PartialFold | None,
    datas: Iterable[Bytes | bytes],
    *,
    slices: Sequence[SegmentSlice],
    cut: int | None,
    known: ChangeEvidence,
    profile: Profile,
    cap_bytes: int,
) -> pa.Table:
    """The rows of offset_changes from the end of `start` up to `cut`, in order of key and log_offset, without the
    column log_partition.

    `start` is the fold of the log before the interval, with the same profile; it is not changed. Without `start` the
    interval begins at the start of the log partition. `slices` are in log order; `datas` gives the bytes of the whole
    file of each. Batches below the end of `start` are skipped; reading stops before `cut` (None: at the end of the
    log).
    """
    first, fold = 0, PartialFold.empty(profile=profile)
    if start is not None:
        first, fold = start.end, replace(start.copy(), batch_counters=fold.batch_counters, is_prefix=False)
    view = StateView(profile, fold.state)
    changer = _Changer(fold, cap_bytes=cap_bytes, known=known, first=first, cut=cut, next_offset=first, view=view)
    for data, span in zip(datas, slices, strict=True):
        if not changer.fold_slice(read_only(data), span):
            break
    changer.flush()
    disappeared = pa.Table.from_pylist([row.to_row() for row in changer.rows], SCHEMA)
    were_set = set_rows(None if start is None else start.state, changer.state, changer.gone, known)
    return pa.concat_tables([disappeared, were_set]).sort_by(ORDER)


@dataclass(slots=True)
class _Held:
    """Tombstones of the current write that are not folded yet, as batches of one record each."""

    removals: list[TombstoneRecord] = field(default_factory=list)
    runs: list[tuple[Int64s, Bytes]] = field(default_factory=list)
    is_whole: bool = True
    is_transactional: bool = False


@dataclass(slots=True, kw_only=True)
class _Changer(FoldBuilder):
    """Folds an interval, and stops before each write of tombstones."""

    known: ChangeEvidence
    first: int
    cut: int | None
    next_offset: int
    view: StateView
    is_dense: bool = True
    held: _Held = field(default_factory=_Held)
    rows: list[Change] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    """Rows of `keys` that disappeared."""

    def fold_slice(self, data: Bytes, span: SegmentSlice) -> bool:
        """Fold the batches of the interval that begin in the slice; False once the end of the interval is reached."""
        for frames in frames_of(data, span, self._frames):
            row, end = self._span(data, frames)
            while row < end:
                if self.fold.profile.newest_format >= COMPILED_FORMAT:
                    filled, row, _ = scan.open_batches(
                        data, frames, row, end, NO_INSTANT, NO_INSTANT, self.fold.batch_counters, self._batches
                    )
                    self._fold_batches(data, self._batches[:filled])
                if row < end:
                    self.fold_frame(data, frames[row].tolist())
                    row += 1
            if end < len(frames):
                return False
        return True

    def _span(self, data: Bytes, frames: Int64s) -> tuple[int, int]:
        """The range of frames (first, end) of the interval's batches, including damaged bytes between the batches."""
        at = np.flatnonzero(is_batch(frames))
        base_offsets = batch_headers(data, frames).base_offset
        inside = at[base_offsets >= self.first]
        beyond = at[base_offsets >= self.cut] if self.cut is not None else at[:0]
        begin = int(inside[0]) if len(inside) else len(frames)
        if self.next_offset > self.first:
            begin = 0
        return begin, int(beyond[0]) if len(beyond) else len(frames)

    def fold_frame(self, data: Bytes, frame: Sequence[int]) -> bool:
        """Replay a batch, and read its records to see whether log_offsets are missing."""
        found = read_frame(data.data, frame)
        if isinstance(found, Batch):
            records = list(read_records(found, cap_bytes=self.cap_bytes))
            expected = range(self.next_offset, self.next_offset + len(records))
            numbers = [record.log_offset for record in records if isinstance(record, Record)]
            self.is_dense &= numbers == [*expected] and found.next_offset == expected.stop
            self.next_offset = found.next_offset
        else:
            self.flush()
        return FoldBuilder.fold_frame(self, data, frame)

    def fold_run(self, data: Bytes, arena: Bytes, batches: Int64s) -> None:
        """Fold batches by the compiled loop, except those with tombstones of offsets."""
        if not len(batches):
            return
        marks = np.zeros(len(batches), np.uint8)
        mark_removals(data, arena, batches, marks)
        dense = self._density(batches)
        marked = np.flatnonzero(marks & HAS_REMOVAL)
        at = 0
        while at < len(batches):
            if marks[at] & HAS_REMOVAL or (self.held.removals and marks[at] & BEGINS_WITH_REMOVAL):
                self.is_dense = bool(dense[at])
                self.fold_slowly(batch_of(data, batches[at]), folded=0)
                at += 1
                continue
            self.flush()
            later = np.searchsorted(marked, at)
            stop = int(marked[later]) if later < len(marked) else len(batches)
            FoldBuilder.fold_run(self, data, arena, batches[at:stop])
            at = stop
        self.is_dense = bool(dense[-1])

    def _density(self, batches: Int64s) -> cols.Mask:
        """For each batch, whether no log_offset of the interval is missing up to the batch's end."""
        after = batches[:, L.B_BASE_OFFSET] + batches[:, L.B_LAST_DELTA] + 1
        before = np.concatenate([[self.next_offset], after[:-1]])
        is_good = (batches[:, L.B_BASE_OFFSET] == before) & (batches[:, L.B_COUNT] == batches[:, L.B_LAST_DELTA] + 1)
        self.next_offset = int(after[-1])
        dense: cols.Mask = np.logical_and.accumulate(is_good) & self.is_dense
        return dense

    def fold_slowly(self, batch: Batch, *, folded: int) -> None:
        """Fold the rest of a batch record by record, stopping before writes of tombstones."""
        removals = {} if batch.is_control else self._removals(batch)
        if not removals:
            self.flush()
            FoldBuilder.fold_slowly(self, batch, folded=folded)
            return
        parts = list(read_slowly(batch, folded=folded, cap_bytes=self.cap_bytes, profile=self.fold.profile))
        is_whole = self.is_dense and not self.fold.undecodable and not any(part.undecodable for part in parts)
        for part in parts:
            self.count_slow_part(batch, part)
            table, arena = part.rows()
            self._take(table, arena, removals, is_whole=is_whole, is_transactional=batch.is_transactional)

    def _take(
        self,
        table: Int64s,
        arena: Bytes,
        removals: dict[int, TombstoneRecord],
        *,
        is_whole: bool,
        is_transactional: bool,
    ) -> None:
        """Fold records, one row each, but hold back tombstones of a write that later records may continue."""
        log_offsets = table[:, L.B_BASE_OFFSET].tolist()
        at = 0
        while at < len(log_offsets):
            removal, held = removals.get(log_offsets[at]), self.held.removals
            if removal is None or not held or not continues(held[-1], removal):
                self.flush()
            stop = at + 1
            if removal is None:
                while stop < len(log_offsets) and log_offsets[stop] not in removals:
                    stop += 1
                self._loop_again(table[at:stop], arena)
            else:
                if not self.held.removals:
                    self.held.is_transactional = is_transactional
                self.held.is_whole &= is_whole
                self.held.removals.append(removal)
                self.held.runs.append((table[at:stop], arena))
            at = stop

    def _removals(self, batch: Batch) -> dict[int, TombstoneRecord]:
        found = {}
        for record in read_records(batch, cap_bytes=self.cap_bytes):
            if isinstance(record, Record):
                removal = removal_of(batch, record, self.fold.profile)
                if removal is not None:
                    found[record.log_offset] = removal
        return found

    def flush(self) -> None:
        """Add the changes of the write that is held back to `rows`, then fold its records."""
        held, self.held = self.held, _Held()
        if not held.removals:
            return
        self.view.state, profile = self.state, self.fold.profile
        if not takes_pending_alone(held.is_transactional, profile):
            is_whole = held.is_whole and not self.view.has_failed
            write = Write(removals=tuple(held.removals), is_whole=is_whole)
            found = changes_of_write(write, self.view, self.known, profile)
            self.rows += found
            self.gone += [self.view.rows[row.key] for row in found]
        for table, arena in _joined(held.runs):
            self._loop_again(table, arena)


def _joined(runs: list[tuple[Int64s, Bytes]]) -> Iterable[tuple[Int64s, Bytes]]:
    """Join neighbouring runs that lie in the same arena; yields (rows, arena)."""
    tables: list[Int64s] = []
    for number, (table, arena) in enumerate(runs):
        tables.append(table)
        if number + 1 == len(runs) or runs[number + 1][1] is not arena:
            yield np.concatenate(tables), arena
            tables = []
