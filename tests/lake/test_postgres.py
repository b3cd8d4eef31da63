"""A catalog on Postgres: a run from its folder to its readers, publishers in two processes, a password nobody sees."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from sexton.errors import NoCoverage, SextonError
from sexton.failpoints import FAILPOINTS
from sexton.lake.branch import RunKey, ensure_tables
from sexton.lake.catalog import Lake, open_lake
from sexton.lake.read import load, published_runs, read_published
from sexton.pipeline import publish_tables, validate_tables
from sexton.settings import environment
from tests.lake.test_publish import NAMES, Runs
from tests.lake_session import check_by_duckdb, engine_of, use_lake
from tests.pipeline.test_validate_publish import fill
from tests.postgres import Postgres
from tests.quality import world
from tests.tiers import later

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("needs_postgres"),
    pytest.mark.parametrize("lake", ["postgres"], indirect=True, scope="module"),
]

OTHER = """
import os, signal, sys
from dataclasses import replace
from sexton.kafka.jars import ensure
from sexton.lake import publish as publishing
from sexton.lake.branch import RunKey
from sexton.lake.catalog import open_lake
from sexton.settings import settings
from sexton.runs.spark_session import spark_session
from tests.lake.test_publish import FACTS, NAMES

lake = replace(open_lake(), name=sys.argv[1])
spark = spark_session(conf=lake.spark_conf(ensure(settings().cache, "spark")))
spark.sql(f"SHOW TABLES IN {lake.name}.{lake.namespace}").collect()
print("ready", flush=True)
for line in sys.stdin:
    what, cluster_id, as_of_ms, run_id = line.split()
    if what != "publish":
        publishing.failpoint = lambda point: point == what and os.kill(os.getpid(), signal.SIGKILL)
    key = RunKey(cluster_id=cluster_id, as_of_ms=int(as_of_ms), run_id=run_id)
    publishing.publish(lambda: spark, lake, key, NAMES, FACTS)
    print("done", flush=True)
"""
"""Publishes what it is told to: a process with a JVM of its own, as another task has. Or dies at a failpoint."""
POINTS = sorted(name for name in FAILPOINTS if name.startswith("publish.") and name != "publish.named")
"""That one is the stage's."""


class Other:
    """That process."""

    def __init__(self, lake: Lake) -> None:
        properties = json.dumps(dict(lake.properties))
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, lake.name],
            env=environment(SEXTON_CATALOG_PROPERTIES=properties, SEXTON_SPARK_MASTER="local[1]"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.hears("ready")

    def hears(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def told(self, what: str, key: RunKey) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {key.cluster_id} {key.as_of_ms} {key.run_id}\n")
        self.process.stdin.flush()

    def command_lines(self) -> str:
        """Of the process and of everything that it started, as `ps` shows them."""
        family = psutil.Process(self.process.pid)
        lines = []
        for each in (family, *family.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # or one that has ended and was not waited for yet
                lines.append(" ".join(each.cmdline()))
        return "\n".join(lines)

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def tables(lake: Lake, spark: SparkSession) -> None:
    ensure_tables(spark, lake)


@pytest.fixture(scope="module")
def other(lake: Lake, tables: None, needs_spark: None) -> Iterator[Other]:
    process = Other(lake)
    yield process
    process.stop()


@pytest.fixture
def runs(spark: SparkSession, lake: Lake, tables: None, tmp_path: Path, request: pytest.FixtureRequest) -> Runs:
    return Runs(spark, lake, tmp_path, request.node.originalname)


def test_nothing_is_published_before_the_first_run(lake: Lake, tmp_path: Path, postgres: Postgres) -> None:
    with pytest.raises(NoCoverage, match="nothing was ever published"):
        published_runs(postgres.lake(tmp_path))


def test_a_run_is_written_audited_and_published(
    spark: SparkSession, lake: Lake, tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_lake(monkeypatch, lake)
    check_by_duckdb(monkeypatch)
    folder = fill(tmp_path, cluster_id="whole")
    validate_tables.run(engine_of(spark), folder)
    assert published_runs(lake, "whole") == []
    publish_tables.run(engine_of(spark), folder)
    (run,) = published_runs(lake, "whole")
    for name, rows in world.sound().items():
        assert read_published(lake, run, name).num_rows == len(rows), name
    with lake.reader() as catalog:  # pyiceberg by itself, as any other tool has it
        found = catalog.load_table("sexton.groups").scan(row_filter="cluster_id = 'whole'").to_arrow()
    assert sorted(found["group_id"].to_pylist()) == sorted(row["group_id"] for row in world.sound()["groups"])


def test_two_processes_publish_one_instant(runs: Runs, other: Other) -> None:
    """Each attempt lands whole; `runs` names one of them, and its readers see nothing of the other."""
    mine, others = runs.write("mine", groups=3, tombstones=2), runs.write("others", groups=5, tombstones=4)
    other.told("publish", others)
    runs.publish(mine)
    other.hears("done")
    assert runs.seen() in ({("mine", 1): (3, 2)}, {("others", 1): (5, 4)})
    assert runs.branches(mine) == runs.branches(others) == []
    runs.both("last", groups=1, tombstones=1)
    assert runs.seen() == {("last", 1): (1, 1)}
    assert runs.on_main(mine) == ("last", "last")


def test_two_processes_publish_two_instants(runs: Runs, other: Other) -> None:
    mine, others = runs.write("mine", 1, groups=3), runs.write("others", 2, groups=5)
    other.told("publish", others)
    runs.publish(mine)
    other.hears("done")
    assert runs.seen() == {("mine", 1): (3, 1), ("others", 2): (5, 1)}


def test_no_process_shows_the_password(postgres: Postgres, other: Other) -> None:
    shown = other.command_lines()
    assert "java" in shown
    assert postgres.password not in shown


@pytest.fixture
def dying(lake: Lake, tables: None) -> Iterator[Other]:
    process = Other(lake)
    yield process
    process.stop()


@pytest.mark.parametrize("point", later(pytest.mark.full, POINTS, but=["publish.between"]))
def test_a_killed_publication_is_run_again(runs: Runs, dying: Other, point: str) -> None:
    """Until `runs` names the new run, readers see all of the old one; afterwards, all of the new one."""
    runs.both("old", groups=1, tombstones=0)
    key = runs.write("new", groups=4, tombstones=3)
    dying.told(point, key)
    assert dying.process.wait(120) == -signal.SIGKILL
    if point == "publish.between":
        assert "new" in runs.on_main(key)
    else:
        assert runs.on_main(key) == ("new", "new")
    assert runs.seen() == ({("new", 1): (4, 3)} if point == "publish.branched" else {("old", 1): (1, 0)})
    left = [name for name, run_id in zip(NAMES, runs.on_main(key), strict=True) if run_id != "new"]
    assert runs.branches(key) == left
    runs.publish(key)
    assert runs.seen() == {("new", 1): (4, 3)}
    assert runs.branches(key) == []


def test_errors_and_plans_show_no_password(
    spark: SparkSession, lake: Lake, tables: None, postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = lake.properties["uri"].replace("127.0.0.1", f"sexton:{postgres.password}x@127.0.0.1")
    wrong = open_lake({"type": "jdbc", "uri": uri, "warehouse": str(tmp_path)})
    with pytest.raises(SextonError, match="password authentication failed") as error:
        load(wrong, "groups")
    conf = {name.replace(".lake", ".wrong"): value for name, value in wrong.spark_conf().items()}
    for name, value in conf.items():
        if name.startswith("spark.sql.catalog."):
            spark.conf.set(name, value)
    with pytest.raises(Exception, match="password authentication failed") as raised:
        spark.sql("SHOW TABLES IN wrong.sexton")
    plan = spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {lake.identifier('runs')}").collect()[0][0]
    options = "\n".join(str(row) for row in spark.sql("SET").collect())
    for told in (str(error.value), str(raised.value), plan, options, caplog.text, repr(wrong), wrong.where):
        assert postgres.password not in told
