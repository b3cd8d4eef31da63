"""Two clusters in one archive: the tasks of each DAG, as real spark-submits, touch the archive of their own alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sexton.java import JavaHome
from sexton.settings import PROJECT_ROOT
from tests.airflow_database import migrated_database
from tests.archived import Archive
from tests.pipeline.archive_runs import instant, three_minutes

pytestmark = pytest.mark.thorough

CLUSTERS = {"main": "main-id", "eu": "eu-id"}
PROGRAM = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
dags, kind, only, conf = sys.argv[1:]
for dag_id, dag in DagBag(dag_folder=f"{dags}/{kind}.py").dags.items():
    run = dag.test(run_conf=json.loads(conf), mark_success_pattern=rf"(?!{only}$).*")
    print("ended:", dag_id, run.state)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Both clusters have the same log; one byte of eu's has rotted."""
    folder = tmp_path_factory.mktemp("clusters") / "archive"
    for cluster_id in CLUSTERS.values():
        found = three_minutes(folder, cluster_id=cluster_id)
    segment = next((folder / CLUSTERS["eu"]).rglob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    return found


@pytest.fixture(scope="module")
def environment(archive: Archive, java: JavaHome, needs_airflow: None, needs_spark: None) -> dict[str, str]:
    home = archive.folder.parent
    mine = ("AIRFLOW", "SEXTON", "OPENLINEAGE")
    found = {
        **{name: value for name, value in os.environ.items() if not name.startswith(mine)},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT_ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "SEXTON_CLUSTERS": json.dumps({name: {"cluster_id": each} for name, each in CLUSTERS.items()}),
        "SEXTON_ARCHIVE": archive.root,
        "SEXTON_RUNS": str(home / "runs"),
        "SEXTON_WAREHOUSE": str(home / "warehouse"),
        "SEXTON_CATALOG_URI": f"jdbc:sqlite:{home / 'catalog.db'}",
    }
    migrated_database(home / "airflow" / "airflow.db")
    return found


def ended(environment: dict[str, str], kind: str, only: str, **conf: Any) -> dict[str, str]:
    """How a run of each cluster's DAG of a kind ended of which one task was really run."""
    command = [sys.executable, "-c", PROGRAM, str(PROJECT_ROOT / "dags"), kind, only, json.dumps(conf)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)

    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("ended:")]
    assert len(lines) == len(CLUSTERS), done.stdout[-4000:] + done.stderr[-4000:]
    return {dag_id: state for _, dag_id, state in lines}


def found(environment: dict[str, str], dag_id: str, name: str) -> dict[str, Any]:
    (file,) = Path(environment["SEXTON_RUNS"]).glob(f"{dag_id}/*/{name}")
    told: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return told


def test_each_replays_its_own_log_into_its_own_folder(environment: dict[str, str]) -> None:
    as_of_ms = instant(2)
    ended(environment, "offset_retention", "replay_groups", as_of=str(as_of_ms))
    for dag_id, cluster_id in (("offset_retention", "main-id"), ("offset_retention__eu", "eu-id")):
        outcome = found(environment, dag_id, "outcome/replay_groups.json")
        record = found(environment, dag_id, "run.json")
        assert (record["cluster_id"], record["as_of_ms"]) == (cluster_id, as_of_ms)
        assert outcome["exit_code"] in (0, 5), outcome


def test_what_is_rotten_in_one_archive_stops_the_house_of_that_one(environment: dict[str, str]) -> None:
    states = ended(environment, "maintenance", "verify", subset="1/1")
    assert states == {"maintenance": "success", "maintenance__eu": "failed"}
    main, eu = (found(environment, dag_id, "outcome/verify.json") for dag_id in ("maintenance", "maintenance__eu"))
    assert (main["exit_code"], main["segments"], main["corrupt"]) == (0, 5, 0)
    assert (eu["exit_code"], eu["segments"], eu["corrupt"]) == (3, 5, 1)
