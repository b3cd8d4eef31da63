"""Reads the segments of a run into one fold per log partition: folds ranges of the log, then merges the partial folds.

An engine's tasks fold and merge the ranges; a task folds neighbouring ranges into one partial fold. With a checkpoint,
only the log after its cuts is read and merged onto it. A log partition with very many keys is merged in buckets of
group ids, one task per bucket: partial folds are passed on in pieces by group id, so that a task receives only its
range. The folds are written to `fold/<shard>` of the run folder, unless no later run will continue from them.
"""

import pickle
from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from zlib import crc32

from pyarrow import fs as pafs

from sexton.archive.files import read_record
from sexton.archive.folder import filesystem
from sexton.archive.manifest import Manifest
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import DamagedFold
from sexton.kernels import layout as L
from sexton.kernels.buckets import (
    GroupRange,
    bounds_for,
    bucket_of,
    groups_of,
    pieces_of,
    ranges_of,
    rest_of,
    with_groups,
    without_undecodable,
)
from sexton.kernels.divide import MAX_BUCKETS, BucketLog, Divider, fold_bucket
from sexton.kernels.fold import PartialFold, fold_task, merge_all, read_only
from sexton.kernels.growth import reserve, size_bytes, used_part
from sexton.kernels.layout import Bytes, FoldState
from sexton.log.segment import WHOLE_LOG, FoldTask, Segment, SegmentSlice, plan_fold_tasks, slice_bytes
from sexton.runs.checkpoint import Base, StartFold, can_divide
from sexton.runs.choose_profile import ProfileEvidence, joined
from sexton.runs.engine import Engine, PieceId
from sexton.runs.folder import RunFolder, Shard, shards_of
from sexton.runs.source import LogSource, check_files
from sexton.settings import settings

SAMPLED_GROUPS = 2_000
UNPACKED = 8
"""Approximate bytes in memory per byte of a fold's files."""
_UNDIVIDED = 2
"""Up to this many buckets' worth of keys stay in one task: cheaper than two tasks that both read a partial fold."""
_MEMORY_BYTES = 512 * 1024 * 1024
"""Memory (bytes) for a run's folds between two maps; larger folds go to files."""
_GLIMPSE_BYTES, _SAMPLE_BYTES = 64 * 1024, 1024 * 1024
_PARTS_A_TASK = 4
"""Log ranges that one Spark task folds into one partial fold, so that fewer partial folds are passed on and merged."""
_PIECES_PER_BUCKET = 8
"""Number of pieces per bucket. Buckets start at piece boundaries, so a bucket may have up to one piece of each partial
fold too much."""


class KeptFold:
    """A fold between two maps of this process: in memory, or as plain arrays in an unnamed file in `folder`."""

    def __init__(self, fold: PartialFold, folder: Path | None) -> None:
        self._fold: PartialFold | None = replace(fold, state=used_part(fold.state))
        self._file: IO[bytes] | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # open as long as this is
            pickle.dump(self._fold, self._file, protocol=5)
            self._file.flush()
            self._fold = None

    def read(self) -> PartialFold:
        """The fold, read-only: its keys are not indexed."""
        if self._fold is not None:
            return self._fold
        assert self._file is not None, "it is here or there"
        with mmap(self._file.fileno(), 0, access=ACCESS_READ) as data:
            fold: PartialFold = pickle.loads(data)
        return fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged fold of one log partition, summarised. `cut` is the log_offset where reading stopped."""

    log_partition: int
    cut: int
    first_log_offset: int | None
    records: int
    max_timestamp_ms: int
    max_commit_timestamp_ms: int
    future_batches: int
    group_ids: list[str]
    bytes: int
    largest_batch_bytes: int
    evidence: ProfileEvidence
    damage: str | None
    """The first unreadable bytes and the amount of unreadable data; None if everything was read."""
    files: dict[str, str]
    """SHA-256 of every file of the written fold, by its path below the folder `fold`."""
    bounds: list[str] = field(default_factory=list)
    """RunRecord.bounds of this log partition."""
    folds: Mapping[Shard, "KeptFold | _DividedFold"] = field(default_factory=dict)
    """The fold of each shard if all work is done in this process, so that it is not read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """One piece of a task's partial folds: a packed fold of `rows` keys and group records, starting at group `lower`.

    `checksum` is zlib.crc32 of its bytes.
    """

    lower: str | None
    rows: int
    piece: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partial:
    """A partial fold to pass on: one span if it is small, else its rest and then its groups by id (kernels.buckets).

    `index` is the number of its first log range, `task` the number of the task that made it.
    """

    log_partition: int
    index: int
    spans: tuple[_Span, ...]
    task: int = -1

    @property
    def is_whole(self) -> bool:
        return len(self.spans) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """A shard whose fold a task completes, starting from `base` if there is one, up to `cut`.

    `is_written`: the fold is written to the run folder. `is_here`: the fold may stay in this process, in memory up to
    `memory_bytes`.
    """

    folder: RunFolder
    shard: Shard
    profile: str
    base: StartFold | None
    cut: int | None
    is_written: bool
    is_here: bool
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoldWork:
    """Neighbouring ranges of a log partition that one task folds. With `whole` they are all its ranges.

    Above `most_rows` keys and group records the fold is passed on, in pieces of `piece_rows`, and a new one starts;
    None means never.
    """

    uri: str
    tasks: tuple[FoldTask, ...]
    as_of_ms: int | None
    taken_at_ms: int | None
    cap_bytes: int
    profile: str
    most_rows: int | None
    piece_rows: int | None
    whole: _Whole | None
    bounds: Sequence[str] = ()
    """If not empty, records are divided at these group ids instead of folded."""
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """Result of one task: partial folds in log order, which include the checkpoint's fold if `has_base`; or the merged
    log partition; or records divided by group id."""

    partials: tuple[_Partial, ...] = ()
    has_base: bool = False
    merged: Merged | None = None
    divided: "_Divided | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    """Ranges of a log partition, from number `index` on: records by bucket, and in `rest` what belongs to no group."""

    log_partition: int
    index: int
    buckets: list[BucketLog]
    rest: PartialFold


@dataclass(frozen=True, slots=True, kw_only=True)
class _DividedFold:
    """The fold of a bucket, computed on demand."""

    parts: list[BucketLog]
    rest: PartialFold
    is_first: bool

    def read(self) -> PartialFold:
        return fold_bucket(self.parts, self.rest, is_first=self.is_first).as_kept_by_broker()


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeWork:
    """A shard to merge from the partial folds, restricted to the groups in `ids`."""

    whole: _Whole
    ids: GroupRange
    partials: tuple[_Partial, ...]

    def pieces(self) -> list[PieceId]:
        """The pieces it needs, in reading order."""
        return [
            (partial.task, span.piece)
            for partial in self.partials
            for span in (partial.spans[0], *(each for _, each in _spans(partial, self.ids)))
        ]


def fold_log(
    engine: Engine,
    folder: RunFolder,
    source: LogSource,
    profile: Profile,
    *,
    taken_at_ms: int | None = None,
    base: Base | None = None,
    bounds: Mapping[int, Sequence[str]] | None = None,
    keeps: bool = True,
) -> list[Merged]:
    """Fold `source` into `folder`; return one result per log partition. Starts from `base` if there is one.

    An archive is read up to the positions of `source`; a broker's disk, copied at `taken_at_ms`, to its end or up to
    the instant of `source`. An earlier fold in `folder` is removed. `bounds` (RunRecord.bounds) divides log partitions
    into buckets; by default their number of keys decides. Without `keeps` no later run continues from the folds, so
    folds that fit into this process are not written.
    DamagedCheckpoint if a fold of `base` is invalid.
    """
    folder.remove("fold")
    config = settings()
    segments = source.segments if base is None else source.segments_after(base.positions)
    if source.is_archive:
        check_files(filesystem(source.uri)[0], [one for some in segments.values() for one in some])
    tasks = _tasks(segments, base, config.fold_task_bytes if profile.folds_in_slices else WHOLE_LOG)
    log_bytes = sum(_size(task) for some in tasks.values() for task in some)
    work_bytes = log_bytes + UNPACKED * (base.size_bytes if base else 0)
    is_here = engine.works_here(work_bytes) if keeps else engine.has_threads_for(work_bytes)

    def whole(shard: Shard) -> _Whole:
        part = shard.log_partition
        return _Whole(
            folder=folder,
            shard=shard,
            profile=profile.text,
            base=base.fold(part) if base else None,
            cut=source.positions[part].cut if part in source.positions else None,
            is_written=keeps or not is_here,
            is_here=is_here,
            memory_bytes=_MEMORY_BYTES // len(source.segments),
        )

    work, samples = [], dict[int, _Sample]()
    for part, own in tasks.items():
        if not keeps and is_here and base is None and bounds is None and can_divide(profile):
            sample = _sampled(source.uri, own, profile, most_keys=config.bucket_keys)
            samples |= {part: sample} if sample else {}
        is_free = bounds is None and can_divide(profile)
        is_one = not (bounds or {}).get(part) and (base is None or len(base.bounds.get(part, ())) == 0)
        some = _chunks(
            own, max(log_bytes // engine.cores, 1) if engine.cores else _PARTS_A_TASK * config.fold_task_bytes
        )
        work += [
            _FoldWork(
                uri=source.uri,
                tasks=tuple(chunk),
                as_of_ms=None if source.is_archive else source.as_of_ms,
                taken_at_ms=source.taken_at_ms or taken_at_ms,
                cap_bytes=config.inflated_cap_bytes,
                profile=profile.text,
                most_rows=config.bucket_keys if is_free else None,
                piece_rows=max(config.bucket_keys // _PIECES_PER_BUCKET, 1) if can_divide(profile) else None,
                whole=whole(Shard(part)) if is_one and len(some) == 1 else None,
                bounds=samples[part].bounds if part in samples else (),
                folder=folder.local if part in samples else None,
            )
            for chunk in some
        ]
    work.sort(key=lambda item: -sum(map(_size, item.tasks)))  # longest first
    with engine.exchange(folder.sub("partial"), work_bytes) as exchange:
        folded = exchange.make("Replaying the log", work, _fold_part)
        merged = {each.merged.log_partition: each.merged for each in folded if each.merged is not None}
        divided = sorted((each.divided for each in folded if each.divided), key=attrgetter("log_partition", "index"))
        for part, neighbours in groupby(divided, attrgetter("log_partition")):
            merged[part] = _of_buckets(whole(Shard(part)), list(neighbours), samples[part])
        partials: dict[int, list[_Partial]] = {}
        for task, each in enumerate(folded):
            for partial in each.partials:
                partials.setdefault(partial.log_partition, []).append(replace(partial, task=task))
        with_base = {each.partials[0].log_partition for each in folded if each.has_base}
        if bounds is None:
            bounds = _bounds(partials, base, with_base, most_keys=config.bucket_keys) if can_divide(profile) else {}
        merges = [
            _MergeWork(
                whole=replace(whole(shard), base=None) if part in with_base else whole(shard),
                ids=ids,
                partials=tuple(sorted(partials.get(part, ()), key=lambda one: one.index)),
            )
            for part in sorted(source.segments.keys() - merged.keys())
            for shard, ids in zip(shards_of(part, bounds.get(part, ())), ranges_of(bounds.get(part, ())), strict=True)
        ]
        asked = [(each, each.pieces()) for each in merges]
        found = exchange.merge("Merging folds", asked, _merge)
    for part, buckets in groupby(found, lambda one: one.log_partition):
        merged[part] = _joined(list(buckets), [*bounds.get(part, ())])
    return [one for _, one in sorted(merged.items())]


def glimpse(source: LogSource) -> list[ProfileEvidence]:
    """Evidence of the coordinator from the ends of the log partitions: enough to guess its profile."""
    fs, nothing = filesystem(source.uri)[0], PartialFold.empty()
    last = [[each for each in some if each.stop_byte > each.start_byte][-1:] for some in source.segments.values()]
    spans = [
        (one.path, max(one.start_byte, one.stop_byte - _GLIMPSE_BYTES), one.stop_byte) for (one,) in filter(None, last)
    ]
    return [ProfileEvidence.of(_sample(fs, *span, onto=nothing.copy())) for span in spans]


def _sample(fs: pafs.FileSystem, path: str, start: int, end: int, *, onto: PartialFold) -> PartialFold:
    """Fold a byte range of a file onto `onto`; return `onto` unchanged if the file is gone."""
    try:
        with fs.open_input_file(path) as file:
            data = file.read_at(end - start, start)
    except FileNotFoundError:
        return onto
    span = SegmentSlice(path="", size_bytes=len(data), start_byte=int(start > 0), end_byte=len(data))
    return fold_task(
        [data],
        task=FoldTask(log_partition=0, index=0, slices=(span,), is_last=True),
        cap_bytes=settings().inflated_cap_bytes,
        as_of_ms=None,
        taken_at_ms=None,
        profile=onto.profile,
        onto=onto,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Bucket bounds of a log partition, estimated from a sample of each range, and some of its group ids."""

    bounds: list[str]
    group_ids: list[str]


def _sampled(uri: str, tasks: Sequence[FoldTask], profile: Profile, *, most_keys: int) -> _Sample | None:
    """The bounds at which to divide a log partition; None if one task can handle the expected number of keys.

    That number is estimated from how many sampled keys occurred once and how many twice (Chao's estimator).
    """
    fs, fold, read_bytes = filesystem(uri)[0], PartialFold.empty(profile=profile), 0
    for span in [task.slices[0] for task in tasks if task.slices]:
        end = min(span.end_byte, span.start_byte + _SAMPLE_BYTES)
        fold, read_bytes = _sample(fs, span.path, span.start_byte, end, onto=fold), read_bytes + end - span.start_byte
    found = fold.state.keys[: fold.state.counts[L.KEYS], L.SINCE]
    once, twice = int((found <= 1).sum()), int((found == 2).sum())
    records = int(fold.state.counts[L.SEEN_VALUES]) * sum(map(_size, tasks)) // max(read_bytes, 1)
    expected = min(len(found) + once * once // (2 * max(twice, 1)), records)
    if expected <= _UNDIVIDED * most_keys:
        return None
    count = min(-(-expected // most_keys), MAX_BUCKETS)
    some = pieces_of(fold, most_keys=max(len(found) // (_PIECES_PER_BUCKET * count), 1))
    bounds = bounds_for(
        [(each.lower, each.keys) for each in some], most_keys=-(-sum(each.keys for each in some) // count)
    )
    return _Sample(bounds=bounds, group_ids=fold.group_ids(limit=SAMPLED_GROUPS)) if bounds else None


def _bounds(
    partials: Mapping[int, Sequence[_Partial]], base: Base | None, with_base: Container[int], *, most_keys: int
) -> dict[int, list[str]]:
    """Bucket bounds for log partitions with over `most_keys` keys; a key in several partial folds counts in each."""
    found = {part: [*bounds] for part, bounds in (base.bounds if base else {}).items() if bounds}
    for part, own in partials.items():
        weights = [(None if one.is_whole else span.lower, span.rows) for one in own for span in one.spans]
        start = base.fold(part) if base and part not in with_base else None
        if start is not None:
            weights += start.groups_by_id(most_rows=max(most_keys // _PIECES_PER_BUCKET, 1))
        found[part] = bounds_for(weights, most_keys=most_keys)
    return found


def _tasks(
    segments: Mapping[int, Sequence[Segment]], base: Base | None, target_bytes: int
) -> dict[int, list[FoldTask]]:
    """Fold tasks by log partition. After a checkpoint, the first task does not start the log partition."""
    return {
        part: plan_fold_tasks(some, target_bytes=target_bytes, first_index=1 if base and part in base.positions else 0)
        for part, some in segments.items()
        if some
    }


def _size(task: FoldTask) -> int:
    return sum(span.end_byte - span.start_byte for span in task.slices)


def _chunks(tasks: Sequence[FoldTask], chunk_bytes: int) -> list[list[FoldTask]]:
    """Group neighbouring tasks into lists of about `chunk_bytes`."""
    chunks: list[list[FoldTask]] = []
    left_bytes = 0
    for task in tasks:
        if not chunks or left_bytes < _size(task) // 2:
            chunks.append([])
            left_bytes = chunk_bytes
        chunks[-1].append(task)
        left_bytes -= _size(task)
    return chunks


def _fold_part(work: _FoldWork) -> Generator[bytes, None, _Folded]:
    """Yield the pieces of the partial folds, if any; return the result."""
    if work.bounds:
        return _Folded(divided=_divide(work))
    fold = None if work.whole is None else _start(work.whole)
    first, partials, files = work.tasks[0], list[_Partial](), _Files(filesystem(work.uri)[0])
    for task in work.tasks:
        if fold is not None and fold.cut is not None:
            break
        if fold is not None and work.most_rows is not None and _rows(fold) > work.most_rows:
            partials.append((yield from _hand_on(work, first, fold, partials)))
            fold, first = None, task
        fold = _fold(work, files, task, onto=fold)
    assert fold is not None, "there is a task"
    is_small = work.most_rows is None or _rows(fold) <= _UNDIVIDED * work.most_rows
    if work.whole is not None and not partials and is_small:
        return _Folded(merged=_written(work.whole, fold))
    partials.append((yield from _hand_on(work, first, fold, partials)))
    return _Folded(partials=tuple(partials), has_base=work.whole is not None and work.whole.base is not None)


def _divide(work: _FoldWork) -> _Divided:
    """Divide the records of neighbouring log ranges by group id."""
    assert work.folder is not None, "a place for the pieces"
    work.folder.mkdir(parents=True, exist_ok=True)
    first, files = work.tasks[0], _Files(filesystem(work.uri)[0])
    start = PartialFold.empty(profile=profile_of(work.profile), is_prefix=first.index == 0)
    divider = Divider(start, cap_bytes=work.cap_bytes, as_of_ms=work.as_of_ms, taken_at_ms=work.taken_at_ms)
    divider.divide_into(work.bounds, work.folder)
    spans = (replace(span, taken_at_ms=_taken_at_ms(files.fs, span)) for task in work.tasks for span in task.slices)
    for span in spans:
        if not divider.fold_slice(read_only(files.bytes_of(span)), span):
            break
    rest = divider.finish()
    return _Divided(log_partition=first.log_partition, index=first.index, buckets=divider.buckets, rest=rest)


def _of_buckets(whole: _Whole, divided: Sequence[_Divided], sample: _Sample) -> Merged:
    """A log partition whose buckets are folded on demand."""
    cut = next((number for number, one in enumerate(divided) if one.rest.cut is not None), len(divided))
    divided = divided[: cut + 1]
    rest = merge_all([one.rest for one in divided])
    rest = rest if whole.cut is None else replace(rest, cut=whole.cut)
    folds = {
        shard: _DividedFold(parts=[one.buckets[number] for one in divided], rest=rest, is_first=shard.is_first)
        for number, shard in enumerate(shards_of(whole.shard.log_partition, sample.bounds))
    }
    return replace(_described(whole, rest), bounds=sample.bounds, group_ids=sample.group_ids, folds=folds)


def _rows(fold: PartialFold) -> int:
    return int(fold.state.counts[L.KEYS] + fold.state.counts[L.RECORDS])


def _hand_on(
    work: _FoldWork, first: FoldTask, fold: PartialFold, before: Sequence[_Partial]
) -> Generator[bytes, None, _Partial]:
    """Yield the pieces of one partial fold, which starts at `first`; `before` are the same task's earlier partial
    folds."""
    rows, piece, spans = _rows(fold), sum(len(each.spans) for each in before), list[_Span]()
    folds: Iterable[tuple[str | None, int, PartialFold]] = [(None, rows, fold)]
    if work.piece_rows is not None and rows > work.piece_rows:
        pieces = pieces_of(fold, most_keys=work.piece_rows)
        rest = (None, 0, rest_of(fold, is_first=True))
        folds = chain([rest], ((each.lower, each.keys, each.fold) for each in pieces))
    for number, (lower, count, own) in enumerate(folds, piece):
        data = own.to_bytes()
        yield data
        spans.append(_Span(lower=lower, rows=count, piece=number, checksum=crc32(data)))
    return _Partial(log_partition=first.log_partition, index=first.index, spans=tuple(spans))


class _Files:
    """Reads the file of a slice. It caches the last file, because the next slice is often in the same one."""

    def __init__(self, fs: pafs.FileSystem) -> None:
        self.fs = fs
        self._last: tuple[str, Bytes] | None = None

    def bytes_of(self, span: SegmentSlice) -> Bytes:
        if self._last is None or self._last[0] != span.path:
            self._last = None  # free it before the next is read
            self._last = span.path, slice_bytes(self.fs, span)
        return self._last[1]


def _fold(work: _FoldWork, files: _Files, task: FoldTask, onto: PartialFold | None) -> PartialFold:
    slices = tuple(replace(span, taken_at_ms=_taken_at_ms(files.fs, span)) for span in task.slices)
    return fold_task(
        map(files.bytes_of, slices),
        task=replace(task, slices=slices),
        cap_bytes=work.cap_bytes,
        as_of_ms=work.as_of_ms,
        taken_at_ms=work.taken_at_ms,
        profile=profile_of(work.profile),
        onto=onto,
    )


def _taken_at_ms(fs: pafs.FileSystem, span: SegmentSlice) -> int | None:
    """When an archived segment was copied; None for a broker's disk."""
    if span.manifest_path is None:
        return None
    return read_record(fs, span.manifest_path, Manifest, what="a manifest").taken_at_ms


def _merge(work: _MergeWork, pieces: Iterator[bytes]) -> Merged:
    """Merge the partial folds of other tasks in log order; `pieces` are those of `work`."""
    starts_empty = work.whole.base is None and bool(work.partials)
    fold = None if starts_empty else _start(work.whole, ids=work.ids)
    for partial in work.partials:
        if fold is not None and fold.cut is not None:
            break
        rest = _unpacked(partial, partial.spans[0], next(pieces))  # with groups if it is one piece
        rest = bucket_of(rest, work.ids) if partial.is_whole else rest_of(rest, is_first=work.ids.is_first)
        fold = _with_space(work, rest) if fold is None else merge_all([fold, rest])
        fold = with_groups(fold, _groups(work, partial, pieces))
    assert fold is not None, "there is a start or a partial fold"
    return _written(work.whole, fold if work.ids.is_first else without_undecodable(fold))


def _groups(work: _MergeWork, partial: _Partial, pieces: Iterator[bytes]) -> Iterator[FoldState]:
    """The groups of a partial fold that are to be merged."""
    for own, span in _spans(partial, work.ids):
        piece = _unpacked(partial, span, next(pieces), is_indexed=False)
        yield piece.state if work.ids.holds(own) else groups_of(piece, work.ids)


def _spans(partial: _Partial, ids: GroupRange) -> list[tuple[GroupRange, _Span]]:
    """The pieces of a partial fold with groups in `ids`, each with its range."""
    pieces = partial.spans[1:]
    ranges = ranges_of([str(span.lower) for span in pieces])[1:]
    return [(own, span) for own, span in zip(ranges, pieces, strict=True) if own.overlaps(ids)]


def _with_space(work: _MergeWork, rest: PartialFold) -> PartialFold:
    """The fold `rest`, with capacity for the expected keys of the bucket."""
    rows = sum(span.rows for partial in work.partials for _, span in _spans(partial, work.ids))
    return replace(rest, state=reserve(rest.state, {"keys": min(rows, settings().bucket_keys)}))


def _unpacked(partial: _Partial, span: _Span, data: bytes, *, is_indexed: bool = True) -> PartialFold:
    """The fold of a piece; DamagedFold if it is not the piece that the driver planned with.

    A lost executor's pieces are recomputed, and the log of a running broker may have grown in between.
    """
    where = f"a partial fold of log partition {partial.log_partition}, from its part {partial.index} on"
    if crc32(data) != span.checksum:
        raise DamagedFold("its bytes changed while the run read it", where=where)
    try:
        return PartialFold.from_bytes(data, is_indexed=is_indexed)
    except DamagedFold as error:
        raise DamagedFold(f"{error.where or 'all of it'}: {error.message}", where=where) from None


def _start(whole: _Whole, *, ids: GroupRange | None = None) -> PartialFold:
    """The fold that a shard starts from: the checkpoint's, else an empty one."""
    profile = profile_of(whole.profile)
    if whole.base is None:
        return PartialFold.empty(profile=profile, is_prefix=True)
    return replace(whole.base.read(profile, ids=ids), cut=None)


def _damage(fold: PartialFold) -> str | None:
    torn = int(fold.batch_counters[L.READ_TORN])
    if not fold.undecodable:
        return f"{torn} bytes of half a batch" if torn else None
    first = min(fold.undecodable, key=lambda item: item[0])[1]
    more = len(fold.undecodable) - 1 + bool(torn)
    return f"{first}; and {more} more" if more else str(first)


def _written(whole: _Whole, fold: PartialFold) -> Merged:
    """Write the fold of a shard, or keep it in this process."""
    if whole.cut is not None:
        fold = replace(fold, cut=whole.cut)
    kept_by_broker = fold.as_kept_by_broker()
    files = kept_by_broker.write_parquet(whole.folder.fold(whole.shard)) if whole.is_written else {}
    in_memory = whole.shard.bucket is None and size_bytes(kept_by_broker.state) <= whole.memory_bytes
    folds = {}
    if whole.is_here and (in_memory or not whole.is_written):
        folds[whole.shard] = KeptFold(kept_by_broker, None if in_memory else whole.folder.local)
    files = {f"{whole.shard}/{name}": sha256 for name, sha256 in files.items()}
    return replace(_described(whole, fold), files=files, folds=folds)


def _described(whole: _Whole, fold: PartialFold) -> Merged:
    """The summary of a shard, or of a divided log partition."""
    records = fold.counters["records"]  # including records that a broker deletes: the log is not empty
    fold = fold.as_kept_by_broker()
    return Merged(
        log_partition=whole.shard.log_partition,
        cut=fold.end,
        first_log_offset=fold.first_log_offset,
        records=records,
        max_timestamp_ms=fold.max_timestamp_ms,
        max_commit_timestamp_ms=fold.max_commit_timestamp_ms,
        future_batches=fold.counters["future_batches"],
        group_ids=fold.group_ids(limit=SAMPLED_GROUPS),
        bytes=fold.counters["bytes"],
        largest_batch_bytes=fold.counters["largest_batch_bytes"],
        evidence=ProfileEvidence.of(fold),
        damage=_damage(fold),
        files={},
    )


def _joined(buckets: Sequence[Merged], bounds: list[str]) -> Merged:
    """One log partition, joined from its buckets."""
    first = buckets[0]
    if len(buckets) == 1:
        return first
    return replace(
        first,
        records=sum(one.records for one in buckets),
        max_commit_timestamp_ms=max(one.max_commit_timestamp_ms for one in buckets),
        group_ids=[name for one in buckets for name in one.group_ids][:SAMPLED_GROUPS],
        evidence=joined([one.evidence for one in buckets]),
        files={name: sha256 for one in buckets for name, sha256 in one.files.items()},
        bounds=bounds,
        folds={shard: kept for one in buckets for shard, kept in one.folds.items()},
    )
