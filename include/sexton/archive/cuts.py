"""Cuts: where reading stops in each log partition for an instant, settled once and used ever after.

    <archive>/<cluster_id>/cuts/<topic_id>/<as_of_ms>.json

The cut of an instant is the base offset of the first batch whose max timestamp reaches it. It is looked for in what the
first snapshot had archived that was taken at or after the instant and its settling time: bytes that never change, so
that whoever looks first finds what everybody would. Batches stamped more than an hour after the snapshot that brought
them are passed over. Where no batch reaches the instant, the cut is where that snapshot's archive ends.

Not here: how a cut is looked for (cut_search), and what the archive can answer for (coverage).
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.coverage import NONE, PARTIAL, Coverage, Evidence, judge, worst
from sexton.archive.cut_search import end_of, find_cut, is_whole, start_of
from sexton.archive.files import read_json, safe_name, write_whole
from sexton.archive.lineages import ArchivedLineage, list_lineages, topics_of
from sexton.archive.log_position import LogPosition
from sexton.archive.snapshots import Snapshot, SnapshotWindow, around
from sexton.errors import NoCoverage, UsageError

CUTS_FOLDER = "cuts"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCuts:
    """The cuts of an instant by log partition, when the snapshot was taken that settled them, and what they cover."""

    cluster_id: str
    topic_id: str
    as_of_ms: int
    taken_at_ms: int
    partition_count: int | None
    coverage: Coverage
    cuts: dict[int, LogPosition]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "SettledCuts":
        """The cuts in a JSON object; ValueError when it holds none."""
        try:
            positions = {int(part): _numbers(LogPosition(**position)) for part, position in found["cuts"].items()}
            told = {
                **found,
                "coverage": Coverage(**found["coverage"]),
                "cuts": dict(sorted(positions.items())),
            }
            return cls(**{name: told[name] for name in cls.__slots__})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


def _numbers(position: LogPosition) -> LogPosition:
    if not isinstance(position.lineage, str) or any(type(n) is not int for n in (position.cut, *position.order)):
        raise ValueError(f"not a position: {position}")
    return position


def settled_cuts(fs: pafs.FileSystem, root: str, *, cluster_id: str, as_of_ms: int, settle_ms: int) -> SettledCuts:
    """The cuts of an instant: those stored, else those that the archive tells, which are for store_cuts to keep.

    NoCoverage when no snapshot settles the instant, or when what there is cannot answer for it.
    """
    if (stored := _stored(fs, root, cluster_id, as_of_ms)) is not None:
        return stored
    found = around(fs, root, cluster_id=cluster_id, as_of_ms=as_of_ms, settle_ms=settle_ms)
    if found.settling is None:
        raise NoCoverage(_unsettled(found, as_of_ms, settle_ms), where=root, fix="run `sexton snapshot` then")
    settled = _settle(fs, root, cluster_id, found, found.settling, as_of_ms=as_of_ms, settle_ms=settle_ms)
    if settled.coverage.value == NONE:
        raise NoCoverage(f"no coverage for {as_of_ms} ms: {settled.coverage.reason}", where=root)
    return settled


def store_cuts(fs: pafs.FileSystem, root: str, settled: SettledCuts) -> SettledCuts:
    """Store the cuts of an instant, once for all; those that are stored, which may be somebody else's."""
    path = _path(root, settled.cluster_id, settled.topic_id, settled.as_of_ms)
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        write_whole(fs, path, settled.to_json(), what="cuts")
    return _read(fs, path)


def newest_cuts(fs: pafs.FileSystem, root: str, *, cluster_id: str) -> SettledCuts:
    """Where the newest snapshot's archive ends in each log partition; nothing is settled or stored.

    `as_of_ms` is when it was taken. NoCoverage when nothing is archived.
    """
    found = around(fs, root, cluster_id=cluster_id, as_of_ms=None, settle_ms=0)
    if found.settling is None:
        raise NoCoverage("the archive holds no segment", where=root, fix="run `sexton snapshot` first")
    newest = found.settling
    histories = _histories(fs, root, cluster_id, newest)
    ends = {part: end_of(fs, history, newest.ends[part].end) for part, history in histories.items()}
    at_start = [
        (part, Coverage(value=PARTIAL, reason=f"its lineage begins at log_offset {one.lineage.start_log_offset}"))
        for part, one in histories.items()
        if one.lineage.start_log_offset > 0
    ]
    return SettledCuts(
        cluster_id=cluster_id,
        topic_id=newest.topic_id,
        as_of_ms=newest.taken_at_ms,
        taken_at_ms=newest.taken_at_ms,
        partition_count=newest.partition_count,
        coverage=worst(at_start),
        cuts=ends,
    )


def _unsettled(found: SnapshotWindow, as_of_ms: int, settle_ms: int) -> str:
    if found.newest_ms is None:
        return "the archive holds no snapshot"
    taken = found.newest_ms - as_of_ms
    side = f"{taken} ms after" if taken >= 0 else f"{-taken} ms before"
    return (
        f"the newest snapshot was taken {side} as_of, which settles with one taken at least {settle_ms} ms after it: "
        f"at {as_of_ms + settle_ms} ms or later"
    )


def _settle(
    fs: pafs.FileSystem,
    root: str,
    cluster_id: str,
    found: SnapshotWindow,
    settling: Snapshot,
    *,
    as_of_ms: int,
    settle_ms: int,
) -> SettledCuts:
    histories = _histories(fs, root, cluster_id, settling)
    earlier = _earlier(fs, root, cluster_id, settling.topic_id, as_of_ms)

    def look(part: int) -> Evidence:
        history, end = histories[part], settling.ends[part].end
        start = start_of(history)
        if (known := earlier.get(part)) is not None and known.lineage == start.lineage and known.cut <= end:
            start = known
        position = positions[part] = find_cut(fs, history, start, end=end, as_of_ms=as_of_ms)
        evidence = Evidence(
            as_of_ms=as_of_ms,
            settle_ms=settle_ms,
            before=found.before,
            settling=settling,
            lineage=history,
            cut=position.cut,
            end_before=_end_before(found.before, settling, history),
        )
        if not evidence.depends_on_holes:
            return evidence
        return replace(evidence, is_whole=is_whole(fs, history, evidence.end_before, position.cut))

    positions: dict[int, LogPosition] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        evidence = list(pool.map(look, histories))
    coverage = worst(judge(evidence).items())
    return SettledCuts(
        cluster_id=cluster_id,
        topic_id=settling.topic_id,
        as_of_ms=as_of_ms,
        taken_at_ms=settling.taken_at_ms,
        partition_count=settling.partition_count,
        coverage=coverage,
        cuts=dict(sorted(positions.items())),
    )


def _histories(fs: pafs.FileSystem, root: str, cluster_id: str, snapshot: Snapshot) -> dict[int, ArchivedLineage]:
    """The lineages that a snapshot had something of; NoCoverage when the archive has lost some of it."""
    found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=snapshot.topic_id)
    histories = {}
    for part, archived in sorted(snapshot.ends.items()):
        history = next((one for one in found.get(part, []) if one.lineage.name == archived.lineage), None)
        start = int(archived.lineage.rpartition("-")[2])
        if archived.end <= start and (history is None or not history.segments):
            continue  # nothing was there to archive
        if history is None or history.next_log_offset < archived.end:
            reached = start if history is None else history.next_log_offset
            raise NoCoverage(
                f"log partition {part}: the snapshot at {snapshot.taken_at_ms} ms archived lineage {archived.lineage} "
                f"up to log_offset {archived.end}, and it ends at {reached}",
                where=root,
                fix="restore the archive's missing files",
            )
        histories[part] = history
    return histories


def _end_before(before: Snapshot | None, settling: Snapshot, history: ArchivedLineage) -> int:
    """Where the archive of the lineage ended at the snapshot before the instant."""
    known = before.ends.get(history.log_partition) if before is not None else None
    is_same = before is not None and before.topic_id == settling.topic_id
    if known is None or not is_same or known.lineage != history.lineage.name:
        return history.lineage.start_log_offset
    return known.end


# --- where cuts are stored


def _folder(root: str, cluster_id: str, topic_id: str) -> str:
    cluster, topic = safe_name(cluster_id, what="cluster id"), safe_name(topic_id, what="topic id")
    return f"{root.rstrip('/')}/{cluster}/{CUTS_FOLDER}/{topic}"


def _path(root: str, cluster_id: str, topic_id: str, as_of_ms: int) -> str:
    return f"{_folder(root, cluster_id, topic_id)}/{as_of_ms}.json"


def _stored(fs: pafs.FileSystem, root: str, cluster_id: str, as_of_ms: int) -> SettledCuts | None:
    """The cuts of an instant as they were settled before; it is settled for one topic at most."""
    paths = [_path(root, cluster_id, topic_id, as_of_ms) for topic_id in topics_of(fs, root, cluster_id)]
    there = [info.path for info in fs.get_file_info(paths) if info.type == pafs.FileType.File] if paths else []
    return _read(fs, there[0]) if there else None


def _earlier(fs: pafs.FileSystem, root: str, cluster_id: str, topic_id: str, as_of_ms: int) -> dict[int, LogPosition]:
    """The cuts of the newest settled instant before this one: no later one's lie before them."""
    files = fs.get_file_info(pafs.FileSelector(_folder(root, cluster_id, topic_id), allow_not_found=True))
    settled = [int(stem) for file in files if (stem := file.base_name.removesuffix(".json")).isdecimal()]
    earlier = max((at for at in settled if at < as_of_ms), default=None)
    return {} if earlier is None else _read(fs, _path(root, cluster_id, topic_id, earlier)).cuts


def _read(fs: pafs.FileSystem, path: str) -> SettledCuts:
    try:
        return SettledCuts.from_json(read_json(fs, path))
    except ValueError as error:
        raise UsageError(f"no settled cuts: {error}", where=path) from None
