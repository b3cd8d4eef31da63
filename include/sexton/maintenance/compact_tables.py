"""compact_tables: remove old Iceberg snapshots and branches of failed runs, rewrite small files.

Every commit leaves a snapshot, and with it files that only it names. Those go that are older than some days, but for
what published runs name (lake.read reads a run at its snapshots) and what main or a branch stands at; Iceberg decides
which files nobody names any more. A branch of a run is kept for a look when its checks have failed, for as long.

Small files are made few in the tables that are written piece by piece; that loses nothing, so it needs no leave. The
tables of snapshots are read at the files that their runs have written.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.lake.branch import side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.publish import retried
from sexton.lake.read import load, published_runs
from sexton.maintenance.run_retention import DAY_MS
from sexton.runs.engine import Engine
from sexton.tables import TABLES, Table

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import Row

SMALL_FILES = 5
"""So many files of one partition are made one."""
_BRANCH_OF_RUN = re.compile(r"run_[A-Za-z0-9_]+")
_WRITTEN_IN_PIECES = ("interval", "append")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedTables:
    """What went of all tables, or would go; and how many `small_files` were made how few `new_files`."""

    snapshots: int
    branches: int
    small_files: int
    new_files: int


def run(engine: Engine, lake: Lake, *, now_ms: int, days: int, deletes: bool = False) -> CompactedTables:
    """Tidy every table of the lake. What is younger than `days` at `now_ms` stays; without `deletes` everything does.

    NoCoverage where nothing was ever published.
    """
    before_ms = now_ms - days * DAY_MS
    named = _named(lake)
    tables = known_tables(lake)

    def clear(name: str) -> tuple[int, int]:
        """(snapshots, branches): branches first, because they hold snapshots."""
        table = load(lake, name)
        branches = old_branches(table, before_ms)
        snapshots = old_snapshots(table, before_ms, named=named.get(name, frozenset()), but_for=branches)
        if deletes:
            for branch in branches:
                _call(engine, f"ALTER TABLE {lake.identifier(name)} DROP BRANCH IF EXISTS `{branch}`")
            if snapshots:
                _expire(engine, lake, name, snapshots)
        return len(snapshots), len(branches)

    cleared = side_by_side(clear, [table.name for table in tables])
    in_pieces = [table.name for table in tables if table.kind in _WRITTEN_IN_PIECES]
    compacted = side_by_side(lambda name: _compact(engine, lake, name), in_pieces)
    return CompactedTables(
        snapshots=sum(snapshots for snapshots, _ in cleared),
        branches=sum(branches for _, branches in cleared),
        small_files=sum(small for small, _ in compacted),
        new_files=sum(new for _, new in compacted),
    )


def known_tables(lake: Lake) -> list[Table]:
    """The tables of ours that the lake has; NoCoverage where nothing was ever published."""
    with lake.reader() as catalog:
        names = {name for _, name in catalog.list_tables(lake.namespace)}
    return [table for table in TABLES.values() if table.name in names]


def old_branches(table: "IcebergTable", before_ms: int) -> list[str]:
    """Branches of runs that were last written before an instant."""
    found = []
    for name, ref in table.refs().items():
        head = table.snapshot_by_id(ref.snapshot_id)
        if _BRANCH_OF_RUN.fullmatch(name) and head is not None and head.timestamp_ms < before_ms:
            found.append(name)
    return sorted(found)


def old_snapshots(
    table: "IcebergTable", before_ms: int, *, named: Collection[int], but_for: Collection[str] = ()
) -> list[int]:
    """Snapshots of before an instant that no published run names, and no branch or tag but those of `but_for`."""
    heads = {ref.snapshot_id for name, ref in table.refs().items() if name not in but_for}
    return sorted(
        snapshot.snapshot_id
        for snapshot in table.snapshots()
        if snapshot.timestamp_ms < before_ms and snapshot.snapshot_id not in heads and snapshot.snapshot_id not in named
    )


def _named(lake: Lake) -> dict[str, set[int]]:
    """Table -> the snapshots at which published runs are read."""
    named: dict[str, set[int]] = {}
    for run in published_runs(lake):
        for table, snapshot_id in run.snapshots.items():
            named.setdefault(table, set()).add(snapshot_id)
    return named


def _expire(engine: Engine, lake: Lake, name: str, snapshots: Sequence[int]) -> None:
    """Expire these and no others: without `older_than` Iceberg would take all that are older than five days."""
    ids = ", ".join(f"{snapshot_id}L" for snapshot_id in snapshots)
    arguments = f"snapshot_ids => ARRAY({ids}), older_than => TIMESTAMP '1970-01-01 00:00:00'"
    _call(engine, f"CALL `{lake.name}`.system.expire_snapshots(table => '{lake.namespace}.{name}', {arguments})")


def _compact(engine: Engine, lake: Lake, name: str) -> tuple[int, int]:
    """(files before, files after) of what was small."""
    table = load(lake, name)
    if table.current_snapshot() is None or not any(
        count >= SMALL_FILES for count in table.inspect.partitions()["file_count"].to_pylist()
    ):
        return 0, 0  # Spark would take its time to find that out
    options = f"map('min-input-files', '{SMALL_FILES}')"
    procedure = f"`{lake.name}`.system.rewrite_data_files(table => '{lake.namespace}.{name}', options => {options})"
    (row,) = _call(engine, f"CALL {procedure}")
    return int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])


def _call(engine: Engine, statement: str) -> list["Row"]:
    return retried(lambda: engine.session.sql(statement).collect())
