"""Logs on disk, archives and runs for tests of views; a run is made without Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, LogPartitionMetadata, write_metadata
from sexton.archive.manifest import Lineage
from sexton.archive.writer import write_segment
from sexton.coordinator.partitioner import partition_of
from sexton.job_params import ReplayRequest
from sexton.pipeline.replay_groups import run as replay
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.views.coordinator_view import CoordinatorView, open_view
from tests.archived import segment_range
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

TAKEN_AT_MS = BASE_MS + 60_000


def write_log(root: Path, logs: Mapping[int, bytes]) -> Path:
    """A broker's log directory."""
    for log_partition, data in logs.items():
        folder = root / f"__consumer_offsets-{log_partition}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(data)
    return root


def log_of(*commits: Any, timestamp_ms: int = BASE_MS) -> bytes:
    return encode_log([BatchSpec(entries=(entry,), timestamp_ms=timestamp_ms) for entry in commits])


def logs_of(group_ids: Iterable[str], partition_count: int) -> dict[int, bytes]:
    """A commit of every group, in the log partition that it hashes to."""
    entries: dict[int, list[Any]] = {number: [] for number in range(partition_count)}
    for number, group_id in enumerate(group_ids):
        entries[partition_of(group_id, partition_count)].append(commit(group_id, number))
    return {number: log_of(*own) for number, own in entries.items()}


def write_archive(
    root: Path, logs: Mapping[int, bytes], *, partition_count: int, version: str | None = None, **told: Any
) -> str:
    fs, lineage = pafs.LocalFileSystem(), Lineage(ordinal=0, start_log_offset=0)
    place: dict[str, Any] = {"cluster_id": "cluster", "topic_id": "topic", "taken_at_ms": TAKEN_AT_MS}
    ends = {"high_watermark": 1_000, "last_stable_offset": 1_000}
    for log_partition, data in logs.items():
        bounds = {"log_partition": log_partition, "first_log_offset": 0, "end_log_offset": 1_000}
        write_segment(fs, str(root), [data], segment_range(**place, **bounds, **ends, lineage=lineage))
    state = LogPartitionMetadata(lineage=lineage.name, log_start_offset=0, **ends, leader=-1, leader_epoch=-1)
    seen = dict.fromkeys(range(partition_count), replace(state, high_watermark=0)) | dict.fromkeys(logs, state)
    topics = [{"topic": "t", "id": None, "partitions": [[0, 100], [0, 50]]}]
    known = {"settings": {}, "log_partitions": seen, "topics": topics, **told}
    facts = ClusterMetadata(**place, broker_version=version, partition_count=partition_count, **known)
    write_metadata(fs, str(root), facts)
    return str(root)


def write_run(root: Path, **request: Any) -> Path:
    """What the replay of an audit leaves."""
    asked = ReplayRequest(run_id="run", taken_at_ms=TAKEN_AT_MS, **request)
    replay(SerialEngine(quiet=True), RunFolder(root), asked)
    return root


def view(**request: Any) -> CoordinatorView:
    run = request.pop("run", None)
    return open_view(ReplayRequest(taken_at_ms=TAKEN_AT_MS, **request), run)
