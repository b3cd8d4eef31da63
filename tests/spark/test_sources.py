"""The data sources in a real Spark: equal to the plain reader and to an audit, on recordings of real brokers."""

import json
import operator
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.types import StructType

from sexton.cli import main
from sexton.coordinator.loading import load
from sexton.kernels.commit_rows import commit_rows
from sexton.log.batch import encode_batch, read_batches
from sexton.log.codec import ZSTD
from sexton.log.entry import MAX_TIMESTAMP_AT
from sexton.runs.engine import Engine
from sexton.spark import records
from sexton.spark.records import ConsumerOffsets
from tests.campaign.mutants import mutant, sealed
from tests.coordinator.golden import GOLDEN
from tests.faults.logs import every_kind, offsets_of_all_versions, recordings, window
from tests.lake.test_readers import blocks
from tests.log_builder import BASE_MS, TOPIC_IDS, offset_key, offset_value

RECORDING = GOLDEN / "kafka-4.3.1-plain"
DISK = str(RECORDING / "before")
COMMIT_FIELDS = {"committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms", "topic_id"}


@pytest.fixture(scope="module")
def spark(engine: Engine) -> SparkSession:
    return engine.session


def test_every_record_is_a_row(spark: SparkSession, whole: list[dict[str, Any]]) -> None:
    """As many as `kafka-dump-log` would print, with what it would say of each; the tasks of Spark give what we read."""
    rows = spark.read.format("consumer_offsets").load(DISK).toArrow().to_pylist()
    counted = 0
    for folder in Path(DISK).glob("__consumer_offsets-*"):
        for file in folder.glob("*.log"):
            counted += sum(max(batch.record_count, 0) for batch in read_batches(file.read_bytes()))
    assert len(rows) == counted
    assert rows == whole
    assert {row["problem"] for row in rows} == {None}
    types = {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata"}
    assert types <= {row["record_name"] for row in rows}
    assert {row["control_type"] for row in rows} >= {"COMMIT", "ABORT"}


@pytest.mark.thorough
def test_the_last_values_are_the_replays(whole: list[dict[str, Any]]) -> None:
    """The newest plain value of each key, for keys that have no transactions."""
    commits = [row for row in whole if row["record_type"] in (0, 1)]
    found = {(row["group_id"], row["topic"], row["partition"]): row["committed_offset"] for row in commits}
    for row in commits:
        if row["producer_id"] != -1:
            found.pop((row["group_id"], row["topic"], row["partition"]), None)
    found = {key: committed for key, committed in found.items() if committed is not None}
    wanted: dict[Any, int] = {}
    for folder in Path(DISK).glob("__consumer_offsets-*"):
        loaded = load(sorted(file.read_bytes() for file in folder.glob("*.log")), cap_bytes=1 << 24)
        wanted |= {key: offset.committed_offset for key, offset in loaded.offsets.items()}
    assert len(found) > 100
    assert found.items() <= wanted.items()


@pytest.mark.thorough
def test_fields_are_json(whole: list[dict[str, Any]]) -> None:
    for name, keys in (("GroupMetadata", {"protocol_type", "generation", "members"}), ("OffsetCommit", COMMIT_FIELDS)):
        fields = [json.loads(row["fields"]) for row in whole if row["record_name"] == name and not row["is_tombstone"]]
        assert fields
        assert keys <= fields[0].keys()


@pytest.mark.thorough
def test_log_partitions_and_time(whole: list[dict[str, Any]]) -> None:
    assert read(log_partitions="0,2") == [row for row in whole if row["log_partition"] in (0, 2)]
    middle = sorted(row["timestamp_ms"] for row in whole)[len(whole) // 2]
    before, after = read(to=str(middle)), read(**{"from": str(middle)})
    assert before == [row for row in whole if row["timestamp_ms"] < middle] != []
    assert after == [row for row in whole if row["timestamp_ms"] >= middle] != []


def leave_out_all(data: Any, frames: Any, *, cap_bytes: int) -> Iterator[Any]:
    for batches, _, rows, arena in commit_rows(data, frames, cap_bytes=cap_bytes):
        yield batches, batches, rows[:0], arena


def by_both(data: bytes, folder: Path, **options: str) -> tuple[list[dict[str, Any]], int]:
    """The rows of a segment, which the plain reader gives as well, and how many of them were the kernels'."""
    path = folder / "__consumer_offsets-0" / f"{0:020d}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    rows_of_kernels = []

    def counting(data: Any, frames: Any, *, cap_bytes: int) -> Iterator[Any]:
        for run in commit_rows(data, frames, cap_bytes=cap_bytes):
            rows_of_kernels.append(len(run[2]))
            yield run

    found = []
    for reader in (counting, leave_out_all):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(records, "commit_rows", reader)
            found.append(read(path=str(folder), **options))
    assert repr(found[0]) == repr(found[1]), data.hex()
    return found[0], sum(rows_of_kernels)


def test_the_kernels_rows_are_those_of_the_plain_reader(tmp_path: Path) -> None:
    """On recordings, each kind of record in each format and codec, and every version of a value."""
    own = [offset_key("g"), offset_key("группа", record_type=0)]
    odd = offset_value(7, version=4, metadata='"\\\n\x00é😀', topic_id=TOPIC_IDS[2])
    values = [None, odd, *(value for _, value in offsets_of_all_versions("g")), odd.replace(b"\xc3", b"\xff")]
    versions = encode_batch([(own[0], value) for value in values], base_offset=0, timestamp_ms=BASE_MS)
    legacy = encode_batch(
        [(own[1], None), (own[1], offset_value(1, version=0, record_type=0))], base_offset=90, timestamp_ms=BASE_MS
    )
    compressed = encode_batch([(own[0], odd)] * 3, base_offset=95, timestamp_ms=BASE_MS, codec=ZSTD)
    rows, by_kernels = by_both(versions + legacy + compressed, tmp_path)
    assert by_kernels == len(rows) == len(values) + 5
    lying = bytearray(compressed)
    lying[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = bytes(8)
    assert by_both(sealed(lying), tmp_path, **{"from": "1"}) == ([], 0)
    rows, by_kernels = by_both(every_kind(), tmp_path)
    assert 0 < by_kernels < len(rows)
    for log in list(recordings().values())[::5]:
        by_both(log, tmp_path)


@pytest.mark.thorough
def test_the_kernels_rows_of_damaged_logs(drawn: int, full: bool, tmp_path: Path) -> None:
    random = Random(drawn)
    logs, by_kernels = [*recordings().values(), every_kind()], 0
    for _ in range(2_000 if full else 100):
        some = partial(lambda: window(random.choice(logs), random, size_bytes=4_000))
        columns = random.choice(({}, {"columns": "log_offset,group_id,value"}))
        by_kernels += by_both(mutant(some(), random, some), tmp_path, **columns)[1]
    assert by_kernels > 0


def test_many_records_of_one_batch_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    entries = [(offset_key("g"), offset_value(1))] * 25_000
    path = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(encode_batch(entries, base_offset=0, timestamp_ms=BASE_MS, codec=ZSTD))
    reader = ConsumerOffsets({"path": str(tmp_path), "columns": "log_offset"}).reader(StructType())
    (part,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(part)] == [10_000, 10_000, 5_000]


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
def test_spark_pushes_filters_down_where_it_is_told_to(spark: SparkSession, whole: list[dict[str, Any]]) -> None:
    """Spark 4.1 uses what a query has pushed for the next one of the DataFrame, too: so an option has to allow it."""
    load = spark.read.format("consumer_offsets").load
    rows, asked = load(DISK), "group_id = 'billing' AND record_type = 1"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert rows.where(asked).count() < len(whole) == rows.count()
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
def test_damage_has_its_row(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (source,) = (Path(DISK) / "__consumer_offsets-0").glob("*.log")
    (folder / source.name).write_bytes(source.read_bytes()[:-20])
    problems = [row["problem"] for row in read(path=str(tmp_path)) if row["problem"] is not None]
    assert len(problems) == 1
    assert problems[0].startswith("torn")


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
