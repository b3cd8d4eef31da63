"""Splits a log by group id in a single read: each bucket gets the records of its range of ids, to be folded separately.

A fold of very many keys is slow, because its table is too large for the processor's caches. So records first go into
buckets: each is a list of runs of adjacent records of one batch (rows like batches, `layout`) with their bytes, in log
order. End markers go to every bucket that has records of their producer. `fold_bucket` folds a bucket with the same
loop that folds a log. Counts and undecodable records belong to no group: they are in the *rest*, which goes to the
first bucket.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes, pointer, same_bytes
from sexton.kernels import layout as L
from sexton.kernels.buckets import without_undecodable
from sexton.kernels.decoding import fill_queue
from sexton.kernels.fold import FoldBuilder, read_only
from sexton.kernels.growth import is_full
from sexton.kernels.index import producer_row
from sexton.kernels.layout import Bytes, FoldState, Int64s, View, batches_of, queue_of, view_of
from sexton.kernels.loading import replay_group
from sexton.kernels.partial_fold import PartialFold
from sexton.kernels.profile_flags import new_state_of
from sexton.kernels.text import GROWTH, canonicalise, is_canonical

MAX_BUCKETS = 62
"""An int64 has one bit for each bucket: whether the bucket has records of a producer."""
_ROWS, _BYTES = 1 << 17, 1 << 24
"""Limits for all buckets together: what is kept in memory before it is written to files."""
_BLOCK_ROWS = 4096
_BATCH, _STOP, _BUCKET, _GROUP_AT, _GROUP_SIZE = range(5)


class Room(NamedTuple):
    """Buffers into which compiled code writes runs: `row_limit` rows and `byte_limit` bytes for each of the buckets.

    `last` describes the previous record, in the same batch or another. `all_seen` has a bit for each bucket that may
    have earlier records of a producer that appears here for the first time.
    """

    bounds: Bytes
    bound_ends: Int64s
    rows: Int64s
    filled: Int64s
    bytes: Bytes
    used: Int64s
    written: Int64s
    last: Int64s
    all_seen: Int64s
    scratch: Bytes
    count: int
    row_limit: int
    byte_limit: int


@compiled
def divide_batches(
    arrays: FoldState,
    source: Any,
    arena: Any,
    batch_rows: Any,
    count: int,
    cursor_row: Any,
    queue_rows: Any,
    type_flags: Any,
    room_arrays: Room,
) -> int:
    """Split batches into `room_arrays`. Returns a status like `fold_batches`, or NO_ROOM: empty them and call again."""
    state, cursor, group_types = view_of(arrays), pointer(cursor_row), pointer(type_flags)
    in_place, inflated = pointer(source), pointer(arena)
    batches, queue = batches_of(batch_rows), queue_of(queue_rows)
    room = Room(
        pointer(room_arrays.bounds),
        pointer(room_arrays.bound_ends),
        batches_of(room_arrays.rows),
        pointer(room_arrays.filled),
        pointer(room_arrays.bytes),
        pointer(room_arrays.used),
        pointer(room_arrays.written),
        pointer(room_arrays.last),
        pointer(room_arrays.all_seen),
        pointer(room_arrays.scratch),
        room_arrays.count,
        room_arrays.row_limit,
        room_arrays.byte_limit,
    )
    status = _divide_records(state, in_place, inflated, batches, cursor, queue, room)
    while status == L.FINISHED and cursor[L.C_BATCH] < count:
        read = fill_queue(state, in_place, inflated, batches, count, cursor, queue, group_types)
        status = _divide_records(state, in_place, inflated, batches, cursor, queue, room)
        if status == L.FINISHED:
            status = read
    return status


@compiled
def _divide_records(
    state: View, in_place: Any, inflated: Any, batches: Any, cursor: Any, queue: Any, room: Room
) -> int:
    """Put the queued records from C_TAKEN on into their buckets."""
    last = room.last
    while cursor[L.C_TAKEN] < cursor[L.C_QUEUED]:
        record = cursor[L.C_TAKEN]
        kind, batch = queue[record, L.Q_KIND], queue[record, L.Q_BATCH]
        need = queue[record, L.Q_KEY_SIZE] + max(queue[record, L.Q_VALUE_SIZE], 0) + 64
        if is_full(state.counts, need):
            state.counts[L.NEED] = need
            return L.FULL
        data = inflated if batches[batch, L.B_SOURCE] == L.IN_ARENA else in_place
        bucket = np.int64(-1)
        if kind == L.KIND_UNKNOWN:
            state.unknown_types[queue[record, L.Q_VALUE] & 0xFFFF] += 1
        elif kind == L.KIND_MARKER:
            if not _put_marker(state, data, batches, batch, queue, record, room):
                return L.NO_ROOM
        else:
            bucket = _bucket_of(data, batch, queue, record, room)
            if not _has_room(state, queue, record, bucket, room):
                return L.NO_ROOM
            follows = last[_BATCH] == batch and last[_BUCKET] == bucket and last[_STOP] == queue[record, L.Q_START]
            _put(data, batches, batch, queue, record, bucket, room, follows)
            if batches[batch, L.B_PRODUCER] != -1:
                producer = _producer(state, batches[batch, L.B_PRODUCER], room)
                state.producers[producer, L.P_CANCELLED] |= np.int64(1) << bucket
            if kind == L.KIND_GROUP_RECORD:
                replay_group(state, data, batches, batch, queue, record)
            else:
                _count(state.counts, data, queue, record)
        last[_BATCH], last[_STOP], last[_BUCKET] = batch, queue[record, L.Q_STOP], bucket
        last[_GROUP_AT], last[_GROUP_SIZE] = queue[record, L.Q_KEY] + 4, queue[record, L.Q_GROUP_SIZE]
        cursor[L.C_TAKEN] += 1
    return L.FINISHED


@inlined
def _count(counts: Any, data: Any, queue: Any, record: int) -> None:
    """Count an offset value or a tombstone as `loading` does."""
    counts[L.SEEN_LEGACY] += data[queue[record, L.Q_KEY] + 1] == 0
    if queue[record, L.Q_KIND] != L.KIND_OFFSET:
        counts[L.SEEN_TOMBSTONES] += 1
        return
    counts[L.SEEN_VALUES] += 1
    counts[L.SEEN_V4] += data[queue[record, L.Q_VALUE] + 1] == 4
    counts[L.MAX_COMMIT_MS] = max(counts[L.MAX_COMMIT_MS], queue[record, L.Q_COMMIT_MS])


@compiled
def _producer(state: View, producer_id: int, room: Room) -> int:
    """Row of a producer, whose P_CANCELLED has a bit for each bucket that may have its records."""
    known = state.counts[L.PRODUCERS]
    row = producer_row(state, producer_id)
    if row == known:
        state.producers[row, L.P_CANCELLED] = room.all_seen[0]
    return row


@compiled
def _put_marker(state: View, data: Any, batches: Any, batch: int, queue: Any, record: int, room: Room) -> bool:
    """Put an end marker into every bucket that may have records of its producer; False unless all of them have room."""
    seen = state.producers[_producer(state, batches[batch, L.B_PRODUCER], room), L.P_CANCELLED]
    for bucket in range(room.count):
        if (seen >> bucket) & 1 and not _has_room(state, queue, record, bucket, room):
            return False
    for bucket in range(room.count):
        if (seen >> bucket) & 1:
            _put(data, batches, batch, queue, record, bucket, room, False)
    return True


@inlined
def _bucket_of(data: Any, batch: int, queue: Any, record: int, room: Room) -> int:
    """The bucket of a record's group, often the same as for the previous record."""
    last, at, size = room.last, queue[record, L.Q_KEY] + 4, queue[record, L.Q_GROUP_SIZE]
    is_near = last[_BATCH] == batch and last[_BUCKET] >= 0 and last[_GROUP_SIZE] == size
    if is_near and same_bytes(data, last[_GROUP_AT], data, at, size):
        return last[_BUCKET]
    if is_canonical(data, at, size):
        return _search(data, at, size, room)
    return _search(room.scratch, 0, canonicalise(data, at, size, room.scratch, 0), room)


@compiled
def _search(name: Any, at: int, size: int, room: Room) -> int:
    """Number of bounds at or below a canonical name."""
    low, high = np.int64(0), np.int64(room.count - 1)
    while low < high:
        middle = (low + high) // 2
        if _is_before(name, at, size, room.bounds, room.bound_ends[middle], room.bound_ends[middle + 1]):
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def _is_before(name: Any, at: int, size: int, bounds: Any, start: int, end: int) -> bool:
    for byte in range(min(size, end - start)):
        if name[at + byte] != bounds[start + byte]:
            return name[at + byte] < bounds[start + byte]
    return size < end - start


@inlined
def _has_room(state: View, queue: Any, record: int, bucket: int, room: Room) -> bool:
    size = queue[record, L.Q_STOP] - queue[record, L.Q_START]
    state.counts[L.NEED] = size
    return room.filled[bucket] < room.row_limit and room.used[bucket] + size <= room.byte_limit


@inlined
def _put(data: Any, batches: Any, batch: int, queue: Any, record: int, bucket: int, room: Room, follows: bool) -> None:
    """Append a record to a bucket, extending the previous run if the record `follows` it."""
    start, size = queue[record, L.Q_START], queue[record, L.Q_STOP] - queue[record, L.Q_START]
    to = room.written[bucket] + room.used[bucket]
    copy_bytes(room.bytes, bucket * room.byte_limit + room.used[bucket], data, start, size)
    room.used[bucket] += size
    if follows and room.filled[bucket] > 0:
        row = bucket * room.row_limit + room.filled[bucket] - 1
        room.rows[row, L.B_COUNT] += 1
    else:
        row = bucket * room.row_limit + room.filled[bucket]
        for column in range(L.BATCH_COLUMNS):
            room.rows[row, column] = batches[batch, column]
        room.rows[row, L.B_SOURCE] = L.IN_ARENA
        room.rows[row, L.B_BODY] = to
        room.rows[row, L.B_POSITION] = to
        room.rows[row, L.B_COUNT] = 1
        room.filled[bucket] += 1
    room.rows[row, L.B_BODY_END] = to + size


@dataclass(frozen=True, slots=True)
class BucketLog:
    """The runs of one bucket, and their bytes, in unnamed temporary files."""

    runs: IO[bytes]
    data: IO[bytes]


class Divider(FoldBuilder):
    """A `FoldBuilder` that writes the records of groups to the files of `buckets`, and folds only the rest."""

    buckets: list[BucketLog]

    def divide_into(self, bounds: Sequence[str], folder: Path) -> None:
        """Create empty buckets, with files in `folder`. `bounds` are the group ids at which all buckets but
        the first begin."""
        names = [name.encode() for name in bounds]
        count = len(bounds) + 1
        files = [TemporaryFile(dir=folder) for _ in range(2 * count)]  # noqa: SIM115  # open as long as the buckets are
        self.buckets = list(map(BucketLog, files[::2], files[1::2]))
        self._room = Room(
            bounds=np.frombuffer(b"".join(names) or b"\0", np.uint8),
            bound_ends=np.cumsum([0, *map(len, names)]),
            rows=np.empty((_ROWS // count * count, L.BATCH_COLUMNS), np.int64),
            filled=np.zeros(count, np.int64),
            bytes=np.empty(_BYTES // count * count, np.uint8),
            used=np.zeros(count, np.int64),
            written=np.zeros(count, np.int64),
            last=np.full(5, -1, np.int64),
            all_seen=np.array([0 if self.fold.is_prefix else (1 << count) - 1]),
            scratch=np.empty(GROWTH * (L.MAX_STRING_BYTES + 1), np.uint8),
            count=count,
            row_limit=_ROWS // count,
            byte_limit=_BYTES // count,
        )

    def finish(self) -> PartialFold:
        """Write what is still in memory to the files, and return the rest."""
        self._empty()
        self.state.producers[: self.state.counts[L.PRODUCERS], L.P_CANCELLED] = 0
        return self.fold

    def _step(self, data: Bytes, arena: Bytes, batches: Int64s) -> int:
        cursor, queue = self._cursor, self._queue
        if cursor[L.C_TAKEN] == cursor[L.C_QUEUED]:  # no record of these batches was taken before
            self._room.last[:] = -1
        while True:
            status: int = divide_batches(
                self.state, data, arena, batches, len(batches), cursor, queue, self._group_types, self._room
            )
            if status != L.NO_ROOM:
                return status
            self._empty()

    def _empty(self) -> None:
        """Write the buffers to the files; allocate larger ones where a record exceeds them."""
        room, count = self._room, len(self.buckets)
        filled = zip(np.split(room.rows, count), room.filled, np.split(room.bytes, count), room.used, strict=True)
        for bucket, (runs, run_count, data, size) in zip(self.buckets, filled, strict=True):
            bucket.runs.write(runs[:run_count].data)
            bucket.data.write(data[:size].data)
        room.written[:] += room.used
        room.filled[:] = room.used[:] = 0
        if (need := int(self.state.counts[L.NEED])) > room.byte_limit:
            self._room = room._replace(bytes=np.empty(need * count, np.uint8), byte_limit=need)


def fold_bucket(buckets: Iterable[BucketLog], rest: PartialFold, *, is_first: bool) -> PartialFold:
    """The fold of one bucket; `buckets` are its parts from adjacent slices, in log order, and `rest` is that of all
    these slices."""
    folder = FoldBuilder(PartialFold.empty(profile=rest.profile, is_prefix=True), cap_bytes=0)
    for bucket in buckets:
        data = _mapped(bucket.data)
        for batches in _blocks(bucket.runs):
            folder.fold_run(data, data, batches)
            folder.compact()
    counts, of_none = folder.state.counts, new_state_of(rest.profile, keys=1).counts
    counts[L.SEEN_RECORDS : L.MAX_COMMIT_MS + 1] = (rest.state.counts if is_first else of_none)[
        L.SEEN_RECORDS : L.MAX_COMMIT_MS + 1
    ]
    folder.state.unknown_types[:] = rest.state.unknown_types if is_first else 0
    fold = replace(rest, state=folder.state, is_prefix=True)
    return fold if is_first else without_undecodable(fold)


def _mapped(file: IO[bytes]) -> Bytes:
    file.flush()
    if not os.fstat(file.fileno()).st_size:
        return read_only(b"")
    return read_only(np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_READ), np.uint8))


def _blocks(file: IO[bytes]) -> Iterator[Int64s]:
    """Copies of the rows in a file, _BLOCK_ROWS at a time."""
    found = _mapped(file).view(np.int64).reshape(-1, L.BATCH_COLUMNS)
    for start in range(0, len(found), _BLOCK_ROWS):
        yield found[start : start + _BLOCK_ROWS].copy()
