"""The view of a run: its tables are read, and nothing is folded."""

from typing import Any

from sexton.archive.cluster_metadata import topics_from_file
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.topics import Topics
from sexton.coordinator.profiles import profile_of
from sexton.errors import UsageError
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord
from sexton.views.part import LazyShards
from sexton.views.run_parts import RunParts
from sexton.views.view import AUTO, CoordinatorView, ViewRequest, doubts_of


def view_of_run(request: ViewRequest, root: str) -> CoordinatorView:
    """The view of a run folder; UsageError where the request asks for another instant or other rules than its own."""
    folder = RunFolder(root)
    record = folder.read_run()
    if request.as_of_ms not in (None, record.as_of_ms):
        raise UsageError(f"the run is of {record.as_of_ms} ms", where="--as-of", fix="ask the segments or the archive")
    if request.profile not in (None, AUTO) and profile_of(request.profile).text != profile_of(record.profile).text:
        raise UsageError(f"the run followed {record.profile}", where="--profile", fix="ask the segments or the archive")
    parts = RunParts(folder, record)
    empty = set(range(record.partition_count or 0)) - {*record.log_partitions, *record.missing_log_partitions}
    shards = LazyShards(sorted({*record.log_partitions, *empty}), parts.shard)
    return CoordinatorView(
        where=str(folder.root),
        as_of_ms=record.as_of_ms,
        coordinator=Coordinator(profile=parts.profile, partition_count=record.partition_count, shards=shards),
        topics=_topics_of_run(request, folder, record),
        parts=parts,
        recorded=record.recorded,
        doubts=record.profile_doubts,
        warnings=doubts_of(record.partition_count, record.missing_log_partitions),
    )


def _topics_of_run(request: ViewRequest, folder: RunFolder, record: RunRecord) -> Topics:
    if request.topics_file is not None:
        return Topics.from_rows(topics_from_file(request.topics_file))
    if not record.has_topics:
        return Topics()
    topics: dict[str, dict[str, Any]] = {}
    for row in folder.read_table("topic_partitions", WHOLE_RUN).sort_by("partition").to_pylist():
        topic = topics.setdefault(row["topic"], {"topic": row["topic"], "id": row["topic_id"], "partitions": []})
        topic["partitions"].append([row["log_start_offset"], row["log_end_offset"]])
    return Topics.from_rows(topics.values())
