"""A lake with many small runs in it, written at once, and an archive with their checkpoints."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sexton.lake.branch import RunKey, ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, load, published_runs, read_published
from sexton.tables import TABLES
from sexton.tables.ddl import spark_schema

TOPIC = "topic"
STATE, CHANGES = "groups", "offset_changes"
OTHERS = ("apply_ledger", "dq_results", "runs")
GROUPS_OF_A_RUN = 2


@dataclass(frozen=True)
class Runs:
    """The runs of a cluster of their own, so that tests share tables but no rows."""

    spark: SparkSession
    lake: Lake
    archive: Path
    cluster_id: str

    def checkpoint(self, as_of_ms: int, *, is_whole: bool = True) -> Path:
        folder = self.archive / self.cluster_id / "checkpoints" / TOPIC / f"{as_of_ms}-run"
        (folder / "0").mkdir(parents=True)
        (folder / "0" / "keys.parquet").write_bytes(b"keys")
        if is_whole:
            (folder / "checkpoint.json").write_text("{}")
        return folder

    def checkpoints(self) -> list[int]:
        folders = (self.archive / self.cluster_id / "checkpoints" / TOPIC).glob("*/checkpoint.json")
        return sorted(int(path.parent.name.partition("-")[0]) for path in folders)

    def published(self) -> list[PublishedRun]:
        return published_runs(self.lake, self.cluster_id)

    def named(self) -> list[int]:
        return [run.key.as_of_ms for run in self.published()]

    def seen(self) -> dict[int, tuple[int, ...]]:
        """What readers see: rows of the state and of the changes, by run."""
        return {
            run.key.as_of_ms: tuple(read_published(self.lake, run, name).num_rows for name in (STATE, CHANGES))
            for run in self.published()
        }

    def rows_at(self, table: str) -> set[int]:
        """The instants of which a table has rows."""
        rows = load(self.lake, table).scan(selected_fields=("cluster_id", "as_of_ms")).to_arrow().to_pylist()
        return {row["as_of_ms"] for row in rows if row["cluster_id"] == self.cluster_id}


def fill(spark: SparkSession, lake: Lake, runs: Iterable[tuple[str, int]], *, plans: Sequence[str] = ()) -> None:
    """Publish a run of each (cluster, instant), each with its own plan; those of `plans` were applied."""
    found = list(runs)
    ensure_tables(spark, lake, [TABLES[name] for name in (STATE, CHANGES, *OTHERS)])
    append(spark, lake, STATE, [row(STATE, key, group_id=f"g{n}") for key in found for n in range(GROUPS_OF_A_RUN)])
    append(spark, lake, CHANGES, [row(CHANGES, key, group_id="g0", kind="set") for key in found])
    append(spark, lake, "apply_ledger", [row("apply_ledger", found[0], plan_id=plan_id) for plan_id in plans])
    heads = [
        {"table": name, "snapshot_id": load(lake, name).current_snapshot().snapshot_id} for name in (STATE, CHANGES)
    ]
    cluster_id, as_of_ms = found[-1]
    tag = RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id="").tag
    for head in heads:
        name, snapshot_id = lake.identifier(head["table"]), head["snapshot_id"]
        spark.sql(f"ALTER TABLE {name} CREATE TAG `{tag}` AS OF VERSION {snapshot_id}")
    told = {"snapshots": heads, "cuts": [{"log_partition": 0, "cut": 5}], "changes_since_ms": 0}
    append(spark, lake, "runs", [row("runs", key, plan_id=plan_of(key), **told) for key in found])


def publish(
    spark: SparkSession, lake: Lake, key: tuple[str, int], tables: Mapping[str, Sequence[dict[str, Any]]], **told: Any
) -> None:
    """Publish a run that has rows in these tables; `told` is what `runs` says of it besides their snapshots."""
    for name, rows in tables.items():
        append(spark, lake, name, rows)
    heads = [{"table": name, "snapshot_id": load(lake, name).current_snapshot().snapshot_id} for name in tables]
    append(spark, lake, "runs", [row("runs", key, snapshots=heads, **told)])


def plan_of(key: tuple[str, int]) -> str:
    return f"plan-{key[0]}-{key[1]}"


def append(spark: SparkSession, lake: Lake, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows as they are."""
    if rows:
        names = [column.name for column in TABLES[table].all_columns]
        frame = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], spark_schema(TABLES[table]))
        frame.writeTo(lake.identifier(table)).append()


def row(table: str, key: tuple[str, int], **values: Any) -> dict[str, Any]:
    """A row of which only that is known."""
    cluster_id, as_of_ms = key
    empty = dict.fromkeys(column.name for column in TABLES[table].all_columns)
    return {**empty, "cluster_id": cluster_id, "as_of_ms": as_of_ms, "run_id": f"r{as_of_ms}", **values}
