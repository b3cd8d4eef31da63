"""Checks that runs can start from an archive's checkpoints: manifests, SHA-256, and every fold as a run reads it.

If the folds have another release's format, only the files are compared: no run of this release reads such folds.
Whether a fold agrees with the log is checked elsewhere (sexton.maintenance.check_checkpoint).
"""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.files import child_folders
from sexton.archive.folder import Folder
from sexton.archive.lineages import clusters_of
from sexton.archive.verify import CORRUPT, Finding, is_in_subset
from sexton.coordinator.profiles import profile_of
from sexton.errors import UsageError
from sexton.runs.checkpoint import (
    CHECKPOINTS_FOLDER,
    MANIFEST,
    Base,
    CheckpointManifest,
    DamagedCheckpoint,
    checkpoint_folders,
    fold_format,
    odd_part,
    read_manifest,
)
from sexton.runs.folder import shards_of


def verify_checkpoints(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, subset: tuple[int, int] = (1, 1)
) -> tuple[int, list[Finding]]:
    """(number of checkpoints read, findings). Checkpoints without a manifest are skipped.

    `subset` (n, t) reads one in t, as `archive.verify` does. An OSError of the store is a finding.
    """
    chosen = [folder for folder in _folders(fs, root, cluster_id) if is_in_subset(folder, root, subset)]
    return len(chosen), [finding for folder in chosen for finding in check(fs, folder)]


def check(fs: pafs.FileSystem, where: str) -> list[Finding]:
    """What is wrong with the checkpoint in a folder."""
    try:
        manifest = read_manifest(fs, where)
        wrong = list(_wrong(manifest, where, Folder(where, fs=fs)))
    except UsageError as error:
        file = (error.where or where).removeprefix(where).strip("/")
        return [Finding(kind=CORRUPT, where=where, what=f"{file}: {error.message}" if file else error.message)]
    except (OSError, pa.ArrowException) as error:
        return [Finding(kind=CORRUPT, where=where, what=str(error))]
    return [Finding(kind=CORRUPT, where=where, what=what) for what in wrong]


def _folders(fs: pafs.FileSystem, root: str, cluster_id: str | None) -> Iterator[str]:
    """The folders of checkpoints with a manifest, in order. Without a manifest the writer died."""
    for cluster in clusters_of(fs, root, cluster_id):
        for topic in child_folders(fs, f"{root.rstrip('/')}/{cluster}/{CHECKPOINTS_FOLDER}"):
            folders = [folder for _, folder in checkpoint_folders(fs, root, cluster_id=cluster, topic_id=topic)]
            infos = fs.get_file_info([f"{folder}/{MANIFEST}" for folder in sorted(folders)])
            yield from (info.path.rpartition("/")[0] for info in infos if info.type == pafs.FileType.File)


def _wrong(manifest: CheckpointManifest, where: str, folder: Folder) -> Iterator[str]:
    *_, cluster, _, topic, name = where.split("/")
    if (manifest.cluster_id, manifest.topic_id) != (cluster, topic) or not name.startswith(f"{manifest.as_of_ms}-"):
        yield f"it is of {manifest.cluster_id}, {manifest.topic_id}, {manifest.as_of_ms}"
    if odd := odd_part(manifest):
        yield odd
        return
    is_read = manifest.fold_format == fold_format()  # else only the bytes can be checked
    read = {str(one) for part in manifest.positions for one in shards_of(part, manifest.bounds.get(part, ()))}
    for file in manifest.files:
        if not is_read or file.partition("/")[0] not in read:
            folder.hashed(manifest.files).open(file)
    if not is_read:
        return
    profile = profile_of(manifest.profile)
    base = Base.of(manifest, folder, name)
    for log_partition in manifest.positions:
        fold = base.fold(log_partition)
        assert fold is not None, "it has a place"
        try:
            fold.read(profile)
        except DamagedCheckpoint as error:
            yield error.message
