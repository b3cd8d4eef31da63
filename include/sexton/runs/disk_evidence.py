"""Evidence in a broker's log directories other than the offsets log: `__cluster_metadata`, `bootstrap.checkpoint` and
`meta.properties`. Each is used completely or not at all; notes record the conclusions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.broker_disk import log_ends, meta_properties
from sexton.archive.metadata_log import METADATA_VERSION, MetadataLog, read_bootstrap, read_metadata_log
from sexton.errors import LogError
from sexton.runs.release_bounds import UNBOUNDED, ZOOKEEPER, ReleaseBounds, release_of_level, text_of
from sexton.settings import settings
from sexton.topics import METADATA_TOPIC, OFFSETS_TOPIC

_KRAFT_VERSION, _ZOOKEEPER_VERSION = "1", "0"
_MAX_MESSAGE_BYTES, _MAX_SETTING_CHARS = "max.message.bytes", 100
_UNKNOWN = [-1, -1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEvidence:
    """What the disk shows, None where it shows nothing; `partition_count` and settings are of the offsets topic.

    `topics` are rows {"topic", "id", "partitions": [[log start, log end], ...]} as in archive.cluster_metadata. Start
    and end are -1 for partitions not on the disk, and for all if the disk is newer than the instant. `notes` are the
    conclusions.
    """

    topics: list[dict[str, Any]] | None = None
    topics_at_ms: int | None = None
    partition_count: int | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: int | None = None
    broker_version: str | None = None
    bounds: ReleaseBounds = UNBOUNDED
    notes: list[str] = field(default_factory=list)


def disk_evidence(
    fs: pafs.FileSystem, paths: Sequence[str], *, as_of_ms: int | None, topic_id: str | None, highest: int
) -> DiskEvidence:
    """Evidence from the log directories of one broker, at an instant or at their end.

    A metadata log is ignored if it does not match the offsets log: its `topic_id`, and `highest`, the number of the
    last log partition.
    """
    notes: list[str] = []
    bounds = UNBOUNDED
    found: MetadataLog | None = None
    for path in paths:
        bounds = _of_properties(bounds, meta_properties(fs, path))
        try:
            bootstrap = read_bootstrap(fs, path, cap_bytes=settings().inflated_cap_bytes)
            bounds = bounds if bootstrap is None else _of_level(bounds, bootstrap, f"{path}/bootstrap.checkpoint")
        except LogError as error:
            notes.append(f"bootstrap.checkpoint is not used: {error.detail}")
        try:
            read = read_metadata_log(fs, path, as_of_ms=as_of_ms, cap_bytes=settings().inflated_cap_bytes)
        except LogError as error:
            notes.append(f"{METADATA_TOPIC} is not used: {error.detail}")
            continue
        doubt = None if read is None else _doubt(read, topic_id, highest)
        if doubt is None:
            found = found or read
        else:
            notes.append(f"{METADATA_TOPIC} is not used: it comes from another disk, or is damaged: {doubt}")
    if found is None:
        return DiskEvidence(bounds=bounds, notes=notes)
    bounds, version = _of_brokers(_of_level(bounds, found, METADATA_TOPIC), found)
    own = found.settings_of_topic(OFFSETS_TOPIC)
    max_bytes = own.get(_MAX_MESSAGE_BYTES, "")
    return DiskEvidence(
        topics=_rows(fs, paths, found),
        topics_at_ms=as_of_ms if found.is_cut else found.last_ms + 1,
        partition_count=len(found.topics[OFFSETS_TOPIC].partitions),
        topic_settings={name: value for name, value in own.items() if len(value) <= _MAX_SETTING_CHARS},
        max_message_bytes=int(max_bytes) if max_bytes.isdecimal() and len(max_bytes) <= _MAX_SETTING_CHARS else None,
        broker_version=version,
        bounds=bounds,
        notes=[*notes, _summary(found, version)],
    )


def _of_properties(bounds: ReleaseBounds, found: Mapping[str, str]) -> ReleaseBounds:
    if found.get("version") == _ZOOKEEPER_VERSION and "broker.id" in found and "node.id" not in found:
        return bounds.and_to(ZOOKEEPER, "meta.properties is that of a ZooKeeper broker")
    if found.get("version") == _KRAFT_VERSION and "node.id" in found:
        return bounds.and_from((2, 8), "meta.properties is that of a KRaft broker")
    return bounds


def _of_level(bounds: ReleaseBounds, found: MetadataLog, where: str) -> ReleaseBounds:
    level = found.features.get(METADATA_VERSION, 0)
    release, _ = release_of_level(level)
    return bounds if release is None else bounds.and_from(release, f"metadata.version {level} in {where}")


def _of_brokers(bounds: ReleaseBounds, found: MetadataLog) -> tuple[ReleaseBounds, str | None]:
    """(bounds from the versions that registered brokers support, the brokers' release if only one is possible)."""
    releases = [release_of_level(level or 0) for level in found.brokers.values()]
    known = [release for release, _ in releases if release is not None]
    if not known or len(known) < len(releases):
        return bounds, None
    bounds = bounds.and_from(min(known), f"the metadata.version that every broker in {METADATA_TOPIC} supports")
    if not all(is_exact for _, is_exact in releases):
        return bounds, None
    return bounds, text_of(known[0]) if len(set(known)) == 1 else None


def _doubt(found: MetadataLog, topic_id: str | None, highest: int) -> str | None:
    own = found.topics.get(OFFSETS_TOPIC)
    if own is None:
        return f"it has no topic {OFFSETS_TOPIC}"
    if topic_id is not None and own.topic_id != topic_id:
        return f"its {OFFSETS_TOPIC} has the id {own.topic_id}, the folders have {topic_id}"
    if len(own.partitions) <= highest:
        return f"its {OFFSETS_TOPIC} has {len(own.partitions)} partitions, but there is a folder for {highest}"
    return None


def _rows(fs: pafs.FileSystem, paths: Sequence[str], found: MetadataLog) -> list[dict[str, Any]]:
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    if not found.is_cut and isinstance(fs, pafs.LocalFileSystem):  # in an object store: a request per partition
        for path in paths:
            ends |= log_ends(fs, path, found.topics)
    return [
        {
            "topic": name,
            "id": topic.topic_id,
            "partitions": [[*ends.get((name, number), _UNKNOWN)] for number in range(len(topic.partitions))],
        }
        for name, topic in sorted(found.topics.items())
    ]


def _summary(found: MetadataLog, version: str | None) -> str:
    until = datetime.fromtimestamp(found.last_ms / 1000, UTC).isoformat(timespec="milliseconds")
    text = f"by {METADATA_TOPIC}, read up to offset {found.next_offset} ({until}): {len(found.topics)} topics, "
    text += f"{len(found.topics[OFFSETS_TOPIC].partitions)} log partitions"
    if METADATA_VERSION in found.features:
        text += f", metadata.version {found.features[METADATA_VERSION]}"
    brokers = f"broker{'s' * (len(found.brokers) > 1)} {', '.join(map(str, sorted(found.brokers)))}"
    return text if version is None else f"{text}, {brokers} of Kafka {version}"
