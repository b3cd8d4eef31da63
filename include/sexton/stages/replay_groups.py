"""replay_groups: segments -> partial folds -> one fold per log partition -> the tables of group state.

Three maps: fold every chunk of log, merge the partial folds of each log partition in log order (`fold_log`: that is the
checkpoint), and turn each fold into rows. Records never leave the task that read them; only folds do. A run of the
archive goes on from the nearest published checkpoint where it can, and gives the same as a full replay.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from sexton.coordinator.partitioner import infer_partition_count
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.errors import NoCoverage, UsageError, without_login
from sexton.kernels.fold import PartialFold
from sexton.kernels.state import finish
from sexton.log.coverage import COMPLETE, PARTIAL, Coverage, worst
from sexton.settings import settings
from sexton.stages import checkpoint
from sexton.stages.checkpoint import Base
from sexton.stages.choose_profile import AUTO, Choice, choose, of_evidence, of_version
from sexton.stages.fold_log import Merged, fold_log
from sexton.stages.run import RunFolder, RunRecord, tree_sha256
from sexton.stages.source import DEFAULT_RETENTION_MINUTES, LogSource, open_archive, open_segments
from sexton.stages.spark import Engine
from sexton.stages.strays import held_elsewhere, homes_of, sources_of
from sexton.tables import TABLES

_UNPACKED = 8
"""Bytes in memory of a byte of a fold's files, about."""
_AFTER_FAILURE = {
    AfterFailure.NOTHING.value: "answers NOT_COORDINATOR for its groups",
    AfterFailure.EMPTY.value: "serves an empty cache",
    AfterFailure.PREFIX.value: "serves what it had read before",
}
STATE_TABLES = (
    "committed_offsets",
    "unreachable_offsets",
    "pending_offsets",
    "groups",
    "members",
    "open_transactions",
    "undecodable_records",
    "load_profile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What to replay. Exactly one of `segments` and `archive`; without `as_of_ms` the whole log is read.

    `profile` is a name, with a release or without, or choose_profile.AUTO. Of an archive that holds several clusters
    `cluster_id` names one; `is_full` leaves checkpoints alone; `settle_ms` is by default that of the settings.
    """

    run_id: str
    segments: str | None = None
    archive: str | None = None
    as_of_ms: int | None = None
    taken_at_ms: int
    retention_minutes: int | None = None
    profile: str = "group_coordinator"
    topics_file: str | None = None
    cluster_id: str | None = None
    settle_ms: int | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finished:
    log_partition: int
    counts: dict[str, int]
    undecodable: int
    load_failure: str | None
    load_outcome: str
    unknown_types: int
    stray_groups: int
    homes: list[int]
    """Log partitions that groups served from this one hash to."""


def run(engine: Engine, folder: RunFolder, request: ReplayRequest) -> RunRecord:
    """Fill the state tables of `folder`; NoCoverage when the log cannot answer for the instant asked for."""
    choice = choose(request.profile)
    source = _open(request)
    if request.profile == AUTO and source.broker_version is not None:
        choice = of_version(source.broker_version)
    folder.reset()
    merged, base, passed_over = _fold(engine, folder, source, request, choice.profile)
    if request.profile == AUTO and source.broker_version is None:
        proven = of_evidence([part.evidence for part in merged])
        if proven.profile != choice.profile:
            shutil.rmtree(folder.root / "fold")
            merged, base, passed_over = _fold(engine, folder, source, request, proven.profile)
        choice = proven
    _require_coverage(source, request, merged)
    record = _describe(source, request, choice, merged)
    record = record.model_copy(
        update={
            "checkpoint_sha256": tree_sha256(folder.root / "fold"),
            "base_as_of_ms": base.as_of_ms if base else None,
            "warnings": [*record.warnings, *passed_over],
        }
    )
    folder.write_run(record)
    mean_bytes = sum(part.bytes for part in merged) / max(len(merged), 1)
    finished = engine.map(
        "Writing tables",
        record.log_partitions,
        lambda part: _finish(folder, record, part, mean_bytes),
        work_bytes=_UNPACKED * sum(path.stat().st_size for path in (folder.root / "fold").rglob("*.parquet")),
    )
    counts: Counter[str] = Counter()
    for part in finished:
        counts.update(part.counts)
    counts["topic_partitions"] = _write_topic_partitions(folder, record, source)
    record = record.model_copy(
        update={
            "counts": dict(counts),
            "stray_sources": sources_of((part.log_partition, part.homes) for part in finished),
            "blocked": {part.log_partition: reason for part in finished if (reason := _blocked(part))},
            "warnings": [*record.warnings, *_findings(finished), *_oversized(merged, source, choice.profile)],
        }
    )
    folder.write_run(record)
    return record


def _open(request: ReplayRequest) -> LogSource:
    if (request.segments is None) == (request.archive is None):
        raise UsageError("give either segments or an archive", fix="--segments DIR or --archive URI")
    if request.segments is not None:
        return open_segments(request.segments, topics_file=request.topics_file)
    assert request.archive is not None
    return open_archive(
        request.archive,
        as_of_ms=request.as_of_ms,
        topics_file=request.topics_file,
        cluster_id=request.cluster_id,
        settle_ms=request.settle_ms,
    )


def _fold(
    engine: Engine, folder: RunFolder, source: LogSource, request: ReplayRequest, profile: Profile
) -> tuple[list[Merged], Base | None, list[str]]:
    """Fold from the nearest checkpoint on, or all; with the checkpoint and what was said of those passed over."""
    base: Base | None = None
    passed_over: list[str] = []
    if not request.is_full:
        base, passed_over = checkpoint.nearest(
            source,
            as_of_ms=request.as_of_ms,
            profile=profile,
            inflated_cap_bytes=settings().inflated_cap_bytes,
            target=folder.root / "partial" / "base",
        )
    merged = fold_log(
        engine,
        folder,
        source,
        as_of_ms=request.as_of_ms,
        taken_at_ms=request.taken_at_ms,
        profile=profile,
        base=base,
    )
    return merged, base, passed_over


def _require_coverage(source: LogSource, request: ReplayRequest, merged: list[Merged]) -> None:
    """NoCoverage where nothing lies before the instant, or a log without timestamps cannot tell what does."""
    if not any(part.records for part in merged):
        raise NoCoverage(
            f"no record was written before {_text(request.as_of_ms)}",
            place=source.uri,
            fix="choose a later as-of" if request.as_of_ms is not None else "is this the right folder?",
        )
    newest_ms = max(part.max_commit_timestamp_ms for part in merged)
    has_stamps = any(part.max_timestamp_ms >= 0 for part in merged)
    if request.as_of_ms is not None and not has_stamps and request.as_of_ms <= newest_ms:
        raise NoCoverage(
            f"batches of record format 0 bear no timestamp, and offsets were committed up to {_text(newest_ms)}",
            place=source.uri,
            fix="choose a later as-of",
        )


def _describe(source: LogSource, request: ReplayRequest, choice: Choice, merged: list[Merged]) -> RunRecord:
    as_of_ms = request.as_of_ms
    if as_of_ms is None:  # logs without timestamps (record format 0) know only when offsets were committed
        newest = max(part.max_timestamp_ms for part in merged)
        as_of_ms = (newest if newest >= 0 else max(part.max_commit_timestamp_ms for part in merged)) + 1
    parts = [part.log_partition for part in merged]
    count = source.partition_count
    if count is None:
        count = infer_partition_count({part.log_partition: part.group_ids for part in merged}, max(parts))
    elif count <= max(parts):
        raise UsageError(
            f"{count} log partitions by the topics file, but there is a folder for {max(parts)}",
            place=source.uri,
            fix="is the topics file of this cluster?",
        )
    missing = [] if count is None or source.is_archive else sorted(set(range(count)) - set(parts))
    minutes, told_by = _retention(source, request)
    coverage = _coverage(source, merged, missing)
    return RunRecord(
        run_id=request.run_id,
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        as_of_ms=as_of_ms,
        taken_at_ms=source.taken_at_ms or request.taken_at_ms,
        profile=choice.profile.text,
        profile_source=choice.told_by,
        retention_ms=minutes * 60_000,
        retention_source=told_by,
        source=without_login(source.uri),
        partition_count=count,
        log_partitions=parts,
        missing_log_partitions=missing,
        cuts={part.log_partition: part.cut for part in merged},
        places=source.places,
        coverage=coverage.value,
        coverage_reason=coverage.reason,
        inflated_cap_bytes=settings().inflated_cap_bytes,
        has_topics=source.topics is not None,
        warnings=[
            *source.warnings,
            *choice.warnings,
            *_doubts(merged, count=count, missing=missing, is_archive=source.is_archive),
        ],
    )


def _coverage(source: LogSource, merged: list[Merged], missing: list[int]) -> Coverage:
    """Complete where the log is whole from its beginning to the cut; else the state is exact and its history is not."""
    if missing:
        return Coverage(value=PARTIAL, reason=f"log partitions not here: {', '.join(map(str, missing))}")
    if source.coverage is not None and source.coverage.value != COMPLETE:
        return source.coverage
    if source.is_archive:
        holes = {part.log_partition: part.cut - part.records for part in merged if part.records != part.cut}
        told = {part: f"{count} log_offsets before the cut hold no record" for part, count in holes.items()}
    else:
        starts = {part.log_partition: part.first_log_offset for part in merged if part.first_log_offset}
        told = {part: f"it begins at log_offset {start}" for part, start in starts.items()}
    return worst((part, Coverage(value=PARTIAL, reason=reason)) for part, reason in told.items())


def _doubts(merged: list[Merged], *, count: int | None, missing: list[int], is_archive: bool) -> list[str]:
    snapshot = "the snapshot that brought them" if is_archive else "the snapshot"
    found = []
    if count is None:
        found.append("the number of log partitions could not be told from the group ids: no stray verdicts")
    if missing:
        found.append(f"log partitions not here: {', '.join(map(str, missing))}")
    for part in merged:
        if part.future_batches:
            found.append(
                f"log partition {part.log_partition}: {part.future_batches} batches are stamped more than an hour "
                f"after {snapshot} and were passed over in the search for the cut"
            )
    return found


def _retention(source: LogSource, request: ReplayRequest) -> tuple[int, str]:
    if request.retention_minutes is not None:
        return request.retention_minutes, "asked for"
    if source.retention_minutes is not None:
        return source.retention_minutes, "offsets.retention.minutes of the broker"
    return DEFAULT_RETENTION_MINUTES, "Kafka's default"


def _finish(folder: RunFolder, record: RunRecord, log_partition: int, mean_bytes: float) -> _Finished:
    fold = PartialFold.read_parquet(folder.fold_dir(log_partition))
    count = record.partition_count
    homes = homes_of(fold, log_partition, count)
    state = finish(
        fold,
        log_partition=log_partition,
        partition_count=count,
        held_elsewhere=held_elsewhere(folder, record, log_partition, homes),
    )
    served = set(state["groups"]["group_id"].to_pylist()) if homes else set()
    skew = fold.counters["bytes"] / mean_bytes if mean_bytes else None
    state["load_profile"] = state["load_profile"].append_column("skew", pa.array([skew], pa.float64()))
    counts = {
        name: folder.write_table(record, name, with_log_partition(state[name], name, log_partition), log_partition)
        for name in STATE_TABLES
    }
    folder.write_internal("group_tombstones", state["group_tombstones"], log_partition)
    profile = state["load_profile"].to_pylist()[0]
    return _Finished(
        log_partition=log_partition,
        counts=counts,
        undecodable=counts["undecodable_records"],
        load_failure=profile["load_failure"],
        load_outcome=profile["load_outcome"],
        unknown_types=profile["unknown_types"],
        stray_groups=profile["stray_groups"] or 0,
        homes=sorted({home for group_id, home in homes.items() if group_id in served}),
    )


def _oversized(merged: Iterable[Merged], source: LogSource, profile: Profile) -> list[str]:
    """What a coordinator would say of batches that do not fit into its load buffer (offsets.load.buffer.size)."""
    buffer_bytes = source.load_buffer_bytes
    then = "would warn and load it" if profile.grows_load_buffer else "would never finish loading"
    return [
        f"log partition {part.log_partition}: a batch of {part.largest_batch_bytes} bytes is larger than "
        f"offsets.load.buffer.size ({buffer_bytes}): a coordinator of {profile.text} {then}"
        for part in merged
        if part.largest_batch_bytes > buffer_bytes
    ]


def with_log_partition(rows: pa.Table, table: str, log_partition: int) -> pa.Table:
    """`rows` with the column log_partition where the table declares one and the kernel left it out."""
    if "log_partition" in rows.column_names or "log_partition" not in TABLES[table].column_names:
        return rows
    return rows.append_column("log_partition", pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows))


def _blocked(part: _Finished) -> str | None:
    if part.undecodable:
        return f"{part.undecodable} undecodable records"
    return f"load would fail: {part.load_failure}" if part.load_failure else None


def _findings(finished: Iterable[_Finished]) -> list[str]:
    found = []
    for part in finished:
        if part.load_failure:
            found.append(
                f"log partition {part.log_partition}: a coordinator's load would fail: {part.load_failure}; "
                f"it {_AFTER_FAILURE[part.load_outcome]}"
            )
        elif part.undecodable:
            found.append(f"log partition {part.log_partition}: {part.undecodable} undecodable records")
        if part.unknown_types:
            found.append(f"log partition {part.log_partition}: {part.unknown_types} records of unknown types skipped")
        if part.stray_groups:
            found.append(f"log partition {part.log_partition}: {part.stray_groups} stray groups")
    return found


def _write_topic_partitions(folder: RunFolder, record: RunRecord, source: LogSource) -> int:
    rows = [
        {
            "topic": topic["topic"],
            "topic_id": topic.get("id"),
            "partition": partition,
            "log_start_offset": start,
            "log_end_offset": end,
        }
        for topic in source.topics or []
        for partition, (start, end) in enumerate(topic["partitions"])
    ]
    table = pa.Table.from_pylist(rows, schema=TABLES["topic_partitions"].arrow_schema(with_run=False))
    return folder.write_table(record, "topic_partitions", table)


def _text(instant_ms: int | None) -> str:
    if instant_ms is None:
        return "now"
    return datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat(timespec="milliseconds")


def now_ms() -> int:
    """This machine's clock, read once by whoever builds a request."""
    return time.time_ns() // 1_000_000
