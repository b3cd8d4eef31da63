"""The interval that a run tells the changes of: from the cuts of its beginning to the run's own.

Both are settled like any other (archive.cuts), so that an interval has the same changes whenever it runs. Its beginning
is a fold like any other, too: the checkpoint of that instant where one is published, else folded for the purpose.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
from sexton.archive.cut_search import segments_between
from sexton.coordinator.changes.model import ChangeEvidence, OwnAction
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import NoCoverage, UsageError
from sexton.history.interval_counts import COMMITS, SWEEPS, commits_between, sweeps_of
from sexton.history.offset_changes import TABLE, changes_of, known_of
from sexton.kernels.checkpoint.commits import read_commits
from sexton.ledger.recorded_steps import acts_of
from sexton.log.segment import Segment
from sexton.runs import checkpoint
from sexton.runs.checkpoint import Base, StartFold
from sexton.runs.engine import Engine
from sexton.runs.fold_log import fold_log
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.source import LogSource, check_files, filesystem, open_archive
from sexton.settings import settings
from sexton.tables import INTERVAL_TABLES

_FOLDER = ("internal", "start")
_MARGIN_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where an interval begins in each log partition, with the folds up to there; `broken` are those whose history is
    not one between the two ends, so that nothing can be said of it."""

    since_ms: int
    start: Base
    broken: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangesWork:
    folder: RunFolder
    record: RunRecord
    uri: str
    log_partition: int
    segments: tuple[Segment, ...]
    start: StartFold | None
    known: ChangeEvidence
    since_ms: int
    is_told: bool


def open_interval(
    engine: Engine,
    folder: RunFolder,
    source: LogSource,
    *,
    since_ms: int,
    as_of_ms: int,
    profile: Profile,
    settle_ms: int | None,
    is_full: bool,
    damaged: Mapping[str, str],
) -> tuple[Interval | None, list[str]]:
    """The interval of a run of an archive, and what there is to say; None where its beginning has no coverage.

    `damaged` as of `checkpoint.nearest`. DamagedCheckpoint when the fold that it begins with is none.
    """
    if since_ms >= as_of_ms:
        raise UsageError(f"the interval would begin at {since_ms} ms, and end at {as_of_ms} ms", where="--since")
    try:
        begin = open_archive(
            source.uri, as_of_ms=since_ms, topics_file=None, cluster_id=source.cluster_id, settle_ms=settle_ms
        )
    except NoCoverage as error:
        return None, [f"what the interval changed is not told: its beginning has no coverage: {error.message}"]
    broken = tuple(sorted(_broken(begin, source)))
    if begin.topic_id != source.topic_id:
        return None, ["what the interval changed is not told: the topic was made anew in between"]
    told = [f"what the interval changed is not told of log partition {part}: its log broke" for part in broken]
    base, warnings = (
        (None, []) if is_full else _nearest(begin, since_ms, profile, folder.root.joinpath(*_FOLDER), damaged)
    )
    if base is None or base.positions != begin.positions:
        own = RunFolder(folder.root.joinpath(*_FOLDER, "own"))
        fold_log(engine, own, begin, as_of_ms=since_ms, taken_at_ms=since_ms, profile=profile, base=base)
        base = Base(as_of_ms=since_ms, name="own", positions=begin.positions, folder=own.root / "fold")
    return Interval(since_ms=since_ms, start=base, broken=broken), [*told, *warnings]


def write_changes(
    engine: Engine, folder: RunFolder, record: RunRecord, source: LogSource, interval: Interval, *, asked_ms: int | None
) -> Counter[str]:
    """Write INTERVAL_TABLES for every log partition of the run; how many rows. `asked_ms` is a retention asked for.

    What Sexton itself removed and put back is told by its ledger. Refused when that was tampered with;
    DamagedCheckpoint when a fold that the interval begins with is none.
    """
    fs, root = filesystem(source.uri)
    removed, restored = (
        _by_log_partition(acts, source, interval.since_ms, record.as_of_ms)
        for acts in acts_of(fs, root, source.cluster_id, since_ms=interval.since_ms - _MARGIN_MS)
    )
    known = known_of(
        newest_metadata(fs, root, cluster_id=source.cluster_id, at_ms=interval.since_ms),
        oldest_metadata_after(fs, root, cluster_id=source.cluster_id, at_ms=record.as_of_ms - 1),
        retention_ms=asked_ms,
    )
    work = []
    for part in record.log_partitions:
        own = replace(known, removed=removed.get(part, {}), restored=restored.get(part, {}))
        after = interval.start.positions.get(part)
        is_told = part in source.positions and part not in interval.broken  # one without a position is empty
        segments = segments_between(source.lineages[part], source.positions[part], after=after) if is_told else []
        work.append(
            _ChangesWork(
                folder=folder,
                record=record,
                uri=source.uri,
                log_partition=part,
                segments=tuple(segments),
                start=interval.start.fold(part),
                known=own,
                since_ms=interval.since_ms,
                is_told=is_told,
            )
        )
    check_files(fs, [segment for item in work for segment in item.segments])
    size_bytes = sum(segment.stop_byte - segment.start_byte for item in work for segment in item.segments)
    total: Counter[str] = Counter()
    for counts in engine.map("Telling changes", work, _write, work_bytes=size_bytes):
        total.update(counts)
    return total


def _nearest(
    begin: LogSource, since_ms: int, profile: Profile, folder: Path, damaged: Mapping[str, str]
) -> tuple[Base | None, list[str]]:
    return checkpoint.nearest(
        begin,
        as_of_ms=since_ms,
        profile=profile,
        inflated_cap_bytes=settings().inflated_cap_bytes,
        target=folder / "base",
        damaged=damaged,
    )


def _broken(begin: LogSource, end: LogSource) -> Iterable[int]:
    for part, position in end.positions.items():
        before = begin.positions.get(part)
        if before is None:
            if end.lineages[part].lineage.start_log_offset > 0:
                yield part
        elif before.lineage != position.lineage or before.order > position.order:
            yield part


def _by_log_partition(
    acts: Mapping[OffsetKey, Sequence[OwnAction]], source: LogSource, since_ms: int, as_of_ms: int
) -> dict[int, dict[OffsetKey, Sequence[OwnAction]]]:
    """Acts by the log partition that their groups belong to, without those of long before or after the interval: a
    deployment makes more of them for ever, and every process gets its own."""
    found: dict[int, dict[OffsetKey, Sequence[OwnAction]]] = {}
    for key, every in acts.items():
        own = [act for act in every if _touches(act, since_ms, as_of_ms)]
        if own:
            part = 0 if source.partition_count is None else partition_of(key[0], source.partition_count)
            found.setdefault(part, {})[key] = own
    return found


def _touches(act: OwnAction, since_ms: int, as_of_ms: int) -> bool:
    """Whether an act may be about an interval; its log may hold records of a little earlier and later."""
    begun_in_time = act.intent_at_ms < as_of_ms + _MARGIN_MS
    return begun_in_time and (act.outcome_at_ms is None or act.outcome_at_ms >= since_ms - _MARGIN_MS)


def _write(work: _ChangesWork) -> dict[str, int]:
    if work.is_told:
        changes = _rows(work)  # which finds a damaged start, before its counts are read
        tables = {TABLE: changes, SWEEPS: sweeps_of(changes), COMMITS: _commits(work)}
    else:
        tables = {table.name: table.arrow_schema(with_run=False).empty_table() for table in INTERVAL_TABLES}
    return {name: work.folder.write_table(work.record, name, rows, work.log_partition) for name, rows in tables.items()}


def _commits(work: _ChangesWork) -> pa.Table:
    return commits_between(
        read_commits(None if work.start is None else work.start.folder),
        read_commits(work.folder.fold_dir(work.log_partition)),
        log_partition=work.log_partition,
        span_ms=work.record.as_of_ms - work.since_ms,
    )


def _rows(work: _ChangesWork) -> pa.Table:
    fs, _ = filesystem(work.uri)
    return changes_of(
        fs,
        work.segments,
        log_partition=work.log_partition,
        start=None if work.start is None else work.start.read(profile_of(work.record.profile)),
        cut=work.record.cuts[work.log_partition],
        known=work.known,
        profile=profile_of(work.record.profile),
    )
