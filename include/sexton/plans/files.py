"""A plan as files: what a run leaves in `<run>/plan/`, what the archive keeps of it, and how it is read without trust.

    <archive>/<cluster_id>/plans/<plan_id>/tombstones.parquet      every planned record, in the order of the plan
                                          /undo.parquet            every committed offset that would go, in full
                                          /batches/<N>.log         the record batches of log partition N
                                          /plan.html               the same for people
                                          /plan.json               PlanRecord, written last: without it there is no plan

`plan_sha256` is the SHA-256 of plan.json's bytes, and plan.json names that of every other file: who approves that one
number approves every byte. The same interval gives the same bytes, whichever run and machine made them. A rerun by
another version of the code may find the same plan (plan_id) and tell it in other bytes; it takes the place of the old
one, and an approval of that is void with its plan_sha256. While one takes the other's place, readers are refused.

Not here: what a plan holds (content.py), and its page (report/plan_page.py).
"""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs
from pydantic import ValidationError

from sexton.archive.cluster_metadata import the_cluster
from sexton.archive.files import child_folders, fsync, make_folder, safe_name, write_whole
from sexton.archive.lineages import PLANS_FOLDER
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint
from sexton.plans.check import check_content
from sexton.plans.content import PlanContent, content_of
from sexton.plans.record import MANIFEST, PAGE_FILE, TOMBSTONES, TOMBSTONES_FILE, UNDO, UNDO_FILE, Plan, PlanRecord
from sexton.runs.folder import RunFolder, RunRecord, write_bytes
from sexton.runs.source import filesystem

__all__ = [
    "FOLDER",
    "MANIFEST",
    "PAGE_FILE",
    "TOMBSTONES",
    "TOMBSTONES_FILE",
    "UNDO",
    "UNDO_FILE",
    "Page",
    "Plan",
    "PlanContent",
    "PlanRecord",
    "keep_plan",
    "own_plan",
    "plan_folder",
    "plan_sha256",
    "plans_of",
    "read_plan",
    "write_plan",
]

FOLDER = "plan"
_FILE_NAME = re.compile(r"tombstones\.parquet|undo\.parquet|plan\.html|batches/(0|[1-9]\d{0,8})\.log")
_PLAN_ID = re.compile(r"[0-9a-f]{64}")
_MOST_MANIFEST_BYTES = 16 * 1024 * 1024
_ROWS_PER_PIECE = 1 << 20

Page = Callable[[PlanContent], bytes]
"""Makes plan.html from what the plan holds, without a clock: the same plan has the same page."""


def plan_sha256(data: bytes) -> str:
    """The number that names a plan to the last byte: SHA-256 of its plan.json."""
    return hashlib.sha256(data).hexdigest()


def own_plan(folder: RunFolder) -> Plan:
    """The plan that a run has made, read as `read_plan` reads a kept one."""
    own = str(folder.root / FOLDER)
    return _read_folder(pafs.LocalFileSystem(), own, within=own)


def plan_folder(root: str, cluster_id: str, plan_id: str) -> str:
    """Where the archive keeps a plan; UsageError when an id cannot name a folder."""
    if not _PLAN_ID.fullmatch(plan_id):
        raise UsageError(f"no plan_id: {plan_id!r}", fix="it has 64 digits of 0-9 and a-f")
    return f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{PLANS_FOLDER}/{plan_id}"


def write_plan(folder: RunFolder, record: RunRecord, *, page: Page | None = None) -> PlanRecord:
    """Write `<run>/plan/` from the tables of a run whose record has its plan_id, plan.json last; the plan's record.

    What an earlier attempt left there is removed first. Without `page` the plan has no page.
    """
    content = content_of(folder, record)
    files = {
        TOMBSTONES_FILE: _parquet(content.tombstones),
        UNDO_FILE: _parquet(content.undo),
        **{
            f"batches/{one.log_partition}.log": folder.batches_file(one.log_partition).read_bytes()
            for one in content.record.batches
        },
    }
    if page is not None:
        files[PAGE_FILE] = page(content)
    own = folder.root / FOLDER
    shutil.rmtree(own, ignore_errors=True)
    for name, data in sorted(files.items()):
        write_bytes(own / name, data)
    failpoint("plan.files")
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    plan = content.record.model_copy(update={"files": hashes})
    write_bytes(own / MANIFEST, plan.to_json())
    return plan


def _parquet(rows: pa.Table) -> bytes:
    """Rows as a Parquet file, the same bytes for the same rows however they are chunked."""
    out = io.BytesIO()
    pq.write_table(rows.combine_chunks(), out, compression="zstd", row_group_size=_ROWS_PER_PIECE)
    return out.getvalue()


def keep_plan(folder: RunFolder, record: PlanRecord, archive: str) -> None:
    """Keep the plan that a run has made in an archive; what is there with the same bytes is left as it is.

    `record` is that of a plan that was read (own_plan) or just written. Refused when the files in the run folder are no
    longer those that it names.
    """
    own = folder.root / FOLDER
    manifest = record.to_json()
    if _read(pafs.LocalFileSystem(), str(own / MANIFEST), within=str(own)) != manifest:
        raise Refused("another plan has taken its place", where=own)
    fs, root = filesystem(archive)
    target = plan_folder(root, record.cluster_id, record.plan_id)
    if _is_file(fs, f"{target}/{MANIFEST}") and _read(fs, f"{target}/{MANIFEST}", within=root) == manifest:
        return
    for name, sha256 in record.files.items():
        data = _read_named(pafs.LocalFileSystem(), str(own), name, sha256, within=str(own))
        make_folder(fs, f"{target}/{name}".rpartition("/")[0])
        with fs.open_output_stream(f"{target}/{name}") as file:
            file.write(data)
        fsync(fs, f"{target}/{name}")
        failpoint("plan.between")
    failpoint("plan.copied")
    write_whole(fs, f"{target}/{MANIFEST}", manifest, what="plan")


def plans_of(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[str]:
    """plan_ids of what the archive keeps of a cluster, in order of their digits."""
    place = f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{PLANS_FOLDER}"
    return [
        name
        for name in child_folders(fs, place)
        if _PLAN_ID.fullmatch(name) and _is_file(fs, f"{place}/{name}/{MANIFEST}")
    ]


def read_plan(fs: pafs.FileSystem, root: str, cluster_id: str | None, plan_id: str) -> Plan:
    """A kept plan, read without trust; `cluster_id` as in `archive.cluster_metadata.the_cluster`.

    UsageError when there is none by that id, Refused with the place where anything differs from what plan.json says:
    a file's hash, its name, its columns, the plan_id of its rows, a key, a batch, or a value that undo does not have.
    """
    cluster = the_cluster(fs, root, cluster_id)
    if cluster is None:
        raise UsageError("the archive is empty", where=root)
    folder = plan_folder(root, cluster, plan_id)
    if not _is_file(fs, f"{folder}/{MANIFEST}"):
        raise UsageError(f"no plan {plan_id}", where=folder, fix="publish its run, or make it with `sexton plan`")
    plan = _read_folder(fs, folder, within=root)
    told = (plan.record.cluster_id, plan.record.plan_id)
    if told != (cluster, plan_id):
        raise Refused(f"this is plan {told[1]} of cluster {told[0]}", where=f"{folder}/{MANIFEST}")
    return plan


def _read_folder(fs: pafs.FileSystem, folder: str, *, within: str) -> Plan:
    """The plan in a folder, as `read_plan` reads it. No link is followed from `within` on."""
    place = f"{folder}/{MANIFEST}"
    data = _read(fs, place, within=within)
    record = _record(data, place)
    files = {name: _read_named(fs, folder, name, sha256, within=within) for name, sha256 in record.files.items()}
    for name in (TOMBSTONES_FILE, UNDO_FILE):
        if name not in files:
            raise Refused(f"names no {name}", where=place)
    plan = Plan(
        record=record,
        sha256=plan_sha256(data),
        folder=folder,
        tombstones=_rows(files[TOMBSTONES_FILE], TOMBSTONES, f"{folder}/{TOMBSTONES_FILE}"),
        undo=_rows(files[UNDO_FILE], UNDO, f"{folder}/{UNDO_FILE}"),
    )
    check_content(plan, files)
    return plan


def _record(data: bytes, where: str) -> PlanRecord:
    try:
        return PlanRecord.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(f"not a plan: {where}: {first['msg']}", where=where) from None


def _read_named(fs: pafs.FileSystem, folder: str, name: str, sha256: str, *, within: str) -> bytes:
    if not _FILE_NAME.fullmatch(name):
        raise Refused(f"names a file that no plan has: {name!r}", where=f"{folder}/{MANIFEST}")
    data = _read(fs, f"{folder}/{name}", within=within)
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise Refused(f"its SHA-256 is {found}, plan.json says {sha256}", where=f"{folder}/{name}")
    return data


def _read(fs: pafs.FileSystem, path: str, *, within: str) -> bytes:
    """A file's bytes; Refused when there is none, or when a link leads there."""
    if isinstance(fs, pafs.LocalFileSystem):
        root = within.rstrip("/")
        if os.path.realpath(path) != os.path.realpath(root) + os.path.normpath(path).removeprefix(
            os.path.normpath(root)
        ):
            raise Refused("a link leads out of the plan", where=path)
    info = fs.get_file_info(path)
    if info.type != pafs.FileType.File:
        raise Refused("no such file", where=path)
    if path.endswith(MANIFEST) and (info.size or 0) > _MOST_MANIFEST_BYTES:
        raise Refused(f"{info.size} bytes are too many for a plan.json", where=path)
    with fs.open_input_stream(path) as file:
        data: bytes = file.read()
    return data


def _rows(data: bytes, schema: pa.Schema, where: str) -> pa.Table:
    try:
        found = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"not a table: {error}", where=where) from None
    if not found.schema.equals(schema):
        raise Refused(f"its columns are {', '.join(found.schema.names)}, or not of the types of a plan", where=where)
    return found


def _is_file(fs: pafs.FileSystem, path: str) -> bool:
    return bool(fs.get_file_info(path).type == pafs.FileType.File)
