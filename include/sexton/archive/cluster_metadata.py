"""Metadata that each snapshot records in addition to the log: topics, settings, leaders, log positions, broker version.

One file per snapshot: `<archive>/<cluster_id>/cluster_metadata/<taken_at_ms>.json`. A run reads the record that is
valid for its instant, never a later state of the cluster. Without a broker, a file (`--topics`) provides the topics.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.files import (
    child_folders,
    cluster_folder,
    numbered_files,
    read_record,
    record_json,
    safe_name,
    write_whole,
)
from sexton.errors import UsageError
from sexton.failpoints import failpoint

METADATA_FOLDER = "cluster_metadata"
_TOPIC_LINE = '{"topic": name, "id": topic id, "partitions": [[log start, log end], ...]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPartitionMetadata:
    """A log partition at the instant of a snapshot, archived in `lineage` up to its high watermark.

    `leader` is the node id, -1 without a leader; any number is -1 where the broker or disk does not say.
    """

    lineage: str
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The cluster at one instant. `topics` are rows {"topic", "id", "partitions": [[log start, log end], ...]}; None
    where the topics are not known (an import that was only given the number of log partitions).

    `topic_id` and `partition_count` are those of the offsets topic. The record is written after the segments, so
    everything in `log_partitions` is archived. `settings` come from the broker with the lowest id; `brokers_differ` has
    each setting in which brokers differ, with its value by broker id. `topic_settings`, `delete_retention_ms` and
    `max_message_bytes` are settings of the offsets topic; the numbers are None when unknown. A topic that is missing
    from `topics` did not exist only if `sees_all_topics`, which is None when it was not checked.
    """

    taken_at_ms: int
    cluster_id: str
    broker_version: str | None
    settings: Mapping[str, str]
    topic_id: str
    partition_count: int
    topics: list[dict[str, Any]] | None
    log_partitions: Mapping[int, LogPartitionMetadata] = field(default_factory=dict)
    delete_retention_ms: int | None = None
    max_message_bytes: int | None = None
    sees_all_topics: bool | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    brokers_differ: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def topic_ids(self) -> dict[str, str | None]:
        """The id of each topic, None where it is unknown; empty where the topics are not known."""
        return {row["topic"]: row["id"] for row in self.topics or []}

    @property
    def retention_minutes(self) -> int | None:
        """The broker's offsets.retention.minutes, None where it is unknown."""
        minutes = self.settings.get("offsets.retention.minutes")
        return int(minutes) if minutes else None

    @property
    def leaders(self) -> dict[int, int]:
        """The broker that led each log partition, for log partitions with a leader."""
        return {part: one.leader for part, one in self.log_partitions.items() if one.leader >= 0}


def differences_text(brokers_differ: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A warning for each setting in which brokers differ; the value of the broker with the lowest id is used."""
    found = []
    for name, values in brokers_differ.items():
        each = ", ".join(f"{value or 'not reported'} on broker {broker}" for broker, value in values.items())
        found.append(f"brokers differ in {name}: {each}; that of broker {min(values, key=int)} is taken for all")
    return found


def write_metadata(fs: pafs.FileSystem, root: str, record: ClusterMetadata) -> str:
    """Write one record atomically; returns its path."""
    path = f"{cluster_folder(root, record.cluster_id, METADATA_FOLDER)}/{record.taken_at_ms}.json"
    failpoint("cluster_metadata.before")
    write_whole(fs, path, record_json(record), what="cluster_metadata")
    return path


def snapshot_instants(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[int]:
    """When the finished snapshots of a cluster were taken, in order."""
    return numbered_files(fs, cluster_folder(root, cluster_id, METADATA_FOLDER))


def newest_metadata(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, at_ms: int | None = None
) -> ClusterMetadata | None:
    """The newest record taken at or before `at_ms` (None: the newest of all), or None.

    Without `cluster_id` the archive must hold one cluster only, else UsageError.
    """
    cluster = the_cluster(fs, root, cluster_id)
    instants = snapshot_instants(fs, root, cluster) if cluster else []
    taken_at_ms = max((ms for ms in instants if at_ms is None or ms <= at_ms), default=None)
    return None if cluster is None or taken_at_ms is None else metadata_at(fs, root, cluster, taken_at_ms)


def oldest_metadata_after(fs: pafs.FileSystem, root: str, *, cluster_id: str, at_ms: int) -> ClusterMetadata | None:
    """The oldest record taken after `at_ms`, or None."""
    taken_at_ms = min((ms for ms in snapshot_instants(fs, root, cluster_id) if ms > at_ms), default=None)
    return None if taken_at_ms is None else metadata_at(fs, root, cluster_id, taken_at_ms)


def metadata_at(fs: pafs.FileSystem, root: str, cluster_id: str, taken_at_ms: int) -> ClusterMetadata:
    """The record of the snapshot that was taken at an instant; UsageError if there is none."""
    path = f"{cluster_folder(root, cluster_id, METADATA_FOLDER)}/{taken_at_ms}.json"
    record = read_record(fs, path, ClusterMetadata, what="cluster metadata")
    safe_name(record.cluster_id, what="cluster id")
    try:
        topics = None if record.topics is None else [_topic(row) for row in record.topics]
        return replace(record, taken_at_ms=taken_at_ms, topics=topics)
    except ValueError as error:
        raise UsageError(f"not cluster metadata: {error}", where=path) from None


def the_cluster(fs: pafs.FileSystem, root: str, cluster_id: str | None) -> str | None:
    """`cluster_id`, or the only cluster of the archive; None when the archive is empty, UsageError when it has several
    clusters."""
    if cluster_id is not None:
        return safe_name(cluster_id, what="cluster id")
    clusters = child_folders(fs, root)
    if len(clusters) > 1:
        raise UsageError(
            f"the archive holds several clusters: {', '.join(clusters)}", where=root, fix="name one with --cluster-id"
        )
    return clusters[0] if clusters else None


def require_cluster(fs: pafs.FileSystem, root: str, cluster_id: str | None) -> str:
    """`the_cluster`; UsageError when the archive is empty."""
    cluster = the_cluster(fs, root, cluster_id)
    if cluster is None:
        raise UsageError("the archive is empty", where=root)
    return cluster


def topics_from_file(path: str | Path) -> list[dict[str, Any]]:
    """The topics of a JSON-lines file, as rows {"topic", "id" (None when unknown), "partitions"}, in file order.

    Raises UsageError that names the file and the line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=path) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"not UTF-8 at byte {error.start}", where=path) from None
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = _topic(json.loads(line))
            if not row["partitions"]:  # every offset would look like an orphan
                raise ValueError(f"topic {row['topic']!r} has no partitions")
        except (ValueError, RecursionError) as error:
            raise UsageError(str(error), where=f"{path}: line {number}", fix=f"a line is {_TOPIC_LINE}") from None
        if row["topic"] in seen:
            raise UsageError(
                f"topic {row['topic']!r} is on line {seen[row['topic']]} already", where=f"{path}: line {number}"
            )
        seen[row["topic"]] = number
        rows.append(row)
    if not rows:
        raise UsageError("no topics here", where=path, fix=f"a line is {_TOPIC_LINE}")
    return rows


def _topic(row: object) -> dict[str, Any]:
    """A topic row with exactly its three fields; ValueError says what is wrong with it."""
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    name, topic_id, partitions = row.get("topic"), row.get("id"), row.get("partitions")
    if not isinstance(name, str) or not name:
        raise ValueError(f"topic must be a name, got {name!r}")
    if topic_id is not None and not isinstance(topic_id, str):
        raise ValueError(f"id of topic {name!r} must be text, got {topic_id!r}")
    if not isinstance(partitions, list) or not all(_is_range(partition) for partition in partitions):
        raise ValueError(f"partitions of topic {name!r} must be a list of [log start, log end]")
    return {"topic": name, "id": topic_id or None, "partitions": partitions}


def _is_range(partition: object) -> bool:
    return isinstance(partition, list) and len(partition) == 2 and all(type(offset) is int for offset in partition)
