"""Segments on a broker's disk or in a backup, and their division into fold tasks.

Names, sizes and raw bytes: nothing is decoded here. Names follow Kafka's LogFileUtils: files with a transient suffix
(.deleted, .cleaned, .swap) and folders that Kafka deletes or moves (-delete, -future, -stray) do not belong to the log.
"""

import itertools
import re
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs as pafs

from sexton.errors import UsageError
from sexton.log.entry import BATCH_HEAD_BYTES
from sexton.log.framing import KIND, SIZE, TORN, frames
from sexton.topics import OFFSETS_TOPIC

WHOLE_LOG = 1 << 62
"""A `target_bytes` that makes every log partition a single task."""
_LOG_FOLDER = re.compile(rf"{OFFSETS_TOPIC}-(\d{{1,9}})")
_SEGMENT_FILE = re.compile(r"(\d{20})\.log")
_MAX_LOG_OFFSET = 1 << 62
"""Above any real log_offset (framing); from 1 << 63 on, Kafka itself cannot parse the file name."""
_READ_BYTES = 8 * 1024 * 1024
_MAX_FOLDERS, _DUMP_HEAD_BYTES = 10_000, 4096
"""Limits of the search for the folder that the user probably meant."""
_WANTED = "a folder with __consumer_offsets-N folders, as in a broker's log.dirs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment file of a log partition; `path` is within a pyarrow filesystem, and no log_offset is below
    `base_offset`.

    Only batches and damage that begin in bytes [start_byte, end_byte) are read, by default all. `manifest_path` is set
    for an archived segment.
    """

    log_partition: int
    path: str
    size_bytes: int
    base_offset: int
    start_byte: int = 0
    end_byte: int | None = None
    manifest_path: str | None = None

    @property
    def stop_byte(self) -> int:
        """Where reading ends."""
        return self.size_bytes if self.end_byte is None else min(self.end_byte, self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSlice:
    """A slice of a segment: batches and damage that begin in bytes [start_byte, end_byte).

    The borders are arbitrary; `framing.first_frame` finds the first batch. `size_bytes` is that of the whole file.
    `taken_at_ms` is when its bytes were copied, if files were copied at different instants.
    """

    path: str
    size_bytes: int
    start_byte: int
    end_byte: int
    base_offset: int = 0
    manifest_path: str | None = None
    taken_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTask:
    """Adjacent slices of one log partition that one task folds; `index` counts in log order from 0."""

    log_partition: int
    index: int
    slices: tuple[SegmentSlice, ...]
    is_last: bool


def list_segments(
    fs: pafs.FileSystem, roots: str | Sequence[str], topic: str = OFFSETS_TOPIC
) -> dict[int, list[Segment]]:
    """The segments of every log partition in the log directories of one broker, each list in order of base offset.

    Raises UsageError when a folder does not exist, when no folder has a segment, and when two folders have the same log
    partition.
    """
    roots = (roots,) if isinstance(roots, str) else roots
    found: dict[int, list[Segment]] = {}
    for root in roots:
        for number, folder in partition_folders(fs, root, topic).items():
            segments = segments_of(fs, folder, number)
            if segments and number in found:
                here = found[number][0].path.rpartition("/")[0]
                raise UsageError(
                    f"{topic}-{number} is also in {here.rpartition('/')[0]}: no broker has it in two log directories",
                    where=root,
                    fix="give the log.dirs of one broker, each once",
                )
            if segments:
                found[number] = segments
    if not found:
        better = [one for root in roots for one in _near(fs, root, topic)]
        fix = f"give {' and '.join(better)}" if better else f"give {_WANTED}"
        raise UsageError(f"no segment of {topic} here", where=", ".join(roots), fix=fix)
    return dict(sorted(found.items()))


def partition_folders(fs: pafs.FileSystem, root: str, topic: str = OFFSETS_TOPIC) -> dict[int, str]:
    """The path of every partition's folder under `root`; UsageError when there is no such folder."""
    info = fs.get_file_info(root)
    if info.type != pafs.FileType.Directory:
        if info.type == pafs.FileType.NotFound:
            raise UsageError("no such folder", where=root, fix=f"give {_WANTED}")
        what, better = _file_of(fs, root, topic)
        raise UsageError(what, where=root, fix=better or f"give {_WANTED}")
    folder = re.compile(rf"{re.escape(topic)}-(\d{{1,9}})")
    return {
        int(name[1]): entry.path
        for entry in fs.get_file_info(pafs.FileSelector(root))
        if entry.type == pafs.FileType.Directory and (name := folder.fullmatch(entry.base_name))
    }


def _near(fs: pafs.FileSystem, root: str, topic: str) -> list[str]:
    """The log directories one level above `root`, or up to two below it."""
    path = PurePosixPath(root)
    if re.fullmatch(rf"{re.escape(topic)}-\d{{1,9}}", path.name):
        return [str(path.parent)]
    level = [root]
    for _ in range(2):
        level = sorted(
            entry.path
            for folder in level[:_MAX_FOLDERS]
            for entry in fs.get_file_info(pafs.FileSelector(folder))
            if entry.type == pafs.FileType.Directory
        )
        if found := [folder for folder in level[:_MAX_FOLDERS] if partition_folders(fs, folder, topic)]:
            return found
    return []


def _file_of(fs: pafs.FileSystem, path: str, topic: str) -> tuple[str, str | None]:
    """The type of a file that was given instead of a log directory, and the folder that would work."""
    of_partition = re.compile(rf"(?:^|/){re.escape(topic)}-\d{{1,9}}(?=/|$)")
    if (within := of_partition.search(path)) is not None:
        return "a file of a log partition", f"give the folder {path[: within.start()] or '.'}"
    try:
        with tarfile.open(path) as archive:
            for member in itertools.islice(archive, _MAX_FOLDERS):
                if (within := of_partition.search(member.name)) is not None:
                    inner = member.name[: within.start()] or "."
                    return "a tar archive", f"unpack it, and give the folder {inner} in it"
    except (tarfile.TarError, OSError, EOFError, zlib.error):
        pass  # no archive, a broken one, or one in a store
    with fs.open_input_stream(path) as file:
        head = str(file.read(_DUMP_HEAD_BYTES), "utf-8", errors="replace")
    if (dumped := re.match(rf"Dumping (\S*?)/?{re.escape(topic)}-\d{{1,9}}/", head)) is not None:
        return "a dump of a segment as text", f"give the folder that was dumped, {dumped[1] or '.'}, or a copy of it"
    return "not a folder", None


def segments_of(fs: pafs.FileSystem, folder: str, log_partition: int) -> list[Segment]:
    segments = [
        Segment(log_partition=log_partition, path=file.path, size_bytes=file.size, base_offset=int(name[1]))
        for file in fs.get_file_info(pafs.FileSelector(folder))
        if file.type == pafs.FileType.File
        and (name := _SEGMENT_FILE.fullmatch(file.base_name))
        and int(name[1]) < _MAX_LOG_OFFSET
    ]
    return sorted(segments, key=lambda segment: segment.base_offset)


def odd_files(fs: pafs.FileSystem, root: str) -> list[str]:
    """Paths of files named like segments with an impossible base offset; they are not part of a log."""
    return sorted(
        file.path
        for entry in fs.get_file_info(pafs.FileSelector(root))
        if entry.type == pafs.FileType.Directory and _LOG_FOLDER.fullmatch(entry.base_name)
        for file in fs.get_file_info(pafs.FileSelector(entry.path))
        if (name := _SEGMENT_FILE.fullmatch(file.base_name)) and int(name[1]) >= _MAX_LOG_OFFSET
    )


def plan_fold_tasks(
    segments: Sequence[Segment], *, target_bytes: int = WHOLE_LOG, first_index: int = 0
) -> list[FoldTask]:
    """Divide one log partition's segments into tasks of about `target_bytes`, in log order, numbered from
    `first_index`.

    Large segments are split evenly, small adjacent ones are joined. An empty log is one task without bytes, so that it
    still has a fold. `segments` are in order of base offset.
    """
    if target_bytes < 1:
        raise ValueError(f"target_bytes must be positive, got {target_bytes}")
    groups: list[list[SegmentSlice]] = []
    joined_bytes = 0
    for segment in segments:
        for span in _split(segment, target_bytes):
            size_bytes = span.end_byte - span.start_byte
            if not groups or joined_bytes + size_bytes > target_bytes:
                groups.append([])
                joined_bytes = 0
            groups[-1].append(span)
            joined_bytes += size_bytes
    return [
        FoldTask(
            log_partition=segments[0].log_partition,
            index=first_index + index,
            slices=tuple(slices),
            is_last=index == len(groups) - 1,
        )
        for index, slices in enumerate(groups)
    ]


def _split(segment: Segment, target_bytes: int) -> list[SegmentSlice]:
    size_bytes = max(segment.stop_byte - segment.start_byte, 0)
    count = max(1, -(-size_bytes // target_bytes))
    borders = [segment.start_byte + size_bytes * k // count for k in range(count + 1)]
    return [
        SegmentSlice(
            path=segment.path,
            size_bytes=segment.size_bytes,
            start_byte=start,
            end_byte=end,
            base_offset=segment.base_offset,
            manifest_path=segment.manifest_path,
        )
        for start, end in itertools.pairwise(borders)
    ]


def disk_identity(fs: pafs.FileSystem, root: str) -> tuple[str | None, str | None]:
    """Cluster id and id of `__consumer_offsets` as a broker records them next to its logs; None where missing.

    The cluster id is in `meta.properties` of `root` or of the folder above it, the topic id in a `partition.metadata`
    (Kafka 2.8 and later) of any log partition.
    """
    cluster_id: str | None = None
    for folder in (PurePosixPath(root), PurePosixPath(root).parent):
        cluster_id = cluster_id or _property(fs, str(folder / "meta.properties"), name="cluster.id", separator="=")
    for entry in sorted(fs.get_file_info(pafs.FileSelector(root)), key=lambda entry: str(entry.path)):
        if entry.type == pafs.FileType.Directory and _LOG_FOLDER.fullmatch(entry.base_name):
            metadata = f"{entry.path}/partition.metadata"
            topic_id = _property(fs, metadata, name="topic_id", separator=":")
            if topic_id:
                return cluster_id, topic_id
    return cluster_id, None


def _property(fs: pafs.FileSystem, path: str, *, name: str, separator: str) -> str | None:
    if fs.get_file_info(path).type != pafs.FileType.File:
        return None
    with fs.open_input_stream(path) as file:
        text = str(file.read(64 * 1024), "utf-8", errors="replace")
    for line in text.splitlines():
        key, found, value = line.partition(separator)
        if found and key.strip() == name and value.strip():
            return value.strip()
    return None


def file_bytes(fs: pafs.FileSystem, path: str, size_bytes: int, *, is_archived: bool = False) -> npt.NDArray[np.uint8]:
    """The first `size_bytes` of a file; UsageError when the file is shorter.

    A local file of an archive is memory-mapped, because it never changes. Any other file is read into memory, because
    its broker may truncate or delete it in the meantime, and reading a memory map beyond the end of the file kills the
    process (SIGBUS).
    """
    if size_bytes == 0:
        return np.zeros(0, np.uint8)
    if is_archived and isinstance(fs, pafs.LocalFileSystem):
        return np.memmap(path, dtype=np.uint8, mode="r", shape=(size_bytes,)).view(np.ndarray)
    try:
        with fs.open_input_file(path) as file:
            if not isinstance(fs, pafs.LocalFileSystem):
                data = np.frombuffer(file.read_at(size_bytes, 0), np.uint8)
                read = len(data)
            else:
                data = np.empty(size_bytes, np.uint8)
                read = _read_into(file, data)
    except FileNotFoundError:
        raise UsageError("the file was deleted before it was read", where=path, fix=_WHILE_READ) from None
    if read < size_bytes:
        what = f"the file was truncated while it was read: {read} of {size_bytes} bytes are left"
        raise UsageError(what, where=path, fix=_WHILE_READ)
    return data


def zero_tail(fs: pafs.FileSystem, segment: Segment) -> int:
    """Number of zero bytes after the last batch of a segment; 0 if it has no batch, if other bytes follow the batch, or
    if the zeros are too few for a broker to notice."""
    if segment.size_bytes < BATCH_HEAD_BYTES:
        return 0
    with fs.open_input_file(segment.path) as file:
        if any(file.read_at(BATCH_HEAD_BYTES, segment.size_bytes - BATCH_HEAD_BYTES)):
            return 0
    data, torn = file_bytes(fs, segment.path, segment.size_bytes), 0
    for rows in frames(data, floor_offset=segment.base_offset):
        torn = int(rows[-1, SIZE]) if rows[-1, KIND] == TORN else 0
    return torn if BATCH_HEAD_BYTES <= torn < len(data) and not data[-torn:].any() else 0


def slice_bytes(
    fs: pafs.FileSystem, span: Segment | SegmentSlice, most_bytes: int = WHOLE_LOG
) -> npt.NDArray[np.uint8]:
    """`file_bytes` of the whole file of a segment or a slice, or of at most the first `most_bytes`."""
    return file_bytes(fs, span.path, min(span.size_bytes, most_bytes), is_archived=span.manifest_path is not None)


_WHILE_READ = "read a copy of the disk, or while its broker is stopped"


def _read_into(file: pa.NativeFile, data: npt.NDArray[np.uint8]) -> int:
    """Read slice by slice until the array is full or the file ends; returns the number of bytes."""
    at = 0
    while at < len(data) and (count := file.readinto(data[at : at + _READ_BYTES])):
        at += count
    return at
