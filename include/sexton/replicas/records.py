"""Compares the records of several replicas of one log partition, in columns, one window of log_offsets after the other.

Batches do not match byte for byte where the log cleaner has run, so records are compared. Batches that are equal on
every replica are not decoded; each distinct one of the other batches is decoded once. Memory is bounded by one segment
per replica.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sexton.kernels.fold import read_only
from sexton.kernels.layout import Bytes, Int64s
from sexton.log.batch import Batch, read_frame, read_records
from sexton.log.entry import CRC_AT, LEGACY_CRC_AT, MAGIC_AT, Record
from sexton.log.framing import BAD_CRC, DAMAGE, GOOD, KIND, POSITION, SIZE, TORN, frames
from sexton.log.headers import BatchHeaders, batch_headers
from sexton.log.segment import Segment, slice_bytes
from sexton.replicas.fingerprints import F_HASH, F_LOG_OFFSET, fingerprints
from sexton.replicas.folders import ReplicaLog

MAX_CONFLICTS = 10_000
"""Maximum number of conflicting log_offsets that are kept with their records; further conflicts are only counted."""
MAX_BATCHES = 1 << 14
"""Batches of a replica that are decoded at a time: a few MB of records, whatever the size of a segment."""
_CORRUPT = {BAD_CRC: "a batch with a bad CRC", DAMAGE: "no batch", TORN: "half a batch"}
_NOTHING = np.empty((0, 4), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptBytes:
    """Bytes of a segment that are not a good batch."""

    path: str
    position: int
    size_bytes: int
    log_offset: int
    """The log_offset after the last record before these bytes."""
    what: str

    def __str__(self) -> str:
        place = f"{self.size_bytes} bytes, log_offset {self.log_offset}"
        return f"{self.what} at byte {self.position} of {self.path} ({place})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOf:
    """A record on one replica, with the fields of its batch."""

    record: Record
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_control: bool


@dataclass(slots=True, kw_only=True)
class RecordComparison:
    """The comparison of all replicas' records below the compared end.

    `last_gap` is the highest log_offset that no replica has, because its record was cleaned away everywhere; -1 if
    there is none. `conflicts` has each replica's record at log_offsets where the records differ.
    """

    conflicts: dict[int, dict[str, RecordOf]] = field(default_factory=dict)
    conflict_count: int = 0
    last_gap: int = -1
    corrupt: dict[str, list[CorruptBytes]] = field(default_factory=dict)


@dataclass(slots=True)
class Window:
    """The good batches of a replica in a range of log_offsets, and the bytes of their segment."""

    data: Bytes
    rows: Int64s
    headers: BatchHeaders
    base_offset: Int64s

    def within(self, first: int, stop: int) -> "Window":
        begin, end = np.searchsorted(self.base_offset, [first, stop])
        # Batches of another leader, and its segments, begin at other offsets: a batch may begin before the range.
        if begin and BatchHeaders(self.data, self.rows[begin - 1 : begin]).next_offset[0] > first:
            begin -= 1
        rows = self.rows[begin:end]
        return Window(self.data, rows, BatchHeaders(self.data, rows), self.base_offset[begin:end])

    def identities(self) -> tuple[Int64s, Int64s]:
        """Size and CRC of each batch, and its leader epoch, which no CRC covers; with the base offset they identify its
        content."""
        at = self.rows[:, POSITION]
        crc_at = np.where(self.data[at + MAGIC_AT] == 2, CRC_AT, LEGACY_CRC_AT) if len(at) else at
        crc = self.data[(at + crc_at)[:, None] + np.arange(4)].astype(np.int64) @ (1 << np.array([24, 16, 8, 0]))
        return self.rows[:, SIZE] << 32 | crc, self.headers.leader_epoch

    def record_at(self, log_offset: int, *, cap_bytes: int) -> RecordOf | None:
        """The record at a log_offset, None where the replica has none."""
        row = int(np.searchsorted(self.base_offset, log_offset, side="right")) - 1
        batch = read_frame(self.data.data, self.rows[row].tolist()) if row >= 0 else None
        if not isinstance(batch, Batch):
            return None
        for record in read_records(batch, cap_bytes=cap_bytes):
            if isinstance(record, Record) and record.log_offset == log_offset:
                return RecordOf(
                    record=record,
                    leader_epoch=batch.leader_epoch,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    is_control=batch.is_control,
                )
        return None


_EMPTY = Window(np.zeros(0, np.uint8), _NOTHING, BatchHeaders(np.zeros(0, np.uint8), _NOTHING), np.zeros(0, np.int64))


class SegmentReader:
    """Reads the segments of a replica one after the other, and notes what is corrupt in them."""

    def __init__(self, log: ReplicaLog, corrupt: list[CorruptBytes]) -> None:
        self._log, self._corrupt = log, corrupt
        self._segment: Segment | None = None
        self._window = _EMPTY

    def window(self, first: int, stop: int) -> Window:
        """The batches in [first, stop); of the replica's segments only one that begins at `first` may begin in it."""
        holding = [segment for segment in self._log.segments if segment.base_offset <= first]
        if not holding:
            return _EMPTY
        if self._segment != holding[-1]:
            self._segment, self._window = holding[-1], _EMPTY  # frees the old bytes before reading the new ones
            self._window = self._read(holding[-1])
        return self._window.within(first, stop)

    def _read(self, segment: Segment) -> Window:
        data = read_only(slice_bytes(self._log.fs, segment))
        found, bases, reached = [_NOTHING], [_NOTHING[:, 0]], segment.base_offset
        is_last = segment == self._log.segments[-1]
        for rows in frames(data, end=segment.stop_byte, floor_offset=segment.base_offset):
            for kind, position, size_bytes, _ in rows[rows[:, KIND] != GOOD].tolist():
                if kind == TORN and (is_last or not data[position:].any()):
                    continue
                before = batch_headers(data, rows[rows[:, POSITION] < position]).next_offset
                self._corrupt.append(
                    CorruptBytes(
                        path=segment.path,
                        position=position,
                        size_bytes=size_bytes,
                        log_offset=int(before[-1]) if len(before) else reached,
                        what=_CORRUPT[kind],
                    )
                )
            found.append(rows[rows[:, KIND] == GOOD])
            bases.append(BatchHeaders(data, found[-1]).base_offset)
            if len(last := batch_headers(data, rows[-1:]).next_offset):
                reached = int(last[-1])
        rows = np.concatenate(found)
        return Window(data, rows, BatchHeaders(data, rows), np.concatenate(bases))


def compare_records(logs: Sequence[ReplicaLog], *, stop: int, cap_bytes: int) -> RecordComparison:
    """Compare the records in [highest log start, `stop`) of replicas of one log partition."""
    result = RecordComparison(corrupt={log.replica: [] for log in logs})
    readers = [SegmentReader(log, result.corrupt[log.replica]) for log in logs]
    start = max(log.start for log in logs)
    if any(log.start < start for log in logs):
        result.last_gap = start - 1  # records below are not compared
    bases = {segment.base_offset for log in logs for segment in log.segments}
    for first, end in itertools.pairwise(sorted({start, stop, *(base for base in bases if start < base < stop)})):
        windows = [reader.window(first, end) for reader in readers]
        # At most MAX_BATCHES of a replica are decoded at a time.
        inner = max(windows, key=lambda window: len(window.rows)).base_offset[MAX_BATCHES::MAX_BATCHES]
        for begin, before in itertools.pairwise([first, *inner[(inner > first) & (inner < end)].tolist(), end]):
            parts = [window.within(begin, before) for window in windows]
            owners = _owners(parts)
            offsets, hashes = _decode(parts, owners, cap_bytes)
            is_inside = (offsets >= begin) & (offsets < before)
            order = np.flatnonzero(is_inside)[np.argsort(offsets[is_inside], kind="stable")]
            offsets, hashes = offsets[order], hashes[order]
            result.last_gap = max(result.last_gap, _last_gap(_spans(parts, owners), offsets, begin, before))
            differ = np.unique(offsets[1:][(offsets[1:] == offsets[:-1]) & (hashes[1:] != hashes[:-1])])
            result.conflict_count += len(differ)
            for log_offset in differ[: MAX_CONFLICTS - len(result.conflicts)].tolist():
                result.conflicts[log_offset] = {
                    log.replica: found
                    for log, part in zip(logs, parts, strict=True)
                    if (found := part.record_at(log_offset, cap_bytes=cap_bytes)) is not None
                }
        del windows, parts, inner  # they reference the bytes of segments; the readers now read the next segments
    return result


def _owners(windows: Sequence[Window]) -> list[Int64s]:
    """For each window, and each batch in it, a bit mask of the windows that have the same batch."""
    identities = [window.identities() for window in windows]
    owners = [np.full(len(window.rows), 1 << number, np.int64) for number, window in enumerate(windows)]
    for left, right in itertools.permutations(range(len(windows)), 2):
        mine, theirs = windows[left].base_offset, windows[right].base_offset
        if not len(theirs):
            continue
        at = np.minimum(np.searchsorted(theirs, mine), len(theirs) - 1)
        is_same = theirs[at] == mine
        for own, other in zip(identities[left], identities[right], strict=True):
            is_same &= other[at] == own
        owners[left] |= is_same.astype(np.int64) << right
    return owners


def _is_first(mask: Int64s, number: int) -> npt.NDArray[np.bool_]:
    """Whether bit `number` is the lowest bit that is set."""
    is_first: npt.NDArray[np.bool_] = mask & ((1 << number) - 1) == 0
    return is_first


def _decode(windows: Sequence[Window], owners: Sequence[Int64s], cap_bytes: int) -> tuple[Int64s, Int64s]:
    """log_offset and fingerprint of the records of all batches that at least one window lacks, each batch once.

    Batches of formats before 2 are left out: a cleaner of 4.x rewrites them and loses their timestamps.
    """
    found = [np.empty((0, 2), np.int64)]
    for number, (window, mask) in enumerate(zip(windows, owners, strict=True)):
        chosen = window.rows[(mask != (1 << len(windows)) - 1) & _is_first(mask, number)]
        found.append(fingerprints(window.data, chosen[_is_modern(window, chosen)], cap_bytes=cap_bytes))
    rows = np.concatenate(found)
    return rows[:, F_LOG_OFFSET], rows[:, F_HASH]


def _is_modern(window: Window, rows: Int64s) -> npt.NDArray[np.bool_]:
    is_modern: npt.NDArray[np.bool_] = window.data[rows[:, POSITION] + MAGIC_AT] == 2
    return is_modern


def _spans(windows: Sequence[Window], owners: Sequence[Int64s]) -> Int64s:
    """(first, next) log_offsets of batches that were not decoded; records missing in a batch count as its last ones."""
    found = [np.empty((0, 2), np.int64)]
    for number, (window, mask) in enumerate(zip(windows, owners, strict=True)):
        is_whole = (mask == (1 << len(windows)) - 1) | ~_is_modern(window, window.rows)
        headers = BatchHeaders(window.data, window.rows[is_whole & _is_first(mask, number)])
        base_offset, count = headers.base_offset, headers.record_count
        ends = np.where(count < 0, headers.next_offset, base_offset + count)
        found.append(np.stack([base_offset, ends], axis=1))
    return np.concatenate(found)


def _last_gap(spans: Int64s, offsets: Int64s, first: int, stop: int) -> int:
    """The highest log_offset in [first, stop) that no replica has, -1 without one."""
    begins = np.concatenate([[first], spans[:, 0], offsets, [stop]])
    ends = np.concatenate([[first], spans[:, 1], offsets + 1, [stop]])
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    gaps = begins[1:][begins[1:] > reached[:-1]]
    return int(gaps[-1]) - 1 if len(gaps) else -1
