"""The view of a log or an archive: its profile and number of log partitions; each is folded when it is needed."""

from collections.abc import Collection

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.topics import Topics
from sexton.coordinator.partitioner import unknown_count_text
from sexton.job_params import ReplayRequest
from sexton.runs.partition_count import partition_count
from sexton.runs.source import LogSource, open_source
from sexton.views.coordinator_view import CoordinatorView, LazyShards, missing_text
from sexton.views.log_parts import LogParts

_ENOUGH_GROUPS = 50
"""From this many groups on, the inferred number of log partitions no longer changes."""


def view_of_log(request: ReplayRequest) -> CoordinatorView:
    """The view of segments or of an archive."""
    source = open_source(request).with_buffer(request.load_buffer_bytes)
    parts = LogParts(source, as_of_ms=request.as_of_ms, taken_at_ms=request.taken_at_ms)
    choice = parts.choose(request.profile)
    shards = LazyShards(sorted(source.here), parts.shard)
    count, count_warnings = partition_count(source, lambda: _group_ids(source, parts, shards))
    missing = sorted(set(range(count or 0)) - source.here)
    return CoordinatorView(
        where=source.where,
        as_of_ms=request.as_of_ms,
        coordinator=Coordinator(profile=parts.profile, partition_count=count, shards=shards),
        topics=Topics.from_rows(source.topics),
        read=parts.read,
        load_until=parts.shard,
        unknown_count=unknown_count_text(source.here) if count is None else "",
        recorded=source.recorded,
        doubts=choice.doubts,
        warnings=[*source.warnings, *count_warnings, *missing_text(missing), *choice.open_points],
    )


def _group_ids(source: LogSource, parts: LogParts, shards: LazyShards) -> dict[int, Collection[str]]:
    """Ids of groups at the start of each log partition; if these are few, of all groups."""
    if not source.segments:  # nothing was written before that instant
        return {}
    limit = max(4, 4 * _ENOUGH_GROUPS // len(source.segments))
    found: dict[int, Collection[str]] = {
        number: parts.group_ids_at_head(number, limit=limit) for number in source.segments
    }
    if sum(map(len, found.values())) < _ENOUGH_GROUPS:
        for number in source.segments:
            _ = shards[number]
            found[number] = parts.read[number].group_ids
    return found
