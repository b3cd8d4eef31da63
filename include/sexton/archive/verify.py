"""Whether an archive still holds what was put into it: names, chains, manifests, SHA-256, Kafka's own CRC.

Names and sizes are looked at for the whole archive every time. Bytes cost reading: `subset` (n, t) reads one part in t,
always the same for the same n, so that t runs with n = 1 .. t read everything once.

Not here: what the records say (a replay tells), and whether a log goes on from the archive (pipeline.continuation).
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    lineage_folder,
    list_lineages,
    read_segment_manifest,
    topics_of,
)
from sexton.errors import SextonError
from sexton.log.crc import as_u8
from sexton.log.framing import BAD_CRC, KIND, frames
from sexton.log.headers import batch_headers

READERS = 4
"""Segments that are read at the same time; each is in memory whole."""
CORRUPT, DAMAGED = "corrupt", "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `kind` is `corrupt` where the archive is not what was put into it, `damaged` where it is
    just as the broker had it and that was not good: a batch whose CRC is wrong, bytes that are no batch."""

    kind: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was looked at. `segments` of the whole archive, `read` of those whose bytes were read; `detached` segments
    lie behind a gap in their lineage, where a snapshot died: the next one closes it."""

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
    """Look at every cluster, or at one. `progress` is told the bytes read so far and those to read in all.

    Nothing that is found raises; an OSError of the store does.
    """
    findings: list[Finding] = []
    found = list(_histories(fs, root, cluster_id, findings))
    chosen: list[ArchivedSegment] = []
    for history in found:
        findings += _names(fs, history)
        findings += _missing(fs, history)
        chosen += [link for link in history.segments if is_in_subset(link, root, subset)]
    of_bytes, read_bytes = sum(link.size_bytes for link in chosen), 0
    gone = {finding.where for finding in findings}

    def wrong_with(link: ArchivedSegment) -> list[Finding]:
        return [] if link.segment_path in gone else check(fs, link)

    with ThreadPoolExecutor(READERS) as readers:
        for link, wrong in zip(chosen, readers.map(wrong_with, chosen), strict=True):
            findings += wrong
            read_bytes += link.size_bytes
            if progress:
                progress(read_bytes, of_bytes)
    return Verified(
        segments=sum(len(history.segments) for history in found),
        read=len(chosen),
        read_bytes=read_bytes,
        detached=sum(len(history.detached) for history in found),
        findings=sorted(findings, key=lambda finding: (finding.where, finding.what)),
    )


def is_in_subset(link: ArchivedSegment, root: str, subset: tuple[int, int]) -> bool:
    """Whether a segment is in part n of t, told from its place in the archive alone."""
    n, t = subset
    if not 1 <= n <= t:
        raise ValueError(f"no such part: {n}/{t}")
    place = link.segment_path.removeprefix(root.rstrip("/"))
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:8], "big") % t == n - 1


def check(fs: pafs.FileSystem, link: ArchivedSegment) -> list[Finding]:
    """What is wrong with one segment and its manifest."""
    try:
        manifest = read_segment_manifest(fs, link)
    except SextonError as error:
        return [Finding(kind=CORRUPT, where=link.manifest_path, what=error.message)]
    place = f"{manifest.cluster_id}/{manifest.topic_id}/{manifest.log_partition}/{manifest.lineage}"
    if not link.folder.endswith(f"/{place}"):
        return [Finding(kind=CORRUPT, where=link.manifest_path, what=f"the manifest of a segment in {place}")]
    with fs.open_input_stream(link.segment_path) as file:
        data = file.read()
    if len(data) != manifest.size_bytes:
        what = f"{len(data)} bytes, its manifest says {manifest.size_bytes}"
        return [Finding(kind=CORRUPT, where=link.segment_path, what=what)]
    digest = hashlib.sha256(data).hexdigest()
    if digest != manifest.sha256:
        what = f"SHA-256 is {digest}, its manifest says {manifest.sha256}"
        return [Finding(kind=CORRUPT, where=link.segment_path, what=what)]
    return [Finding(kind=DAMAGED, where=link.segment_path, what=what) for what in _batches(data, link)]


def _batches(data: bytes, link: ArchivedSegment) -> Iterator[str]:
    """What is wrong with the batches of bytes that are as they were fetched."""
    view = as_u8(data)
    bad_crc = no_batch = outside = backwards = 0
    epoch = -1
    for rows in frames(view):
        headers = batch_headers(view, rows)
        bad_crc += int(np.count_nonzero(rows[:, KIND] == BAD_CRC))
        no_batch += len(rows) - len(headers.rows)
        base = headers.base_offset
        outside += int(np.count_nonzero((base < link.first_log_offset) | (base >= link.next_log_offset)))
        epochs = headers.leader_epoch[headers.magic == 2]
        backwards += int(np.count_nonzero(np.diff(epochs, prepend=epoch) < 0))
        epoch = int(epochs[-1]) if len(epochs) else epoch
    if bad_crc:
        yield f"batches with a wrong CRC: {bad_crc}"
    if no_batch:
        yield f"places that hold no batch: {no_batch}"
    if outside:
        yield f"batches outside of [{link.first_log_offset}, {link.next_log_offset}): {outside}"
    if backwards:
        yield f"places where the leader epoch goes back: {backwards}"


def _histories(
    fs: pafs.FileSystem, root: str, cluster_id: str | None, findings: list[Finding]
) -> Iterator[ArchivedLineage]:
    for cluster in clusters_of(fs, root, cluster_id):
        found: dict[str, dict[int, list[ArchivedLineage]]] = {}
        for topic in topics_of(fs, root, cluster):
            try:
                found[topic] = list_lineages(fs, root, cluster_id=cluster, topic_id=topic)
            except SextonError as error:
                findings.append(Finding(kind=CORRUPT, where=error.where or topic, what=error.message))
        for log_partitions in found.values():
            for histories in log_partitions.values():
                findings += _succession(histories)
                yield from histories
        findings += _against_metadata(fs, root, cluster, found)


def _succession(histories: Sequence[ArchivedLineage]) -> list[Finding]:
    """Lineages are counted from 0, and each names the one before it and where that ended."""
    wrong = []
    for number, history in enumerate(histories):
        if history.lineage.ordinal != number:
            wrong.append(f"lineage {history.lineage.ordinal}, expected {number}: one is missing")
        elif number and (origin := history.origin):
            before = histories[number - 1]
            if (origin.previous, origin.previous_end) != (before.lineage.name, before.next_log_offset):
                told = f"{origin.previous} up to {origin.previous_end}"
                wrong.append(f"it follows {told}, but {before.lineage.name} ends at {before.next_log_offset}")
    return [Finding(kind=CORRUPT, where=histories[0].folder.rpartition("/")[0], what=what) for what in wrong]


def _against_metadata(
    fs: pafs.FileSystem, root: str, cluster_id: str, found: Mapping[str, Mapping[int, Sequence[ArchivedLineage]]]
) -> list[Finding]:
    """What the newest finished snapshot had is there: a segment gone with its manifest leaves no other trace."""
    try:
        facts = newest_metadata(fs, root, cluster_id=cluster_id)
    except SextonError as error:
        return [Finding(kind=CORRUPT, where=error.where or cluster_id, what=error.message)]
    wrong = []
    topic_id = facts.offsets_topic["topic_id"] if facts else ""
    for log_partition, told in (facts.log_partitions or {} if facts else {}).items():
        histories = found.get(topic_id, {}).get(log_partition, ())
        ends = {history.lineage.name: history.next_log_offset for history in histories}
        if ends.get(told.lineage, -1) < told.high_watermark:
            place = lineage_folder(root, cluster_id, topic_id, log_partition, told.lineage)
            reached = f"it ends at {ends[told.lineage]}" if told.lineage in ends else "it is not here"
            what = f"a snapshot had this up to {told.high_watermark}, {reached}"
            wrong.append(Finding(kind=CORRUPT, where=place, what=what))
    return wrong


def _names(fs: pafs.FileSystem, history: ArchivedLineage) -> list[Finding]:
    """Segments of which several manifests tell that are not of the same bytes."""
    starts = Counter(link.first_log_offset for link in (*history.segments, *history.detached))
    chain = {link.first_log_offset: link for link in history.segments}
    odd = {twin.first_log_offset for twin in history.twins if not _is_same(fs, twin, chain[twin.first_log_offset])}
    twice = sorted(odd | {start for start, count in starts.items() if count > 1})
    what = f"several manifests of one segment: {', '.join(map(str, twice))}"
    return [Finding(kind=CORRUPT, where=history.folder, what=what)] if twice else []


def _is_same(fs: pafs.FileSystem, twin: ArchivedSegment, link: ArchivedSegment) -> bool:
    try:
        return read_segment_manifest(fs, twin).sha256 == read_segment_manifest(fs, link).sha256
    except SextonError:
        return False


def _missing(fs: pafs.FileSystem, history: ArchivedLineage) -> list[Finding]:
    """Segments that are gone or of another size."""
    infos = fs.get_file_info([link.segment_path for link in history.segments])
    wrong = []
    for link, info in zip(history.segments, infos, strict=True):
        if info.type != pafs.FileType.File:
            what = "the manifest is here, its segment is not"
        elif info.size != link.size_bytes:
            what = f"{info.size} bytes, its manifest says {link.size_bytes}"
        else:
            continue
        wrong.append(Finding(kind=CORRUPT, where=link.segment_path, what=what))
    return wrong
