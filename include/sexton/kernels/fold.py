"""Folds slices of a log partition with the rules of a profile, compiled, and joins folds of adjacent slices.

With the rules of group_coordinator, merging the folds of adjacent slices in log order, in any association, gives the
fold of the whole log. With older rules a log partition is folded as one slice. A fold contains, for each key, the
stored value and the last tombstone; for each producer, its pending values and the first end marker, which ends the
producer's pending values in the preceding slice; and the group records in order, because a group's last record alone
does not determine its state.

`results.finish` turns a fold into tables. The plain form is `coordinator.loading`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sexton.coordinator import decoding
from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.loading import FUTURE_MS
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.kernels import layout as L
from sexton.kernels import scan
from sexton.kernels.growth import compact_texts, grow
from sexton.kernels.inflate import BLOCK_BYTES, inflate_blocks
from sexton.kernels.layout import Bytes, FoldState, Int64s
from sexton.kernels.loading import fold_batches, new_queue
from sexton.kernels.merge import absorb_state, prune_dead
from sexton.kernels.partial_fold import PartialFold
from sexton.kernels.profile_flags import group_types_of
from sexton.kernels.slow_path import (
    UNKNOWN_ORDER,
    SlowPart,
    UndecodableRows,
    keep_undecodable,
    log_order_before,
    read_slowly,
)
from sexton.kernels.text import GROWTH
from sexton.log import framing
from sexton.log.batch import Batch, Damage, TornTail, read_frame
from sexton.log.crc import as_u8
from sexton.log.segment import FoldTask, SegmentSlice

__all__ = ["PartialFold", "fold_task", "merge", "merge_all"]

NO_INSTANT = (1 << 63) - 1
_FRAMES = 4096
_MAX_GROWTH = 8
"""Limit of growth, as a factor on rows; each growth copies the rows and refills the hash slots."""
COMPILED_FORMAT = 2
"""The record format that the compiled loop reads; older ones are read by `log.batch`."""
_EMPTY = np.frombuffer(b"", np.uint8)
PRUNED_FROM_KEYS = 1 << 16
"""Key tables smaller than this are not searched for dead keys."""
_AT_THE_FIRST = (0, -1, 0, -1, 0, 0)
"""A cursor before the first record of the first batch, with an empty queue."""


def fold_task(
    slices: Iterable[Bytes | bytes],
    *,
    task: FoldTask,
    cap_bytes: int,
    as_of_ms: int | None,
    taken_at_ms: int | None,
    profile: Profile = NEWEST,
    onto: PartialFold | None = None,
) -> PartialFold:
    """The fold of the batches that begin in the slices of `task`; damaged bytes never raise an error.

    `slices` gives, for each slice of `task`, the bytes of its whole file (a memory map will do). `onto` is a fold that
    ends where the task begins; its arrays are reused. No batch is inflated beyond `cap_bytes`. With `as_of_ms`, reading
    stops before the first batch whose largest timestamp is at or after that instant; batches stamped more than an hour
    after `taken_at_ms` (that of their slice, if it has one) do not stop it.
    """
    start = PartialFold.empty(profile=profile, is_prefix=task.index == 0) if onto is None else onto
    folder = FoldBuilder(start, cap_bytes=cap_bytes, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    for data, span in zip(slices, task.slices, strict=True):
        if not folder.fold_slice(read_only(data), span):
            break
    return folder.fold


def merge(left: PartialFold, right: PartialFold) -> PartialFold:
    """The fold of `left` and of `right`, which follows it in the log; `left` alone if `left` has a cut."""
    return merge_all([left.copy(), right])


def merge_all(folds: Iterable[PartialFold]) -> PartialFold:
    """`merge` over neighbouring folds in log order; reuses the arrays of the first."""
    left: PartialFold | None = None
    for right in folds:
        if left is None:
            left = right
        elif left.cut is None:
            left = _absorb(left, right)
    return left if left is not None else PartialFold.empty()


def _absorb(left: PartialFold, right: PartialFold) -> PartialFold:
    """`merge`; reuses the arrays of `left`."""
    state = compact_texts(absorb_state(left.state, right.state))
    if left.is_prefix:
        state = _pruned(state)
    start = log_order_before(int(left.batch_counters[L.READ_REACHED]))  # the position of damage at the start of `right`
    torn = int(left.batch_counters[L.READ_TORN])
    if torn and (right.batch_counters[L.READ_BATCHES] or right.undecodable or right.cut is not None):
        add_undecodable(left.undecodable, left.batch_counters, [(start, decoding.torn_segment(torn))])
        left.batch_counters[L.READ_TORN] = 0
    after = [(start if place == UNKNOWN_ORDER else place, row) for place, row in right.undecodable]
    add_undecodable(left.undecodable, left.batch_counters, after)
    scan.add_batch_counters(left.batch_counters, right.batch_counters)
    return replace(left, state=state, cut=right.cut)


def add_undecodable(found: UndecodableRows, counters: Int64s, more: UndecodableRows) -> None:
    """Append the rows `more` to `found`; rows beyond the limit are only counted."""
    for place, row in more:
        if not keep_undecodable(found, place, row):
            counters[L.READ_LEFT_OUT] += 1
            counters[L.READ_LEFT_OUT_VALUES] += row.is_offset_value


def _pruned(state: FoldState) -> FoldState:
    """`state`, which begins at the start of the log; without its dead keys if these are most keys of a large table."""
    return prune_dead(state) if state.counts[L.KEYS] >= PRUNED_FROM_KEYS else state


def read_only(data: Bytes | bytes) -> Bytes:
    """The bytes as a plain read-only array, so that functions are compiled for this type only."""
    view = as_u8(data).view(np.ndarray)[:]
    view.flags.writeable = False
    return view


@dataclass(slots=True)
class FoldBuilder:
    """Folds batches onto `fold`, whose arrays are reused."""

    fold: PartialFold
    cap_bytes: int
    as_of_ms: int | None = None
    taken_at_ms: int | None = None
    _cursor: Int64s = field(default_factory=lambda: np.zeros(L.CURSOR_COLUMNS, np.int64))
    _queue: Int64s = field(default_factory=new_queue)
    _group_types: Bytes = field(init=False)
    _frames: Int64s = field(default_factory=lambda: np.empty((_FRAMES, 4), np.int64))
    _batches: Int64s = field(default_factory=lambda: np.empty((_FRAMES, L.BATCH_COLUMNS), np.int64))

    def __post_init__(self) -> None:
        self._group_types = group_types_of(self.fold.profile)

    @property
    def future_ms(self) -> int:
        return NO_INSTANT if self.taken_at_ms is None else self.taken_at_ms + FUTURE_MS

    @property
    def state(self) -> FoldState:
        return self.fold.state

    def compact(self) -> None:
        """Drop metadata that no row refers to, once it takes up most of the arena."""
        self.fold = replace(self.fold, state=compact_texts(self.state))

    def fold_slice(self, data: Bytes, span: SegmentSlice) -> bool:
        """Fold the batches that begin in the slice; False when the cut was reached."""
        if span.taken_at_ms is not None:
            self.taken_at_ms = span.taken_at_ms
        for frames in frames_of(data, span, self._frames):
            self._add_torn_segment(frames)
            if self.fold.profile.newest_format < COMPILED_FORMAT:
                if not all(self.fold_frame(data, frame.tolist()) for frame in frames):
                    return False
                continue
            row = 0
            while row < len(frames):
                filled, row, status = scan.open_batches(
                    data,
                    frames,
                    row,
                    len(frames),
                    NO_INSTANT if self.as_of_ms is None else self.as_of_ms,
                    self.future_ms,
                    self.fold.batch_counters,
                    self._batches,
                )
                self._fold_batches(data, self._batches[:filled])
                if status == L.ALL_READ:
                    break
                if not self.fold_frame(data, frames[row].tolist()):
                    return False
                row += 1
        return True

    def _add_torn_segment(self, frames: Int64s) -> None:
        """Report a truncated batch as a torn segment once other frames follow it."""
        counters, torn = self.fold.batch_counters, int(self.fold.batch_counters[L.READ_TORN])
        if torn and (frames[:, framing.KIND] != framing.TORN).any():
            self._add_damage(int(counters[L.READ_REACHED]), decoding.torn_segment(torn))
            counters[L.READ_TORN] = 0

    def _add_damage(self, log_offset: int, row: Undecodable) -> None:
        add_undecodable(self.fold.undecodable, self.fold.batch_counters, [(log_order_before(log_offset), row)])

    def _fold_batches(self, data: Bytes, batches: Int64s) -> None:
        for run, arena in inflate_blocks(data, batches, cap_bytes=self.cap_bytes):
            self.fold_run(data, arena, run)
        self.compact()

    def fold_run(self, data: Bytes, arena: Bytes, batches: Int64s) -> None:
        """Run the record loop over `batches`; where it stops, grow the state or read the batch with the slow path."""
        cursor = self._cursor
        cursor[:] = _AT_THE_FIRST
        while (status := self._step(data, arena, batches)) != L.FINISHED:
            at, folded = int(cursor[L.C_BATCH]), int(cursor[L.C_DONE])
            if status == L.FULL:
                position = batches[min(at, len(batches) - 1), L.B_POSITION]
                self._grow(read_share=position / len(data) if len(data) else 1)
                continue
            assert len(data), f"the loop refuses what the slow path took: {batches[at].tolist()}"
            self.fold_slowly(batch_of(data, batches[at]), folded=folded)
            cursor[:] = _AT_THE_FIRST
            cursor[L.C_BATCH] = at + 1

    def _step(self, data: Bytes, arena: Bytes, batches: Int64s) -> int:
        """Run the record loop from the cursor on; returns why it stopped (`loading.fold_batches`)."""
        status: int = fold_batches(
            self.state, data, arena, batches, len(batches), self._cursor, self._queue, self._group_types
        )
        return status

    def _grow(self, *, read_share: float) -> None:
        """Make space. Where keys rarely repeat, the share of the file that has been read predicts the final size."""
        counts = self.state.counts
        need, are_new = GROWTH * int(counts[L.NEED]) + 64, 2 * counts[L.KEYS] > counts[L.SEEN_VALUES]
        factor = math.ceil(1 / max(read_share, 1 / _MAX_GROWTH)) if are_new else 1
        state = _pruned(self.state) if self.fold.is_prefix else self.state
        self.fold = replace(self.fold, state=grow(state, need, factor=factor))

    def fold_slowly(self, batch: Batch, *, folded: int) -> None:
        """Fold the rest of a batch, which the compiled loop did not accept, with the plain reader."""
        for found in read_slowly(batch, folded=folded, cap_bytes=self.cap_bytes, profile=self.fold.profile):
            self.count_slow_part(batch, found)
            rows, arena = found.rows()
            self._loop_again(rows, arena)

    def count_slow_part(self, batch: Batch, found: SlowPart) -> None:
        """Count the records that the plain reader does not hand back to the loop."""
        counters = self.fold.batch_counters
        if not batch.crc_ok:  # its records are the only sign of where it ends
            counters[L.READ_REACHED] = max(counters[L.READ_REACHED], found.reached)
        self.state.counts[L.SEEN_CONTROL if batch.is_control else L.SEEN_RECORDS] += found.unfolded_records
        for number in found.unknown_types:
            self.state.unknown_types[number & 0xFFFF] += 1
        add_undecodable(self.fold.undecodable, counters, found.undecodable)

    def _loop_again(self, rows: Int64s, arena: Bytes) -> None:
        """Run the record loop over records that the slow path has accepted: the loop must accept all of them."""
        FoldBuilder.fold_run(self, _EMPTY, arena, rows)

    def fold_frame(self, data: Bytes, frame: Sequence[int]) -> bool:
        """Fold a frame other than a good batch of magic 2; False for the batch at the cut."""
        found, counters = read_frame(data.data, frame), self.fold.batch_counters
        if isinstance(found, TornTail):
            is_zeros = not data[found.position : found.position + found.size_bytes].any()
            torn = decoding.torn_bytes(found.size_bytes, is_zeros=is_zeros)
            counters[L.READ_TORN] = torn or counters[L.READ_TORN]
            return True
        if isinstance(found, Damage):
            self._add_damage(int(counters[L.READ_REACHED]), decoding.damage(found))
            return True
        is_future = found.max_timestamp_ms > self.future_ms
        if self.as_of_ms is not None and found.max_timestamp_ms >= self.as_of_ms and not is_future:
            self.fold = replace(self.fold, cut=found.base_offset)
            return False
        max_ms = found.max_timestamp_ms
        scan.count_batch(counters, found.size_bytes, found.base_offset, found.last_offset, max_ms, self.future_ms)
        if not found.crc_ok:
            counters[L.READ_REACHED] = found.base_offset + 1
            self._add_damage(found.base_offset, decoding.bad_crc(found))
        if found.magic < COMPILED_FORMAT:
            counters[L.READ_MAGIC_1 if found.magic else L.READ_MAGIC_0] += 1
        if found.magic > self.fold.profile.newest_format:
            self._add_damage(found.base_offset, decoding.unread_format(found))
            return True
        self.fold_slowly(found, folded=0)
        return True


def batch_of(data: Bytes, row: Int64s) -> Batch:
    """The batch in a row of batches, for the plain reader."""
    batch = read_frame(data.data, [framing.GOOD, *row[[L.B_POSITION, L.B_SIZE]].tolist(), 0])
    assert isinstance(batch, Batch), "the scan took it for a batch"
    return batch


def frames_of(data: Bytes, span: SegmentSlice, frames: Int64s) -> Iterator[Int64s]:
    """Frames of everything that begins in the slice, in blocks of frames."""
    place = framing.first_frame(data, span.start_byte, floor_offset=span.base_offset)
    at, floor, budget = place.at, place.floor_offset, place.budget
    end = min(span.end_byte, len(data))
    count = 64
    while at < end:
        start = at
        filled, at, floor, budget = framing.scan(data, at, end, floor, budget, frames[:count])
        yield frames[:filled]
        count = max(16, min(_FRAMES, BLOCK_BYTES * filled // max(at - start, 1)))
