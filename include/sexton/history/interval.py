"""The interval whose changes a run records: from the cuts of its start to the run's cuts.

Both cuts are settled (archive.cuts), so an interval has the same changes whenever it runs. The fold at its start is the
checkpoint of that instant if one is published; otherwise it is computed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
from sexton.archive.cut_search import segments_between
from sexton.archive.folder import filesystem
from sexton.archive.leader_epochs import led_from
from sexton.as_text import DAY_MS
from sexton.coordinator.changes.model import ChangeEvidence, OwnAction
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import NoCoverage, UsageError
from sexton.history.interval_counts import COMMITS, SWEEPS, commits_between, sweeps_of, swept_by
from sexton.history.offset_changes import TABLE, changes_of, known_of
from sexton.job_params import ReplayRequest
from sexton.kernels.checkpoint.commits import read_commits
from sexton.ledger.recorded_steps import own_actions
from sexton.log.segment import Segment
from sexton.runs.checkpoint import Base, Nearest, StartFold
from sexton.runs.engine import Engine
from sexton.runs.fold_log import fold_log
from sexton.runs.folder import RunFolder, RunRecord, shards_of
from sexton.runs.source import LogSource, check_files, open_archive
from sexton.tables import INTERVAL_TABLES

_FOLDER = ("internal", "start", "own")
_MARGIN_MS = DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The start of an interval, with the folds of the log partitions up to it. `broken` are log partitions whose
    archived log is not continuous over the interval, so that their changes are not known."""

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
    is_known: bool


def open_interval(
    engine: Engine, folder: RunFolder, source: LogSource, request: ReplayRequest, profile: Profile, nearest: Nearest
) -> tuple[Interval | None, list[str]]:
    """The requested interval, and warnings. The interval is None if none is requested or the source is not an archive;
    also if its changes cannot be known, with a warning that says why.

    Raises DamagedCheckpoint if the fold at the start of the interval is invalid.
    """
    since_ms, as_of_ms = request.since_ms, request.as_of_ms
    if since_ms is None or as_of_ms is None or not source.is_archive:
        return None, []
    if since_ms >= as_of_ms:
        raise UsageError(f"the interval would start at {since_ms} ms and end at {as_of_ms} ms", where="--since")
    try:
        begin = open_archive(source.uri, as_of_ms=since_ms, cluster_id=source.cluster_id, settle_ms=request.settle_ms)
    except NoCoverage as error:
        return None, [f"changes are not recorded: the start of the interval has no coverage: {error.message}"]
    broken = tuple(sorted(_broken(begin, source)))
    if begin.topic_id != source.topic_id:
        return None, ["changes are not recorded: the topic was deleted and created again in between"]
    missing = [f"changes of log partition {part} are not recorded: its log broke" for part in broken]
    base, warnings = nearest(begin, profile)
    if base is None or base.positions != begin.positions:
        own = RunFolder(folder.uri, *_FOLDER)
        merged = fold_log(engine, own, begin, profile, base=base)
        base = Base(
            as_of_ms=since_ms,
            name="own",
            positions=begin.positions,
            folder=own.sub("fold"),
            bounds={part.log_partition: part.bounds for part in merged},
        )
    return Interval(since_ms=since_ms, start=base, broken=broken), [*missing, *warnings]


def write_changes(
    engine: Engine, folder: RunFolder, record: RunRecord, source: LogSource, interval: Interval, *, asked_ms: int | None
) -> Counter[str]:
    """Write INTERVAL_TABLES for every log partition of the run; return the number of rows by table. `asked_ms` is the
    requested retention, if any.

    The ledger shows what Sexton itself removed and restored. Raises Refused if the ledger was tampered with, and
    DamagedCheckpoint if a fold at the start of the interval is invalid.
    """
    fs, root = filesystem(source.uri)
    removed, restored = (
        _by_log_partition(actions, source, interval.since_ms, record.as_of_ms)
        for actions in own_actions(fs, root, source.cluster_id, since_ms=interval.since_ms - _MARGIN_MS)
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
        is_known = part in source.positions and part not in interval.broken  # empty without a position
        segments = segments_between(source.lineages[part], source.positions[part], after=after) if is_known else []
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
                is_known=is_known,
            )
        )
    check_files(fs, [segment for item in work for segment in item.segments])
    size_bytes = sum(segment.stop_byte - segment.start_byte for item in work for segment in item.segments)
    total: Counter[str] = Counter()
    for counts in engine.map("Recording changes", work, _write, work_bytes=size_bytes):
        total.update(counts)
    return total


def _broken(begin: LogSource, end: LogSource) -> Iterable[int]:
    for part, position in end.positions.items():
        before = begin.positions.get(part)
        if before is None:
            if end.lineages[part].lineage.start_log_offset > 0:
                yield part
        elif before.lineage != position.lineage or before.order > position.order:
            yield part


def _by_log_partition(
    actions: Mapping[OffsetKey, Sequence[OwnAction]], source: LogSource, since_ms: int, as_of_ms: int
) -> dict[int, dict[OffsetKey, Sequence[OwnAction]]]:
    """Actions by the log partition of their groups. Only actions within _MARGIN_MS of the interval are kept: its
    segments may have records from slightly before and after it.

    Actions accumulate in a deployment, so every process gets only those that it needs.
    """
    found: dict[int, dict[OffsetKey, Sequence[OwnAction]]] = {}
    for key, every in actions.items():
        own = [act for act in every if act.overlaps(since_ms - _MARGIN_MS, as_of_ms + _MARGIN_MS - 1)]
        if own:
            part = 0 if source.partition_count is None else partition_of(key[0], source.partition_count)
            found.setdefault(part, {})[key] = own
    return found


def _write(work: _ChangesWork) -> dict[str, int]:
    if work.is_known:
        changes = _rows(work)  # detects a damaged start before its counts are read
        tables = {TABLE: changes, SWEEPS: _sweeps(work, changes), COMMITS: _commits(work)}
    else:
        tables = {table.name: table.arrow_schema(with_run=False).empty_table() for table in INTERVAL_TABLES}
    return {name: work.folder.write_table(work.record, name, rows, work.log_partition) for name, rows in tables.items()}


def _sweeps(work: _ChangesWork, changes: pa.Table) -> pa.Table:
    swept = sweeps_of(changes)
    if not swept.num_rows:
        return swept
    fs, root = filesystem(work.uri)
    record, back_to = work.record, swept["first_log_offset"][0].as_py()
    led = led_from(
        fs, root, record.cluster_id, record.topic_id, work.log_partition, as_of_ms=record.as_of_ms, back_to=back_to
    )
    return swept if led is None else swept_by(swept, *led)


def _commits(work: _ChangesWork) -> pa.Table:
    shards = shards_of(work.log_partition, work.record.bounds.get(work.log_partition, ()))
    return commits_between(
        read_commits([] if work.start is None else work.start.folders),
        read_commits([work.folder.fold(shard) for shard in shards]),
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
