"""The input of a run, in one form: a broker's disk (`--segments`) or the archive."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    differences_text,
    newest_metadata,
    oldest_metadata_after,
    the_cluster,
    topics_from_file,
)
from sexton.archive.coverage import Coverage
from sexton.archive.cut_search import segments_between
from sexton.archive.cuts import SettledCuts, lineages_of, newest_cuts, settled_cuts, store_cuts
from sexton.archive.folder import filesystem
from sexton.archive.lineages import IMPORTED, ArchivedLineage, list_lineages, misfits
from sexton.archive.log_position import LogPosition
from sexton.as_text import HOUR_MS, MINUTE_MS
from sexton.coordinator.api.configs import Recorded
from sexton.coordinator.endless_load import BUFFER, DEFAULT_BUFFER_BYTES
from sexton.errors import NoCoverage, UsageError
from sexton.log.segment import Segment, disk_identity, list_segments, odd_files, partition_folders, zero_tail
from sexton.numbers import ranges_text
from sexton.runs.disk_evidence import disk_evidence
from sexton.runs.release_bounds import UNBOUNDED, ReleaseBounds
from sexton.settings import settings
from sexton.topics import METADATA_TOPIC, OFFSETS_TOPIC
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.job_params import ReplayRequest

_OPTION, _TOPICS_FILE = "--partition-count", "the topics file"
_EMPTY = "no segment in the folders of log partitions {}: they count as empty, as a broker would take them"
METADATA_SLACK_MS = HOUR_MS
"""How long after as_of cluster metadata may be recorded and still be used: the snapshot that settles an as_of is taken
after that as_of. Later metadata would leak today's cluster into yesterday's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """The segments of every log partition, and what is known of the cluster.

    For an archive, `positions` is where reading stops in each log partition. `segments` end there, if need be in the
    middle of a file. `taken_at_ms` is when the snapshot that settled the positions was taken.
    """

    uri: str
    """The archive, or the log directory; with several, the first."""
    more_uris: tuple[str, ...] = ()
    """The other log directories."""
    segments: dict[int, list[Segment]]
    cluster_id: str = "unknown"
    topic_id: str = "unknown"
    empty: frozenset[int] = frozenset()
    """Log partitions that exist in the input, without a segment."""
    seen: frozenset[int] = frozenset()
    """Log partitions that an archive's snapshot saw, also those with nothing to archive."""
    partition_count: int | None = None
    """The number of log partitions as given or recorded; runs.partition_count can also derive it."""
    partition_count_from: str = ""
    """Where that number comes from."""
    topics: list[dict[str, Any]] | None = None
    topics_at_ms: int | None = None
    """When `topics` were recorded; None if they come from a file, which is trusted."""
    sees_all_topics: bool | None = None
    """Whether an unlisted topic did not exist; None if nobody checked."""
    retention_minutes: int | None = None
    recorded: Recorded = field(default_factory=Recorded)
    load_buffer_bytes: int = DEFAULT_BUFFER_BYTES
    broker_version: str | None = None
    release_bounds: ReleaseBounds = UNBOUNDED
    """The possible releases of the broker if its version is not recorded."""
    is_archive: bool = False
    as_of_ms: int | None = None
    """The instant up to which the log is read; None: up to its end."""
    taken_at_ms: int | None = None
    warnings: list[str] = field(default_factory=list)
    coverage: Coverage | None = None
    positions: dict[int, LogPosition] = field(default_factory=dict)
    lineages: dict[int, ArchivedLineage] = field(default_factory=dict)

    @property
    def uris(self) -> tuple[str, ...]:
        return (self.uri, *self.more_uris)

    @property
    def here(self) -> frozenset[int]:
        """The log partitions that are in the input."""
        return self.empty.union(self.segments, self.seen)

    @property
    def where(self) -> str:
        """The location of the source, without logins."""
        return ", ".join(map(uri_without_login, self.uris))

    def with_buffer(self, load_buffer_bytes: int | None) -> "LogSource":
        """This source with the given coordinator load buffer; None keeps the recorded size."""
        return self if load_buffer_bytes is None else replace(self, load_buffer_bytes=load_buffer_bytes)

    def with_codec(self, codec: int | None) -> "LogSource":
        """This source for a broker that writes with this codec; None keeps the recorded one."""
        return self if codec is None else replace(self, recorded=self.recorded.with_codec(codec))

    def segments_after(self, positions: Mapping[int, LogPosition]) -> dict[int, list[Segment]]:
        """The archived segments from `positions` up to the source's own positions; all segments of a log partition that
        is not in `positions`."""
        return {
            part: segments_between(self.lineages[part], position, after=positions.get(part))
            for part, position in self.positions.items()
        }


def open_segments(
    roots: str | Sequence[str],
    *,
    topics_file: str | None,
    partition_count: int | None = None,
    as_of_ms: int | None = None,
) -> LogSource:
    """Open a broker's log directory, or a backup of one, with the disk's other evidence at the instant.

    Several log directories of one broker are read like a single one.
    """
    roots = (roots,) if isinstance(roots, str) else tuple(roots)
    opened = [filesystem(root) for root in roots]
    fs, paths = opened[0][0], [path for _, path in opened]
    if not all(other.equals(fs) for other, _ in opened):
        raise UsageError("in different stores", where=", ".join(map(uri_without_login, roots)), fix="copy them to one")
    segments = list_segments(fs, paths)
    clusters, topic_ids = zip(*(disk_identity(fs, path) for path in paths), strict=True)
    cluster_id, topic_id = _same("cluster", clusters, roots), _same("topic id", topic_ids, roots)
    disk = disk_evidence(fs, paths, as_of_ms=as_of_ms, topic_id=topic_id, highest=max(segments))
    topics = topics_from_file(topics_file) if topics_file else disk.topics
    own = _offsets_topic(topics) or _offsets_topic(disk.topics)
    count, count_from = _first_known(
        (_OPTION, partition_count),
        (_TOPICS_FILE, _count_of(_offsets_topic(topics) if topics_file else None)),
        (METADATA_TOPIC, disk.partition_count),
    )
    empty = frozenset(part for path in paths for part in partition_folders(fs, path)) - segments.keys()
    return LogSource(
        uri=roots[0],
        more_uris=roots[1:],
        segments=segments,
        cluster_id=cluster_id or "unknown",
        topic_id=topic_id or (own or {}).get("id") or "unknown",
        empty=empty,
        partition_count=count,
        partition_count_from=count_from,
        topics=topics,
        topics_at_ms=None if topics_file else disk.topics_at_ms,
        sees_all_topics=None if topics is None else True,
        recorded=Recorded(topic_settings=disk.topic_settings, max_message_bytes=disk.max_message_bytes),
        broker_version=disk.broker_version,
        release_bounds=disk.bounds,
        as_of_ms=as_of_ms,
        warnings=[
            *disk.notes,
            *_log_dirs_text(roots, paths, segments),
            *([_EMPTY.format(ranges_text(empty))] if empty else []),
            *zero_tails_text(fs, segments),
            *(f"skipped, no log_offset is that high: {name}" for path in paths for name in odd_files(fs, path)),
        ],
    )


def open_source(request: "ReplayRequest") -> LogSource:
    """The segments or the archive of a request, at its instant."""
    if (request.segments is None) == (request.archive is None):
        raise UsageError("give either segments or an archive", fix="--segments DIR or --archive URI")
    topics_file, count, as_of_ms = request.topics_file, request.partition_count, request.as_of_ms
    if request.segments is not None:
        return open_segments(request.segments, topics_file=topics_file, partition_count=count, as_of_ms=as_of_ms)
    assert request.archive is not None
    return open_archive(
        request.archive,
        as_of_ms=as_of_ms,
        topics_file=topics_file,
        cluster_id=request.cluster_id,
        settle_ms=request.settle_ms,
        partition_count=count,
    )


def require_stamps(as_of_ms: int | None, *, has_stamps: bool, max_commit_timestamp_ms: int, where: str) -> None:
    """NoCoverage if no batch of a log partition has a timestamp, and offsets were committed at as_of or later."""
    if as_of_ms is not None and not has_stamps and as_of_ms <= max_commit_timestamp_ms:
        newest = datetime.fromtimestamp(max_commit_timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
        raise NoCoverage(
            f"batches of record format 0 bear no timestamp, and offsets were committed up to {newest}",
            where=where,
            fix="choose a later as-of",
        )


def _log_dirs_text(roots: Sequence[str], paths: Sequence[str], segments: Mapping[int, list[Segment]]) -> list[str]:
    """A note on how many log directories were read, if there are several."""
    if len(roots) == 1:
        return []
    held = Counter(PurePosixPath(some[0].path).parent.parent for some in segments.values())
    each = (f"{uri_without_login(root)} ({held[PurePosixPath(path)]})" for root, path in zip(roots, paths, strict=True))
    return [f"{len(roots)} log directories, with their log partitions: {', '.join(each)}"]


def zero_tails_text(fs: pafs.FileSystem, segments: Mapping[int, Sequence[Segment]]) -> list[str]:
    """Warnings about zeros after the last batch of a log partition, and how a coordinator handles them."""
    found = {part: size for part, some in segments.items() if some and (size := zero_tail(fs, some[-1]))}
    return [
        f"log partition {part}: {size} zeros after the last batch of the newest segment, as log.preallocate leaves "
        "them: a broker that is elected while it runs reads them and fails its load (KAFKA-20841); a restart trims them"
        for part, size in found.items()
    ]


def _first_known(*counts: tuple[str, int | None]) -> tuple[int | None, str]:
    """(number of log partitions, its source), from the first source that knows it."""
    return next(((count, source) for source, count in counts if count is not None), (None, ""))


def _same(what: str, ids: Sequence[str | None], roots: Sequence[str]) -> str | None:
    """The id that the log directories share; those without an id are ignored."""
    known = {one for one in ids if one is not None}
    if len(known) > 1:
        where = ", ".join(map(uri_without_login, roots))
        ids_text = ", ".join(sorted(known))
        raise UsageError(f"of different {what}s: {ids_text}", where=where, fix="give those of one broker")
    return next(iter(known), None)


def open_archive(
    root: str,
    *,
    as_of_ms: int | None = None,
    topics_file: str | None = None,
    cluster_id: str | None = None,
    settle_ms: int | None = None,
    partition_count: int | None = None,
) -> LogSource:
    """Open the archive up to the settled cuts of an instant, with the metadata for it; None: all of the archive.

    Without `cluster_id` the archive must have only one cluster, else UsageError. `settle_ms` defaults to the setting.
    NoCoverage if the archive cannot answer for the instant.
    """
    fs, path = filesystem(root)
    cluster = the_cluster(fs, path, cluster_id)
    if cluster is None:
        raise NoCoverage("the archive holds no segment", where=root, fix="run `sexton snapshot` first")
    settled, unstored = _settled(fs, path, cluster, as_of_ms, settings().settle_ms if settle_ms is None else settle_ms)
    metadata, unknown = _metadata(fs, path, cluster, as_of_ms)
    topics = topics_from_file(topics_file) if topics_file else (metadata.topics if metadata else None)
    recorded_settings = metadata.settings if metadata else {}
    of_topics = metadata if metadata and not topics_file else None
    of_log = metadata if metadata and metadata.topic_id == settled.topic_id else None
    lineages = lineages_of(fs, path, settled)
    archived = list_lineages(fs, path, cluster_id=cluster, topic_id=settled.topic_id)
    count, count_from = _first_known(
        (_OPTION, partition_count),
        (_TOPICS_FILE, _count_of(_offsets_topic(topics)) if topics_file else None),
        ("the archive", settled.partition_count),
    )
    return LogSource(
        uri=root,
        segments={part: segments_between(lineages[part], position) for part, position in settled.cuts.items()},
        cluster_id=cluster,
        topic_id=settled.topic_id,
        empty=frozenset(
            part
            for part, some in archived.items()
            if not some[-1].segments and some[-1].origin is not None and some[-1].origin.reason == IMPORTED
        ),
        seen=_seen(fs, path, settled),
        partition_count=count,
        partition_count_from=count_from,
        topics=topics,
        topics_at_ms=of_topics.taken_at_ms if of_topics else None,
        sees_all_topics=of_topics.sees_all_topics if of_topics else True if topics_file else None,
        retention_minutes=metadata.retention_minutes if metadata else None,
        recorded=Recorded(
            broker_settings=recorded_settings,
            topic_settings=of_log.topic_settings if of_log else {},
            max_message_bytes=metadata.max_message_bytes if metadata else None,
            leaders=of_log.leaders if of_log else {},
        ),
        load_buffer_bytes=int(recorded_settings.get(BUFFER) or DEFAULT_BUFFER_BYTES),
        broker_version=metadata.broker_version if metadata else None,
        is_archive=True,
        as_of_ms=as_of_ms,
        taken_at_ms=settled.taken_at_ms,
        warnings=[*unknown, *unstored, *differences_text(metadata.brokers_differ if metadata else {})],
        coverage=settled.coverage,
        positions=settled.cuts,
        lineages=lineages,
    )


def recorded_retention_ms(fs: pafs.FileSystem, root: str, cluster_id: str, *, as_of_ms: int) -> int | None:
    """The broker's retention in the archive for an instant; None if it was not recorded."""
    metadata, _ = _metadata(fs, root, cluster_id, as_of_ms)
    minutes = metadata.retention_minutes if metadata else None
    return None if minutes is None else minutes * MINUTE_MS


def check_files(fs: pafs.FileSystem, segments: Iterable[Segment]) -> None:
    """UsageError unless every archived segment exists with the size in its manifest."""
    for path, what in misfits(fs, {segment.path: segment.size_bytes for segment in segments}):
        raise UsageError(what, where=path)


def _settled(
    fs: pafs.FileSystem, root: str, cluster_id: str, as_of_ms: int | None, settle_ms: int
) -> tuple[SettledCuts, list[str]]:
    """(cuts of an instant, warnings). The cuts are stored in the archive; a warning if it cannot be written."""
    if as_of_ms is None:
        return newest_cuts(fs, root, cluster_id=cluster_id), []
    settled = settled_cuts(fs, root, cluster_id=cluster_id, as_of_ms=as_of_ms, settle_ms=settle_ms)
    try:
        return store_cuts(fs, root, settled), []
    except OSError as error:  # a read-only user gets the same cuts while the snapshots are kept
        return settled, [f"the cuts could not be stored in the archive: {error}"]


def _metadata(
    fs: pafs.FileSystem, root: str, cluster_id: str, as_of_ms: int | None
) -> tuple[ClusterMetadata | None, list[str]]:
    """(the newest metadata at or before `as_of_ms`, else that of the snapshot that settled it, else None; warnings)."""
    found = newest_metadata(fs, root, cluster_id=cluster_id, at_ms=as_of_ms)
    if found is None and as_of_ms is not None:
        found = oldest_metadata_after(fs, root, cluster_id=cluster_id, at_ms=as_of_ms)
        if found is not None and found.taken_at_ms - as_of_ms > METADATA_SLACK_MS:
            found = None
    return found, [] if found else ["no_metadata: no cluster metadata was recorded for this instant"]


def _seen(fs: pafs.FileSystem, root: str, settled: SettledCuts) -> frozenset[int]:
    """The log partitions in the snapshot that settled an instant: all, or after an import those of some brokers."""
    found = newest_metadata(fs, root, cluster_id=settled.cluster_id, at_ms=settled.taken_at_ms)
    return frozenset(found.log_partitions if found and found.topic_id == settled.topic_id else ())


def _count_of(topic: dict[str, Any] | None) -> int | None:
    return None if topic is None else len(topic["partitions"])


def _offsets_topic(topics: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return next((topic for topic in topics or [] if topic["topic"] == OFFSETS_TOPIC), None)
