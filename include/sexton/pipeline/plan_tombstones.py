"""plan_tombstones: the tombstones that follow from the verdicts, as rows and as a coordinator's record batches.

They become the table `tombstones` and, with everything that an approver needs to know, the folder `<run>/plan/`
(plans). The forecast of the next days is written with them (analysis.forecast).

Without the log (coverage `admin`) the time of a commit is an interval: an offset is planned only if it is due even for
the latest possible commit, and no group is planned.

Nothing is planned for a log partition whose log could not be read in full or whose load would fail, since an unread
record might be a newer value; nor, without a policy, if its sweep fails, since the broker writes nothing there. This
stage writes nothing to Kafka.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast import TABLE as FORECAST
from sexton.analysis.forecast import VERDICT as FORECAST_VERDICT
from sexton.analysis.forecast import write_forecast
from sexton.coordinator.api.append_settings import append_settings
from sexton.coordinator.batches import BATCH_FORMAT
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import TombstonesHash
from sexton.failpoints import failpoint
from sexton.kernels.encode_batches import EncodedBatches, encode_tombstone_batches
from sexton.kernels.encode_keys import encode_keys
from sexton.pipeline.misplaced import in_several
from sexton.plans.check_content import plan_id_by
from sexton.plans.limits import VERDICTS, policy_of
from sexton.plans.plan import BATCHES_FOLDER, FOLDER, TOMBSTONES_FOLDER, WRITTEN_TOMBSTONES, PlannedBatches
from sexton.plans.plan_content import VERDICT, PlanPart, content_of, part_of
from sexton.plans.write_plan import Page, write_log_partition, write_plan
from sexton.runs.engine import Engine
from sexton.runs.fold_log import UNPACKED
from sexton.runs.folder import RunFolder, RunRecord, Shard, shards_of
from sexton.runs.judging import read_held, sweep_fails
from sexton.verdicts.expiry import appended, is_of_offset, plan
from sexton.verdicts.policy import plan_by_policy

_VERDICT = list(dict.fromkeys([*FORECAST_VERDICT, *VERDICT, *VERDICTS]))

TABLE = "tombstones"
_PLANNED, _UNDO = "planned", "undo"


def run(engine: Engine, folder: RunFolder, *, page: Page | None = None) -> RunRecord:
    """Write tombstones, their batches, the plan and the forecast from the verdicts of `folder`.

    The record gets the plan's id. `page` renders the plan's HTML page; without it the plan has none.
    """
    record = folder.read_run()
    work_bytes = UNPACKED * folder.size_bytes("offset_verdicts", "groups")
    folder.remove(FOLDER)
    several = pa.array(list(in_several(record, folder.read_table)), pa.string())
    is_here = engine.works_here(work_bytes)
    planned = engine.map(
        "Planning tombstones",
        record.shards,
        lambda shard: _plan(folder, record, shard, several, is_here=is_here),
        work_bytes=work_bytes,
    )
    counts, starts = Counter[int](), {}
    for each in planned:
        starts[each.shard] = counts[each.shard.log_partition]
        counts[each.shard.log_partition] += each.part.counts["tombstones"]
    written = [each.written for each in planned if each.written is not None]
    divided = sorted(part for part in +counts if part in record.bounds)
    written += engine.map(
        "Writing the plan", divided, lambda part: _write_divided(folder, record, part), work_bytes=work_bytes
    )
    written.sort(key=lambda each: each.batches.log_partition)
    identity = plan_id_by(record, {part.batches.log_partition: part.sha256 for part in written})
    rows_of = {each.shard: each.rows for each in planned}
    engine.map(
        "Naming tombstones",
        record.shards,
        lambda shard: _name(folder, record, shard, identity, starts[shard], rows_of[shard]),
        work_bytes=work_bytes,
    )
    rows = {TABLE: counts.total(), FORECAST: sum(each.forecast for each in planned)}
    record = record.model_copy(update={"plan_id": identity, "counts": {**record.counts, **rows}})
    content = content_of(record, [each.part for each in planned], [part.batches for part in written])
    write_plan(folder, content, {name: sha for part in written for name, sha in part.files.items()}, page=page)
    failpoint("plan.made")
    folder.write_run(record)
    return record


def _plan(folder: RunFolder, record: RunRecord, shard: Shard, several: pa.Array, *, is_here: bool) -> "_Planned":
    """Plan one shard: nothing if planning is blocked, and nothing for groups of `in_several`."""
    held, groups = read_held(folder, shard), folder.read_table("groups", shard)
    verdicts = folder.read_table("offset_verdicts", shard, _VERDICT)
    rows = _swept(folder, record, shard, verdicts, held, groups)
    if shard.log_partition in record.blocked:
        rows = rows.slice(0, 0)
    if len(several):
        rows = rows.filter(pc.invert(pc.is_in(rows["group_id"], value_set=several)))
    here = pa.repeat(pa.scalar(shard.log_partition, pa.int32()), rows.num_rows)
    rows = rows.append_column("key", encode_keys(rows)).append_column("log_partition", here)
    part, undo = part_of(folder, record, shard, rows, verdicts, held, groups)
    rows = rows.drop_columns(["target_row"])
    written = None
    if shard.bucket is not None:
        folder.write_internal(_PLANNED, rows, shard)
        folder.write_internal(_UNDO, undo, shard)
    elif rows.num_rows:
        written = _write(folder, record, shard.log_partition, lambda: [rows], lambda: [undo])
    forecast = write_forecast(folder, record, shard, verdicts, held, groups)
    return _Planned(shard=shard, part=part, written=written, forecast=forecast, rows=rows if is_here else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The plan of one log partition: the SHA-256 of its tombstones, its batches, and its files (SHA-256 by name)."""

    sha256: str
    batches: PlannedBatches
    files: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """The result for one shard: its part of the plan, and the number of forecast rows. `written` are the plan's files
    if the shard is a whole log partition with planned rows. `rows` are its tombstones if all work is done in this
    process."""

    shard: Shard
    part: PlanPart
    written: _Written | None
    forecast: int
    rows: pa.Table | None


def _write_divided(folder: RunFolder, record: RunRecord, log_partition: int) -> _Written:
    """Write the plan's files of one log partition, one shard after another."""
    shards = shards_of(log_partition, record.bounds[log_partition])
    return _write(
        folder,
        record,
        log_partition,
        lambda: (folder.read_internal(_PLANNED, shard) for shard in shards),
        lambda: (folder.read_internal(_UNDO, shard) for shard in shards),
    )


def _write(
    folder: RunFolder,
    record: RunRecord,
    log_partition: int,
    planned: Callable[[], Iterable[pa.Table]],
    undo: Callable[[], Iterable[pa.Table]],
) -> _Written:
    """Write the plan's files of one log partition from the tables that `planned` and `undo` return in order."""

    count, hashed = 0, TombstonesHash()

    def hashing() -> Iterator[pa.Table]:
        nonlocal count
        for rows in planned():
            count += rows.num_rows
            hashed.add(rows)
            yield rows

    def numbered() -> Iterator[pa.Table]:
        start = 0
        for rows in planned():
            yield _numbered(rows, start)
            start += rows.num_rows

    encoded = list(_encoded(record, log_partition, hashing()))
    data, sizes = b"".join(each.data for each in encoded), [size for each in encoded for size in each.sizes]
    files = write_log_partition(folder, log_partition, tombstones=numbered(), undo=undo(), batches=data)
    name = f"{log_partition}.log"
    folder.link((FOLDER, BATCHES_FOLDER, name), BATCHES_FOLDER, name)
    return _Written(
        sha256=hashed.hexdigest(),
        batches=PlannedBatches(
            log_partition=log_partition,
            tombstones=count,
            batches=len(sizes),
            size_bytes=len(data),
            largest_batch_bytes=max(sizes),
        ),
        files=files,
    )


def _encoded(record: RunRecord, log_partition: int, tables: Iterable[pa.Table]) -> Iterator[EncodedBatches]:
    """The batches of consecutive tables; a batch may span two tables."""
    profile = profile_of(record.profile)
    topic = append_settings(record.recorded, profile=profile).topic
    base_offset, rows, encoded = record.cuts[log_partition], None, None
    if topic.magic(profile) < BATCH_FORMAT:  # older formats have no batches that a later row could join
        tables = [pa.concat_tables(tables)]
    for table in tables:
        if rows is None or encoded is None:
            rows = table
        else:
            yield encoded.without_last()
            base_offset += encoded.last_row
            rows = pa.concat_tables([rows.slice(encoded.last_row), table])
        encoded = encode_tombstone_batches(
            rows["group_id"],
            rows["key"],
            base_offset=base_offset,
            as_of_ms=record.as_of_ms,
            profile=profile,
            codec=topic.codec,
            magic=topic.magic(profile),
        )
    if encoded is not None:
        yield encoded


def _name(folder: RunFolder, record: RunRecord, shard: Shard, plan_id: str, start: int, rows: pa.Table | None) -> None:
    """Write the table `tombstones` of one shard, now that plan_id and the shard's first position are known."""
    if rows is not None or shard.bucket is not None:
        rows = folder.read_internal(_PLANNED, shard) if rows is None else rows
        rows = _numbered(rows, start)
    elif folder.exists(FOLDER, TOMBSTONES_FOLDER, f"{shard}.parquet"):
        rows = RunFolder(folder.uri, FOLDER).read_table(TOMBSTONES_FOLDER, shard)
    else:
        rows = WRITTEN_TOMBSTONES.empty_table()
    rows = rows.append_column("plan_id", pa.repeat(pa.scalar(plan_id), rows.num_rows))
    folder.write_table(record, TABLE, rows, shard)


def _numbered(rows: pa.Table, start: int) -> pa.Table:
    return rows.append_column("position", pa.array(np.arange(start, start + rows.num_rows), pa.int64()))


def _swept(
    folder: RunFolder, record: RunRecord, shard: Shard, verdicts: pa.Table, held: pa.Table, groups: pa.Table
) -> pa.Table:
    """Tombstones that a sweep appends to one log partition, for the groups of one shard.

    If one cache has the groups of all log partitions (Profile.one_cache): for all groups that hash to this log
    partition, wherever they are.
    """
    if not (profile_of(record.profile).one_cache and record.misplaced_sources and record.partition_count is not None):
        return _plan_of(folder, record, shard, verdicts, held, groups)
    log_partition = shard.log_partition

    def swept() -> Iterator[tuple[pa.Table, pa.ChunkedArray]]:
        yield _plan_of(folder, record, shard, verdicts, held, groups), groups["group_id"]
        for other in map(Shard, sorted(record.misplaced_sources.get(log_partition, []))):
            own, judged = folder.read_table("groups", other), folder.read_table("offset_verdicts", other, _VERDICT)
            yield _plan_of(folder, record, other, judged, read_held(folder, other), own), own["group_id"]

    return appended(log_partition, swept(), partition_count=record.partition_count)


def _plan_of(
    folder: RunFolder, record: RunRecord, shard: Shard, verdicts: pa.Table, held: pa.Table, groups: pa.Table
) -> pa.Table:
    """The tombstones for one shard's groups: from the broker's sweep, or from the policy if there is one."""
    log_partition = shard.log_partition
    own = folder.read_internal("group_tombstones", shard)
    profile, policy = profile_of(record.profile), policy_of(record)
    if policy is None:
        is_blocked = sweep_fails(folder, record, log_partition)
        rows = plan(held, pc.equal(verdicts["broker_verdict"], "expire"), groups, own, profile=profile)
        rows = rows.slice(0, 0) if is_blocked else rows
    else:
        rows = plan_by_policy(policy, held, verdicts, groups, own, now_ms=record.as_of_ms, profile=profile)
    if not record.knows_places:
        # Admin snapshots do not show pending offsets of an open transaction, which keep a bare group.
        rows = rows.filter(is_of_offset(rows))
    here = pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows)
    rows = rows.append_column("target_log_partition", here)
    return rows.slice(0, 0) if log_partition in record.blocked else rows
