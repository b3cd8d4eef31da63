"""Cuts: where reading stops in each log partition for an instant. A cut is settled once and never changes.

    <archive>/<cluster_id>/cuts/<topic_id>/<as_of_ms>.json

The cut of an instant is the base offset of the first batch whose max timestamp is at or after the instant; batches
stamped more than an hour after the snapshot that archived them are skipped. The search covers what was archived up to
and including the first snapshot taken at least the settle time after the instant: these bytes never change, so every
search finds the same cut. If it finds no batch, the cut is the end of what that snapshot archived.

Not here: the search (cut_search), and the coverage of an instant (coverage).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyarrow import fs as pafs

from sexton.archive.coverage import NONE, Coverage, CoverageEvidence, judge, of_start, worst
from sexton.archive.cut_search import end_of, find_cut, is_whole, start_of
from sexton.archive.files import cluster_folder, numbered_files, read_record, record_json, safe_name, write_whole
from sexton.archive.lineages import ArchivedLineage, list_lineages, topics_of
from sexton.archive.log_position import LogPosition
from sexton.archive.snapshots import Snapshot, SnapshotWindow, snapshot_window
from sexton.errors import NoCoverage, UsageError

CUTS_FOLDER = "cuts"
_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCuts:
    """The cuts of an instant by log partition, the instant of the snapshot that settled them, and their coverage."""

    cluster_id: str
    topic_id: str
    as_of_ms: int
    taken_at_ms: int
    partition_count: int | None
    coverage: Coverage
    cuts: dict[int, LogPosition]


def settled_cuts(fs: pafs.FileSystem, root: str, *, cluster_id: str, as_of_ms: int, settle_ms: int) -> SettledCuts:
    """The stored cuts of an instant, or cuts found by a search of the archived segments, which `store_cuts` can store.

    NoCoverage when no snapshot settles the instant, or when the archive cannot answer for it.
    """
    paths = [_path(root, cluster_id, topic_id, as_of_ms) for topic_id in topics_of(fs, root, cluster_id)]
    stored = [info.path for info in fs.get_file_info(paths) if info.type == pafs.FileType.File] if paths else []
    if stored:  # an instant is settled for at most one topic id
        return _read(fs, stored[0])
    window = snapshot_window(fs, root, cluster_id=cluster_id, as_of_ms=as_of_ms, settle_ms=settle_ms)
    if window.settling is None:
        raise NoCoverage(_unsettled(window, as_of_ms, settle_ms), where=root, fix="run `sexton snapshot`")
    settled = _settle(fs, root, cluster_id, window, as_of_ms=as_of_ms, settle_ms=settle_ms)
    if settled.coverage.value == NONE:
        raise NoCoverage(f"no coverage for {as_of_ms} ms: {settled.coverage.reason}", where=root)
    return settled


def store_cuts(fs: pafs.FileSystem, root: str, settled: SettledCuts) -> SettledCuts:
    """Store the cuts of an instant, unless it has stored cuts; returns the stored cuts."""
    path = _path(root, settled.cluster_id, settled.topic_id, settled.as_of_ms)
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        write_whole(fs, path, record_json(settled), what="cuts")
    return _read(fs, path)


def newest_cuts(fs: pafs.FileSystem, root: str, *, cluster_id: str) -> SettledCuts:
    """Cuts at the end of what the newest snapshot archived in each log partition; nothing is settled or stored.

    `as_of_ms` is the instant of that snapshot. NoCoverage when nothing is archived.
    """
    newest = snapshot_window(fs, root, cluster_id=cluster_id, as_of_ms=None, settle_ms=0).settling
    if newest is None:
        raise NoCoverage("the archive holds no segment", where=root, fix="run `sexton snapshot` first")
    lineages = _archived_lineages(fs, root, cluster_id, newest)
    return SettledCuts(
        cluster_id=cluster_id,
        topic_id=newest.topic_id,
        as_of_ms=newest.taken_at_ms,
        taken_at_ms=newest.taken_at_ms,
        partition_count=newest.partition_count,
        coverage=worst((part, of_start(one)) for part, one in lineages.items()),
        cuts={part: end_of(fs, one, newest.ends[part].end) for part, one in lineages.items()},
    )


def lineages_of(fs: pafs.FileSystem, root: str, settled: SettledCuts) -> dict[int, ArchivedLineage]:
    """The lineage of each cut; UsageError when a lineage is missing or ends below its cut."""
    found = list_lineages(fs, root, cluster_id=settled.cluster_id, topic_id=settled.topic_id)
    lineages = {}
    for part, position in settled.cuts.items():
        lineage = next((one for one in found.get(part, []) if one.lineage.name == position.lineage), None)
        if lineage is None or lineage.next_log_offset < position.cut:
            raise UsageError(
                f"lineage {position.lineage} of log partition {part} does not reach log_offset {position.cut}, where "
                f"the cut of {settled.as_of_ms} ms was settled",
                where=root,
                fix="restore the archive's missing files",
            )
        lineages[part] = lineage
    return lineages


def _unsettled(window: SnapshotWindow, as_of_ms: int, settle_ms: int) -> str:
    if window.newest_ms is None:
        return "the archive holds no snapshot"
    taken = window.newest_ms - as_of_ms
    side = f"{taken} ms after" if taken >= 0 else f"{-taken} ms before"
    return (
        f"the newest snapshot was taken {side} as_of, which needs one taken at least {settle_ms} ms after it: "
        f"at {as_of_ms + settle_ms} ms or later"
    )


def _settle(
    fs: pafs.FileSystem, root: str, cluster_id: str, window: SnapshotWindow, *, as_of_ms: int, settle_ms: int
) -> SettledCuts:
    before, settling = window.before, window.settling
    assert settling is not None
    lineages = _archived_lineages(fs, root, cluster_id, settling)
    # The search starts at the cuts of the newest settled instant before this one, since cuts only rise.
    settled = [at for at in numbered_files(fs, _folder(root, cluster_id, settling.topic_id)) if at < as_of_ms]
    earlier = _read(fs, _path(root, cluster_id, settling.topic_id, settled[-1])).cuts if settled else {}

    def search(part: int) -> tuple[LogPosition, CoverageEvidence]:
        lineage, end = lineages[part], settling.ends[part].end
        start = start_of(lineage)
        if (known := earlier.get(part)) is not None and known.lineage == start.lineage and known.cut <= end:
            start = known
        position = find_cut(fs, lineage, start, end=end, as_of_ms=as_of_ms)
        evidence = CoverageEvidence(
            as_of_ms=as_of_ms,
            settle_ms=settle_ms,
            before=before,
            settling=settling,
            lineage=lineage,
            cut=position.cut,
            end_before=_end_before(before, settling, lineage),
        )
        if not evidence.depends_on_holes:
            return position, evidence
        return position, replace(evidence, is_whole=is_whole(fs, lineage, evidence.end_before, position.cut))

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(search, lineages))
    return SettledCuts(
        cluster_id=cluster_id,
        topic_id=settling.topic_id,
        as_of_ms=as_of_ms,
        taken_at_ms=settling.taken_at_ms,
        partition_count=settling.partition_count,
        coverage=worst(judge([evidence for _, evidence in found]).items()),
        cuts={part: position for part, (position, _) in zip(lineages, found, strict=True)},
    )


def _archived_lineages(
    fs: pafs.FileSystem, root: str, cluster_id: str, snapshot: Snapshot
) -> dict[int, ArchivedLineage]:
    """The lineages that a snapshot archived, by log partition; NoCoverage when one is missing, or ends too early
    now."""
    found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=snapshot.topic_id)
    lineages = {}
    for part, archived in sorted(snapshot.ends.items()):
        lineage = next((one for one in found.get(part, []) if one.lineage.name == archived.lineage), None)
        start = int(archived.lineage.rpartition("-")[2])
        if archived.end <= start and (lineage is None or not lineage.segments):
            continue  # there was nothing to archive
        reached = start if lineage is None else lineage.next_log_offset
        if lineage is None or reached < archived.end:
            raise NoCoverage(
                f"log partition {part}: the snapshot at {snapshot.taken_at_ms} ms archived lineage {archived.lineage} "
                f"up to log_offset {archived.end}, but now it ends at {reached}",
                where=root,
                fix="restore the archive's missing files",
            )
        lineages[part] = lineage
    return lineages


def _end_before(before: Snapshot | None, settling: Snapshot, lineage: ArchivedLineage) -> int:
    """Where the archived lineage ended at the snapshot `before`: at the lineage's start if it did not exist yet."""
    known = before.ends.get(lineage.log_partition) if before and before.topic_id == settling.topic_id else None
    is_same = known is not None and known.lineage == lineage.lineage.name
    return known.end if known is not None and is_same else lineage.lineage.start_log_offset


def _folder(root: str, cluster_id: str, topic_id: str) -> str:
    return cluster_folder(root, cluster_id, CUTS_FOLDER, safe_name(topic_id, what="topic id"))


def _path(root: str, cluster_id: str, topic_id: str, as_of_ms: int) -> str:
    return f"{_folder(root, cluster_id, topic_id)}/{as_of_ms}.json"


def _read(fs: pafs.FileSystem, path: str) -> SettledCuts:
    return read_record(fs, path, SettledCuts, what="settled cuts")
