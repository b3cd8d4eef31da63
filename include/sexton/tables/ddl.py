"""Spark SQL for the declared tables: schemas for reading, and Iceberg's CREATE TABLE and ALTER TABLE."""

from collections.abc import Mapping

import pyarrow as pa

from sexton.tables.table import PARTITION_COLUMNS, Column, Table

_SCALARS = {
    pa.string(): "STRING",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BINARY",
}
PROPERTIES = {
    "format-version": "2",
    # A run writes a single Iceberg partition: Iceberg's default would shuffle all of its rows to one task.
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    # A Spark session may write to a branch, whose rows are checked before they are published (lake.branch).
    "write.wap.enabled": "true",
    "commit.retry.num-retries": "10",
    # The default of Spark, but not of PyIceberg. Otherwise `runs` would gain a manifest with each run.
    "commit.manifest-merge.enabled": "true",
    # Every commit writes a complete metadata file, and readers use the newest. A hundred older ones are kept for
    # inspection.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
_OF_RUNS = {
    # A run's rows are sorted by log partition and key. With small row groups a reader of one group skips most of them;
    # a row group of the default size has all groups of a cluster.
    "write.parquet.row-group-size-bytes": "1048576",
}

RENAMED = {"stray_groups": "misplaced_groups"}
"""Old name -> new name of columns that older tables still have: renamed in Iceberg, they keep their values."""


def spark_type(kind: pa.DataType) -> str:
    """The Spark SQL type of an Arrow type."""
    if pa.types.is_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}`: {spark_type(field.type)}' for field in kind)}>"
    return _SCALARS[kind]


def spark_schema(table: Table) -> str:
    """The schema of the table's Parquet files and Iceberg table, run columns first, as DDL for `spark.read.schema`."""
    return ", ".join(f"`{column.name}` {spark_type(column.type)}" for column in table.all_columns)


def create_table(table: Table, identifier: str) -> str:
    """CREATE TABLE IF NOT EXISTS for Iceberg, with the declaration as comments.

    Every column is optional in Iceberg: the checks find NULLs where none are allowed, and report the column and the
    count.
    """
    columns = ",\n  ".join(_column(column) for column in table.all_columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} (\n  {columns}\n) USING iceberg\n"
        f"PARTITIONED BY ({', '.join(PARTITION_COLUMNS)})\n"
        f"COMMENT {_text(table.grain)}\nTBLPROPERTIES ({_listed(properties_of(table))})"
    )


def properties_of(table: Table) -> dict[str, str]:
    """The properties of the table in Iceberg."""
    return {**PROPERTIES, **(_OF_RUNS if table.kind in ("snapshot", "interval") else {})}


def set_properties(properties: Mapping[str, str], identifier: str) -> str:
    """ALTER TABLE that gives an existing table properties that were declared later."""
    return f"ALTER TABLE {identifier} SET TBLPROPERTIES ({_listed(properties)})"


def add_columns(columns: list[Column], identifier: str) -> str:
    """ALTER TABLE that gives an existing table columns that were declared later."""
    return f"ALTER TABLE {identifier} ADD COLUMNS ({', '.join(_column(column) for column in columns)})"


def rename_column(old: str, new: str, identifier: str) -> str:
    """ALTER TABLE that gives a column of an existing table its new name."""
    return f"ALTER TABLE {identifier} RENAME COLUMN `{old}` TO `{new}`"


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


def _column(column: Column) -> str:
    return f"`{column.name}` {spark_type(column.type)} COMMENT {_text(column.doc)}"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
