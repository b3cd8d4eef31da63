"""replay_groups: segments -> partial folds -> one fold per log partition -> the tables of group state.

Three maps over Spark: fold every chunk of log, merge the partial folds of each log partition in log order (that is the
checkpoint), and turn each fold into rows. Records never leave the task that read them; only folds do.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs as pafs

from sexton.coordinator.partitioner import infer_partition_count
from sexton.errors import NoCoverage, UsageError, without_login
from sexton.kernels.fold import PartialFold, fold_chunk, merge_all
from sexton.kernels.state import finish
from sexton.log.segment import Chunk, Piece, plan_chunks
from sexton.settings import settings
from sexton.stages.run import RunFolder, RunRecord, tree_sha256, write_bytes
from sexton.stages.source import DEFAULT_RETENTION_MINUTES, LogSource, filesystem, open_archive, open_segments
from sexton.stages.spark import Engine
from sexton.tables import TABLES

PROFILES = ("group_coordinator",)
SAMPLED_GROUPS = 2_000
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
    """What to replay. Exactly one of `segments` and `archive`; without `as_of_ms` the whole log is read."""

    run_id: str
    segments: str | None = None
    archive: str | None = None
    as_of_ms: int | None = None
    taken_at_ms: int
    retention_minutes: int | None = None
    profile: str = "group_coordinator"
    topics_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoldWork:
    uri: str
    chunk: Chunk
    as_of_ms: int | None
    taken_at_ms: int
    cap_bytes: int
    target: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    log_partition: int
    cut: int
    first_log_offset: int | None
    records: int
    max_timestamp_ms: int
    max_commit_timestamp_ms: int
    future_batches: int
    group_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finished:
    log_partition: int
    counts: dict[str, int]
    undecodable: int
    load_failure: str | None
    unknown_types: int
    stray_groups: int


def run(engine: Engine, folder: RunFolder, request: ReplayRequest) -> RunRecord:
    """Fill the state tables of `folder`; NoCoverage when no record lies before the instant asked for."""
    if request.profile not in PROFILES:
        raise UsageError(f"unknown profile {request.profile!r}", fix=f"one of {', '.join(PROFILES)}")
    source = _open(request)
    folder.reset()
    merged = _fold(engine, folder, source, request)
    if not any(part.records for part in merged):
        raise NoCoverage(
            f"no record was written before {_text(request.as_of_ms)}",
            place=source.uri,
            fix="choose a later as-of" if request.as_of_ms is not None else "is this the right folder?",
        )
    record = _describe(source, request, merged)
    record = record.model_copy(update={"checkpoint_sha256": tree_sha256(folder.root / "fold")})
    folder.write_run(record)
    finished = engine.map("Writing tables", record.log_partitions, lambda part: _finish(folder, record, part))
    counts: Counter[str] = Counter()
    for part in finished:
        counts.update(part.counts)
    counts["topic_partitions"] = _write_topic_partitions(folder, record, source)
    record = record.model_copy(
        update={
            "counts": dict(counts),
            "blocked": {part.log_partition: reason for part in finished if (reason := _blocked(part))},
            "warnings": [*record.warnings, *_findings(finished)],
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
    return open_archive(request.archive, as_of_ms=request.as_of_ms, topics_file=request.topics_file)


def _fold(engine: Engine, folder: RunFolder, source: LogSource, request: ReplayRequest) -> list[_Merged]:
    config = settings()
    partial = folder.root / "partial"
    work = [
        _FoldWork(
            uri=source.uri,
            chunk=chunk,
            as_of_ms=request.as_of_ms,
            taken_at_ms=source.taken_at_ms or request.taken_at_ms,
            cap_bytes=config.inflated_cap_bytes,
            target=partial / str(chunk.log_partition) / f"{chunk.index:08d}.fold",
        )
        for segments in source.segments.values()
        for chunk in plan_chunks(segments, target_bytes=config.chunk_bytes)
    ]
    work.sort(key=lambda item: -sum(piece.end_byte - piece.start_byte for piece in item.chunk.pieces))  # longest first
    engine.map("Replaying the log", work, _fold_chunk)
    parts = sorted(source.segments)
    merged = engine.map("Merging folds", parts, lambda part: _merge(folder, partial / str(part), part))
    shutil.rmtree(partial, ignore_errors=True)
    return merged


def _fold_chunk(work: _FoldWork) -> None:
    fs, _ = filesystem(work.uri)
    pieces = [_read(fs, piece) for piece in work.chunk.pieces]
    fold = fold_chunk(
        pieces, chunk=work.chunk, cap_bytes=work.cap_bytes, as_of_ms=work.as_of_ms, taken_at_ms=work.taken_at_ms
    )
    write_bytes(work.target, fold.to_bytes())


def _read(fs: pafs.FileSystem, piece: Piece) -> npt.NDArray[np.uint8]:
    """The whole file of a piece: mapped when it is local, else read once."""
    if piece.size_bytes == 0:
        return np.zeros(0, dtype=np.uint8)
    if isinstance(fs, pafs.LocalFileSystem):
        return np.memmap(piece.path, dtype=np.uint8, mode="r", shape=(piece.size_bytes,))
    with fs.open_input_file(piece.path) as file:
        return np.frombuffer(file.read_at(piece.size_bytes, 0), dtype=np.uint8)


def _merge(folder: RunFolder, partial: Path, log_partition: int) -> _Merged:
    fold = merge_all(PartialFold.from_bytes(path.read_bytes()) for path in sorted(partial.glob("*.fold")))
    fold.write_parquet(folder.fold_dir(log_partition))
    return _Merged(
        log_partition=log_partition,
        cut=fold.end,
        first_log_offset=fold.first_log_offset,
        records=fold.counters["records"],
        max_timestamp_ms=fold.max_timestamp_ms,
        max_commit_timestamp_ms=fold.max_commit_timestamp_ms,
        future_batches=fold.counters["future_batches"],
        group_ids=fold.group_ids(limit=SAMPLED_GROUPS),
    )


def _describe(source: LogSource, request: ReplayRequest, merged: list[_Merged]) -> RunRecord:
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
    whole = all(not part.first_log_offset for part in merged) and not missing
    return RunRecord(
        run_id=request.run_id,
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        as_of_ms=as_of_ms,
        taken_at_ms=source.taken_at_ms or request.taken_at_ms,
        profile=request.profile,
        retention_ms=minutes * 60_000,
        retention_source=told_by,
        source=without_login(source.uri),
        partition_count=count,
        log_partitions=parts,
        missing_log_partitions=missing,
        cuts={part.log_partition: part.cut for part in merged},
        coverage="complete" if whole else "partial",
        has_topics=source.topics is not None,
        warnings=[*source.warnings, *_doubts(merged, count=count, missing=missing)],
    )


def _doubts(merged: list[_Merged], *, count: int | None, missing: list[int]) -> list[str]:
    found = []
    if count is None:
        found.append("the number of log partitions could not be told from the group ids: no stray verdicts")
    if missing:
        found.append(f"log partitions not here: {', '.join(map(str, missing))}")
    for part in merged:
        if part.future_batches:
            found.append(
                f"log partition {part.log_partition}: {part.future_batches} batches are stamped more than an hour "
                "after the snapshot and were passed over in the search for the cut"
            )
    return found


def _retention(source: LogSource, request: ReplayRequest) -> tuple[int, str]:
    if request.retention_minutes is not None:
        return request.retention_minutes, "asked for"
    if source.retention_minutes is not None:
        return source.retention_minutes, "offsets.retention.minutes of the broker"
    return DEFAULT_RETENTION_MINUTES, "Kafka's default"


def _finish(folder: RunFolder, record: RunRecord, log_partition: int) -> _Finished:
    fold = PartialFold.read_parquet(folder.fold_dir(log_partition))
    state = finish(fold, log_partition=log_partition, partition_count=record.partition_count)
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
        unknown_types=profile["unknown_types"],
        stray_groups=profile["stray_groups"] or 0,
    )


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
            found.append(f"log partition {part.log_partition}: a coordinator's load would fail: {part.load_failure}")
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
