"""Reads the segments of a run into one fold for each log partition: folds parts of the log, then merges their folds.

A large log is folded and merged by Spark; a small one here, each part folded onto what came before. With a checkpoint
only what follows its cuts is read, and joined to it. The folds are written to `fold/<log_partition>` of the run folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyarrow import fs as pafs

from sexton.archive.files import read_record
from sexton.archive.folder import Folder, filesystem
from sexton.archive.manifest import Manifest
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import DamagedFold
from sexton.kernels import layout as L
from sexton.kernels.fold import PartialFold, fold_task, merge_all
from sexton.log.segment import FoldTask, Segment, SegmentSlice, plan_fold_tasks, slice_bytes
from sexton.runs.checkpoint import Base, StartFold
from sexton.runs.choose_profile import Evidence
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.source import LogSource, check_files
from sexton.settings import settings

SAMPLED_GROUPS = 2_000
UNPACKED = 8
"""Bytes in memory of a byte of a fold's files, about."""
WHOLE_LOG = 1 << 62
"""A chunk that holds any log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One log partition as a whole, from its fold. `cut` is the log_offset where reading stopped."""

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
    evidence: Evidence
    damage: str | None
    """What is the first that could not be read, and how much could not; None where all could."""
    files: dict[str, str]
    """The SHA-256 of every file of the written fold, by its name below the folder `fold`."""
    fold: PartialFold | None = None
    """The fold itself, where all of the work is done in this process: it need not be read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoldItem:
    uri: str
    task: FoldTask
    as_of_ms: int | None
    taken_at_ms: int
    cap_bytes: int
    profile: str
    partial: Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeWork:
    """The partial folds of a log partition are in `partial`, or are to be made of `tasks`."""

    folder: RunFolder
    log_partition: int
    partial: Folder
    tasks: tuple[_FoldItem, ...]
    is_here: bool
    base: StartFold | None
    cut: int | None
    profile: str


def fold_log(
    engine: Engine,
    folder: RunFolder,
    source: LogSource,
    *,
    as_of_ms: int | None,
    taken_at_ms: int,
    profile: Profile,
    base: Base | None = None,
) -> list[Merged]:
    """Fold `source` into `folder`, a row for each log partition of what came of it; from `base` on where there is one.

    An archive is read up to its positions, a broker's disk to its end or up to `as_of_ms`. An earlier fold in `folder`
    is removed. DamagedCheckpoint when a fold of `base` is not one.
    """
    folder.remove("fold")
    folder.remove("partial")
    config = settings()
    segments = source.segments if base is None else source.segments_after(base.positions)
    if source.is_archive:
        check_files(filesystem(source.uri)[0], [one for some in segments.values() for one in some])
    work = [
        _FoldItem(
            uri=source.uri,
            task=task,
            as_of_ms=None if source.is_archive else as_of_ms,
            taken_at_ms=source.taken_at_ms or taken_at_ms,
            cap_bytes=config.inflated_cap_bytes,
            profile=profile.text,
            partial=folder.sub("partial", str(task.log_partition)),
        )
        for task in _tasks(segments, base, config.fold_task_bytes if profile.folds_in_slices else WHOLE_LOG)
    ]
    work.sort(key=lambda item: -_size(item.task))  # longest first
    log_bytes = sum(_size(item.task) for item in work)
    is_here = engine.works_here(log_bytes + UNPACKED * (base.size_bytes if base else 0))
    if not is_here:
        engine.map("Replaying the log", work, _write_fold)
    merges = [
        _MergeWork(
            folder=folder,
            log_partition=part,
            partial=folder.sub("partial", str(part)),
            tasks=tuple(item for item in work if item.task.log_partition == part) if is_here else (),
            is_here=is_here,
            base=base.fold(part) if base else None,
            cut=source.positions[part].cut if part in source.positions else None,
            profile=profile.text,
        )
        for part in sorted(source.segments)
    ]
    merged = engine.map("Merging folds", merges, _merge, work_bytes=0 if is_here else None)
    folder.remove("partial")
    return merged


def _tasks(segments: Mapping[int, Sequence[Segment]], base: Base | None, target_bytes: int) -> list[FoldTask]:
    """The fold tasks of every log partition; one that follows a checkpoint does not begin the log partition."""
    return [
        task
        for part, some in segments.items()
        for task in plan_fold_tasks(
            some, target_bytes=target_bytes, first_index=1 if base and part in base.positions else 0
        )
    ]


def _size(task: FoldTask) -> int:
    return sum(span.end_byte - span.start_byte for span in task.slices)


def _write_fold(work: _FoldItem) -> None:
    work.partial.write(_fold(work).to_bytes(), f"{work.task.index:08d}.fold")


def _fold(work: _FoldItem, onto: PartialFold | None = None) -> PartialFold:
    fs, _ = filesystem(work.uri)
    slices = tuple(replace(span, taken_at_ms=_taken_at_ms(fs, span)) for span in work.task.slices)
    return fold_task(
        (slice_bytes(fs, span) for span in slices),
        task=replace(work.task, slices=slices),
        cap_bytes=work.cap_bytes,
        as_of_ms=work.as_of_ms,
        taken_at_ms=work.taken_at_ms,
        profile=profile_of(work.profile),
        onto=onto,
    )


def _taken_at_ms(fs: pafs.FileSystem, span: SegmentSlice) -> int | None:
    """When an archived piece was copied; None for one of a disk."""
    if span.manifest_path is None:
        return None
    return read_record(fs, span.manifest_path, Manifest, what="a manifest").taken_at_ms


def _fold_here(work: _MergeWork) -> PartialFold:
    """The chunks of a log partition, folded one onto the other."""
    fold = _start(work)
    for item in sorted(work.tasks, key=lambda item: item.task.index):
        if fold.cut is None:
            fold = _fold(item, onto=fold)
    return fold


def _merge_written(work: _MergeWork) -> PartialFold:
    """The partial folds that others have written, merged in log order."""
    folds = [_read_partial(work.partial, name) for name in work.partial.files() if name.endswith(".fold")]
    if work.base is not None or not folds:
        folds.insert(0, _start(work, room_for=folds[0] if folds else None))
    return merge_all(folds)


def _read_partial(folder: Folder, name: str) -> PartialFold:
    try:
        return PartialFold.from_bytes(folder.read(name))
    except DamagedFold as error:
        raise DamagedFold(f"{error.where or 'all of it'}: {error.message}", where=folder.sub(name)) from None


def _start(work: _MergeWork, room_for: PartialFold | None = None) -> PartialFold:
    """What a log partition is folded onto: the checkpoint's fold of it, else nothing."""
    if work.base is None:
        return PartialFold.empty(profile=profile_of(work.profile), is_prefix=True)
    return replace(work.base.read(profile_of(work.profile), room_for=room_for), cut=None)


def _damage(fold: PartialFold) -> str | None:
    torn = int(fold.batch_counters[L.READ_TORN])
    if not fold.undecodable:
        return f"{torn} bytes of half a batch" if torn else None
    first = min(fold.undecodable, key=lambda item: item[0])[1]
    more = len(fold.undecodable) - 1 + bool(torn)
    return f"{first}; and {more} more" if more else str(first)


def _merge(work: _MergeWork) -> Merged:
    fold = _fold_here(work) if work.is_here else _merge_written(work)
    if work.cut is not None:
        fold = replace(fold, cut=work.cut)
    files = fold.write_parquet(work.folder.fold(work.log_partition))
    return Merged(
        log_partition=work.log_partition,
        cut=fold.end,
        first_log_offset=fold.first_log_offset,
        records=fold.counters["records"],
        max_timestamp_ms=fold.max_timestamp_ms,
        max_commit_timestamp_ms=fold.max_commit_timestamp_ms,
        future_batches=fold.counters["future_batches"],
        group_ids=fold.group_ids(limit=SAMPLED_GROUPS),
        bytes=fold.counters["bytes"],
        largest_batch_bytes=fold.counters["largest_batch_bytes"],
        evidence=Evidence.of(fold),
        damage=_damage(fold),
        files={f"{work.log_partition}/{name}": sha256 for name, sha256 in files.items()},
        fold=fold if work.is_here else None,
    )
