"""Where a run's bytes come from, told in the same words: a broker's disk (`--segments`) or the archive."""

from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs as pafs

from sexton.errors import NoCoverage, UsageError
from sexton.log.archive import FactsRecord, list_archived, newest_facts, oldest_facts_after, topics_from_file
from sexton.log.segment import Segment, disk_identity, list_segments

OFFSETS_TOPIC = "__consumer_offsets"
DEFAULT_RETENTION_MINUTES = 10_080
DEFAULT_LOAD_BUFFER_BYTES = 5 * 1024 * 1024
FACTS_SLACK_MS = 3_600_000
"""How long after as_of the facts may have been recorded and still speak for it: the snapshot that settles an as_of is
taken after it. Later ones do not: today's cluster never leaks into yesterday's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """Segments of every log partition that is here, and what is known of the cluster beside them."""

    uri: str
    segments: dict[int, list[Segment]]
    cluster_id: str = "unknown"
    topic_id: str = "unknown"
    partition_count: int | None = None
    topics: list[dict[str, Any]] | None = None
    retention_minutes: int | None = None
    load_buffer_bytes: int = DEFAULT_LOAD_BUFFER_BYTES
    broker_version: str | None = None
    is_archive: bool = False
    taken_at_ms: int | None = None
    warnings: list[str] = field(default_factory=list)


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """The pyarrow filesystem of a path or URI, and the path in it."""
    try:
        if "://" in uri:
            found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
            return found
        return pafs.LocalFileSystem(), uri
    except Exception as error:
        raise UsageError(f"not a usable location: {error}", place=uri) from None


def open_segments(root: str, *, topics_file: str | None) -> LogSource:
    """A log directory as a broker leaves it, or a backup of one."""
    fs, path = filesystem(root)
    segments = list_segments(fs, path)
    cluster_id, topic_id = disk_identity(fs, path)
    topics = topics_from_file(topics_file) if topics_file else None
    own = _offsets_topic(topics)
    return LogSource(
        uri=root,
        segments=segments,
        cluster_id=cluster_id or "unknown",
        topic_id=topic_id or (own or {}).get("id") or "unknown",
        partition_count=len(own["partitions"]) if own else None,
        topics=topics,
    )


def open_archive(root: str, *, as_of_ms: int | None, topics_file: str | None) -> LogSource:
    """The newest lineage of every log partition in the archive, with the facts that speak for `as_of_ms`."""
    fs, path = filesystem(root)
    newest = newest_facts(fs, path)
    if as_of_ms is not None and newest is not None and newest.taken_at_ms < as_of_ms:
        late_ms = as_of_ms - newest.taken_at_ms
        fix = "run `sexton snapshot` first, or choose an earlier as-of"
        raise NoCoverage(f"the newest snapshot was taken {late_ms} ms before as_of", place=root, fix=fix)
    facts, warnings = _facts(fs, path, as_of_ms)
    segments = list_archived(
        fs,
        path,
        cluster_id=facts.cluster_id if facts else None,
        topic_id=facts.offsets_topic["topic_id"] if facts else None,
    )
    if not segments:
        raise NoCoverage("the archive holds no segment", place=root, fix="run `sexton snapshot` first")
    topics = topics_from_file(topics_file) if topics_file else (facts.topics if facts else None)
    settings = facts.settings if facts else {}
    minutes = settings.get("offsets.retention.minutes")
    return LogSource(
        uri=root,
        segments=segments,
        cluster_id=facts.cluster_id if facts else "unknown",
        topic_id=facts.offsets_topic["topic_id"] if facts else "unknown",
        partition_count=facts.offsets_topic["partitions"] if facts else None,
        topics=topics,
        retention_minutes=int(minutes) if minutes else None,
        load_buffer_bytes=int(settings.get("offsets.load.buffer.size") or DEFAULT_LOAD_BUFFER_BYTES),
        broker_version=facts.broker_version if facts else None,
        is_archive=True,
        taken_at_ms=newest.taken_at_ms if newest else None,
        warnings=warnings,
    )


def _facts(fs: pafs.FileSystem, root: str, as_of_ms: int | None) -> tuple[FactsRecord | None, list[str]]:
    """The newest facts at or before `as_of_ms`, else those of the snapshot that settled it, else none and a warning."""
    found = newest_facts(fs, root, cluster_id=None, at_ms=as_of_ms)
    if found is None and as_of_ms is not None:
        found = oldest_facts_after(fs, root, cluster_id=None, at_ms=as_of_ms)
        if found is not None and found.taken_at_ms - as_of_ms > FACTS_SLACK_MS:
            found = None
    return found, [] if found else ["no_metadata: nothing was recorded of the cluster for this instant"]


def _offsets_topic(topics: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return next((topic for topic in topics or [] if topic["topic"] == OFFSETS_TOPIC), None)
