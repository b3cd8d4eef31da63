"""Lineages: the unbroken histories of a log partition that the archive holds, and how each began.

    <archive>/<cluster_id>/<topic_id>/<log_partition>/<lineage>/origin.json

A lineage begins where the archive cannot go on from the bytes that it has: with the first snapshot, behind a gap, after
a truncation, with another number of log partitions. That is noted once, beside it and before its first segment, so that
no break is ever joined in silence. What a lineage holds is told by the names of its files; nothing is opened for that.

Not here: when a break is found (pipeline/snapshot_log.py, broker_disk.py), and what the segments say (manifest.py).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import child_folders, read_json, safe_name
from sexton.archive.manifest import Lineage, Manifest
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.log.segment import Segment

ORIGIN_FILE = "origin.json"
MAINTENANCE_FOLDER = "maintenance"
PLANS_FOLDER = "plans"
LEDGER_FOLDER = "ledger"
RESTORES_FOLDER = "restores"
OWN_FOLDERS = frozenset(
    {"cluster_metadata", "cuts", "checkpoints", MAINTENANCE_FOLDER, PLANS_FOLDER, LEDGER_FOLDER, RESTORES_FOLDER}
)
"""Folders of a cluster that are no topic's."""

FIRST, IMPORTED = "first", "imported"
GAP, TRUNCATED, EPOCH_DIVERGED = "gap", "truncated", "epoch_diverged"
UNOBSERVED, PARTITION_COUNT, RECREATED = "unobserved", "partition_count", "recreated"
BREAKS = frozenset({GAP, TRUNCATED, EPOCH_DIVERGED, UNOBSERVED, PARTITION_COUNT, RECREATED})

_LINEAGE_FOLDER = re.compile(r"(\d{6})-(\d{20})")
_MANIFEST_FILE = re.compile(r"(\d{20})-(\d{20})-(\d{1,19})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Why a lineage begins. `reason` is one of

        first, imported     nothing was archived of this log partition before (from a broker, from a disk)
        gap                 the log begins above what was archived: `missing` log_offsets [a, b) are lost
        truncated           the log ended below what was archived
        epoch_diverged          the log left the archived leader epoch below what was archived (an unclean election)
        unobserved          nobody looked for longer than the topic's delete.retention.ms: tombstones and markers may
                            have come and gone unseen, and what they removed would live on in the archive
        partition_count     the topic has another number of log partitions: groups live elsewhere now
        recreated           the topic was made anew: it has another id than the one archived before, `previous_topic_id`

    `previous` names the lineage before it and `previous_end` where that ended; `diverged_at` is the log_offset from
    which on the two are different logs, where that is known. `partition_count` is the topic's when the lineage began.
    """

    reason: str
    found_at_ms: int
    previous: str | None = None
    previous_end: int | None = None
    missing: tuple[int, int] | None = None
    diverged_at: int | None = None
    partition_count: int | None = None
    previous_topic_id: str | None = None

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Origin":
        """The origin in a JSON object; ValueError when it is none. Unknown fields are a later release's: left out."""
        told: dict[str, Any] = {field.name: found.get(field.name) for field in fields(cls)}
        for name in ("reason", "previous", "previous_topic_id"):
            if not (isinstance(told[name], str) or (told[name] is None and name != "reason")):
                raise ValueError(f"{name} is {told[name]!r}")
        for name in ("found_at_ms", "previous_end", "diverged_at", "partition_count"):
            if not (type(told[name]) is int or (told[name] is None and name != "found_at_ms")):
                raise ValueError(f"{name} is {told[name]!r}")
        missing = told["missing"]
        if missing is not None:
            if not (isinstance(missing, list) and [type(number) for number in missing] == [int, int]):
                raise ValueError(f"missing is {missing!r}")
            told["missing"] = (missing[0], missing[1])
        return cls(**told)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSegment:
    """A segment that has a manifest, as that one's name tells: it answers for [first_log_offset, next_log_offset)."""

    folder: str
    first_log_offset: int
    next_log_offset: int
    size_bytes: int

    @property
    def segment_path(self) -> str:
        return f"{self.folder}/{self.first_log_offset:020d}.log"

    @property
    def manifest_path(self) -> str:
        return f"{self.folder}/{self.first_log_offset:020d}-{self.next_log_offset:020d}-{self.size_bytes}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedLineage:
    """One lineage of a log partition.

    `segments` follow each other from its start on without a gap. `detached` are the others, which nobody reads: they
    begin after a gap or inside another one. `twins` are further manifests of a segment, of the same size, as two
    snapshots at once write them; the one with the lower end counts. `origin` is None where its file is missing.
    """

    cluster_id: str
    topic_id: str
    log_partition: int
    lineage: Lineage
    folder: str
    origin: Origin | None
    segments: tuple[ArchivedSegment, ...]
    detached: tuple[ArchivedSegment, ...] = ()
    twins: tuple[ArchivedSegment, ...] = ()

    @property
    def next_log_offset(self) -> int:
        """Where the chain ends; its start when nothing is archived yet."""
        return self.segments[-1].next_log_offset if self.segments else self.lineage.start_log_offset

    @property
    def size_bytes(self) -> int:
        return sum(link.size_bytes for link in self.segments)

    def log_segments(self) -> list[Segment]:
        """The chain as segments, by log_offset; that their files are there is not looked at."""
        return [
            Segment(
                log_partition=self.log_partition,
                path=link.segment_path,
                size_bytes=link.size_bytes,
                base_offset=link.first_log_offset,
            )
            for link in self.segments
        ]

    def manifests(self, fs: pafs.FileSystem) -> Iterator[Manifest]:
        """The manifests of the chain, by log_offset, each read when it is asked for; UsageError for a bad one."""
        return (read_segment_manifest(fs, link) for link in self.segments)


def list_lineages(
    fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str
) -> dict[int, list[ArchivedLineage]]:
    """Every lineage of every log partition of a topic, oldest first; a log partition without any is left out.

    A lineage exists once it has its origin or, in archives of early releases, a segment at its start. The last one may
    be of a snapshot that died: what a finished snapshot had is told by its facts (ClusterMetadata.log_partitions).
    """
    files: dict[tuple[int, Lineage], list[pafs.FileInfo]] = {}
    for file in fs.get_file_info(
        pafs.FileSelector(topic_folder(root, cluster_id, topic_id), recursive=True, allow_not_found=True)
    ):
        log_partition, lineage, _ = ["", "", "", *file.path.split("/")][-3:]
        if log_partition.isdecimal() and (name := _LINEAGE_FOLDER.fullmatch(lineage)):
            place = int(log_partition), Lineage(ordinal=int(name[1]), start_log_offset=int(name[2]))
            files.setdefault(place, []).append(file)
    found: dict[int, list[ArchivedLineage]] = {}
    for (log_partition, lineage), listed in sorted(files.items(), key=lambda item: item[0]):
        folder = lineage_folder(root, cluster_id, topic_id, log_partition, lineage.name)
        links = _links(folder, listed)
        chain = _chain(links, lineage.start_log_offset)
        known = set(chain)
        linked = {(link.first_log_offset, link.size_bytes) for link in chain}
        rest = [link for link in links if link not in known]
        twins = tuple(link for link in rest if (link.first_log_offset, link.size_bytes) in linked)
        origin = _read_origin(fs, f"{folder}/{ORIGIN_FILE}") if _has_origin(listed) else None
        if chain or origin:
            found.setdefault(log_partition, []).append(
                ArchivedLineage(
                    cluster_id=cluster_id,
                    topic_id=topic_id,
                    log_partition=log_partition,
                    lineage=lineage,
                    folder=folder,
                    origin=origin,
                    segments=tuple(chain),
                    detached=tuple(link for link in rest if link not in twins),
                    twins=twins,
                )
            )
    return found


def write_origin(
    fs: pafs.FileSystem,
    root: str,
    origin: Origin,
    *,
    cluster_id: str,
    topic_id: str,
    log_partition: int,
    lineage: Lineage,
) -> None:
    """Note how a lineage begins, whole or not at all; what is noted already stays as it is."""
    path = f"{lineage_folder(root, cluster_id, topic_id, log_partition, lineage.name)}/{ORIGIN_FILE}"
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        failpoint("origin.before")
        create_whole(fs, path, origin.to_json(), what="origin")


def clusters_of(fs: pafs.FileSystem, root: str, cluster_id: str | None = None) -> list[str]:
    """Ids of the clusters in the archive, in order, or only the one asked for; UsageError when that is not there."""
    found = child_folders(fs, root)
    if cluster_id is None:
        return found
    if cluster_id not in found:
        raise UsageError(f"no cluster {cluster_id}", where=root, fix=f"there is {', '.join(found) or 'none'}")
    return [cluster_id]


def topics_of(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[str]:
    """Ids of the topics of which something may be archived, in order."""
    cluster = safe_name(cluster_id, what="cluster id")
    return [name for name in child_folders(fs, f"{root.rstrip('/')}/{cluster}") if name not in OWN_FOLDERS]


def topic_folder(root: str, cluster_id: str, topic_id: str) -> str:
    """Where a topic is archived; UsageError when an id cannot name a folder, or names one of the archive's own."""
    cluster, topic = safe_name(cluster_id, what="cluster id"), safe_name(topic_id, what="topic id")
    if topic.casefold() in OWN_FOLDERS:
        raise UsageError(f"topic id {topic!r} is the name of a folder that the archive keeps for itself")
    return f"{root.rstrip('/')}/{cluster}/{topic}"


def lineage_folder(root: str, cluster_id: str, topic_id: str, log_partition: int, lineage: str) -> str:
    """Where the segments of a lineage are, by its name; UsageError as of `topic_folder`."""
    return f"{topic_folder(root, cluster_id, topic_id)}/{log_partition}/{lineage}"


def segments_in(fs: pafs.FileSystem, folder: str) -> list[ArchivedSegment]:
    """Every segment in a lineage's folder that has a manifest, by log_offset."""
    return _links(folder, fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True)))


def read_segment_manifest(fs: pafs.FileSystem, link: ArchivedSegment) -> Manifest:
    """The manifest of a link; UsageError when it is none or tells of another segment."""
    try:
        manifest = Manifest.from_json(read_json(fs, link.manifest_path))
    except ValueError as error:
        raise UsageError(f"not a manifest: {error}", where=link.manifest_path) from None
    told = (manifest.first_log_offset, manifest.next_log_offset, manifest.size_bytes)
    if told != (link.first_log_offset, link.next_log_offset, link.size_bytes):
        raise UsageError(f"the manifest of another segment: {told}", where=link.manifest_path)
    return manifest


def _read_origin(fs: pafs.FileSystem, path: str) -> Origin:
    try:
        return Origin.from_json(read_json(fs, path))
    except ValueError as error:
        raise UsageError(f"not an origin: {error}", where=path) from None


def _has_origin(files: Iterable[pafs.FileInfo]) -> bool:
    return any(file.base_name == ORIGIN_FILE for file in files)


def _links(folder: str, files: Iterable[pafs.FileInfo]) -> list[ArchivedSegment]:
    links = [
        ArchivedSegment(
            folder=folder, first_log_offset=int(name[1]), next_log_offset=int(name[2]), size_bytes=int(name[3])
        )
        for file in files
        if (name := _MANIFEST_FILE.fullmatch(file.base_name))
    ]
    return sorted(links, key=lambda link: (link.first_log_offset, link.next_log_offset))


def _chain(links: list[ArchivedSegment], start_log_offset: int) -> list[ArchivedSegment]:
    """The links that follow each other from the start without a gap."""
    chain: list[ArchivedSegment] = []
    reached = start_log_offset
    for link in links:
        if link.first_log_offset == reached and link.next_log_offset > reached:
            chain.append(link)
            reached = link.next_log_offset
    return chain
