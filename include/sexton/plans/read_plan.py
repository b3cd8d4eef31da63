"""Reads plans without trusting them: checks names, links, hashes, columns and consistency (check_content).

A plan that differs by a byte from what its plan.json says is Refused, with the place of the difference.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs
from pydantic import ValidationError

from sexton.archive import files
from sexton.archive.cluster_metadata import require_cluster
from sexton.archive.files import is_file, sha256_folder
from sexton.archive.lineages import PLANS_FOLDER
from sexton.errors import Refused, UsageError
from sexton.plans.check_content import check_content
from sexton.plans.plan import (
    FOLDER,
    MANIFEST,
    TOMBSTONES,
    TOMBSTONES_FOLDER,
    UNDO,
    UNDO_FOLDER,
    WRITTEN_TOMBSTONES,
    Plan,
    PlanRecord,
)
from sexton.runs.folder import RunFolder

_NUMBER = r"(0|[1-9]\d{0,8})"
_FILE_NAME = re.compile(rf"(tombstones|undo)/{_NUMBER}\.parquet|plan\.html|batches/{_NUMBER}\.log")
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024


def read_plan(fs: pafs.FileSystem, root: str, cluster_id: str | None, plan_id: str) -> Plan:
    """Return a plan from the archive; `cluster_id` is as in `archive.cluster_metadata.the_cluster`.

    UsageError if there is no plan with that id. Refused if anything differs from plan.json: the hash, name or columns
    of a file, the plan_id of the rows, a key, a batch, or a value missing from undo.
    """
    cluster = require_cluster(fs, root, cluster_id)
    folder = plan_folder(root, cluster, plan_id)
    if not is_file(fs, f"{folder}/{MANIFEST}"):
        raise UsageError(f"no plan {plan_id}", where=folder, fix="publish its run, or make it with `sexton plan`")
    plan = _read_folder(fs, folder, within=root)
    record = plan.record
    if (record.cluster_id, record.plan_id) != (cluster, plan_id):
        raise Refused(f"this is plan {record.plan_id} of cluster {record.cluster_id}", where=f"{folder}/{MANIFEST}")
    return plan


def own_plan(folder: RunFolder) -> Plan:
    """Return the plan that a run has made, after the checks of `read_plan`."""
    own = folder.path(FOLDER)
    return _read_folder(folder.fs, own, within=own)


def plan_folder(root: str, cluster_id: str, plan_id: str) -> str:
    """The folder of a plan in the archive; UsageError if an id cannot name a folder."""
    return sha256_folder(root, cluster_id, PLANS_FOLDER, plan_id, what="plan_id")


def plan_sha256(data: bytes) -> str:
    """The SHA-256 of a plan.json, which identifies every byte of a plan."""
    return hashlib.sha256(data).hexdigest()


def _read_folder(fs: pafs.FileSystem, folder: str, *, within: str) -> Plan:
    """Return the plan in a folder, after the checks of `read_plan`. Symbolic links below `within` are refused."""
    manifest = f"{folder}/{MANIFEST}"
    data = read_file(fs, manifest, within=within)
    record = _record(data, manifest)
    found = {name: read_named(fs, folder, name, sha256, within=within) for name, sha256 in record.files.items()}
    tombstones = _rows(found, TOMBSTONES_FOLDER, WRITTEN_TOMBSTONES, folder)
    plan = Plan(
        record=record,
        sha256=plan_sha256(data),
        folder=folder,
        tombstones=tombstones.add_column(0, TOMBSTONES.field("plan_id"), pa.repeat(record.plan_id, len(tombstones))),
        undo=_rows(found, UNDO_FOLDER, UNDO, folder),
    )
    check_content(plan, found)
    return plan


def _record(data: bytes, where: str) -> PlanRecord:
    try:
        return PlanRecord.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise Refused(f"not a plan: {field}: {first['msg']}", where=where) from None


def read_named(fs: pafs.FileSystem, folder: str, name: str, sha256: str, *, within: str) -> bytes:
    """A file listed in plan.json; Refused if its name is not a plan file's, or its SHA-256 differs."""
    if not _FILE_NAME.fullmatch(name):
        raise Refused(f"names a file that no plan has: {name!r}", where=f"{folder}/{MANIFEST}")
    data = read_file(fs, f"{folder}/{name}", within=within)
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise Refused(f"its SHA-256 is {found}, plan.json says {sha256}", where=f"{folder}/{name}")
    return data


def read_file(fs: pafs.FileSystem, path: str, *, within: str) -> bytes:
    """A file's bytes; Refused if it does not exist, or if its path has a symbolic link below `within`."""
    if isinstance(fs, pafs.LocalFileSystem):
        relative = os.path.normpath(path).removeprefix(os.path.normpath(within))
        if os.path.realpath(path) != os.path.realpath(within) + relative:
            raise Refused("a link leads out of the plan", where=path)
    info = fs.get_file_info(path)
    if info.type != pafs.FileType.File:
        raise Refused("no such file", where=path)
    if path.endswith(MANIFEST) and (info.size or 0) > _MAX_MANIFEST_BYTES:
        raise Refused(f"{info.size} bytes are too many for a plan.json", where=path)
    return files.read_file(fs, path)


def _rows(files: Mapping[str, bytes], kind: str, schema: pa.Schema, folder: str) -> pa.Table:
    """The rows of all files of one kind, in order of log partition."""
    numbers = sorted(int(PurePosixPath(name).stem) for name in files if name.startswith(f"{kind}/"))
    names = [f"{kind}/{number}.parquet" for number in numbers]
    tables = [_rows_of(files[name], schema, f"{folder}/{name}") for name in names]
    return pa.concat_tables([schema.empty_table(), *tables])


def _rows_of(data: bytes, schema: pa.Schema, where: str) -> pa.Table:
    try:
        found = pq.read_table(pa.BufferReader(data))
        found.validate(full=True)  # strings in Parquet need not be UTF-8
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"not a table: {error}", where=where) from None
    if not found.schema.equals(schema):
        raise Refused(f"not the columns and types of a plan: {', '.join(found.schema.names)}", where=where)
    return found
