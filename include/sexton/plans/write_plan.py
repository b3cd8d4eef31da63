"""Writes plans: what a run leaves in `<run>/plan/`, and what the archive keeps of it.

    <archive>/<cluster_id>/plans/<plan_id>/tombstones.parquet      every planned record, in the order of the plan
                                          /undo.parquet            every committed offset that would go, in full
                                          /batches/<N>.log         the record batches of log partition N
                                          /plan.html               the same for people
                                          /plan.json               PlanRecord, written last: without it there is no plan

`plan_sha256` is the SHA-256 of plan.json's bytes, and plan.json names the SHA-256 of every other file: who approves
that one number approves every byte. The same interval gives the same bytes, whichever run and machine made them. A
rerun by another version of the code may find the same plan (plan_id) and write it in other bytes. It replaces the old
one, whose approval is void then. While one replaces the other, readers are refused.
"""

import hashlib
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.archive.files import fsync, is_file, make_folder, write_whole
from sexton.archive.folder import filesystem
from sexton.errors import Refused
from sexton.failpoints import failpoint
from sexton.plans.plan import FOLDER, MANIFEST, PAGE_FILE, TOMBSTONES_FILE, UNDO_FILE, PlanRecord
from sexton.plans.plan_content import PlanContent, content_of
from sexton.plans.read_plan import plan_folder, read_file, read_named
from sexton.runs.folder import RunFolder, RunRecord

_ROW_GROUP_ROWS = 1 << 20

Page = Callable[[PlanContent], bytes]
"""Makes plan.html from a plan's content, without a clock: the same plan has the same page."""


def write_plan(folder: RunFolder, record: RunRecord, *, page: Page | None = None) -> PlanRecord:
    """Write `<run>/plan/` from the tables of a run whose record has its plan_id, plan.json last. Returns the
    PlanRecord.

    What an earlier attempt left there is removed first.
    """
    content = content_of(folder, record)
    files = {
        TOMBSTONES_FILE: _parquet(content.tombstones),
        UNDO_FILE: _parquet(content.undo),
        **{
            f"batches/{one.log_partition}.log": folder.read("batches", f"{one.log_partition}.log")
            for one in content.record.batches
        },
    }
    if page is not None:
        files[PAGE_FILE] = page(content)
    folder.remove(FOLDER)
    source = folder.sub(FOLDER)
    for name, data in sorted(files.items()):
        source.write(data, name)
    failpoint("plan.files")
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    plan = content.record.model_copy(update={"files": hashes})
    source.write(plan.to_json(), MANIFEST)
    return plan


def keep_plan(folder: RunFolder, record: PlanRecord, archive: str) -> None:
    """Keep the plan of a run in an archive. What is there with the same bytes is left as it is.

    `record` is that of a plan that was read (own_plan) or just written. Refused when the files in the run folder are no
    longer those that it names.
    """
    source = folder.sub(FOLDER)
    manifest = record.to_json()
    if read_file(source.fs, source.path(MANIFEST), within=source.path()) != manifest:
        raise Refused("another plan has replaced it", where=source)
    fs, root = filesystem(archive)
    target = plan_folder(root, record.cluster_id, record.plan_id)
    if is_file(fs, f"{target}/{MANIFEST}") and read_file(fs, f"{target}/{MANIFEST}", within=root) == manifest:
        return
    for name, sha256 in record.files.items():
        data = read_named(source.fs, source.path(), name, sha256, within=source.path())
        make_folder(fs, f"{target}/{name}".rpartition("/")[0])
        with fs.open_output_stream(f"{target}/{name}") as file:
            file.write(data)
        fsync(fs, f"{target}/{name}")
        failpoint("plan.between")
    failpoint("plan.copied")
    write_whole(fs, f"{target}/{MANIFEST}", manifest, what="plan")


def _parquet(rows: pa.Table) -> bytes:
    """Rows as a Parquet file, the same bytes for the same rows however they are chunked."""
    out = io.BytesIO()
    pq.write_table(rows.combine_chunks(), out, compression="zstd", row_group_size=_ROW_GROUP_ROWS)
    return out.getvalue()
