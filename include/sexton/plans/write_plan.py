"""Writes plans: what a run leaves in `<run>/plan/`, and what the archive keeps of it.

    <archive>/<cluster_id>/plans/<plan_id>/tombstones/<N>.parquet  every planned record of log partition N, in order
                                          /undo/<N>.parquet        every committed offset to be removed, in full
                                          /batches/<N>.log         the record batches
                                          /plan.html               a page for approvers
                                          /plan.json               PlanRecord, written last: without it there is no plan

`plan_sha256` is the SHA-256 of plan.json's bytes, and plan.json has the SHA-256 of every other file: approving
plan_sha256 approves every byte. The same input gives the same bytes on any machine and in any run. Another version of
the code may compute the same plan (plan_id) but write other bytes. These replace the old bytes, and an approval of the
old plan_sha256 is then void. During the replacement reading the plan is refused.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.archive.files import is_file, write_synced, write_whole
from sexton.archive.folder import filesystem
from sexton.errors import Refused
from sexton.failpoints import failpoint
from sexton.kernels.parquet import texts_of
from sexton.plans.plan import (
    BATCHES_FOLDER,
    FOLDER,
    MANIFEST,
    PAGE_FILE,
    TOMBSTONES_FOLDER,
    UNDO,
    UNDO_FOLDER,
    WRITTEN_TOMBSTONES,
    PlanRecord,
)
from sexton.plans.plan_content import PlanContent
from sexton.plans.read_plan import plan_folder, read_file, read_named
from sexton.runs.folder import RunFolder

_ROW_GROUP_ROWS = 1 << 18

Page = Callable[[PlanContent], bytes]
"""Renders plan.html from a plan's content. It uses no clock: the same plan has the same page."""


def write_log_partition(
    folder: RunFolder, log_partition: int, *, tombstones: Iterable[pa.Table], undo: Iterable[pa.Table], batches: bytes
) -> dict[str, str]:
    """Write the files of one log partition, from tables that may be split; return file name -> SHA-256."""
    files = {
        f"{TOMBSTONES_FOLDER}/{log_partition}.parquet": _parquet(tombstones, WRITTEN_TOMBSTONES),
        f"{UNDO_FOLDER}/{log_partition}.parquet": _parquet(undo, UNDO),
        f"{BATCHES_FOLDER}/{log_partition}.log": batches,
    }
    source = folder.sub(FOLDER)
    for name, data in files.items():
        source.write(data, name)
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def write_plan(
    folder: RunFolder, content: PlanContent, files: Mapping[str, str], *, page: Page | None = None
) -> PlanRecord:
    """Complete `<run>/plan/`, which has the files of all log partitions (name -> SHA-256); plan.json comes last."""
    source, hashes = folder.sub(FOLDER), dict(files)
    if page is not None:
        data = page(content)
        source.write(data, PAGE_FILE)
        hashes[PAGE_FILE] = hashlib.sha256(data).hexdigest()
    failpoint("plan.files")
    plan = content.record.model_copy(update={"files": dict(sorted(hashes.items()))})
    source.write(plan.to_json(), MANIFEST)
    return plan


def keep_plan(folder: RunFolder, record: PlanRecord, archive: str) -> None:
    """Keep the plan of a run in an archive. Existing files with the same bytes are not rewritten.

    `record` is from a plan that was read (own_plan) or just written. Refused if the files in the run folder no longer
    have the SHA-256s in it.
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
        write_synced(fs, f"{target}/{name}", data)
        failpoint("plan.between")
    failpoint("plan.copied")
    write_whole(fs, f"{target}/{MANIFEST}", manifest, what="plan")


def _parquet(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Buffer:
    """Rows as a Parquet file; the bytes do not depend on how the rows are split into pieces."""
    sink = pa.BufferOutputStream()
    packed = {field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_integer(field.type)}
    codecs = {name: "none" if name in packed else "zstd" for name in schema.names}
    with pq.ParquetWriter(
        sink, schema, compression=codecs, use_dictionary=texts_of(schema), column_encoding=packed
    ) as writer:
        for rows in _in_row_groups(table.select(schema.names).cast(schema) for table in tables):
            writer.write_table(rows.combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
    return sink.getvalue()


def _in_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    rest: pa.Table | None = None
    for table in tables:
        rest = table if rest is None else pa.concat_tables([rest, table])
        while rest.num_rows > _ROW_GROUP_ROWS:
            yield rest.slice(0, _ROW_GROUP_ROWS)
            rest = rest.slice(_ROW_GROUP_ROWS)
    if rest is not None and rest.num_rows:
        yield rest
