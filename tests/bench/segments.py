"""Batches into the files of a log partition as a cleanly stopped broker leaves them: segments and their two indexes.

With its indexes in place a broker starts on these folders without recovering them first. Follows LogSegment.append and
the layouts of OffsetIndex and TimeIndex.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from tests.bench.batches import END, FIRST_OFFSET, LAST_OFFSET, START, TIMESTAMP_MS
from tests.bench.compiled import compiled

SEGMENT_BYTES = 100 * 1024 * 1024
"""offsets.topic.segment.bytes of a broker."""
INDEX_INTERVAL_BYTES = 4096
ENTRY_COLUMNS = 4
# what the index has seen of a segment: bytes since the last entry, the newest timestamp and the log_offset that has it
SINCE_ENTRY, NEWEST_MS, NEWEST_OFFSET = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole batches in order; `data` and `marks` (see `batches`) are good until the next block is asked for."""

    data: np.ndarray
    marks: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written: `records` with markers, `size_bytes` of segments without their indexes."""

    records: int = 0
    size_bytes: int = 0
    files: int = 0

    def __add__(self, other: "Written") -> "Written":
        return Written(
            records=self.records + other.records,
            size_bytes=self.size_bytes + other.size_bytes,
            files=self.files + other.files,
        )


class LogWriter:
    """Appends blocks to a log partition's folder, rolling to a new segment as a broker does; a context manager."""

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._base_offset = self._next_offset = 0
        self._used = 0
        self._entries: list[np.ndarray] = []
        self._so_far = np.zeros(3, np.int64)
        self.written = Written()

    def append(self, block: Block) -> None:
        """Append the batches of a block."""
        marks, first = block.marks, 0
        while first < len(marks):
            if self._file is None:
                self._open(int(marks[first, FIRST_OFFSET]))
            begin = int(marks[first, START])
            room = self._segment_bytes - self._used
            last = int(np.searchsorted(marks[:, END], begin + room, side="right"))
            if last <= first:
                self._close()
                continue
            self._write(block.data[begin : int(marks[last - 1, END])], marks[first:last])
            first = last

    def _open(self, base_offset: int) -> None:
        self._base_offset, self._used = base_offset, 0
        self._entries = []
        self._so_far[:] = (0, -1, 0)
        self._file = self._path(".log").open("wb")
        self.written += Written(files=1)

    def _write(self, data: np.ndarray, marks: np.ndarray) -> None:
        assert self._file
        self._file.write(data.data)
        entries = np.empty((len(marks), ENTRY_COLUMNS), np.int64)
        count = _index(entries, self._so_far, marks, self._used - int(marks[0, START]))
        self._entries.append(entries[:count].copy())
        self._used += len(data)
        next_offset = int(marks[-1, LAST_OFFSET]) + 1
        self.written += Written(records=next_offset - self._next_offset, size_bytes=len(data))
        self._next_offset = next_offset

    def _close(self) -> None:
        """Close the segment; its time index ends with its newest timestamp, as that of a closed segment does."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        entries = np.concatenate([*self._entries, [[0, 0, *self._so_far[[NEWEST_MS, NEWEST_OFFSET]]]]])
        offsets = np.empty(len(entries) - 1, [("to", ">i4"), ("at", ">i4")])
        offsets["to"], offsets["at"] = entries[:-1, 0] - self._base_offset, entries[:-1, 1]
        times = np.empty(len(entries), [("at", ">i8"), ("to", ">i4")])
        times["at"], times["to"] = entries[:, 2], entries[:, 3] - self._base_offset
        is_newer = np.diff(entries[:, 2], prepend=-1) > 0  # a time index only grows
        self._path(".index").write_bytes(offsets.tobytes())
        self._path(".timeindex").write_bytes(times[is_newer].tobytes())

    def _path(self, suffix: str) -> Path:
        return self._folder / f"{self._base_offset:020d}{suffix}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


@compiled
def _index(entries: Any, so_far: Any, marks: Any, shift: int) -> int:
    """Fill `entries` (log_offset, byte, newest timestamp so far and its log_offset) for batches that lie `shift` bytes
    further in the segment than `marks` say; returns how many."""
    count = 0
    for row in range(len(marks)):
        if marks[row, TIMESTAMP_MS] > so_far[NEWEST_MS]:
            so_far[NEWEST_MS] = marks[row, TIMESTAMP_MS]
            so_far[NEWEST_OFFSET] = marks[row, LAST_OFFSET]
        if so_far[SINCE_ENTRY] > INDEX_INTERVAL_BYTES:
            entries[count, 0] = marks[row, LAST_OFFSET]
            entries[count, 1] = marks[row, START] + shift
            entries[count, 2] = so_far[NEWEST_MS]
            entries[count, 3] = so_far[NEWEST_OFFSET]
            count += 1
            so_far[SINCE_ENTRY] = 0
        so_far[SINCE_ENTRY] += marks[row, END] - marks[row, START]
    return count
