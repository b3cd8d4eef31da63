"""The request of a replay (`ReplayRequest`) and the record that describes its result (`describe`): profile, coverage,
counts, findings and warnings.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sexton.archive.coverage import COMPLETE, PARTIAL, Coverage, worst
from sexton.as_text import MINUTE_MS
from sexton.coordinator.api.append_settings import append_settings
from sexton.coordinator.api.unloading import unexpected_unload_text
from sexton.coordinator.endless_load import BUFFER, NEVER_ENDS
from sexton.coordinator.partitioner import unknown_count_text
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.errors import NoCoverage, UsageError
from sexton.job_params import ReplayRequest
from sexton.numbers import ranges_text
from sexton.runs.choose_profile import Choice
from sexton.runs.fold_log import Merged
from sexton.runs.folder import RunRecord
from sexton.runs.judging import KAFKAS_DEFAULT
from sexton.runs.partition_count import partition_count
from sexton.runs.source import LogSource, require_stamps
from sexton.settings import settings
from sexton.tables import TABLES
from sexton.uris import uri_without_login

_TOLD_PARTS = 3
_LOADS = ("a coordinator's load would fail", "no coordinator could load it")
_AFTER_FAILURE = {
    AfterFailure.NOTHING.value: "answers NOT_COORDINATOR for its groups",
    AfterFailure.EMPTY.value: "serves an empty cache",
    AfterFailure.PREFIX.value: "serves what it had read before; verdicts and forecast are of all that could be decoded",
    NEVER_ENDS: "answers every question about its groups with COORDINATOR_LOAD_IN_PROGRESS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPartition:
    """The result of writing the tables of one log partition."""

    log_partition: int
    counts: Counter[str]
    undecodable: int
    load_failure: str | None
    load_outcome: str
    unknown_types: int
    misplaced_groups: int
    unexpected_unloads: list[str]
    homes: list[int]
    """Log partitions to which misplaced groups hash that are served from this log partition."""
    undescribable: list[str]
    """Groups whose description makes the coordinator throw."""
    sweep_fails: bool
    """Whether the broker's sweep of this log partition writes nothing (`coordinator.expiry.sweep_block`)."""


def describe(source: LogSource, request: ReplayRequest, choice: Choice, merged: list[Merged]) -> RunRecord:
    """The record of a run, from its folds; UsageError if there are more log partitions than possible."""
    as_of_ms = request.as_of_ms
    if as_of_ms is None:  # logs without timestamps (record format 0): commit timestamps are the only ones
        newest = max(part.max_timestamp_ms for part in merged)
        as_of_ms = (newest if newest >= 0 else max(part.max_commit_timestamp_ms for part in merged)) + 1
    parts = [part.log_partition for part in merged]
    count, count_warnings = partition_count(source, lambda: {part.log_partition: part.group_ids for part in merged})
    missing = sorted(set(range(count or 0)) - source.here)
    minutes, retention_source = retention_of(source.retention_minutes, request, choice.profile)
    coverage = _coverage(source, merged, missing, count)
    settings_warnings = append_settings(source.recorded, profile=choice.profile).warnings
    if request.codec is not None and settings_warnings:
        raise UsageError(settings_warnings[0], where="--codec", fix="choose a codec that the release writes")
    return RunRecord(
        run_id=request.run_id,
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        as_of_ms=as_of_ms,
        taken_at_ms=source.taken_at_ms or request.taken_at_ms,
        profile=choice.profile.text,
        profile_source=choice.source,
        profile_doubts=choice.doubts,
        retention_ms=minutes * MINUTE_MS,
        retention_source=retention_source,
        broker_retention_ms=None if source.retention_minutes is None else source.retention_minutes * MINUTE_MS,
        source=source.where,
        log_dirs=[uri_without_login(uri) for uri in source.uris] if source.more_uris else [],
        partition_count=count,
        partition_count_warnings=count_warnings,
        log_partitions=parts,
        missing_log_partitions=missing,
        cuts={part.log_partition: part.cut for part in merged},
        bounds={part.log_partition: part.bounds for part in merged if part.bounds},
        positions=source.positions,
        coverage=coverage.value,
        coverage_reason=coverage.reason,
        inflated_cap_bytes=settings().inflated_cap_bytes,
        **asdict(source.recorded),
        has_topics=source.topics is not None,
        topics_at_ms=source.topics_at_ms,
        sees_all_topics=source.sees_all_topics,
        warnings=[
            *source.warnings,
            *choice.warnings,
            *settings_warnings,
            *count_warnings,
            *_doubts(merged, missing=missing, is_archive=source.is_archive),
        ],
    )


def _coverage(source: LogSource, merged: list[Merged], missing: list[int], count: int | None) -> Coverage:
    """Complete if every log partition is here, from its beginning to the cut; else only the state is exact."""
    if count is None:
        return Coverage(value=PARTIAL, reason=unknown_count_text(source.here))
    if missing:
        return Coverage(value=PARTIAL, reason=f"log partitions not here: {ranges_text(missing)}")
    if source.coverage is not None and source.coverage.value != COMPLETE:
        return source.coverage
    if source.is_archive:
        holes = {part.log_partition: part.cut - part.records for part in merged if part.records != part.cut}
        reasons = {part: f"{count} log_offsets before the cut hold no record" for part, count in holes.items()}
    else:
        starts = {part.log_partition: part.first_log_offset for part in merged if part.first_log_offset}
        reasons = {part: f"it begins at log_offset {start}" for part, start in starts.items()}
    return worst((part, Coverage(value=PARTIAL, reason=reason)) for part, reason in reasons.items())


def _doubts(merged: list[Merged], *, missing: list[int], is_archive: bool) -> list[str]:
    snapshot = "the snapshot that brought them" if is_archive else "the snapshot"
    found = []
    if missing:
        found.append(f"log partitions not here: {ranges_text(missing)}")
    for part in merged:
        if part.future_batches:
            found.append(
                f"log partition {part.log_partition}: {part.future_batches} batches are stamped more than an hour "
                f"after {snapshot} and were ignored in the search for the cut"
            )
    return found


def retention_of(recorded_minutes: int | None, request: ReplayRequest, profile: Profile) -> tuple[int, str]:
    """(retention in minutes that the verdicts use, its source)."""
    if request.retention_minutes is not None:
        return request.retention_minutes, "asked for"
    if recorded_minutes is not None:
        return recorded_minutes, "offsets.retention.minutes of the broker"
    return profile.default_retention_minutes, f"{KAFKAS_DEFAULT} {'.'.join(map(str, profile.release))}"


def require_coverage(source: LogSource, request: ReplayRequest, merged: list[Merged]) -> None:
    """NoCoverage if no record was written before the instant, or if a log without timestamps cannot show which were."""
    damage = [f"log partition {part.log_partition}: {part.damage}" for part in merged if part.damage]
    if damage and not any(part.records for part in merged):
        more = f"; and {len(damage) - _TOLD_PARTS} more log partitions" if len(damage) > _TOLD_PARTS else ""
        raise NoCoverage(
            f"no record of it could be read: {'; '.join(damage[:_TOLD_PARTS])}{more}",
            where=source.where,
            fix="take another copy of the log",
        )
    if not any(part.records for part in merged):
        raise NoCoverage(
            f"no record was written before {_text(request.as_of_ms)}",
            where=source.where,
            fix="choose a later as-of" if request.as_of_ms is not None else "is this the right folder?",
        )
    for part in merged:
        require_stamps(
            request.as_of_ms,
            has_stamps=part.max_timestamp_ms >= 0 or part.future_batches > 0,
            max_commit_timestamp_ms=part.max_commit_timestamp_ms,
            where=source.where,
        )


def oversized(merged: Iterable[Merged], source: LogSource, profile: Profile) -> list[str]:
    """Warnings about batches for which a coordinator enlarges its load buffer (offsets.load.buffer.size)."""
    buffer_bytes = source.load_buffer_bytes
    return [
        f"log partition {part.log_partition}: a batch of {part.largest_batch_bytes} bytes is larger than "
        f"{BUFFER} ({buffer_bytes}): a coordinator of {profile.text} would warn and load it"
        for part in merged
        if part.largest_batch_bytes > buffer_bytes and profile.grows_load_buffer
    ]


def blocked(part: FinishedPartition) -> str | None:
    """Why nothing is planned for a log partition; None if planning is possible."""
    if part.undecodable:
        return f"{part.undecodable} undecodable records"
    if part.load_outcome == NEVER_ENDS:
        return f"no coordinator serves it: {part.load_failure}"
    return f"load would fail: {part.load_failure}" if part.load_failure else None


def findings_of(finished: Iterable[FinishedPartition], profile: Profile) -> list[str]:
    """Findings in the log partitions, as sentences."""
    found = []
    for part in finished:
        if part.load_failure:
            found.append(
                f"log partition {part.log_partition}: {_LOADS[part.load_outcome == NEVER_ENDS]}: {part.load_failure}; "
                f"it {_AFTER_FAILURE[part.load_outcome]}"
            )
        elif part.undecodable:
            found.append(f"log partition {part.log_partition}: {part.undecodable} undecodable records")
        if part.sweep_fails:
            found.append(
                f"log partition {part.log_partition}: the broker's sweep fails, and nothing in it expires: "
                "load_profile.sweep_blocked_by names the group that causes it"
            )
        if part.unexpected_unloads:
            first, rest = part.unexpected_unloads[0], len(part.unexpected_unloads) - 1
            also = f", and of {rest} more" if rest else ""
            text = unexpected_unload_text(first, part.log_partition, profile)
            found.append(f"log partition {part.log_partition}: a load logs {text!r}{also}, and serves everything")
        if part.unknown_types:
            found.append(f"log partition {part.log_partition}: {part.unknown_types} records of unknown types skipped")
        if part.misplaced_groups:
            found.append(f"log partition {part.log_partition}: {part.misplaced_groups} misplaced groups")
        if part.undescribable:
            first, *more = part.undescribable
            found.append(
                f"log partition {part.log_partition}: the coordinator throws when it describes group {first}"
                f"{f' or {len(more)} more' if more else ''}, and answers UNKNOWN_SERVER_ERROR for every group of the "
                "same request; describe groups one at a time"
            )
    return found


def homeless(finished: Iterable[FinishedPartition], log_partitions: Collection[int]) -> list[str]:
    """Warnings about tombstones not planned, because the log partition that they would go to is not here."""
    return [
        f"log partition {part.log_partition} holds groups that hash to log partition {home}, which is not here: their "
        "tombstones would go there, so a broker that does not lead it writes none, and none are planned"
        for part in finished
        for home in part.homes
        if home not in log_partitions
    ]


def topic_partitions(topics: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The table topic_partitions from topics as cluster metadata has them."""
    rows = [
        {
            "topic": topic["topic"],
            "topic_id": topic.get("id"),
            "partition": partition,
            "log_start_offset": start,
            "log_end_offset": end,
        }
        for topic in topics
        for partition, (start, end) in enumerate(topic["partitions"])
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["topic_partitions"].arrow_schema(with_run=False))


def _text(instant_ms: int | None) -> str:
    if instant_ms is None:
        return "now"
    return datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat(timespec="milliseconds")
