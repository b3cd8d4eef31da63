"""The data sources in a real Spark: equal to the plain reader and to an audit, on recordings of real brokers."""

import json
import operator
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.types import StructType

from sexton.cli import main
from sexton.coordinator.loading import load
from sexton.log.batch import read_batches
from sexton.runs.engine import Engine
from sexton.spark.records import ConsumerOffsets
from tests.coordinator.golden import GOLDEN
from tests.lake.test_readers import blocks

RECORDING = GOLDEN / "kafka-4.3.1-plain"
DISK = str(RECORDING / "before")


@pytest.fixture(scope="module")
def spark(engine: Engine) -> SparkSession:
    return engine.session


def test_every_record_is_a_row(spark: SparkSession) -> None:
    """As many as `kafka-dump-log` would print, with what it would say of each."""
    rows = spark.read.format("consumer_offsets").load(DISK)
    rows.createOrReplaceTempView("records")
    counted = 0
    for folder in Path(DISK).glob("__consumer_offsets-*"):
        for file in folder.glob("*.log"):
            counted += sum(max(batch.record_count, 0) for batch in read_batches(file.read_bytes()))
    assert rows.count() == counted
    assert rows.where("problem IS NOT NULL").count() == 0
    by_name = {row[0] for row in spark.sql("SELECT DISTINCT record_name FROM records").collect()}
    assert {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata"} <= by_name
    assert {row[0] for row in rows.select("control_type").distinct().collect()} >= {"COMMIT", "ABORT"}


@pytest.mark.thorough
def test_the_last_values_are_the_replays(spark: SparkSession) -> None:
    """SQL of a user: the newest plain value of each key, for groups that have no transactions."""
    spark.read.format("consumer_offsets").load(DISK).createOrReplaceTempView("records")
    found = spark.sql("""
        SELECT group_id, topic, partition, max_by(committed_offset, log_offset) AS committed_offset,
            max_by(is_tombstone, log_offset) AS is_tombstone
        FROM records WHERE record_type IN (0, 1)
        GROUP BY ALL
        HAVING NOT is_tombstone AND max(producer_id) = -1
    """).collect()
    wanted: dict[Any, int] = {}
    for folder in Path(DISK).glob("__consumer_offsets-*"):
        loaded = load(sorted(file.read_bytes() for file in folder.glob("*.log")), cap_bytes=1 << 24)
        wanted |= {key: offset.committed_offset for key, offset in loaded.offsets.items()}
    assert len(found) > 100
    assert {(row[0], row[1], row[2]): row[3] for row in found}.items() <= wanted.items()


@pytest.mark.thorough
def test_fields_are_json(spark: SparkSession) -> None:
    rows = spark.read.format("consumer_offsets").load(DISK).where("record_name = 'GroupMetadata' AND NOT is_tombstone")
    fields = [json.loads(row.fields) for row in rows.collect()]
    assert fields
    assert {"protocol_type", "generation", "members"} <= fields[0].keys()


@pytest.mark.thorough
def test_log_partitions_and_time(spark: SparkSession) -> None:
    def read(**options: object) -> set[tuple[int, int, int]]:
        rows = spark.read.format("consumer_offsets").options(**options).load(DISK)
        return {
            (row[0], row[1], row[2]) for row in rows.select("log_partition", "log_offset", "timestamp_ms").collect()
        }

    whole = read()
    assert read(log_partitions="0,2") == {row for row in whole if row[0] in (0, 2)}
    middle = sorted(row[2] for row in whole)[len(whole) // 2]
    before, after = read(to=middle), read(**{"from": middle})
    assert before
    assert after
    assert before | after == whole
    assert max(row[2] for row in before) < middle <= min(row[2] for row in after)


GROUP_ID, AT_MS, LOG_PARTITION, RECORD_TYPE = ("group_id",), ("timestamp_ms",), ("log_partition",), ("record_type",)
FILTERS: dict[str, Callable[[str, int], list[Filter]]] = {
    "a group": lambda group, ms: [EqualTo(GROUP_ID, group)],
    "groups and time": lambda group, ms: [In(GROUP_ID, (group, "nobody")), GreaterThan(AT_MS, ms)],
    "no group can be two": lambda group, ms: [EqualTo(GROUP_ID, group), EqualTo(GROUP_ID, "a")],
    "a group that other bytes may be read as": lambda group, ms: [EqualTo(GROUP_ID, "\ufffd")],
    "log partitions and time": lambda group, ms: [In(LOG_PARTITION, (0, 2)), LessThan(AT_MS, ms)],
    "a type, from and to": lambda group, ms: [
        EqualTo(RECORD_TYPE, 1), GreaterThanOrEqual(AT_MS, ms), LessThanOrEqual(AT_MS, ms + 1)
    ],
    "other filters": lambda group, ms: [EqualTo(("partition",), 0), Not(EqualTo(GROUP_ID, group))],
}  # fmt: skip
KEEPS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq, In: lambda value, values: value in values, GreaterThan: operator.gt, LessThan: operator.lt,
    GreaterThanOrEqual: operator.ge, LessThanOrEqual: operator.le,
}  # fmt: skip


def read(*filters: Filter, **options: str) -> list[dict[str, Any]]:
    """What Spark gets of a reader that was told of these filters, with them applied, as Spark does again."""
    reader = ConsumerOffsets({"path": DISK, "pushdown": "true", **options}).reader(StructType())
    assert reader.pushFilters(list(filters)) == list(filters)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return fitting(rows, *filters)


def fitting(rows: list[dict[str, Any]], *filters: Filter) -> list[dict[str, Any]]:
    def fits(row: dict[str, Any], one: Filter) -> bool:
        value = row[one.attribute[0]] if type(one) in KEEPS else None
        return type(one) not in KEEPS or (value is not None and KEEPS[type(one)](value, one.value))

    return [row for row in rows if all(fits(row, one) for one in filters)]


@pytest.fixture(scope="module")
def whole() -> list[dict[str, Any]]:
    return read()


@pytest.mark.parametrize("name", list(FILTERS))
def test_filters_that_are_pushed_down_change_no_answer(name: str, whole: list[dict[str, Any]]) -> None:
    commits = sorted((row for row in whole if row["record_type"] == 1), key=lambda row: row["timestamp_ms"])
    middle = commits[len(commits) // 2]
    filters = FILTERS[name](middle["group_id"], middle["timestamp_ms"])
    wanted = fitting(whole, *filters)
    assert read(*filters) == wanted
    few = ["log_offset", *{one.attribute[0]: None for one in filters if type(one) in KEEPS}]
    assert read(*filters, columns=",".join(few)) == [{column: row[column] for column in few} for row in wanted]
    assert bool(wanted) == ("no group" not in name and "other bytes" not in name)


@pytest.mark.thorough
def test_spark_pushes_filters_down_where_it_is_told_to(spark: SparkSession) -> None:
    """Spark 4.1 uses what a query has pushed for the next one of the DataFrame, too: so an option has to allow it."""
    load = spark.read.format("consumer_offsets").load
    rows, asked = load(DISK), "group_id = 'billing' AND record_type = 1"
    count = rows.count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert rows.where(asked).count() < count == rows.count()
        assert load(DISK, pushdown="true").where(asked).rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.thorough
@pytest.mark.parametrize(("moved", "parts"), [(False, 1), (True, 4)])
def test_a_group_is_in_one_log_partition_if_old_records_prove_it(tmp_path: Path, moved: bool, parts: int) -> None:
    """Not after the topic has grown, when records of a group may lie where it hashed to before."""
    shutil.copytree(DISK, tmp_path / "disk")
    if moved:
        first, second = (next((tmp_path / "disk" / f"__consumer_offsets-{number}").glob("*.log")) for number in (0, 1))
        first.write_bytes(second.read_bytes() + first.read_bytes())
    reader = ConsumerOffsets({"path": str(tmp_path / "disk"), "pushdown": "true"}).reader(StructType())
    reader.pushFilters([EqualTo(GROUP_ID, "billing")])
    assert len({one.segment.log_partition for one in reader.partitions()}) == parts


@pytest.mark.thorough
def test_damage_has_its_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (source,) = (Path(DISK) / "__consumer_offsets-0").glob("*.log")
    (folder / source.name).write_bytes(source.read_bytes()[:-20])
    problems = spark.read.format("consumer_offsets").load(str(tmp_path)).where("problem IS NOT NULL").collect()
    assert len(problems) == 1
    assert problems[0].problem.startswith("torn")


@pytest.mark.parametrize("table", ["groups", "committed_offsets"])
def test_groups_are_those_of_an_audit(spark: SparkSession, tmp_path: Path, table: str) -> None:
    topics = str(RECORDING / "topics.jsonl")
    main(["audit", "--segments", DISK, "--topics", topics, "--out", str(tmp_path / "out")])
    wanted = pq.read_table(tmp_path / "out" / table).drop(["run_id"])
    found = spark.read.format("consumer_groups").options(table=table, topics=topics).load(DISK).drop("run_id").toArrow()
    keys = [(name, "ascending") for name in ("log_partition", "group_id", "log_offset")]
    assert found.num_rows > 10
    assert found.sort_by(keys).to_pylist() == wanted.select(found.column_names).sort_by(keys).to_pylist()


def test_spark_sql(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW told USING consumer_groups OPTIONS (path '{DISK}', as_of '9999999999999')"
    )
    states = {row[0]: row[1] for row in spark.sql("SELECT state, count(*) FROM told GROUP BY state").collect()}
    assert states["Empty"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "problem"), [({"as_of": "yesterday"}, "yesterday"), ({"table": "nothing"}, "no table")]
)
def test_options_that_are_none_are_named(spark: SparkSession, options: dict[str, str], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        spark.read.format("consumer_groups").options(**options).load(DISK).count()


@pytest.mark.thorough
def test_the_queries_of_the_docs(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("The log itself, in Spark").replace("/var/lib/kafka/data", DISK)
    names: dict[str, Any] = {}
    exec(compile(code, "docs", "exec"), names)
    assert names["records"].count() > 1_000
    told = capsys.readouterr().out
    assert "commits" in told
    assert "Classic" in told
