"""The archive: immutable segments in Kafka's own format, each with a manifest that is written after it.

    <archive>/<cluster_id>/<topic_id>/<log_partition>/<lineage>/<first log_offset %020d>.log
                                                               /<first %020d>-<next %020d>-<size_bytes>.json
    <archive>/<cluster_id>/facts/<taken_at_ms>.json            (log.facts)

A segment answers for the log_offsets [first, next): all batches with a base offset in that range, also where
compaction left none. A lineage is one unbroken history, named `<ordinal %06d>-<start log_offset %020d>`: the chain of
segments from its start on, each beginning where the one before ends. What lies behind a gap (a writer that died while
its neighbours went on) is not read until the gap is closed. A segment without a manifest does not exist: nothing reads
it, and it may be overwritten. Names tell all that a listing needs, so that no manifest is opened to plan a run.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.errors import UsageError
from sexton.log.facts import (
    FACTS_FOLDER,
    FactsRecord,
    newest_facts,
    oldest_facts_after,
    the_cluster,
    topics_from_file,
    write_facts,
)
from sexton.log.manifest import Contents, Lineage, Manifest
from sexton.log.segment import Segment
from sexton.log.store import child_folders, read_json, safe_name, write_whole

__all__ = [
    "ArchiveEnd",
    "FactsRecord",
    "Lineage",
    "Manifest",
    "archive_ends",
    "list_archived",
    "newest_facts",
    "oldest_facts_after",
    "read_manifest",
    "topics_from_file",
    "verify_segment",
    "write_facts",
    "write_segment",
]

_LINEAGE_FOLDER = re.compile(r"(\d{6})-(\d{20})")
_MANIFEST_FILE = re.compile(r"(\d{20})-(\d{20})-(\d{1,19})\.json")
_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEnd:
    """Where the newest lineage of a log partition ends: the next snapshot goes on at `next_log_offset`.

    `leader_epoch` is that of the last archived batch, -1 when unknown.
    """

    log_partition: int
    lineage: Lineage
    next_log_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """A segment of a chain, as its manifest's name tells."""

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


def write_segment(
    fs: pafs.FileSystem,
    root: str,
    chunks: Iterable[bytes],
    *,
    cluster_id: str,
    topic_id: str,
    log_partition: int,
    lineage: Lineage,
    first_log_offset: int,
    end_log_offset: int,
    taken_at_ms: int,
    high_watermark: int,
    last_stable_offset: int,
) -> Manifest:
    """Archive the batches with a base offset in [first_log_offset, end_log_offset), then their manifest.

    `chunks` are whole raw batches in log order, taken as they are, one chunk in memory at a time; none make an empty
    segment, which still answers for its range. Where a segment with a manifest begins at `first_log_offset` already, it
    stays as it is, `chunks` are not read and its manifest is returned: its end may be another one.
    """
    if not 0 <= first_log_offset < end_log_offset:
        raise ValueError(f"not a range of log_offsets: [{first_log_offset}, {end_log_offset})")
    folder = f"{_topic_folder(root, cluster_id, topic_id)}/{log_partition}/{lineage.name}"
    present = [link for link in _links(fs, folder) if link.first_log_offset == first_log_offset]
    if present:
        return _read_manifest(fs, present[0])
    fs.create_dir(folder, recursive=True)
    contents = Contents()
    with fs.open_output_stream(f"{folder}/{first_log_offset:020d}.log") as file:
        for chunk in chunks:
            contents.add(chunk)
            file.write(chunk)
    manifest = Manifest(
        cluster_id=cluster_id,
        topic_id=topic_id,
        log_partition=log_partition,
        lineage=lineage.name,
        first_log_offset=first_log_offset,
        next_log_offset=end_log_offset,
        batch_count=contents.batch_count,
        first_timestamp_ms=contents.timestamps_ms[0] if contents.timestamps_ms else None,
        last_timestamp_ms=contents.timestamps_ms[1] if contents.timestamps_ms else None,
        leader_epochs=contents.leader_epochs,
        size_bytes=contents.size_bytes,
        sha256=contents.digest.hexdigest(),
        taken_at_ms=taken_at_ms,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )
    link = _Link(
        folder=folder,
        first_log_offset=first_log_offset,
        next_log_offset=end_log_offset,
        size_bytes=contents.size_bytes,
    )
    write_whole(fs, link.manifest_path, manifest.to_json())
    return manifest


def list_archived(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, topic_id: str | None = None
) -> dict[int, list[Segment]]:
    """The segments of the newest lineage of every log partition, as `segment.list_segments` gives a broker's.

    Without `cluster_id` the archive must hold one cluster only, else UsageError; without `topic_id` it is the topic
    that was archived last. Nothing archived is an empty answer. Raises UsageError when a segment is not of the size its
    manifest says.
    """
    cluster = the_cluster(fs, root, cluster_id)
    topic = topic_id if topic_id is not None or cluster is None else _newest_topic(fs, root, cluster)
    if cluster is None or topic is None:
        return {}
    return {
        log_partition: _segments(fs, chain, log_partition)
        for log_partition, _, chain in _chains(fs, root, cluster, topic)
    }


def _segments(fs: pafs.FileSystem, chain: list[_Link], log_partition: int) -> list[Segment]:
    found = []
    for link, info in zip(chain, fs.get_file_info([link.segment_path for link in chain]), strict=True):
        if info.type != pafs.FileType.File:
            raise UsageError("the manifest is here, its segment is not", place=link.segment_path)
        if info.size != link.size_bytes:  # a shorter one would pass for a torn tail
            raise UsageError(f"{info.size} bytes, its manifest says {link.size_bytes}", place=link.segment_path)
        found.append(
            Segment(
                log_partition=log_partition,
                path=link.segment_path,
                size_bytes=link.size_bytes,
                base_offset=link.first_log_offset,
            )
        )
    return found


def archive_ends(fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str) -> dict[int, ArchiveEnd]:
    """Where the archive of each log partition ends; log partitions that were never archived are left out."""
    return {
        log_partition: ArchiveEnd(
            log_partition=log_partition,
            lineage=lineage,
            next_log_offset=chain[-1].next_log_offset,
            leader_epoch=_last_epoch(fs, chain),
        )
        for log_partition, lineage, chain in _chains(fs, root, cluster_id, topic_id)
    }


def _last_epoch(fs: pafs.FileSystem, chain: list[_Link]) -> int:
    for link in reversed(chain):
        manifest = _read_manifest(fs, link)
        if manifest.leader_epochs:
            return manifest.leader_epochs[-1][0]
        if manifest.batch_count:
            break
    return -1


def read_manifest(fs: pafs.FileSystem, segment: Segment) -> Manifest:
    """The manifest of an archived segment; UsageError when there is none or it is of another segment."""
    folder = segment.path.rpartition("/")[0]
    for link in _links(fs, folder):
        if link.first_log_offset == segment.base_offset:
            return _read_manifest(fs, link)
    raise UsageError("this segment has no manifest", place=segment.path)


def verify_segment(fs: pafs.FileSystem, segment: Segment) -> list[str]:
    """What is wrong with an archived segment's bytes, by its manifest; an empty list when nothing is."""
    manifest = read_manifest(fs, segment)
    digest, size_bytes = hashlib.sha256(), 0
    with fs.open_input_stream(segment.path) as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
    wrong = []
    if size_bytes != manifest.size_bytes:
        wrong.append(f"{segment.path}: {size_bytes} bytes, the manifest says {manifest.size_bytes}")
    if digest.hexdigest() != manifest.sha256:
        wrong.append(f"{segment.path}: SHA-256 {digest.hexdigest()}, the manifest says {manifest.sha256}")
    return wrong


def _topic_folder(root: str, cluster_id: str, topic_id: str) -> str:
    cluster, topic = safe_name(cluster_id, what="cluster id"), safe_name(topic_id, what="topic id")
    return f"{root.rstrip('/')}/{cluster}/{topic}"


def _newest_topic(fs: pafs.FileSystem, root: str, cluster_id: str) -> str | None:
    taken: list[tuple[int, str]] = []
    for topic in child_folders(fs, f"{root.rstrip('/')}/{cluster_id}"):
        if topic == FACTS_FOLDER:
            continue
        ends = [chain[-1] for _, _, chain in _chains(fs, root, cluster_id, topic)]
        taken += [(_read_manifest(fs, link).taken_at_ms, topic) for link in ends]
    return max(taken)[1] if taken else None


def _chains(
    fs: pafs.FileSystem, root: str, cluster_id: str, topic_id: str
) -> Iterator[tuple[int, Lineage, list[_Link]]]:
    """(log partition, newest lineage that has a segment at its start, its chain), by log partition."""
    topic = _topic_folder(root, cluster_id, topic_id)
    for log_partition in sorted(int(name) for name in child_folders(fs, topic) if name.isdecimal()):
        folder = f"{topic}/{log_partition}"
        names = [name for folder_name in child_folders(fs, folder) if (name := _LINEAGE_FOLDER.fullmatch(folder_name))]
        for name in reversed(names):
            lineage = Lineage(ordinal=int(name[1]), start_log_offset=int(name[2]))
            chain = _chain(_links(fs, f"{folder}/{lineage.name}"), lineage.start_log_offset)
            if chain:
                yield log_partition, lineage, chain
                break


def _links(fs: pafs.FileSystem, folder: str) -> list[_Link]:
    """Every segment of a lineage that has a manifest, by log_offset."""
    files = fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    links = [
        _Link(folder=folder, first_log_offset=int(name[1]), next_log_offset=int(name[2]), size_bytes=int(name[3]))
        for file in files
        if (name := _MANIFEST_FILE.fullmatch(file.base_name))
    ]
    return sorted(links, key=lambda link: (link.first_log_offset, link.next_log_offset))


def _chain(links: list[_Link], start_log_offset: int) -> list[_Link]:
    """The links that follow each other from the start without a gap."""
    chain: list[_Link] = []
    reached = start_log_offset
    for link in links:
        if link.first_log_offset == reached and link.next_log_offset > reached:
            chain.append(link)
            reached = link.next_log_offset
    return chain


def _read_manifest(fs: pafs.FileSystem, link: _Link) -> Manifest:
    try:
        manifest = Manifest.from_json(read_json(fs, link.manifest_path))
    except ValueError as error:
        raise UsageError(f"not a manifest: {error}", place=link.manifest_path) from None
    told = (manifest.first_log_offset, manifest.next_log_offset, manifest.size_bytes)
    if told != (link.first_log_offset, link.next_log_offset, link.size_bytes):
        raise UsageError(f"the manifest of another segment: {told}", place=link.manifest_path)
    return manifest
