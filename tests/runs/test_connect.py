"""Work over a Spark Connect server: the embedded one, started as `make up` starts it."""

import html
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import dedent
from urllib.parse import urljoin
from uuid import uuid4

import httpx
import pytest

from sexton.kafka import jars
from sexton.process_id import TASK, host, process_id
from sexton.runs.spark_session import REMOTE, spark_environment
from sexton.settings import Settings, environment, settings
from sexton_dev.java_home import ROOT
from sexton_dev.processes import Processes
from sexton_dev.spark_server import SparkServer
from tests.commands import printed
from tests.waiting import until

pytestmark = pytest.mark.thorough  # a DAG's run in `make test` works over such a server

CLIENT = "from sexton.runs.engine import Engine\nwith Engine(iceberg={iceberg}, quiet=True) as engine:\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, needs_spark: None) -> Iterator[SparkServer]:
    var = tmp_path_factory.mktemp("server")
    processes = Processes(var / "pids", mark=str(var))
    found = SparkServer()
    config = Settings(home=var, spark_master="local[2]")
    try:
        processes.start(
            "spark",
            found.command(config, jars.ensure(settings().cache, "spark")),
            environment=found.environment({**environment(), **spark_environment(), REMOTE: "sc://localhost:1"}),
            log=var / "spark.log",
        )
        until(found.is_ready, (var / "spark.log").read_text, within_s=90, every_s=0.2)
        yield found
    finally:
        processes.stop()


def ask(server: SparkServer, code: str, *, iceberg: bool = False, token: str | None = None, **variables: str) -> str:
    """What a client prints; its errors are a part of it."""
    url = f"sc://localhost:{server.port}/;token={server.token if token is None else token}"
    lines = CLIENT.format(iceberg=iceberg) + "".join(f"    {line}\n" for line in code.splitlines())
    return printed(lines, **{"PYTHONPATH": str(ROOT), REMOTE: url, **variables})


def test_work_is_spread_in_order(server: SparkServer) -> None:
    code = "import os\nprint(engine.map('Squares', range(9), lambda n: n * n), os.getpid())\n"
    code += "print(len(set(engine.map('Where', range(4), lambda _: os.getpid())) - {os.getpid()}) > 0)"
    code += """
from sexton.runs.spark_session import SHUFFLE_PARTITIONS as name, session_conf
conf = engine.session.conf
with session_conf(engine.session, {name: '1', 'spark.sql.codegen.wholeStage': 'false'}):
    print(conf.get(name), conf.get('spark.sql.codegen.wholeStage'))
print(conf.get(name), conf.get('spark.sql.codegen.wholeStage'))"""
    told = ask(server, code)
    assert told.startswith("[0, 1, 4, 9, 16, 25, 36, 49, 64]"), told
    assert told.endswith("True\n1 false\n4 true\n"), "two partitions a core; few rows have one, for a while"


def test_long_work_says_how_far_it_is(server: SparkServer) -> None:
    code = """
        import time
        from sexton.runs import progress
        progress.EVERY_S = 1
        Engine().map('Waiting', range(12), lambda _: time.sleep(1), work_bytes=5_000_000)
    """
    assert " of 12 tasks, " in ask(server, dedent(code))


def test_pieces_go_from_the_tasks_of_one_map_to_those_of_the_next(server: SparkServer) -> None:
    code = """
        from sexton.archive.folder import Folder
        def letters(word):
            yield from (letter.encode() for letter in word)
            return len(word)
        with engine.exchange(Folder('nowhere'), 0) as exchange:
            print(exchange.make('Spelling', ['ab', 'c'], letters))
            print(exchange.merge('Joining', [(1, [(1, 0), (0, 1)]), (2, [])], lambda n, some: (n, b''.join(some))))
            print(exchange.merge('Nothing wanted', [(3, [])], lambda n, some: (n, b''.join(some))))
    """
    assert ask(server, dedent(code)) == "[2, 1]\n[(1, b'cb'), (2, b'')]\n[(3, b'')]\n"


def test_errors_of_tasks_are_those_of_the_job(server: SparkServer) -> None:
    known = "from sexton.errors import NoCoverage\ndef fail(_): raise NoCoverage('nothing', where='x')\n"
    assert "NoCoverage: x: nothing" in ask(server, known + "engine.map('Failing', [1], fail)")
    told = ask(server, "engine.map('Failing', [0], lambda n: 1 / n)")
    assert "SextonError: Failing: a Spark task failed: ZeroDivisionError: division by zero" in told


JOB = """\
import sys, time
from pathlib import Path
from sexton.pipeline import job
from sexton.job_params import JobRequest
from sexton.runs.engine import Engine

def beat(place):
    while True:
        with Path(place).open("a") as file:
            file.write(".")
        time.sleep(0.2)

def run(_, folder):
    with Engine(quiet=True) as engine:
        return {"never": engine.map("Working", [folder.uri + ".beats"], beat)}

sys.exit(job.main("test", "", JobRequest, run))
"""


@pytest.mark.parametrize("way", ["cancelled", "without a worker"])
def test_a_job_ends_its_work_with_its_task(server: SparkServer, tmp_path: Path, way: str) -> None:
    beats = tmp_path / "run.beats"
    with subprocess.Popen(["sleep", "600"]) as worker:
        task = json.dumps({"where": host(), "processes": [asdict(process_id(worker.pid))]})
        url = f"sc://localhost:{server.port}/;token={server.token};session_id={uuid4()}"
        given = {**os.environ, "PYTHONPATH": str(ROOT), REMOTE: url, TASK: task}
        with subprocess.Popen([sys.executable, "-c", JOB, f"--run-dir={tmp_path / 'run'}"], env=given) as started:
            try:
                until(beats.exists, within_s=200)
                (started if way == "cancelled" else worker).terminate()
                assert started.wait(30) == 143
                until(lambda: is_still(beats), within_s=30)
            finally:
                started.kill()
                worker.kill()


def is_still(file: Path) -> bool:
    """Whether nothing was written for five beats."""
    before = file.stat().st_size
    time.sleep(1)
    return file.stat().st_size == before


def test_a_server_that_is_not_there_is_named(server: SparkServer) -> None:
    nobody = replace(server, port=1)
    assert "SextonError: localhost:1: no Spark Connect server answers" in ask(nobody, "engine.session")


def test_nobody_works_without_the_token(server: SparkServer) -> None:
    for token in ("", "guessed"):
        assert "Spark did not start" in ask(server, "engine.session", token=token)


def test_arguments_have_no_token(server: SparkServer, tmp_path: Path) -> None:
    assert server.token not in " ".join(server.command(Settings(home=tmp_path), []))
    assert server.token not in repr(server)


def test_the_pages_of_spark_show_jobs_and_no_secrets(server: SparkServer) -> None:
    """Of work, of the catalog's login, and the server's token; the pages have no login."""
    code = "engine.session.conf.set('spark.sql.catalog.lake.jdbc.password', 'hidden-' + 'login')\n"
    code += (
        "secret = 'hidden-' + 'work'\nprint(engine.map('Fetching', [secret] * 3, lambda given: len(given + secret)))"
    )
    assert ask(server, code).startswith("[22, 22, 22]")
    pages = crawl(server.ui)
    assert len(pages) > 10
    assert any("Fetching" in text for text in pages.values())
    told = [(url, word) for url, text in pages.items() for word in ("hidden-", server.token) if word in text]
    assert told == []


def crawl(root: str) -> dict[str, str]:
    """All pages below `root`, by address."""
    found: dict[str, str] = {}
    waiting = [f"{root}/jobs/", f"{root}/api/v1/applications"]
    with httpx.Client(follow_redirects=True, trust_env=False, timeout=60) as client:
        while waiting and len(found) < 200:
            url = waiting.pop()
            if url in found:
                continue
            found[url] = html.unescape(client.get(url).text)
            links = re.findall(r'href="([^"#]+)"', found[url])
            waiting += [
                link
                for href in links
                if (link := urljoin(url, html.unescape(href))).startswith(root) and "/static/" not in link
            ]
    return found


def test_what_a_killed_attempt_kept_in_the_server_is_not_read_again(server: SparkServer, tmp_path: Path) -> None:
    """The lake is written over Connect, too."""
    write = dedent("""
        import os
        from pathlib import Path
        import pyarrow as pa
        import pyarrow.parquet as pq
        from sexton.archive.folder import Folder
        from sexton.lake.branch import RunKey, ensure_tables, read_branch, write_branch
        from sexton.lake.catalog import open_lake
        from sexton.quality.spark_checks import create_views
        from sexton.tables import TABLES
        from tests.quality import world

        lake, key = open_lake(), RunKey(cluster_id="c", as_of_ms=1, run_id="r")
        schema, file = TABLES["dq_results"].arrow_schema(), Path(os.environ["SEXTON_HOME"], "rows.parquet")
        row = {name: None for name in schema.names} | {"cluster_id": "c", "as_of_ms": 1, "run_id": "r"}
        pq.write_table(pa.Table.from_pylist([row] * int(os.environ["ROWS"]), schema), file)
        ensure_tables(engine.session, lake)
        write_branch(engine.session, lake, key, Folder(file.parent), {"dq_results": [file.name]})
        rows = {"dq_results": read_branch(engine.session, lake, key, "dq_results")}
        print("rows", create_views(engine.session, rows, world.RUN)["dq_results"].count(), flush=True)
        os._exit(0)
    """)
    home = {"SEXTON_HOME": str(tmp_path), "SEXTON_SPARK_JARS": "the server has them"}
    for count in (2, 3):
        told = ask(server, write, iceberg=True, ROWS=str(count), **home)
        assert f"rows {count}" in told, told
