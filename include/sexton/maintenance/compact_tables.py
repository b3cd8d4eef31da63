"""compact_tables: remove old Iceberg snapshots, branches of failed runs and tags of deleted runs, rewrite small files.

Every commit leaves a snapshot, and files that only this snapshot refers to. Snapshots older than some days are expired,
except those of published runs (lake.read reads a run at its snapshots) and the heads of main and branches; Iceberg
deletes the files that nothing refers to any more. The branch of a run whose checks failed is kept for the same time.

Small files are rewritten in the tables that grow by appends. That loses nothing, so it needs no permission. Tables of
snapshots are left alone: published runs refer to the files that they wrote.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.as_text import DAY_MS
from sexton.lake.append import retried
from sexton.lake.branch import side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.read import load, published_runs
from sexton.maintenance.old_snapshots_and_tags import old_branches, old_snapshots, old_tags
from sexton.runs.engine import Engine
from sexton.tables import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import Row

SMALL_FILES = 5
"""Minimum number of files in a partition for a rewrite."""
_WRITTEN_IN_PIECES = ("interval", "append")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedTables:
    """How many snapshots, branches and tags were removed, or would be; how many `small_files` were rewritten as
    `new_files`."""

    snapshots: int
    branches: int
    tags: int
    small_files: int
    new_files: int


def run(engine: Engine, lake: Lake, *, now_ms: int, days: int, deletes: bool = False) -> CompactedTables:
    """Clean up every table of the lake. Removes what is older than `days` at `now_ms`, but only with `deletes`.

    NoCoverage if nothing was ever published.
    """
    before_ms = now_ms - days * DAY_MS
    named: dict[str, set[int]] = {}  # the snapshots of published runs
    for published in published_runs(lake):
        for table, snapshot_id in published.snapshots.items():
            named.setdefault(table, set()).add(snapshot_id)
    tables = known_tables(lake)

    def clear(name: str) -> tuple[int, int, int]:
        """Clean up a table; return the numbers of (snapshots, branches, tags). Snapshots are removed last, because
        branches and tags refer to them."""
        table = load(lake, name)
        in_use = named.get(name, set())
        branches, tags = old_branches(table, before_ms), old_tags(table, before_ms, named=in_use)
        snapshots = old_snapshots(table, before_ms, named=in_use, but_for=[*branches, *tags])
        if deletes:
            for kind, refs in (("BRANCH", branches), ("TAG", tags)):
                for ref in refs:
                    _call(engine, f"ALTER TABLE {lake.identifier(name)} DROP {kind} IF EXISTS `{ref}`")
            if snapshots:
                # Only these: the default of `older_than` would also expire all snapshots older than five days.
                ids = ", ".join(f"{snapshot_id}L" for snapshot_id in snapshots)
                which = f"snapshot_ids => ARRAY({ids}), older_than => TIMESTAMP '1970-01-01 00:00:00'"
                _call(
                    engine, f"CALL `{lake.name}`.system.expire_snapshots(table => '{lake.namespace}.{name}', {which})"
                )
        return len(snapshots), len(branches), len(tags)

    cleared = side_by_side(clear, [table.name for table in tables])
    in_pieces = [table.name for table in tables if table.kind in _WRITTEN_IN_PIECES]
    compacted = side_by_side(lambda name: _compact(engine, lake, name), in_pieces)
    return CompactedTables(
        snapshots=sum(snapshots for snapshots, _, _ in cleared),
        branches=sum(branches for _, branches, _ in cleared),
        tags=sum(tags for _, _, tags in cleared),
        small_files=sum(small for small, _ in compacted),
        new_files=sum(new for _, new in compacted),
    )


def known_tables(lake: Lake) -> list[Table]:
    """Return Sexton's tables in the lake; NoCoverage if nothing was ever published."""
    with lake.reader() as catalog:
        names = {name for _, name in catalog.list_tables(lake.namespace)}
    return [table for table in TABLES.values() if table.name in names]


def _compact(engine: Engine, lake: Lake, name: str) -> tuple[int, int]:
    """Rewrite small files; return (files before, files after)."""
    table = load(lake, name)
    if table.current_snapshot() is None or not any(
        count >= SMALL_FILES for count in table.inspect.partitions()["file_count"].to_pylist()
    ):
        return 0, 0  # reading the metadata is much quicker than starting the procedure
    options = f"map('min-input-files', '{SMALL_FILES}')"
    procedure = f"`{lake.name}`.system.rewrite_data_files(table => '{lake.namespace}.{name}', options => {options})"
    (row,) = _call(engine, f"CALL {procedure}")
    return int(row["rewritten_data_files_count"]), int(row["added_data_files_count"])


def _call(engine: Engine, statement: str) -> list["Row"]:
    return retried(lambda: engine.session.sql(statement).collect())
