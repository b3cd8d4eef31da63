"""validate_tables: checks what the earlier stages wrote, before anybody reads it (the table dq_results).

In the pipeline the tables first go to a branch of the lake, which is then checked. A critical failure ends the run:
main stays as it was and the branch is kept for inspection. `sexton audit` checks the run folder itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.coordinator.profiles import profile_of
from sexton.errors import DataQualityFailure
from sexton.lake.branch import RunKey, ensure_tables, write_branch
from sexton.lake.catalog import Lake, open_lake
from sexton.lake.read import load, read_branch
from sexton.quality import (
    CheckedRun,
    Measures,
    Result,
    Validate,
    checked_tables,
    measure_part,
    results_table,
    total_of,
    validate,
)
from sexton.quality.measure import read_whole
from sexton.runs.engine import SMALL_WORK_BYTES, Engine
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord
from sexton.tables import TABLES, Table

TABLE = "dq_results"
_SHOWN_FAILURES = 10


def run(engine: Engine, folder: RunFolder, *, lake: bool = True, validate: Validate = validate) -> RunRecord:
    """Write dq_results and the Data Docs of `folder`.

    With `lake` the tables go to the run's branch first and are read back from it, and DataQualityFailure is raised when
    a critical expectation fails; without it, failures are only reported.
    """
    record = folder.read_run()
    place = open_lake() if lake else None
    locations = _write_branch(engine, folder, record, place) if place else None
    measures = _measure(engine, folder, record, place, locations)
    results = validate(total_of(measures, checked_run(record)), docs=folder.root / "dq")
    count = folder.write_table(record, TABLE, results_table(results))
    record = record.model_copy(update={"counts": {**record.counts, TABLE: count}})
    folder.write_run(record)
    if place:
        write_branch(engine.session, place, key_of(record), {TABLE: [folder.table_file(TABLE)]})
        _stop_on_failure(results, folder, key_of(record))
    return record


def failed_count(folder: RunFolder) -> int:
    """Expectations of `folder` that failed, warnings included."""
    results = folder.read_table(TABLE, WHOLE_RUN, ["success"])["success"]
    return len(results) - (pc.sum(results).as_py() or 0)


def alerts_of(folder: RunFolder) -> list[str]:
    """The alert of a run that passed: its failed warnings, with their counts, in one line."""
    names = list(TABLES[TABLE].column_names)
    results = [Result(**row) for row in folder.read_table(TABLE, WHOLE_RUN, names).to_pylist()]
    failed = [result for result in results if not result.success and not result.stops_publication]
    return [f"{len(failed)} warnings, which stop nothing: {_failures_text(failed)}"] if failed else []


def key_of(record: RunRecord) -> RunKey:
    """Which rows of the lake are the run's."""
    return RunKey(cluster_id=record.cluster_id, as_of_ms=record.as_of_ms, run_id=record.run_id)


def checked_run(record: RunRecord) -> CheckedRun:
    """What the run says of itself."""
    return CheckedRun(
        cluster_id=record.cluster_id,
        as_of_ms=record.as_of_ms,
        run_id=record.run_id,
        cuts=record.cuts,
        plan_id=record.plan_id,
        partition_count=record.partition_count,
        is_complete=record.coverage == "complete",
        profile=profile_of(record.profile),
        policy=record.policy,
        tells_changes=record.changes_since_ms is not None,
    )


def tables_of(record: RunRecord) -> tuple[Table, ...]:
    """What the run has written, to be checked."""
    return checked_tables(tells_changes=record.changes_since_ms is not None)


def files_of(folder: RunFolder, table: Table, log_partitions: Iterable[int]) -> list[Path]:
    """The files that a table should have."""
    parts = log_partitions if table.per_log_partition else [WHOLE_RUN]
    return [folder.table_file(table.name, part) for part in parts]


def partition_sets(folder: RunFolder, record: RunRecord, *, target_bytes: int = SMALL_WORK_BYTES) -> list[list[int]]:
    """The run's log partitions in sets of about `target_bytes`, each measured by one task.

    All of them are one set if a group may be in several: where the number of log partitions is unknown (only for logs
    with next to no groups), or a coordinator with one cache serves misplaced groups.
    """
    is_split = record.partition_count is not None and not record.misplaced_sources
    parts_of_run: list[list[int]] = []
    room = 0
    for part in record.log_partitions:
        files = [path for table in tables_of(record) for path in files_of(folder, table, [part])]
        size = sum(path.stat().st_size for path in files if path.exists())
        if not parts_of_run or (room < size and is_split):
            parts_of_run.append([])
            room = target_bytes
        parts_of_run[-1].append(part)
        room -= size
    return parts_of_run


def _write_branch(engine: Engine, folder: RunFolder, record: RunRecord, lake: Lake) -> dict[str, str]:
    """Write the run's branch; the metadata file of every table that could be written.

    A table that is missing, or not as declared, is not written: the checks will report it.
    """
    ensure_tables(engine.session, lake)
    expected = {table: files_of(folder, table, record.log_partitions) for table in tables_of(record)}
    sound = {table.name: files for table, files in expected.items() if _are_sound(table, files)}
    write_branch(engine.session, lake, key_of(record), sound)
    return {name: load(lake, name).metadata_location for name in sound}


def _are_sound(table: Table, files: list[Path]) -> bool:
    schemas = [schema for file in files if (schema := _schema(file)) is not None]
    return len(schemas) == len(files) and read_whole(table, [schema.empty_table() for schema in schemas]) is not None


def _schema(file: Path) -> pa.Schema | None:
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowInvalid):
        return None


def _measure(
    engine: Engine, folder: RunFolder, record: RunRecord, lake: Lake | None, locations: Mapping[str, str] | None
) -> list[Measures]:
    parts_of_run = partition_sets(folder, record)
    properties = None if lake is None else lake.storage_properties()

    def measure(parts: list[int]) -> Measures:
        tables = [table for table in tables_of(record) if table.per_log_partition or parts == parts_of_run[0]]
        if locations is None:
            rows = {table.name: _read_files(files_of(folder, table, parts)) for table in tables}
            files = {table.name: len(files_of(folder, table, parts)) for table in tables}
        else:
            some = parts if len(parts_of_run) > 1 else None
            rows = {
                table.name: _read_branch(locations, properties or {}, table, key_of(record), some) for table in tables
            }
            files = {table.name: 1 for table in tables}
        return measure_part(rows, checked_run(record), parts, files=files)

    if len(parts_of_run) == 1:
        return [measure(parts_of_run[0])]
    return engine.map("Checking tables", parts_of_run, measure)


def _read_files(files: list[Path]) -> list[pa.Table]:
    """The readable files; the checks report the others as missing."""
    found = []
    for file in files:
        try:
            found.append(pq.read_table(file, partitioning=None))
        except (OSError, pa.ArrowInvalid):
            continue
    return found


def _read_branch(
    locations: Mapping[str, str],
    properties: dict[str, str],
    table: Table,
    key: RunKey,
    log_partitions: list[int] | None,
) -> list[pa.Table]:
    if table.name not in locations:
        return []
    rows = read_branch(locations[table.name], properties, table.name, key, log_partitions)
    return [] if rows is None else [rows]


def _stop_on_failure(results: list[Result], folder: RunFolder, key: RunKey) -> None:
    failed = [result for result in results if result.stops_publication]
    if not failed:
        return
    raise DataQualityFailure(
        f"{len(failed)} critical expectations failed, nothing is published: {_failures_text(failed)}",
        where=folder.root,
        fix=f"see dq/index.html there; branch {key.branch} is kept",
    )


def _failures_text(failed: list[Result]) -> str:
    """Failures in a line: what was expected and how much breaks it, never a group."""
    some = [f"{result.table}: {result.expectation}: {result.observed}" for result in failed[:_SHOWN_FAILURES]]
    more = [f"and {len(failed) - _SHOWN_FAILURES} more"] if len(failed) > _SHOWN_FAILURES else []
    return "; ".join([*some, *more])
