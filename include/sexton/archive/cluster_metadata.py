"""What the log does not hold, recorded by each snapshot: `<archive>/<cluster_id>/cluster_metadata/<taken_at_ms>.json`.

A run reads the record that speaks for its instant, so that today's cluster never leaks into yesterday's answer. The
same lines about topics can come from a file (`--topics`) where no broker is at hand.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.files import child_folders, read_json, safe_name, write_whole
from sexton.errors import UsageError
from sexton.failpoints import failpoint

METADATA_FOLDER = "cluster_metadata"
_METADATA_FILE = re.compile(r"(\d{1,19})\.json")
_TOPIC_LINE = '{"topic": name, "id": topic id, "partitions": [[log start, log end], ...]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPartitionMetadata:
    """A log partition at the instant of a snapshot, and the lineage that is its archive up to the high watermark.

    `leader` is the node id, -1 when nobody led; -1 also stands for what a broker or a disk does not tell.
    """

    lineage: str
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The cluster at one instant. `topics` are rows {"topic", "id", "partitions": [[log start, log end], ...]}.

    The record is written after the segments: its `log_partitions` are archived; None in records of early releases.
    `settings` are those of one broker; `brokers_differ` has the settings that others have otherwise, with the value of
    each broker by its id. `topic_settings` are those of the offsets topic; they and `brokers_differ` are empty in
    records of early releases. `delete_retention_ms` and `max_message_bytes` are settings of the offsets topic, too,
    None when unknown. Only with `sees_all_topics` a topic that is not in `topics` did not exist; None in records of
    early releases.
    """

    taken_at_ms: int
    cluster_id: str
    broker_version: str | None
    settings: Mapping[str, str]
    offsets_topic: Mapping[str, Any]
    """{"topic_id": Kafka's text form, "partitions": count}"""
    topics: list[dict[str, Any]]
    log_partitions: Mapping[int, LogPartitionMetadata] | None = None
    delete_retention_ms: int | None = None
    max_message_bytes: int | None = None
    sees_all_topics: bool | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    brokers_differ: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def leaders(self) -> dict[int, int]:
        """Who led each log partition, by broker id; without those that nobody led."""
        return {part: one.leader for part, one in (self.log_partitions or {}).items() if one.leader >= 0}


def differences_text(brokers_differ: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What to say of settings in which brokers differ: that of the broker with the lowest id is taken."""
    told = []
    for name, values in brokers_differ.items():
        each = ", ".join(f"{value or 'not told'} on broker {broker}" for broker, value in values.items())
        told.append(f"brokers differ in {name}: {each}; that of broker {min(values, key=int)} is taken for all")
    return told


def write_metadata(fs: pafs.FileSystem, root: str, record: ClusterMetadata) -> str:
    """Write one record, whole or not at all; returns its path."""
    path = f"{_folder(root, record.cluster_id)}/{record.taken_at_ms}.json"
    failpoint("cluster_metadata.before")
    write_whole(fs, path, json.dumps(asdict(record), ensure_ascii=False, indent=1).encode(), what="cluster_metadata")
    return path


def newest_metadata(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, at_ms: int | None = None
) -> ClusterMetadata | None:
    """The newest record taken at or before `at_ms` (None: the newest of all), or None.

    Without `cluster_id` the archive must hold one cluster only, else UsageError.
    """
    taken = [ms for ms in _instants(fs, root, cluster_id) if at_ms is None or ms <= at_ms]
    return _read(fs, root, cluster_id, max(taken)) if taken else None


def oldest_metadata_after(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, at_ms: int
) -> ClusterMetadata | None:
    """The oldest record taken after `at_ms`, or None; `cluster_id` as in `newest_metadata`."""
    taken = [ms for ms in _instants(fs, root, cluster_id) if ms > at_ms]
    return _read(fs, root, cluster_id, min(taken)) if taken else None


def the_cluster(fs: pafs.FileSystem, root: str, cluster_id: str | None) -> str | None:
    """`cluster_id`, or else the one cluster of the archive; None when it is empty, UsageError when it holds several."""
    if cluster_id is not None:
        return safe_name(cluster_id, what="cluster id")
    clusters = child_folders(fs, root)
    if len(clusters) > 1:
        raise UsageError(f"the archive holds several clusters: {', '.join(clusters)}", where=root, fix="name one")
    return clusters[0] if clusters else None


def _folder(root: str, cluster_id: str) -> str:
    return f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{METADATA_FOLDER}"


def _instants(fs: pafs.FileSystem, root: str, cluster_id: str | None) -> list[int]:
    cluster = the_cluster(fs, root, cluster_id)
    if cluster is None:
        return []
    files = fs.get_file_info(pafs.FileSelector(_folder(root, cluster), allow_not_found=True))
    return [int(name[1]) for file in files if (name := _METADATA_FILE.fullmatch(file.base_name))]


def _read(fs: pafs.FileSystem, root: str, cluster_id: str | None, taken_at_ms: int) -> ClusterMetadata:
    cluster = the_cluster(fs, root, cluster_id)
    assert cluster is not None
    path = f"{_folder(root, cluster)}/{taken_at_ms}.json"
    found = read_json(fs, path)
    try:
        log_partitions = _log_partitions(found.get("log_partitions"))
        names = {one.name for one in fields(ClusterMetadata)}  # a later release may say more
        record = ClusterMetadata(**{name: value for name, value in found.items() if name in names})
        topics = [_topic(row) for row in record.topics]
        own = {"topic_id": str(record.offsets_topic["topic_id"]), "partitions": int(record.offsets_topic["partitions"])}
        settings, topic_settings = _texts(record.settings), _texts(record.topic_settings)
        brokers_differ = {str(name): _texts(values) for name, values in record.brokers_differ.items()}
        cluster_id = safe_name(str(record.cluster_id), what="cluster id")
        for name in ("delete_retention_ms", "max_message_bytes"):
            if not isinstance(getattr(record, name), int | None):
                raise ValueError(f"{name} is {getattr(record, name)!r}")
        if not isinstance(record.sees_all_topics, bool | None):
            raise ValueError(f"sees_all_topics is {record.sees_all_topics!r}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"not cluster metadata: {error}", where=path) from None
    return ClusterMetadata(
        taken_at_ms=taken_at_ms,
        cluster_id=cluster_id,
        broker_version=record.broker_version,
        settings=settings,
        offsets_topic=own,
        topics=topics,
        log_partitions=log_partitions,
        delete_retention_ms=record.delete_retention_ms,
        max_message_bytes=record.max_message_bytes,
        sees_all_topics=record.sees_all_topics,
        topic_settings=topic_settings,
        brokers_differ=brokers_differ,
    )


def _texts(found: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def _log_partitions(found: Any) -> dict[int, LogPartitionMetadata] | None:
    if found is None:
        return None
    known = {int(log_partition): LogPartitionMetadata(**told) for log_partition, told in found.items()}
    for log_partition, facts in known.items():
        values = asdict(facts)
        if not isinstance(values.pop("lineage"), str) or any(type(value) is not int for value in values.values()):
            raise ValueError(f"log partition {log_partition}: {facts}")
    return dict(sorted(known.items()))


def topics_from_file(path: str | Path) -> list[dict[str, Any]]:
    """The topics of a JSON-lines file, as rows {"topic", "id" (None when unknown), "partitions"}, in its order.

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
            if not row["partitions"]:  # else every offset of it would look like an orphan
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
