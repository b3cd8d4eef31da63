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
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import NoCoverage, UsageError, without_login
from sexton.kernels.fold import PartialFold, fold_chunk, merge_all
from sexton.kernels.state import finish
from sexton.log.segment import Chunk, Piece, plan_chunks
from sexton.settings import settings
from sexton.stages.choose_profile import AUTO, Choice, Evidence, choose, of_evidence, of_version
from sexton.stages.run import RunFolder, RunRecord, tree_sha256, write_bytes
from sexton.stages.source import DEFAULT_RETENTION_MINUTES, LogSource, filesystem, open_archive, open_segments
from sexton.stages.spark import Engine
from sexton.stages.strays import held_elsewhere, homes_of, sources_of
from sexton.tables import TABLES

SAMPLED_GROUPS = 2_000
WHOLE_LOG = 1 << 62
"""A chunk that holds any log."""
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

    `profile` is a name, with a release or without, or choose_profile.AUTO.
    """

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
    profile: str
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
    bytes: int
    largest_batch_bytes: int
    evidence: Evidence


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
    """Fill the state tables of `folder`; NoCoverage when no record lies before the instant asked for."""
    choice = choose(request.profile)
    source = _open(request)
    if request.profile == AUTO and source.broker_version is not None:
        choice = of_version(source.broker_version)
    folder.reset()
    merged = _fold(engine, folder, source, request, choice.profile)
    if request.profile == AUTO and source.broker_version is None:
        proven = of_evidence([part.evidence for part in merged])
        if proven.profile != choice.profile:
            shutil.rmtree(folder.root / "fold")
            merged = _fold(engine, folder, source, request, proven.profile)
        choice = proven
    if not any(part.records for part in merged):
        raise NoCoverage(
            f"no record was written before {_text(request.as_of_ms)}",
            place=source.uri,
            fix="choose a later as-of" if request.as_of_ms is not None else "is this the right folder?",
        )
    record = _describe(source, request, choice, merged)
    record = record.model_copy(update={"checkpoint_sha256": tree_sha256(folder.root / "fold")})
    folder.write_run(record)
    mean_bytes = sum(part.bytes for part in merged) / max(len(merged), 1)
    finished = engine.map(
        "Writing tables", record.log_partitions, lambda part: _finish(folder, record, part, mean_bytes)
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
    return open_archive(request.archive, as_of_ms=request.as_of_ms, topics_file=request.topics_file)


def _fold(
    engine: Engine, folder: RunFolder, source: LogSource, request: ReplayRequest, profile: Profile
) -> list[_Merged]:
    config = settings()
    partial = folder.root / "partial"
    target_bytes = config.chunk_bytes if profile.folds_in_pieces else WHOLE_LOG
    work = [
        _FoldWork(
            uri=source.uri,
            chunk=chunk,
            as_of_ms=request.as_of_ms,
            taken_at_ms=source.taken_at_ms or request.taken_at_ms,
            cap_bytes=config.inflated_cap_bytes,
            profile=profile.text,
            target=partial / str(chunk.log_partition) / f"{chunk.index:08d}.fold",
        )
        for segments in source.segments.values()
        for chunk in plan_chunks(segments, target_bytes=target_bytes)
    ]
    work.sort(key=lambda item: -sum(piece.end_byte - piece.start_byte for piece in item.chunk.pieces))  # longest first
    engine.map("Replaying the log", work, _fold_chunk)
    parts = sorted(source.segments)
    merged = engine.map("Merging folds", parts, lambda part: _merge(folder, partial / str(part), part))
    shutil.rmtree(partial, ignore_errors=True)
    return merged


def _fold_chunk(work: _FoldWork) -> None:
    fs, _ = filesystem(work.uri)
    fold = fold_chunk(
        (_read(fs, piece) for piece in work.chunk.pieces),
        chunk=work.chunk,
        cap_bytes=work.cap_bytes,
        as_of_ms=work.as_of_ms,
        taken_at_ms=work.taken_at_ms,
        profile=profile_of(work.profile),
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
        bytes=fold.counters["bytes"],
        largest_batch_bytes=fold.counters["largest_batch_bytes"],
        evidence=Evidence.of(fold),
    )


def _describe(source: LogSource, request: ReplayRequest, choice: Choice, merged: list[_Merged]) -> RunRecord:
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
        profile=choice.profile.text,
        profile_source=choice.told_by,
        retention_ms=minutes * 60_000,
        retention_source=told_by,
        source=without_login(source.uri),
        partition_count=count,
        log_partitions=parts,
        missing_log_partitions=missing,
        cuts={part.log_partition: part.cut for part in merged},
        coverage="complete" if whole else "partial",
        has_topics=source.topics is not None,
        warnings=[*source.warnings, *choice.warnings, *_doubts(merged, count=count, missing=missing)],
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


def _oversized(merged: Iterable[_Merged], source: LogSource, profile: Profile) -> list[str]:
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
