"""How a run was triggered, noted by a real scheduler, for whoever triggers it from a shell or over the API."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.utils.types import DagRunTriggeredByType

from sexton.airflow import listener, runs
from sexton.airflow.change_tasks import triggered_through
from sexton.airflow.consent import ApprovalFolder, Trigger
from sexton.airflow.runs import run_folder
from sexton.settings import Settings
from tests.airflow_database import airflow_environment, migrated_database

ROOT = Path(__file__).resolve().parents[2]
AIRFLOW = str(Path(sys.executable).parent / "airflow")
RUN_ID = "from-a-shell"
OVER_THE_API = """
from airflow.api.common.trigger_dag import trigger_dag
from airflow.utils.types import DagRunTriggeredByType, DagRunType
trigger_dag(dag_id="restore_offsets", run_id="over-the-api", conf={"from_plan": "a" * 64}, run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.REST_API, triggering_user_name="ann")
"""


@pytest.fixture
def config(tmp_path, monkeypatch) -> Settings:
    config = Settings(home=tmp_path, clusters={"main": {"cluster_id": "a"}, "eu": {"cluster_id": "b"}})
    for module in (listener, runs):
        monkeypatch.setattr(module, "settings", lambda: config)
    return config


@pytest.mark.parametrize("how", list(DagRunTriggeredByType))
@pytest.mark.parametrize("dag_id", ["apply_tombstones", "restore_offsets__eu", "approve_keep", "offset_retention"])
def test_what_is_noted(config, dag_id, how) -> None:
    run = SimpleNamespace(dag_id=dag_id, run_id=RUN_ID, triggered_by=how)
    listener.on_dag_run_running(dag_run=run, msg="started")
    listener.WRITER.submit(int).result()  # what it was given before is written
    noted = triggered_through(ApprovalFolder(run_folder(dag_id, RUN_ID), dag_id=dag_id, run_id=RUN_ID))
    assert noted == (None if dag_id == "offset_retention" else how.value)


def test_a_store_that_does_not_answer_delays_no_scheduler(config, monkeypatch, caplog) -> None:
    answers, written = threading.Event(), list[str]()

    def write(folder: ApprovalFolder, trigger: Trigger) -> None:
        assert answers.wait(60)
        written.append(trigger.run_id)

    monkeypatch.setattr(ApprovalFolder, "write", write)
    how = DagRunTriggeredByType.UI
    for number in range(listener.MAX_WAITING + 1):
        run = SimpleNamespace(dag_id="apply_tombstones", run_id=str(number), triggered_by=how)
        listener.on_dag_run_running(dag_run=run, msg="started")
    assert written == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    answers.set()
    listener.WRITER.submit(int).result()
    assert written == [str(number) for number in range(listener.MAX_WAITING)]
    listener.on_dag_run_running(dag_run=run, msg="started again")
    listener.WRITER.submit(int).result()
    assert written[-1] == run.run_id


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_airflow")
def test_a_real_scheduler_notes_it(tmp_path) -> None:
    """A run that `airflow dags trigger` made and one that the REST API's own function made, started by a scheduler."""
    environment = airflow_environment(
        tmp_path / "airflow",
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        AIRFLOW__CORE__PARALLELISM="1",
        SEXTON_HOME=str(tmp_path),
    )

    def run(*command: str) -> None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    migrated_database(tmp_path / "airflow" / "airflow.db")
    run(AIRFLOW, "dags", "reserialize")
    asked = json.dumps({"plan_id": "a" * 64, "sink": "coordinator"})
    run(AIRFLOW, "dags", "trigger", "apply_tombstones", "--run-id", RUN_ID, "--conf", asked)
    run(sys.executable, "-c", OVER_THE_API)
    run(AIRFLOW, "scheduler", "--skip-serve-logs", "--num-runs", "3")

    def noted(dag_id: str, run_id: str) -> str | None:
        folder = run_folder(dag_id, run_id, root=str(tmp_path / "var" / "runs"))
        return triggered_through(ApprovalFolder(folder, dag_id=dag_id, run_id=run_id))

    assert noted("apply_tombstones", RUN_ID) == "cli"
    assert noted("restore_offsets", "over-the-api") == "rest_api"
