"""Reads a log partition from a broker's disk or a backup, for an import.

A broker keeps `leader-epoch-checkpoint` in the partition's folder and `log-start-offset-checkpoint` in the log
directory. Both are used where they exist; without them the batches give the same values, except for epochs whose
batches were all compacted away. Bytes above the high watermark are imported as well: a disk alone does not show whether
they were replicated. If they were not, a later snapshot starts a new lineage.

Bytes that are not a batch are imported, too, except a torn tail: together with the batch after them, or at the end of a
file with the last batch. A file without any batch is one slice.
"""

import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.files import is_file, read_file
from sexton.log.entry import LAST_DELTA_AT, MAGIC_AT, SIZE_AT
from sexton.log.framing import DAMAGE, KIND, POSITION, TORN, frames
from sexton.log.headers import batch_headers, headers_of
from sexton.log.segment import Segment, file_bytes, list_segments, segments_of
from sexton.topics import OFFSETS_TOPIC

_CHECKPOINT_BYTES = 16 * 1024 * 1024
_MAX_HEADS = 100_000
"""Limit of batch headers read in sequence: an index has an entry for every 4 KiB of batches, but a segment without an
index may have tens of millions of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSlice:
    """Bytes [start_byte, end_byte) of one segment file: all batches with a base offset in [first, next), and the bytes
    between them."""

    segment: Segment
    start_byte: int
    end_byte: int
    first_log_offset: int
    next_log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLog:
    """One log partition: log_offsets [start, end), without a torn tail.

    `epochs` are (leader epoch, its first log_offset) in log order; `knows_epochs`: they come from the broker's
    checkpoint file. `has_bad_tail`: bytes after the last batch are neither a batch nor a torn tail.
    """

    log_partition: int
    segments: Sequence[Segment]
    start: int
    end: int
    epochs: Sequence[tuple[int, int]]
    knows_epochs: bool
    has_bad_tail: bool = False

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of this log that is at most `epoch`, and its end: the next epoch's start, or the log end.

        (-1, -1) when it is not known. A broker answers OffsetForLeaderEpoch with the same values.
        """
        floor = [known for known, _ in self.epochs if known <= epoch]
        later = [at for known, at in self.epochs if known > epoch]
        if not floor:
            return (epoch, later[0]) if later and self.knows_epochs else (-1, -1)
        return floor[-1], (later[0] if later else self.end)


def disk_logs(fs: pafs.FileSystem, root: str) -> dict[int, DiskLog]:
    """Every log partition under `root`; UsageError if there is none."""
    starts = offset_checkpoint(fs, f"{root}/log-start-offset-checkpoint")
    return {
        log_partition: disk_log(fs, segments, start=starts.get(log_partition, 0))
        for log_partition, segments in list_segments(fs, root).items()
    }


def import_slices(fs: pafs.FileSystem, log: DiskLog, start: int, *, target_bytes: int) -> Iterator[ImportSlice]:
    """The log from log_offset `start` on, in slices of about `target_bytes` that never span two files."""
    for number, segment in enumerate(log.segments):
        is_last = number == len(log.segments) - 1
        stop = log.end if is_last else log.segments[number + 1].base_offset
        first = max(start, segment.base_offset, log.start)
        if first >= stop:
            continue
        base, ends, end_byte = _batches(fs, segment, is_last=is_last)
        borders = np.concatenate([[0], ends])  # where a slice begins: bad bytes are assigned to the batch after them
        begin = int(np.searchsorted(base, first))
        while first < stop:
            after = min(max(int(np.searchsorted(borders, borders[begin] + target_bytes)), begin + 1), len(base))
            next_offset = int(base[after]) if after < len(base) else stop
            yield ImportSlice(
                segment=segment,
                start_byte=int(borders[begin]),
                end_byte=int(borders[after]) if after < len(base) else end_byte,
                first_log_offset=first,
                next_log_offset=next_offset,
            )
            first, begin = next_offset, after


def read_slice(fs: pafs.FileSystem, import_slice: ImportSlice) -> bytes:
    """The bytes of a slice."""
    if import_slice.end_byte == import_slice.start_byte:
        return b""
    with fs.open_input_file(import_slice.segment.path) as file:
        data: bytes = file.read_at(import_slice.end_byte - import_slice.start_byte, import_slice.start_byte)
    return data


def batch_at(fs: pafs.FileSystem, segments: Sequence[Segment], log_offset: int) -> bytes | None:
    """The bytes of the batch with base offset `log_offset`, None when no segment has it."""
    holding = [segment for segment in segments if segment.base_offset <= log_offset]
    found = last_batch_below(fs, holding[-1:], log_offset + 1)
    return found if found and int.from_bytes(found[:8], "big") == log_offset else None


def last_batch_below(fs: pafs.FileSystem, segments: Sequence[Segment], log_offset: int) -> bytes | None:
    """The bytes of the last batch with a base offset below `log_offset`, None when no segment has one."""
    for segment in reversed(segments):
        if segment.base_offset >= log_offset:
            continue
        data, last = file_bytes(fs, segment.path, segment.size_bytes), None
        for batches in headers_of(data):
            if len(below := np.flatnonzero(batches.base_offset < log_offset)):
                at = int(batches.position[below[-1]])
                last = at, at + int(batches.size_bytes[below[-1]])
        if last is not None:
            return data[last[0] : last[1]].tobytes()
    return None


def disk_log(fs: pafs.FileSystem, segments: Sequence[Segment], *, start: int) -> DiskLog:
    """One log partition from its segments; `start` is its recorded log start."""
    folder, last = segments[0].path.rpartition("/")[0], segments[-1]
    recorded = _epoch_checkpoint(fs, f"{folder}/leader-epoch-checkpoint")
    epochs = recorded or _epochs(fs, segments)
    begin = max(segments[0].base_offset, start)
    found, has_bad_tail = _end(fs, last)
    end = max(found, begin)
    if has_bad_tail and found == last.base_offset:
        # The file has no batch with which these bytes could be imported: they are archived at the file's base offset.
        # Epochs that began within them did so at an unknown offset and are moved to the end: else the import could not
        # continue the archive.
        end += 1
        epochs = [(epoch, end if at >= last.base_offset else at) for epoch, at in epochs]
    return DiskLog(
        log_partition=last.log_partition,
        segments=segments,
        start=begin,
        end=end,
        epochs=epochs,
        knows_epochs=bool(recorded),
        has_bad_tail=has_bad_tail,
    )


def _end(fs: pafs.FileSystem, last: Segment) -> tuple[int, bool]:
    """The log_offset after the last whole batch of the last file (without a batch its base offset), and whether the
    file ends with bad bytes other than a torn tail."""
    data = file_bytes(fs, last.path, last.size_bytes)
    end, end_byte, bad_byte = last.base_offset, -1, -1
    for rows in frames(data, floor_offset=last.base_offset):
        batches = batch_headers(data, rows)
        if len(batches.rows):
            end, end_byte = int(batches.next_offset[-1]), int(batches.position[-1])
        if len(bad := rows[rows[:, KIND] == DAMAGE, POSITION]):
            bad_byte = int(bad[-1])
    return end, bad_byte > end_byte


def _epochs(fs: pafs.FileSystem, segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Each leader epoch and its first log_offset, according to the remaining batches."""
    found: list[tuple[int, int]] = []
    for segment in segments:
        data = file_bytes(fs, segment.path, segment.size_bytes)
        for batches in headers_of(data, floor_offset=segment.base_offset):
            is_modern = batches.magic == 2
            epochs, base = batches.leader_epoch[is_modern], batches.base_offset[is_modern]
            for k in np.flatnonzero(np.diff(epochs, prepend=found[-1][0] if found else -1)):
                if not found or int(epochs[k]) > found[-1][0]:
                    found.append((int(epochs[k]), int(base[k])))
    return found


def _batches(
    fs: pafs.FileSystem, segment: Segment, *, is_last: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Base offsets of the batches of a file and the bytes where they end, in order, and the byte where the file ends
    (before a torn tail of the last file)."""
    data = file_bytes(fs, segment.path, segment.size_bytes)
    base, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    end_byte = len(data)
    for rows in frames(data, floor_offset=segment.base_offset):
        batches = batch_headers(data, rows)
        base.append(batches.base_offset)
        ends.append(batches.position + batches.size_bytes)
        if is_last and len(rows) and rows[-1, KIND] == TORN:
            end_byte = int(rows[-1, POSITION])
    return np.concatenate(base), np.concatenate(ends), end_byte


def offset_checkpoint(fs: pafs.FileSystem, path: str) -> Mapping[int, int]:
    """Log partition -> offset of an OffsetCheckpointFile (lines `topic partition offset`); empty without the file."""
    return {number: offset for (topic, number), offset in _offsets(fs, path).items() if topic == OFFSETS_TOPIC}


def _offsets(fs: pafs.FileSystem, path: str) -> dict[tuple[str, int], int]:
    """The offsets of an OffsetCheckpointFile by topic and partition."""
    lines = (line.split() for line in _lines(fs, path))
    return {
        (words[0], int(words[1])): int(words[2])
        for words in lines
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal()
    }


def broker_id(fs: pafs.FileSystem, root: str) -> int | None:
    """The node id of the broker in `meta.properties`; None without that file."""
    found = meta_properties(fs, root)
    text = found.get("node.id", found.get("broker.id", ""))
    return int(text) if text.isdecimal() else None


def meta_properties(fs: pafs.FileSystem, root: str) -> Mapping[str, str]:
    """The broker's entries in `meta.properties` of a log directory; empty without the file."""
    lines = (line.partition("=") for line in _lines(fs, f"{root}/meta.properties"))
    return {name.strip(): value.strip() for name, equals, value in lines if equals}


def log_ends(fs: pafs.FileSystem, root: str, topics: Collection[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Log start and end of every partition of `topics` that lies under `root`, by topic and partition.

    An end is -1 where the last segment has more than _MAX_HEADS batches after its last index entry.
    """
    starts, found = _offsets(fs, f"{root}/log-start-offset-checkpoint"), {}
    for entry in fs.get_file_info(pafs.FileSelector(root)):
        topic, _, number = entry.base_name.rpartition("-")
        if entry.type != pafs.FileType.Directory or topic not in topics or not re.fullmatch(r"\d{1,9}", number):
            continue
        if segments := segments_of(fs, entry.path, int(number)):
            start = max(segments[0].base_offset, starts.get((topic, int(number)), 0))
            end = _end_by_index(fs, segments[-1])
            found[topic, int(number)] = start, max(end, start) if end >= 0 else end
    return found


def _end_by_index(fs: pafs.FileSystem, last: Segment) -> int:
    """The log_offset after the last whole batch of a segment, read header by header; -1 beyond _MAX_HEADS headers."""
    end, at = last.base_offset, 0
    with fs.open_input_file(last.path) as file:
        relative, position = _last_index_entry(fs, f"{last.path.removesuffix('.log')}.index")
        base_offset, body_bytes, _ = _batch_head(file, position)
        if body_bytes > 0 and last.base_offset <= base_offset <= last.base_offset + relative:
            at = position
        for _ in range(_MAX_HEADS):
            base_offset, body_bytes, last_delta = _batch_head(file, at)
            after = at + SIZE_AT + 4 + body_bytes
            if body_bytes <= 0 or after > last.size_bytes or base_offset + last_delta < end:
                return end
            end, at = base_offset + last_delta + 1, after
    return -1


def _batch_head(file: pa.NativeFile, at: int) -> tuple[int, int, int]:
    """Base offset, bytes after the size field, and last offset delta of the batch at a byte; zeros at the end of the
    file."""
    head = file.read_at(LAST_DELTA_AT + 4, at)
    if len(head) < LAST_DELTA_AT + 4:
        return 0, 0, 0
    base_offset, body_bytes = struct.unpack_from(">qi", head)
    (last_delta,) = struct.unpack_from(">i", head, LAST_DELTA_AT)
    return base_offset, body_bytes, max(last_delta, 0) if head[MAGIC_AT] == 2 else 0


def _last_index_entry(fs: pafs.FileSystem, path: str) -> tuple[int, int]:
    """The last entry (relative offset, position) of an offset index, which may end in zeros; zeros without an entry."""
    data = read_file(fs, path) if is_file(fs, path) else b""
    entries = np.frombuffer(data[: len(data) // 8 * 8], ">i4").reshape(-1, 2)
    places = np.flatnonzero(entries[:, 1] > 0)
    relative, position = entries[places[-1]].tolist() if len(places) else (0, 0)
    return relative, position


def _epoch_checkpoint(fs: pafs.FileSystem, path: str) -> list[tuple[int, int]]:
    """The entries of a LeaderEpochCheckpointFile (version, count, lines `epoch offset`); empty without a valid file."""
    lines = _lines(fs, path)
    if len(lines) < 2 or lines[0].strip() != "0" or not lines[1].strip().isdecimal():
        return []
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != int(lines[1]) or not all(
        len(words) == 2 and all(map(str.isdecimal, words)) for words in entries
    ):
        return []
    return [(int(epoch), int(offset)) for epoch, offset in entries]


def _lines(fs: pafs.FileSystem, path: str) -> list[str]:
    if not is_file(fs, path):
        return []
    with fs.open_input_stream(path) as file:
        return str(file.read(_CHECKPOINT_BYTES), "utf-8", errors="replace").splitlines()
