"""Verifies that an archive is intact: names, lineages, manifests, SHA-256, Kafka's own CRC; also the points in time and
the admin snapshots.

Names and sizes are checked for the whole archive every time. Reading bytes is expensive: `subset` (n, t) reads the n-th
of t fixed parts, so that t runs with n = 1 .. t read everything once.

Not here: the content of records (a replay checks it), and whether a log continues the archive (pipeline.continuation).
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from pyarrow import fs as pafs

from sexton.archive.admin_snapshots import admin_snapshot_instants, admin_snapshot_manifest, read_admin_snapshot
from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.files import read_file
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    lineage_folder,
    list_lineages,
    misfits,
    read_segment_manifest,
    topics_of,
)
from sexton.archive.time_points import lookup_instants, lookup_manifest, read_lookup
from sexton.errors import SextonError
from sexton.log.crc import as_u8
from sexton.log.framing import BAD_CRC, KIND, frames
from sexton.log.headers import batch_headers

READERS = 4
"""Number of segments that are read concurrently, each completely in memory."""
CORRUPT, DAMAGED = "corrupt", "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect. `kind` is `corrupt` where the archive differs from what was archived, and `damaged` where the bytes
    are unchanged but were bad on the broker: a batch with a wrong CRC, bytes that are not a batch."""

    kind: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a verification: `segments` counts the whole archive, `read` the segments whose bytes were read.

    `detached` segments follow a gap in their lineage, where a snapshot was killed: the next snapshot closes the gap.
    """

    segments: int
    read: int
    read_bytes: int
    detached: int
    findings: list[Finding] = field(default_factory=list)


def verify(
    fs: pafs.FileSystem,
    root: str,
    *,
    cluster_id: str | None = None,
    subset: tuple[int, int] = (1, 1),
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Check every cluster, or one. `progress` is called with the bytes read so far and the total to read.

    Defects are returned, not raised; an OSError from the store is raised.
    """
    findings: list[Finding] = []
    found = list(_lineages(fs, root, cluster_id, findings))
    chosen: list[ArchivedSegment] = []
    for lineage in found:
        findings += _ambiguous(fs, lineage)
        sizes = {segment.segment_path: segment.size_bytes for segment in lineage.segments}
        findings += [_corrupt(path, what) for path, what in misfits(fs, sizes)]
        chosen += [segment for segment in lineage.segments if is_in_subset(segment.segment_path, root, subset)]
    findings += _lookups(fs, root, cluster_id, subset)
    of_bytes, read_bytes = sum(segment.size_bytes for segment in chosen), 0
    gone = {finding.where for finding in findings}

    def wrong_with(segment: ArchivedSegment) -> list[Finding]:
        return [] if segment.segment_path in gone else check(fs, segment)

    with ThreadPoolExecutor(READERS) as readers:
        for segment, wrong in zip(chosen, readers.map(wrong_with, chosen), strict=True):
            findings += wrong
            read_bytes += segment.size_bytes
            if progress:
                progress(read_bytes, of_bytes)
    return Verified(
        segments=sum(len(lineage.segments) for lineage in found),
        read=len(chosen),
        read_bytes=read_bytes,
        detached=sum(len(lineage.detached) for lineage in found),
        findings=sorted(findings, key=lambda finding: (finding.where, finding.what)),
    )


def is_in_subset(path: str, root: str, subset: tuple[int, int]) -> bool:
    """Whether a file or folder of the archive is in part n of t; depends only on its path below `root`."""
    n, t = subset
    if not 1 <= n <= t:
        raise ValueError(f"no such part: {n}/{t}")
    name = path.removeprefix(root.rstrip("/"))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % t == n - 1


def check(fs: pafs.FileSystem, segment: ArchivedSegment) -> list[Finding]:
    """Defects of one segment and its manifest."""
    try:
        manifest = read_segment_manifest(fs, segment)
    except SextonError as error:
        return [_corrupt(segment.manifest_path, error.message)]
    folder = f"{manifest.cluster_id}/{manifest.topic_id}/{manifest.log_partition}/{manifest.lineage}"
    if not segment.folder.endswith(f"/{folder}"):
        return [_corrupt(segment.manifest_path, f"the manifest of a segment in {folder}")]
    data = read_file(fs, segment.segment_path)
    if len(data) != manifest.size_bytes:
        return [_corrupt(segment.segment_path, f"{len(data)} bytes, its manifest says {manifest.size_bytes}")]
    digest = hashlib.sha256(data).hexdigest()
    if digest != manifest.sha256:
        return [_corrupt(segment.segment_path, f"SHA-256 is {digest}, its manifest says {manifest.sha256}")]
    return [Finding(kind=DAMAGED, where=segment.segment_path, what=what) for what in _batches(data, segment)]


def _lookups(fs: pafs.FileSystem, root: str, cluster_id: str | None, subset: tuple[int, int]) -> Iterator[Finding]:
    """Lookups and admin snapshots whose files do not match their manifests."""
    for cluster in clusters_of(fs, root, cluster_id):
        for instants, manifest, read in (
            (lookup_instants, lookup_manifest, read_lookup),
            (admin_snapshot_instants, admin_snapshot_manifest, read_admin_snapshot),
        ):
            for at_ms in instants(fs, root, cluster):
                path = manifest(root, cluster, at_ms)
                if is_in_subset(path, root, subset):
                    try:
                        read(fs, root, cluster, at_ms)
                    except SextonError as error:
                        yield _corrupt(str(error.where or path), error.message)


def _corrupt(where: str, what: str) -> Finding:
    return Finding(kind=CORRUPT, where=where, what=what)


def _batches(data: bytes, segment: ArchivedSegment) -> Iterator[str]:
    """Defects in the batches of a segment whose bytes are unchanged since they were fetched."""
    view = as_u8(data)
    bad_crc = no_batch = outside = backwards = 0
    epoch = -1
    for rows in frames(view):
        batches = batch_headers(view, rows)
        bad_crc += int(np.count_nonzero(rows[:, KIND] == BAD_CRC))
        no_batch += len(rows) - len(batches.rows)
        base = batches.base_offset
        outside += int(np.count_nonzero((base < segment.first_log_offset) | (base >= segment.next_log_offset)))
        epochs = batches.leader_epoch[batches.magic == 2]
        backwards += int(np.count_nonzero(np.diff(epochs, prepend=epoch) < 0))
        epoch = int(epochs[-1]) if len(epochs) else epoch
    if bad_crc:
        yield f"batches with a wrong CRC: {bad_crc}"
    if no_batch:
        yield f"places that hold no batch: {no_batch}"
    if outside:
        yield f"batches outside of [{segment.first_log_offset}, {segment.next_log_offset}): {outside}"
    if backwards:
        yield f"places where the leader epoch goes back: {backwards}"


def _lineages(
    fs: pafs.FileSystem, root: str, cluster_id: str | None, findings: list[Finding]
) -> Iterator[ArchivedLineage]:
    for cluster in clusters_of(fs, root, cluster_id):
        found: dict[str, dict[int, list[ArchivedLineage]]] = {}
        for topic in topics_of(fs, root, cluster):
            try:
                found[topic] = list_lineages(fs, root, cluster_id=cluster, topic_id=topic)
            except SextonError as error:
                findings.append(_corrupt(error.where or topic, error.message))
        for log_partitions in found.values():
            for lineages in log_partitions.values():
                findings += _succession(lineages)
                yield from lineages
        findings += _against_metadata(fs, root, cluster, found)


def _succession(lineages: Sequence[ArchivedLineage]) -> list[Finding]:
    """Findings for lineages that are not numbered from 0, or that do not name the previous lineage and its end."""
    wrong = []
    for number, lineage in enumerate(lineages):
        if lineage.lineage.ordinal != number:
            wrong.append(f"lineage {lineage.lineage.ordinal}, expected {number}: one is missing")
        elif number and (origin := lineage.origin):
            before = lineages[number - 1]
            if (origin.previous, origin.previous_end) != (before.lineage.name, before.next_log_offset):
                expected = f"{origin.previous} up to {origin.previous_end}"
                wrong.append(f"it follows {expected}, but {before.lineage.name} ends at {before.next_log_offset}")
    return [_corrupt(lineages[0].folder.rpartition("/")[0], what) for what in wrong]


def _against_metadata(
    fs: pafs.FileSystem, root: str, cluster_id: str, found: Mapping[str, Mapping[int, Sequence[ArchivedLineage]]]
) -> list[Finding]:
    """Findings for log partitions of the newest finished snapshot that are no longer complete: a segment lost with its
    manifest leaves no other trace."""
    try:
        metadata = newest_metadata(fs, root, cluster_id=cluster_id)
    except SextonError as error:
        return [_corrupt(error.where or cluster_id, error.message)]
    if metadata is None:
        return []
    wrong = []
    for log_partition, known in metadata.log_partitions.items():
        lineages = found.get(metadata.topic_id, {}).get(log_partition, ())
        ends = {lineage.lineage.name: lineage.next_log_offset for lineage in lineages}
        if ends.get(known.lineage, -1) < known.high_watermark:
            reached = f"it ends at {ends[known.lineage]}" if known.lineage in ends else "it is not here"
            folder = lineage_folder(root, cluster_id, metadata.topic_id, log_partition, known.lineage)
            wrong.append(_corrupt(folder, f"a snapshot had this up to {known.high_watermark}, {reached}"))
    return wrong


def _ambiguous(fs: pafs.FileSystem, lineage: ArchivedLineage) -> list[Finding]:
    """Segments with several manifests that describe different bytes."""
    starts = Counter(segment.first_log_offset for segment in (*lineage.segments, *lineage.detached))
    read = {segment.first_log_offset: segment for segment in lineage.segments}
    odd = {twin.first_log_offset for twin in lineage.twins if not _is_same(fs, twin, read[twin.first_log_offset])}
    twice = sorted(odd | {start for start, count in starts.items() if count > 1})
    what = f"several manifests of one segment: {', '.join(map(str, twice))}"
    return [_corrupt(lineage.folder, what)] if twice else []


def _is_same(fs: pafs.FileSystem, one: ArchivedSegment, other: ArchivedSegment) -> bool:
    try:
        return read_segment_manifest(fs, one).sha256 == read_segment_manifest(fs, other).sha256
    except SextonError:
        return False
