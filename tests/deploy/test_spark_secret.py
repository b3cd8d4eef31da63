"""Spark's standalone cluster of docker-compose.yaml, master and worker as processes: who may submit work to it."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton.local.compose_init import SPARK_DEFAULTS
from tests.deploy.services import WORKERS, Ports, Services

pytestmark = pytest.mark.thorough

JOB = """
import sys
from pyspark.sql import SparkSession
with SparkSession.builder.appName(sys.argv[1]).getOrCreate() as spark:
    counted = spark.range(1_000).repartition(2).mapInArrow(lambda batches: batches, "id long").count()
    print(f"counted {counted}", flush=True)
"""
SUBMIT_S = 400


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, needs_spark: None) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("spark")
    (folder / "tmp").mkdir()
    services = Services(folder, Ports.free(), python=Path(sys.executable), changes={})
    services.write_secrets()
    try:
        services.start("spark-master", WORKERS[0])
        services.wait("spark-master", WORKERS[0])
        yield services
    finally:
        services.stop()
    assert services.processes() == []


def submit(services: Services, name: str, properties: str) -> subprocess.CompletedProcess[str]:
    """Submit a job as the scheduler's tasks do, with a spark-defaults.conf of one's own."""
    conf = services.folder / name
    conf.mkdir()
    (conf / SPARK_DEFAULTS).write_text(properties)
    (conf / "job.py").write_text(JOB)
    given = {
        **services.environment("airflow-scheduler"), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    master = f"spark://127.0.0.1:{services.ports.spark_master}"
    command = ["spark-submit", "--master", master, "--conf", "spark.cores.max=1", str(conf / "job.py"), name]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=SUBMIT_S, check=False)


def applications(services: Services) -> set[str]:
    with urllib.request.urlopen(f"{services.master_page}/json/", timeout=30) as answer:
        told = json.load(answer)
    return {each["name"] for each in (*told["activeapps"], *told["completedapps"])}


def secret_of(services: Services) -> str:
    text = (services.secrets / "airflow" / SPARK_DEFAULTS).read_text("utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())["spark.authenticate.secret"]


def test_who_has_the_secret_submits(services: Services) -> None:
    done = submit(services, "invited", (services.secrets / "airflow" / SPARK_DEFAULTS).read_text("utf-8"))
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "counted 1000" in done.stdout
    assert applications(services) == {"invited"}


def test_who_has_not_is_refused(services: Services) -> None:
    """Without a secret, and with another one: the master knows of no such application."""
    ours = (services.secrets / "airflow" / SPARK_DEFAULTS).read_text("utf-8")
    attempts = {"stranger": "", "guesser": ours.replace(secret_of(services), "x" * 64)}
    with ThreadPoolExecutor() as pool:
        done = dict(zip(attempts, pool.map(lambda name: submit(services, name, attempts[name]), attempts), strict=True))
    for name, each in done.items():
        assert each.returncode != 0, name
        assert "counted" not in each.stdout, name
    assert not applications(services) & attempts.keys()


def test_the_secret_is_on_no_command_line(services: Services) -> None:
    lines = [" ".join(process.cmdline()) for process in services.processes()]
    assert len(lines) >= 2
    assert not [line for line in lines if secret_of(services) in line]
