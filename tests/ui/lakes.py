"""Lakes of published runs, written without a JVM: the tables as Iceberg has them, one commit a table and run.

A run's files lie in them as Spark leaves them: rows of a log partition side by side in the order of their keys, in row
groups as small as `sexton.tables.ddl` asks for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import IdentityTransform

from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake, open_lake, reader_properties
from sexton.tables import PARTITION_COLUMNS, TABLES

ROWS_PER_GROUP = 20_000
RETENTION_MS = 7 * 86_400_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLake:
    """A lake in a folder, and the catalog that writes to it."""

    lake: Lake
    catalog: Catalog

    def publish(self, key: RunKey, tables: Mapping[str, pa.Table | Sequence[Row]], **facts: Any) -> None:
        """Append a run's rows to the tables, and its row of `runs` last; what is not given has no row."""
        given = {name: as_table(name, rows, key) for name, rows in tables.items()}
        snapshots = []
        for name in TABLES:
            if TABLES[name].kind in ("index", "append"):
                continue
            rows = given.get(name, as_table(name, [], key))
            self.append(name, rows)
            head = self.catalog.load_table(f"sexton.{name}").current_snapshot()
            if head is not None:
                snapshots.append({"table": name, "snapshot_id": head.snapshot_id})
        for name in given:
            if TABLES[name].kind == "append":
                self.append(name, given[name])
        counts = [{"table": name, "rows": rows.num_rows} for name, rows in given.items()]
        self.append("runs", as_table("runs", [run_row(key, snapshots=snapshots, counts=counts, **facts)], key))

    def append(self, name: str, rows: pa.Table) -> None:
        """Rows as they are; nothing where there is none, as Iceberg writes no file for it."""
        if rows.num_rows:
            self.catalog.load_table(f"sexton.{name}").append(rows)


def lake_at(folder: Path, tables: Iterable[str] = tuple(TABLES)) -> WrittenLake:
    """A lake with every table and no row, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    uri, warehouse = f"jdbc:sqlite:{folder / 'catalog.db'}", str(folder / "warehouse")
    lake = replace(open_lake({"type": "jdbc", "uri": uri, "warehouse": warehouse}), name="lake")
    catalog = load_catalog("lake", **{**reader_properties(lake.properties), "init_catalog_tables": "true"})
    catalog.create_namespace_if_not_exists("sexton")
    for name in tables:
        create_table(catalog, name, TABLES[name].arrow_schema())
    return WrittenLake(lake=lake, catalog=catalog)


def create_table(catalog: Catalog, name: str, schema: pa.Schema) -> None:
    """The table as Spark creates it, partitioned as every table is."""
    properties = {"write.parquet.row-group-limit": str(ROWS_PER_GROUP), "write.parquet.compression-codec": "zstd"}
    made = catalog.create_table_transaction(f"sexton.{name}", schema, properties=properties)
    with made, made.update_spec() as update:
        for column in PARTITION_COLUMNS:
            update.add_field(column, IdentityTransform(), column)


def as_table(name: str, rows: pa.Table | Sequence[Row], key: RunKey) -> pa.Table:
    """Rows in the declared shape, with the run's own columns; what a row leaves out is NULL, or nothing."""
    schema = TABLES[name].arrow_schema()
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)
    own = {"cluster_id": key.cluster_id, "as_of_ms": key.as_of_ms, "run_id": key.run_id}
    nothing = {column.name: _nothing(column.type, column.nullable) for column in TABLES[name].columns}
    for row in rows:
        assert row.keys() <= nothing.keys() | own.keys(), f"no such columns: {row.keys() - nothing.keys()}"
    return pa.Table.from_pylist([{**nothing, **own, **row} for row in rows], schema=schema)


def run_row(key: RunKey, **facts: Any) -> dict[str, Any]:
    """A row of `runs` of a complete run over two log partitions."""
    return {
        "cluster_id": key.cluster_id, "as_of_ms": key.as_of_ms, "run_id": key.run_id, "topic_id": "topic-id",
        "taken_at_ms": key.as_of_ms + 60_000, "profile": "group_coordinator", "retention_ms": RETENTION_MS,
        "cuts": [{"log_partition": number, "cut": 1_000_000} for number in range(2)], "coverage": "complete",
        "changes_since_ms": key.as_of_ms - 3_600_000, "missing_log_partitions": [], "code_version": "0.1",
        "warnings": [], **facts,
    }  # fmt: skip


def _nothing(kind: pa.DataType, nullable: bool) -> Any:
    if nullable:
        return None
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_list(kind):
        return []
    return False if pa.types.is_boolean(kind) else b"" if pa.types.is_binary(kind) else 0
