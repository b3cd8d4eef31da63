"""The view of a run: its tables are read, nothing is folded."""

from typing import Any

import pyarrow as pa

from sexton.archive.cluster_metadata import topics_from_file
from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, shard_after_load
from sexton.coordinator.api.tables_view import TABLES, TablesView
from sexton.coordinator.api.topics import Topics
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.partitioner import unknown_count_text
from sexton.coordinator.profile import AfterFailure
from sexton.coordinator.profiles import profile_of
from sexton.errors import UsageError
from sexton.job_params import ReplayRequest
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord
from sexton.views.coordinator_view import AUTO, CoordinatorView, LazyShards, LoadedPartition, missing_text


def view_of_run(request: ReplayRequest, root: str) -> CoordinatorView:
    """The view of a run folder; UsageError if the request has another instant or profile than the run."""
    folder = RunFolder(root)
    record = folder.read_run()
    if request.as_of_ms not in (None, record.as_of_ms):
        raise UsageError(f"the run is as of {record.as_of_ms} ms", where="--as-of", fix="use --segments or --archive")
    if request.profile != AUTO and profile_of(request.profile).text != profile_of(record.profile).text:
        raise UsageError(f"the run followed {record.profile}", where="--profile", fix="use --segments or --archive")
    parts = RunParts(folder, record)
    empty = set(range(record.partition_count or 0)) - {*record.log_partitions, *record.missing_log_partitions}
    shards = LazyShards(sorted({*record.log_partitions, *empty}), parts.shard)
    is_unknown = record.partition_count is None and record.knows_places
    return CoordinatorView(
        where=str(folder),
        as_of_ms=record.as_of_ms,
        coordinator=Coordinator(profile=parts.profile, partition_count=record.partition_count, shards=shards),
        topics=_topics_of_run(request, folder, record),
        read=parts.read,
        recorded=record.recorded,
        doubts=record.profile_doubts,
        unknown_count=unknown_count_text(record.log_partitions) if is_unknown else "",
        warnings=[*record.partition_count_warnings, *missing_text(record.missing_log_partitions)],
    )


def _topics_of_run(request: ReplayRequest, folder: RunFolder, record: RunRecord) -> Topics:
    if request.topics_file is not None:
        return Topics.from_rows(topics_from_file(request.topics_file))
    if not record.has_topics:
        return Topics()
    topics: dict[str, dict[str, Any]] = {}
    for row in folder.read_table("topic_partitions", WHOLE_RUN).sort_by("partition").to_pylist():
        topic = topics.setdefault(row["topic"], {"topic": row["topic"], "id": row["topic_id"], "partitions": []})
        topic["partitions"].append([row["log_start_offset"], row["log_end_offset"]])
    return Topics.from_rows(topics.values())


class RunParts:
    """The log partitions of a finished run."""

    def __init__(self, folder: RunFolder, record: RunRecord) -> None:
        self.profile = profile_of(record.profile)
        self.read: dict[int, LoadedPartition] = {}
        self._folder = folder
        self._written = frozenset(record.log_partitions)

    def shard(self, log_partition: int) -> CoordinatorShard:
        """The log partition as its coordinator would load it.

        UsageError if a coordinator would serve only the records before its load failed: a run does not store that
        state.
        """
        part = self.read[log_partition] = self._part(log_partition)
        if part.load_outcome == AfterFailure.PREFIX:
            raise UsageError(
                f"a coordinator of log partition {log_partition} serves what it had read before its load failed, "
                "which the run does not keep",
                where=self._folder,
                fix="ask the segments: --segments DIR",
            )
        return shard_after_load(part.held, part.load_outcome, profile=self.profile)

    def _part(self, log_partition: int) -> LoadedPartition:
        if log_partition not in self._written:
            return LoadedPartition(held=EmptyView())
        held = TablesView({name: table_of_run(self._folder, name, log_partition) for name in TABLES})
        profiles = table_of_run(self._folder, "load_profile", log_partition).to_pylist()
        if not profiles:  # a run from admin snapshots
            return LoadedPartition(held=held)
        (profile,) = profiles
        return LoadedPartition(
            held=held,
            load_failure=(profile["load_failure"] or "no reason given") if profile["load_would_fail"] else None,
            load_outcome=profile["load_outcome"],
            undecodable=table_of_run(self._folder, "undecodable_records", log_partition).num_rows,
            next_log_offset=profile["next_log_offset"] or 0,
        )


def table_of_run(folder: RunFolder, name: str, log_partition: int) -> pa.Table:
    """A run's table for one log partition; UsageError if the run does not have that file."""
    try:
        return folder.read_table(name, log_partition)
    except OSError:
        where = folder.sub(name, f"{log_partition}.parquet")
        raise UsageError("not there", where=where, fix="is the run complete?") from None
