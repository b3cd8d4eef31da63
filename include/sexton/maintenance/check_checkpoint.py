"""check_checkpoint: compare the newest checkpoint with a full replay of its instant, every week.

Most checkpoints are made from an earlier checkpoint, so an error in one would be in all later ones. A full replay with
the same result proves that there is no error. The instant of the last successful check is stored, so that a cluster
becomes due whatever the DAG's schedule:

    <archive>/<cluster_id>/maintenance/check_checkpoint.json
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs
from pydantic import BaseModel

from sexton.archive.cluster_metadata import the_cluster
from sexton.archive.files import safe_name
from sexton.archive.folder import Folder, filesystem
from sexton.archive.lineages import clusters_of, topics_of
from sexton.as_text import DAY_MS
from sexton.coordinator.profiles import profile_of
from sexton.errors import DataQualityFailure, NoCoverage, UsageError
from sexton.maintenance.task_state import read_state, write_state
from sexton.runs.checkpoint import CheckpointManifest, checkpoint_folders, odd_part, read_manifest
from sexton.runs.engine import Engine
from sexton.runs.fold_log import fold_log
from sexton.runs.folder import RunFolder, files_sha256
from sexton.runs.source import open_archive

TASK = "check_checkpoint"
_NAMED_FILES = 3


class CheckState(BaseModel):
    """When a cluster's newest checkpoint was last confirmed; None if never."""

    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A checkpoint that a full replay of `records` records confirmed.

    `is_same_file` is False if the tables are equal but another release of the Parquet library wrote them.
    """

    as_of_ms: int
    run_id: str
    profile: str
    sha256: str
    records: int
    is_same_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCheckpoints:
    """The confirmed checkpoints of clusters that were due, by cluster id, and when the next is due."""

    clusters: dict[str, Checked] = field(default_factory=dict)
    next_in_days: int = 0


def run(
    engine: Engine, archive: str, scratch: RunFolder, *, now_ms: int, days: int, only: str | None = None
) -> CheckedCheckpoints:
    """Check every cluster, or `only` this one, unless it was confirmed in the `days` before `now_ms`. `scratch` is
    emptied.

    DataQualityFailure if a checkpoint differs from the replay; NoCoverage if no due cluster has a checkpoint;
    UsageError if a state file is invalid.
    """
    fs, root = filesystem(archive)
    checked, missing = {}, NoCoverage("the archive holds no cluster", where=archive)
    waits = []
    for cluster_id in clusters_of(fs, root, only):
        at_ms = read_state(fs, root, cluster_id, TASK, CheckState).at_ms
        # Calendar days (UTC), so that a run later in the day does not delay the next checks.
        since = None if at_ms is None else now_ms // DAY_MS - at_ms // DAY_MS
        if since is not None and 0 <= since < days:  # a state from the future comes from a wrong clock
            waits.append(days - since)
            continue
        folder = RunFolder(scratch.uri, safe_name(cluster_id, what="cluster id"))
        try:
            found = compare_checkpoint(engine, folder, archive=archive, cluster_id=cluster_id)
        except NoCoverage as error:
            missing = error
            continue
        finally:
            folder.remove()
        write_state(fs, root, cluster_id, TASK, CheckState(at_ms=now_ms))
        checked[cluster_id] = found
    if not checked and not waits:
        raise missing
    return CheckedCheckpoints(clusters=checked, next_in_days=min(waits, default=days))


def compare_checkpoint(
    engine: Engine,
    folder: RunFolder,
    *,
    archive: str,
    as_of_ms: int | None = None,
    cluster_id: str | None = None,
    settle_ms: int | None = None,
) -> Checked:
    """Compare the checkpoint of `as_of_ms` (None: the newest) with a full replay of its instant into `folder`.

    NoCoverage if there is no such checkpoint; DataQualityFailure if it differs from the log, or is damaged.
    """
    fs, root = filesystem(archive)
    place, manifest = _published(fs, root, the_cluster(fs, root, cluster_id), as_of_ms)
    source = open_archive(archive, as_of_ms=manifest.as_of_ms, cluster_id=manifest.cluster_id, settle_ms=settle_ms)
    if source.positions != manifest.positions:
        raise DataQualityFailure("its cuts differ from the settled cuts of its instant", where=place)
    folder.reset()
    if odd := odd_part(manifest):
        raise DataQualityFailure(odd, where=place)
    merged = fold_log(engine, folder, source, profile_of(manifest.profile), bounds=manifest.bounds)
    replayed = {name: sha for part in merged for name, sha in part.files.items()}
    sha256 = files_sha256(replayed)
    published = Folder(place, fs=fs).hashed(manifest.files)
    if differing := _differing(folder.sub("fold"), replayed, published, manifest.files):
        more = f" and {len(differing) - _NAMED_FILES} more" if len(differing) > _NAMED_FILES else ""
        raise DataQualityFailure(
            f"a full replay differs from it in {', '.join(differing[:_NAMED_FILES])}{more}",
            where=place,
            fix="remove the checkpoint and those after it, and replay their runs with --full",
        )
    return Checked(
        as_of_ms=manifest.as_of_ms,
        run_id=manifest.run_id,
        profile=manifest.profile,
        sha256=sha256,
        records=sum(part.records for part in merged),
        is_same_file=sha256 == manifest.sha256,
    )


def _published(
    fs: pafs.FileSystem, root: str, cluster_id: str | None, as_of_ms: int | None
) -> tuple[str, CheckpointManifest]:
    """Return the checkpoint of `as_of_ms` (None: the newest), among those of all topic ids of the offsets topic."""
    found = [
        (at, folder)
        for topic_id in (topics_of(fs, root, cluster_id) if cluster_id is not None else ())
        for at, folder in checkpoint_folders(fs, root, cluster_id=str(cluster_id), topic_id=topic_id)
        if as_of_ms is None or at == as_of_ms
    ]
    for _, folder in sorted(found, reverse=True):
        try:
            return folder, read_manifest(fs, folder)
        except UsageError:  # its writer died before the manifest was complete
            continue
    asked = "" if as_of_ms is None else f" of {as_of_ms} ms"
    raise NoCoverage(f"no checkpoint{asked} is published", where=root)


def _differing(own: Folder, replayed: Mapping[str, str], published: Folder, hashes: Mapping[str, str]) -> list[str]:
    """Return the files whose tables differ between replay and checkpoint; DataQualityFailure if a checkpoint's file is
    not as it was written.

    `replayed` and `hashes` are the SHA-256s of the files of both, by name.
    """
    found = []
    for name in sorted({*replayed, *hashes}):
        try:
            file = published.open(name) if name in hashes else None
        except UsageError as error:
            raise DataQualityFailure(error.message, where=published.sub(name)) from None
        if replayed.get(name) == hashes.get(name):
            continue
        if file is None or name not in replayed or not _are_equal(own.open(name), file):
            found.append(name)
    return [name for name in found if not _adds_up(name, own, replayed, published, hashes)]


def _adds_up(name: str, own: Folder, replayed: Mapping[str, str], published: Folder, hashes: Mapping[str, str]) -> bool:
    """Return whether a differing file has counters whose sums over all buckets of the log partition are equal.

    Which bucket counts a value as superseded depends on the slices in which the log was read.
    """
    shard, _, file = name.partition("/")
    part, is_bucket, _ = shard.partition("-")
    if not is_bucket or file not in _COUNTS:
        return False
    try:
        sums = []
        for folder, names in ((own, replayed), (published, hashes)):
            there = [each for each in sorted(names) if re.fullmatch(rf"{part}-\d+/{file}", each)]
            sums.append(_COUNTS[file](pa.concat_tables([pq.read_table(folder.open(each)) for each in there])))
        return bool(sums[0].equals(sums[1]))
    except (pa.ArrowException, OSError, LookupError):  # the published file is damaged
        return False


def _sum_of_counters(rows: pa.Table) -> pa.Table:
    """Return the sum of each counter; counters of batches, and marks, are the same in every bucket."""
    return rows.group_by("name").aggregate([("number", "sum")]).sort_by("name")


def _sum_of_producers(rows: pa.Table) -> pa.Table:
    """Return each producer's open transaction, with the sum of its cancelled values."""
    names = [name for name in rows.column_names if name != "cancelled_count"]
    sums = rows.group_by(names).aggregate([("cancelled_count", "sum")])
    return sums.sort_by([(name, "ascending") for name in sums.column_names])


_COUNTS = {"counters.parquet": _sum_of_counters, "producers.parquet": _sum_of_producers}


def _are_equal(replayed: pa.NativeFile, published: pa.NativeFile) -> bool:
    """Return whether the replayed and the published file have equal tables."""
    try:
        return bool(pq.read_table(replayed).equals(pq.read_table(published)))
    except (pa.ArrowException, OSError):  # the published file is damaged
        return False
