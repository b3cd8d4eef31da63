"""The documented ways to read see published runs only, and earlier ones as they were. The code is the docs' own."""

import re
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sexton.lake.append import replace_rows
from sexton.lake.branch import ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.publish import publish
from sexton.lake.read import partition_of
from sexton.tables import TABLES
from tests.lake.test_publish import FACTS, RunKey, write_rows
from tests.quality import world

pytestmark = pytest.mark.parametrize("lake", ["sqlite"], indirect=True, scope="module")

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(python|sql)\n(.*?)```", re.DOTALL)
NOON_MS, HOUR_MS = 1_795_262_400_000, 3_600_000
UNPUBLISHED = RunKey(cluster_id="c", as_of_ms=NOON_MS + 2 * HOUR_MS, run_id="unpublished")
NAMES = ("groups", "committed_offsets", "offset_verdicts")
DIFFERENT = {"first": 1, "again": 2, "newest": 3}
"""Groups of each run; "again" is a second attempt at the instant of "first"."""


def blocks(heading: str, language: str = "python") -> str:
    """The Python, or the SQL, under a heading."""
    section = (ROOT / "docs/readers.md").read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = [code for its_language, code in BLOCK.findall(section) if its_language == language]
    assert found
    return "\n".join(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Runs code of the docs as if this test's lake were the one it speaks of."""

    lake: Lake
    folder: Path

    def run(self, code: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
        own = re.sub(r"(?<!sexton\.)\blake\b", self.lake.name, code.replace("/srv/sexton/var", str(self.folder)))
        namespace = dict(names or {})
        exec(compile(own, "docs", "exec"), namespace)
        return namespace


@pytest.fixture(scope="module")
def reader(spark: SparkSession, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Two instants are published, the first of them twice over; a third run is written and waits for its checks."""
    ensure_tables(spark, lake, [TABLES[name] for name in (*NAMES, "runs")])
    folder = tmp_path_factory.mktemp("rows")
    for run_id, as_of_ms in (("first", NOON_MS), ("again", NOON_MS), ("newest", NOON_MS + HOUR_MS)):
        count = DIFFERENT[run_id]
        facts = {**FACTS, "counts": [{"table": name, "rows": count} for name in NAMES]}
        publish(lambda: spark, lake, write(spark, lake, folder, run_id, as_of_ms, count=count), NAMES, facts)
    half = RunKey(cluster_id="c", as_of_ms=NOON_MS + 3 * HOUR_MS, run_id="half")  # died before its row of `runs`
    offset = {**world.offset("committed_offsets", "g0", 0, 5), **asdict(half)}
    schema = TABLES["committed_offsets"].arrow_schema()
    replace_rows(lake, TABLES["committed_offsets"], pa.Table.from_pylist([offset], schema), partition_of(half))
    write(spark, lake, folder, UNPUBLISHED.run_id, UNPUBLISHED.as_of_ms, count=9)
    return Reader(lake=lake, folder=Path(lake.properties["warehouse"]).parent)


def write(spark: SparkSession, lake: Lake, folder: Path, run_id: str, as_of_ms: int, *, count: int) -> RunKey:
    key = RunKey(cluster_id="c", as_of_ms=as_of_ms, run_id=run_id)
    rows = {
        "groups": [world.group(f"g{n}", 0) for n in range(count)],
        "committed_offsets": [
            {**world.offset("committed_offsets", f"g{n}", 0, 5), "committed_offset": 100 * count} for n in range(count)
        ],
        "offset_verdicts": [world.verdict(f"g{n}", 0, 5, "keep") for n in range(count)],
    }
    write_rows(spark, lake, folder, key, rows)
    return key


def runs_in(rows: list[Any]) -> list[str]:
    return [row["run_id"] for row in rows]


def test_the_unpublished_run_is_there_to_be_missed(reader: Reader) -> None:
    with reader.lake.reader() as catalog:
        branches = catalog.load_table("sexton.groups").refs()
    assert [name for name, ref in branches.items() if ref.snapshot_ref_type == "branch" and name != "main"] == [
        UNPUBLISHED.branch
    ]


def test_pyiceberg(reader: Reader) -> None:
    found = reader.run(blocks("pyiceberg"))
    assert runs_in(found["groups"].to_pylist()) == ["newest"] * DIFFERENT["newest"]
    assert runs_in(found["earlier"].to_pylist()) == ["again"] * DIFFERENT["again"]
    assert runs_in(found["runs"]) == ["again", "newest"]


def test_duckdb(reader: Reader) -> None:
    found = reader.run(blocks("DuckDB"), reader.run(blocks("pyiceberg")))
    assert {row[0] for row in found["expiring"]} == {"g0", "g1", "g2"}
    assert sorted(found["moved"]) == [("g0", "t", 5, 100), ("g1", "t", 5, 100)]
    assert runs_in(found["before"].to_pylist()) == ["again"] * DIFFERENT["again"]


def test_spark(reader: Reader) -> None:
    found = reader.run(blocks("Spark"))
    assert runs_in(found["groups"].collect()) == ["newest"] * DIFFERENT["newest"]
    assert runs_in(found["earlier"].collect()) == ["again"] * DIFFERENT["again"]


def test_published_rows_in_plain_sql(reader: Reader, spark: SparkSession) -> None:
    rows = spark.table(f"{reader.lake.name}.sexton.committed_offsets").collect()
    assert Counter(runs_in(rows)) == {"again": 2, "newest": 3, "half": 1}, "one is half published"
    spark.sql(blocks("Published rows in plain SQL", "sql").replace("lake.", f"{reader.lake.name}."))
    seen = spark.table("published_offsets")
    assert Counter(runs_in(seen.collect())) == {"again": 2, "newest": 3}
    assert dict(seen.dtypes)["as_of"] == dict(seen.dtypes)["committed_at"] == "timestamp"
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    known = reader.run(blocks("DuckDB"), reader.run(blocks("pyiceberg")))
    found = reader.run(blocks("Published rows in plain SQL"), known)
    hours = Counter((as_of - noon) / timedelta(hours=1) for _, as_of in found["instants"])
    assert hours == {0: 2, 1: 3}
    assert seen.where("as_of = TIMESTAMP '2026-11-21T12:00:00Z'").count() == 2


def test_a_run_whose_snapshot_has_expired_is_read_from_main(reader: Reader) -> None:
    found = reader.run(blocks("pyiceberg"))
    gone = {**found["runs"][-1], "snapshots": [{"table": "groups", "snapshot_id": 1}]}
    assert runs_in(found["at"](gone, "groups").to_pylist()) == ["newest"] * DIFFERENT["newest"]
    replaced = {**found["runs"][0], "run_id": "first", "snapshots": gone["snapshots"]}
    assert found["at"](replaced, "groups").num_rows == 0


def test_this_package(reader: Reader, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest form of each."""
    monkeypatch.setattr("sexton.lake.catalog.open_lake", lambda: reader.lake)
    found = reader.run(blocks("With this package"), {"spark": spark})
    assert runs_in(found["groups"].to_pylist()) == ["newest"] * DIFFERENT["newest"]
    assert [row[1] for row in found["states"]] == [DIFFERENT["newest"]]
    assert runs_in(found["rows"].collect()) == ["newest"] * DIFFERENT["newest"]
