"""Checkpoints: the folds that published runs store in the archive, from which later runs continue.

    <archive>/<cluster_id>/checkpoints/<topic_id>/<as_of_ms>-<run_id>/<shard>/<part of the fold>.parquet
                                                                     /checkpoint.json, written last

A shard is a log partition, or a bucket of a log partition with very many keys (runs.folder.Shard, kernels.buckets).

A checkpoint is used only if everything that a fold depends on agrees: cluster, topic, the lineage of every log
partition, a cut that is not after the requested one, the profile, the format of a fold, the cap on inflated batches,
and the SHA-256 of every file. Whoever can write to the archive can forge all of these, so the fold is also validated
when it is read (kernels). A checkpoint that does not agree is skipped with a warning, and the next older one is tried.
If none agrees, the log is replayed in full, with the same result.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs
from pydantic import BaseModel, Field

from sexton import __version__
from sexton.archive.files import child_folders, is_file, read_record, safe_name, write_synced, write_whole
from sexton.archive.folder import Folder, filesystem
from sexton.archive.log_position import LogPosition
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import DamagedFold, SextonError, UsageError
from sexton.failpoints import failpoint
from sexton.kernels.buckets import GroupRange, bucket_of, groups_of, ranges_of, rest_of, with_groups
from sexton.kernels.checkpoint.files import unpack
from sexton.kernels.fold import PartialFold
from sexton.runs.folder import RunFolder, RunRecord, Shard, files_sha256, shards_of
from sexton.runs.source import LogSource
from sexton.settings import settings

CHECKPOINTS_FOLDER = "checkpoints"
MANIFEST = "checkpoint.json"
RULES_OF_FOLDS = 4
"""Version of the folding rules. Raise it whenever the same bytes fold differently; columns are compared separately."""
_MAX_TRIED = 50
_NAME = re.compile(r"(\d{1,19})-(.+)")
_FILE = re.compile(r"(\d{1,9})(-\d{4})?/[a-z_]+\.parquet")
_LONGEST_NAME = 80
_T = TypeVar("_T")


class CheckpointManifest(BaseModel):
    """Metadata of a checkpoint. `files` are SHA-256s by path below its folder, `sha256` covers all of them."""

    fold_format: str
    cluster_id: str
    topic_id: str
    as_of_ms: int
    run_id: str
    profile: str
    inflated_cap_bytes: int
    positions: dict[int, LogPosition]
    bounds: dict[int, list[str]] = Field(default_factory=dict)
    """RunRecord.bounds of the checkpoint."""
    files: dict[str, str]
    sha256: str
    code_version: str = __version__


class DamagedCheckpoint(SextonError):
    """A fold in a checkpoint is invalid. `where` is the name of the checkpoint's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFold:
    """The fold of one log partition in a checkpoint, one folder per bucket. `bounds` are as in RunRecord.bounds, `name`
    is the name of the checkpoint's folder."""

    log_partition: int
    folders: Sequence[Folder]
    bounds: Sequence[str]
    cut: int
    name: str

    def read(self, profile: Profile, *, ids: GroupRange | None = None) -> PartialFold:
        """The fold, or its groups within the range `ids`.

        DamagedCheckpoint if it is not a fold up to `cut` by `profile`.
        """
        ids = ids or GroupRange()
        first, *others = shards_of(self.log_partition, self.bounds)
        if not others:
            return bucket_of(self._read(first, profile), ids)
        rest = rest_of(self._read(first, profile, without_groups=True), is_first=ids.is_first)
        if ids.is_first:  # the first bucket also has the counters of all buckets
            rest = with_groups(rest, (self._read(each, profile, without_groups=True).state for each in others))
        some = zip(ranges_of(self.bounds), [first, *others], strict=True)
        return with_groups(rest, (groups_of(self._read(each, profile), ids) for own, each in some if own.overlaps(ids)))

    def groups_by_id(self, *, most_rows: int) -> list[tuple[str | None, int]]:
        """(group id, number of keys from this id up to the next one), at steps of about `most_rows` keys.

        An estimate, as if all groups of a bucket had the same number of keys. DamagedCheckpoint if a file is missing or
        has changed.
        """
        found: list[tuple[str | None, int]] = []
        for shard in shards_of(self.log_partition, self.bounds):
            folder = self._folder(shard)
            names = folder.files()
            if not {"keys.parquet", "groups.parquet"} <= {*names}:
                continue
            try:
                with folder.open("keys.parquet") as file:
                    rows = pq.read_metadata(file).num_rows
                with folder.open("groups.parquet") as file:
                    groups = pq.read_table(file, columns=["group_id"])["group_id"].cast(pa.large_string()).sort()
                count = max(min(rows // most_rows, len(groups)), 1)
                found += [(groups[len(groups) * n // count].as_py(), rows // count) for n in range(count)]
            except (UsageError, OSError, pa.ArrowException, LookupError, UnicodeDecodeError) as error:
                raise self._damaged(shard, str(error)) from None
        return found

    def _folder(self, shard: Shard) -> Folder:
        return self.folders[shard.bucket or 0]

    def _read(self, shard: Shard, profile: Profile, *, without_groups: bool = False) -> PartialFold:
        try:
            fold = PartialFold.read_parquet(self._folder(shard), without_groups=without_groups)
        except DamagedFold as error:
            raise self._damaged(shard, f"{error.where}.parquet: {error.message}") from None
        except (UsageError, OSError) as error:  # changed or missing
            raise self._damaged(shard, str(error)) from None
        found = (fold.profile.text, fold.cut, fold.is_prefix)
        if found != (profile.text, self.cut, True):
            raise self._damaged(shard, f"counters.parquet: its profile, cut and beginning are {found}")
        return fold

    def _damaged(self, shard: Shard, what: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"{shard}/{what}", where=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A checkpoint to continue from: its files are in `folder`, `positions` are the cuts that it reaches.

    `name` is the name of its folder in the archive. `hashes` are the SHA-256s that its files must have, from its
    manifest; None for a fold that is not published yet.
    """

    as_of_ms: int
    name: str
    positions: dict[int, LogPosition]
    folder: Folder
    bounds: Mapping[int, Sequence[str]] = field(default_factory=dict)
    hashes: Mapping[str, str] | None = None

    @classmethod
    def of(cls, manifest: CheckpointManifest, folder: Folder, name: str) -> "Base":
        """The published checkpoint in `folder`, which the archive calls `name`."""
        return cls(
            as_of_ms=manifest.as_of_ms,
            name=name,
            positions=manifest.positions,
            folder=folder,
            bounds=manifest.bounds,
            hashes=manifest.files,
        )

    @property
    def size_bytes(self) -> int:
        """Size of the checkpoint's Parquet files."""
        return sum(size for name, size in self.folder.sizes().items() if name.endswith(".parquet"))

    def fold(self, log_partition: int) -> StartFold | None:
        """The fold of a log partition; None if the checkpoint does not contain it."""
        if (position := self.positions.get(log_partition)) is None:
            return None
        bounds = self.bounds.get(log_partition, ())
        return StartFold(
            log_partition=log_partition,
            folders=[self._folder(shard) for shard in shards_of(log_partition, bounds)],
            bounds=bounds,
            cut=position.cut,
            name=self.name,
        )

    def _folder(self, shard: Shard) -> Folder:
        folder = self.folder.sub(str(shard))
        if self.hashes is None:
            return folder
        start = f"{shard}/"
        return folder.hashed(
            {file.removeprefix(start): sha for file, sha in self.hashes.items() if file.startswith(start)}
        )


def fold_format() -> str:
    """The format of a fold in this release: the columns of its tables, and the version of the folding rules."""
    tables = unpack(PartialFold.empty(is_prefix=True).to_bytes())
    columns = "\n".join(f"{name}: {table.schema.to_string()}" for name, table in sorted(tables.items()))
    return f"{RULES_OF_FOLDS}-{hashlib.sha256(columns.encode()).hexdigest()[:16]}"


def folder_of(root: str, cluster_id: str, topic_id: str) -> str:
    """The folder of a topic's checkpoints; UsageError if an id cannot name a folder."""
    cluster, topic = safe_name(cluster_id, what="cluster id"), safe_name(topic_id, what="topic id")
    return f"{root.rstrip('/')}/{cluster}/{CHECKPOINTS_FOLDER}/{topic}"


def checkpoint_folders(fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str) -> list[tuple[int, str]]:
    """(as_of_ms, folder) of each folder that may be a checkpoint of a topic, newest instant first."""
    folder = folder_of(root, cluster_id, topic_id)
    found = [
        (int(name[1]), f"{folder}/{name[0]}") for text in child_folders(fs, folder) if (name := _NAME.fullmatch(text))
    ]
    return sorted(found, reverse=True)


def read_manifest(fs: pafs.FileSystem, folder: str) -> CheckpointManifest:
    """The manifest of the checkpoint in a folder; UsageError without a valid one, such as after its writer died."""
    return read_record(fs, f"{folder}/{MANIFEST}", CheckpointManifest, what="a checkpoint")


def publish_checkpoint(folder: RunFolder, record: RunRecord, archive: str) -> str:
    """Store the fold of a published run in its archive; return its folder. An existing checkpoint is not replaced.

    SextonError if the fold differs from the fold that the run was published with.
    """
    fs, root = filesystem(archive)
    assert record.checkpoint_sha256 is not None, "a replay hashes what it leaves"
    assert record.inflated_cap_bytes is not None, "and says by which cap it was folded"
    target = f"{folder_of(root, record.cluster_id, record.topic_id)}/{record.as_of_ms}-{_name_of(record.run_id)}"
    if is_there(fs, target):
        if read_manifest(fs, target).sha256 == record.checkpoint_sha256:
            return target
        target += f".{record.checkpoint_sha256}"  # another attempt with the same run id, such as `manual`
        if is_there(fs, target):
            return target
    own = folder.sub("fold")
    files = {}
    for name in own.files():
        data = own.read(name)
        files[name] = hashlib.sha256(data).hexdigest()
        write_synced(fs, f"{target}/{name}", data)
        failpoint("checkpoint.between")
    if files_sha256(files) != record.checkpoint_sha256:  # without a manifest the copied files do not count
        raise SextonError("the fold is not the one that the run was published with", where=own)
    failpoint("checkpoint.copied")
    manifest = CheckpointManifest(
        fold_format=fold_format(),
        cluster_id=record.cluster_id,
        topic_id=record.topic_id,
        as_of_ms=record.as_of_ms,
        run_id=record.run_id,
        profile=record.profile,
        inflated_cap_bytes=record.inflated_cap_bytes,
        positions=record.positions,
        bounds=record.bounds,
        files=files,
        sha256=record.checkpoint_sha256,
    )
    write_whole(fs, f"{target}/{MANIFEST}", manifest.model_dump_json(indent=1).encode(), what="checkpoint")
    return target


Nearest = Callable[[LogSource, Profile], tuple[Base | None, list[str]]]
"""(newest checkpoint from which a source can continue with a profile, warnings). None if there is no such checkpoint,
or if the profile cannot continue from one."""


def _nearest(
    source: LogSource, profile: Profile, *, damaged: Mapping[str, str], known: Base | None, is_full: bool
) -> tuple[Base | None, list[str]]:
    """`Nearest`. `damaged` maps the folder names of checkpoints that were found damaged to the reason."""
    warnings: list[str] = []
    if is_full or not (source.is_archive and profile.folds_in_slices):
        return None, warnings
    if known is not None and known.name not in damaged and doubt_of_positions(known.positions, source) is None:
        return known, warnings
    fs, root = filesystem(source.uri)
    found = checkpoint_folders(fs, root, cluster_id=source.cluster_id, topic_id=source.topic_id)
    wanted = [folder for at, folder in found if source.as_of_ms is None or at <= source.as_of_ms]
    for folder in wanted[:_MAX_TRIED]:
        name = folder.rpartition("/")[2]
        doubt = damaged.get(name)
        try:
            manifest = read_manifest(fs, folder)
            doubt = doubt or _doubt(manifest, source, profile)
            if doubt is None:
                where = Folder(source.uri, manifest.cluster_id, CHECKPOINTS_FOLDER, manifest.topic_id, name)
                return Base.of(manifest, where, name), warnings
        except (UsageError, OSError, pa.ArrowException) as error:
            doubt = str(error)
        warnings.append(f"the checkpoint {name} was passed over: {doubt}")
    return None, warnings


def doubt_of_positions(positions: Mapping[int, LogPosition], source: LogSource) -> str | None:
    """Why `source` cannot be read on from `positions`; None if it can."""
    for part, position in positions.items():
        goal = source.positions.get(part)
        if goal is None:
            return f"log partition {part} is not here any more"
        if position.lineage != goal.lineage:
            return f"log partition {part} has left lineage {position.lineage}"
        if min(position.cut, *position.order) < 0:
            return f"its cut of log partition {part} is not a position in a log"
        if position.order > goal.order:
            return f"its cut of log partition {part} lies behind the one wanted"
    return None


def without_damaged(work: Callable[[Nearest], _T], *, known: Base | None, is_full: bool) -> _T:
    """Return the result of `work`. Each time that it finds a checkpoint damaged, it is called again without that one.

    `known` is preferred to all published checkpoints; with `is_full` no checkpoint is used.
    """
    damaged: dict[str, str] = {}
    while True:
        try:
            return work(partial(_nearest, damaged=damaged, known=known, is_full=is_full))
        except DamagedCheckpoint as error:
            if str(error.where) in damaged:  # `work` should have skipped it
                raise
            damaged[str(error.where)] = error.message


def odd_part(manifest: CheckpointManifest) -> str | None:
    """What is wrong with a manifest: a file that is not a file of a fold, or the bounds of buckets; else None."""
    if odd := next((name for name in manifest.files if not _FILE.fullmatch(name)), None):
        return f"not a file of a fold: {odd!r}"
    for part, bounds in manifest.bounds.items():
        is_divisible = part in manifest.positions and can_divide(profile_of(manifest.profile))
        if not is_divisible or bounds != sorted(set(bounds)):
            return f"its buckets of log partition {part} are not those of a fold"
    return None


def can_divide(profile: Profile) -> bool:
    """Whether groups of a log partition can be judged separately: not if all log partitions share one cache."""
    return profile.folds_in_slices and profile.is_java


def _name_of(run_id: str) -> str:
    """A run id as part of a folder name; different ids give different names."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", run_id)[:_LONGEST_NAME]
    return name if name == run_id else f"{name}-{hashlib.sha256(run_id.encode()).hexdigest()}"


def is_there(fs: pafs.FileSystem, folder: str) -> bool:
    """Whether a folder has a finished checkpoint."""
    return is_file(fs, f"{folder}/{MANIFEST}")


def _doubt(manifest: CheckpointManifest, source: LogSource, profile: Profile) -> str | None:
    """Why a run of `source` cannot continue from a checkpoint; None if it can."""
    found: Mapping[str, tuple[object, object]] = {
        "cluster": (manifest.cluster_id, source.cluster_id),
        "topic id": (manifest.topic_id, source.topic_id),
        "profile": (manifest.profile, profile.text),
        "form of folds": (manifest.fold_format, fold_format()),
        "cap on inflated batches": (manifest.inflated_cap_bytes, settings().inflated_cap_bytes),
    }
    for name, (own, wanted) in found.items():
        if own != wanted:
            return f"its {name} is {own}, not {wanted}"
    if doubt := odd_part(manifest) or doubt_of_positions(manifest.positions, source):
        return doubt
    for part in manifest.positions:
        shards = shards_of(part, manifest.bounds.get(part, ()))
        needed = {f"{one}/{name}.parquet" for one in shards for name in ("counters", "profile")}
        if not needed <= manifest.files.keys():
            return f"it has no fold of log partition {part}"
    return None
