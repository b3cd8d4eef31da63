"""OpenLineage events of the real DAG through Airflow's provider, to a file: what is read and written, no secret."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sexton.airflow.assets import PUBLISHED_TABLES
from sexton.airflow.openlineage import dataset_of, kafka_namespace
from sexton.airflow.spark_tasks import JOBS, STAGES
from tests.airflow_database import airflow_environment, migrated_database

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "lineage.md"
SECRET = "s3cr3t-canary"
GROUP = "group-canary"
PROGRAM = """
import sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dag import DagModel
dag = DagBag(dag_folder=sys.argv[1]).dags["offset_retention"]
run = dag.test(run_conf={"as_of": "2026-11-21T06:00:00Z", "policy": ""})
print("state:", run.state)
"""
SILENT = """
import sys
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.openlineage.utils.emission_policy import (
    resolve_dag_emission_policy, resolve_task_emission_policy
)
for dag_id, dag in DagBag(dag_folder=sys.argv[1]).dags.items():
    emits = [resolve_dag_emission_policy(dag_id, dag).emit]
    emits += [resolve_task_emission_policy(task, dag_id, task.task_id).emit for task in dag.tasks]
    print("emits:", dag_id, any(emits), all(emits))
"""
SUBMIT = f"#!/bin/sh\necho {GROUP} reads {SECRET}\nexit 0\n"
PUBLISH = f"print({GROUP!r}, 'reads', {SECRET!r})"
"""It is not submitted."""
KAFKA = {"bootstrap.servers": "SASL_SSL://broker.example:9093,b:2", "sasl.password": SECRET, "sasl.jaas.config": SECRET}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lineage")
    submit = found / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    (found / "spark_jobs").mkdir()
    (found / "spark_jobs" / "publish_tables.py").write_text(PUBLISH)
    return found


@pytest.fixture(scope="module")
def environment(home: Path, needs_airflow: None) -> dict[str, str]:
    """A deployment with the settings of the page about lineage, its file put elsewhere, and a stand-in spark-submit."""
    documented = dict(re.findall(r"^(AIRFLOW__OPENLINEAGE__\w+)='(.*)'$", DOCS.read_text("utf-8"), flags=re.MULTILINE))
    assert set(documented) == {"AIRFLOW__OPENLINEAGE__TRANSPORT", "AIRFLOW__OPENLINEAGE__EMISSION_POLICY"}
    return airflow_environment(
        home / "airflow",
        **{name: value.replace("/var/log/sexton", str(home)) for name, value in documented.items()},
        PATH=f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[1]"}),
        AIRFLOW_CONN_KAFKA_DEFAULT=json.dumps({"conn_type": "kafka", "extra": KAFKA}),
        SEXTON_CLUSTERS=json.dumps({"main": {"cluster_id": "main-id"}, "eu": {"cluster_id": "eu-id"}}),
        SEXTON_HOME=str(home),
        SEXTON_RUNS=str(home / "runs"),
        SEXTON_ARCHIVE=f"s3://key:{SECRET}@bucket/keep?endpoint_override=x",
        SEXTON_WAREHOUSE="s3://lake/warehouse",
    )


def told(environment: dict[str, str], program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def events(home: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Of one run of offset_retention."""
    migrated_database(Path(environment["AIRFLOW_HOME"]) / "airflow.db")
    assert "state: success" in told(environment, PROGRAM, str(ROOT / "dags" / "offset_retention.py"))
    return [json.loads(line) for line in (home / "lineage.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.thorough
def test_every_task_begins_and_completes(events: list[dict[str, Any]]) -> None:
    seen = {(event["job"]["name"], event["eventType"]) for event in events}
    for stage in STAGES:
        assert {(f"offset_retention.{stage}", kind) for kind in ("START", "COMPLETE")} <= seen, stage


def datasets(events: list[dict[str, Any]], stage: str, side: str) -> list[tuple[str, str]]:
    (event,) = (e for e in events if e["job"]["name"] == f"offset_retention.{stage}" and e["eventType"] == "COMPLETE")
    return [(dataset["namespace"], dataset["name"]) for dataset in event[side]]


@pytest.mark.thorough
def test_they_say_what_was_read_and_written(events: list[dict[str, Any]], home: Path) -> None:
    topic, archive = ("kafka://broker.example:9093", "__consumer_offsets"), ("s3://bucket", "keep")
    runs = ("file", str(home / "runs" / "offset_retention"))
    assert datasets(events, "snapshot_log", "inputs") == [topic]
    assert datasets(events, "snapshot_log", "outputs") == datasets(events, "replay_groups", "inputs") == [archive]
    assert datasets(events, "replay_groups", "outputs") == [archive, runs]
    assert datasets(events, "publish_tables", "inputs") == [runs]
    published = [("s3://lake", f"warehouse/sexton/{table}") for table in PUBLISHED_TABLES]
    assert datasets(events, "publish_tables", "outputs") == [archive, *published]


def test_a_task_names_the_tables_that_it_touches() -> None:
    touched = {name: ({*job.reads_tables}, {*job.writes_tables}) for name, job in JOBS.items()}
    assert {name for name, tables in touched.items() if any(tables)} == {
        *("publish_tables", "build_history", "expire_runs", "compact_tables"),
        *("audit_replicas", "audit_transactions", "audit_lag"),
    }
    assert touched["audit_replicas"] == (set(), {"replica_state", "replica_differences"})
    reads, writes = touched["audit_transactions"]
    assert (reads & {"groups", "transactions"}, writes) == (set(), {"transactions", "transactional_ids"})
    reads, writes = touched["audit_lag"]
    assert ("committed_offsets" in reads, writes) == (True, {"time_lag"})
    _, writes = touched["expire_runs"]
    assert {"runs", "time_lag"} <= writes
    assert not writes & {"offset_changes", "apply_ledger", "transactions"}


@pytest.mark.thorough
def test_they_name_no_secret_and_no_group(events: list[dict[str, Any]]) -> None:
    text = json.dumps(events)
    assert SECRET not in text
    assert GROUP not in text
    assert "endpoint_override" not in text


def test_what_changes_a_cluster_sends_nothing(environment: dict[str, str]) -> None:
    """Their runs are triggered with names of groups, which Airflow's events repeat."""
    lines = [
        line.split()[1:] for line in told(environment, SILENT, str(ROOT / "dags")).splitlines() if "emits:" in line
    ]
    found = {dag_id: (any_emits, all_emits) for dag_id, any_emits, all_emits in lines}
    kinds = dict.fromkeys(
        ("offset_retention", "offset_history", "maintenance", "audit_replicas", "audit_transactions", "audit_lag"),
        "True",
    )
    kinds |= dict.fromkeys(("apply_tombstones", "restore_offsets", "keep_offsets", "approve_keep"), "False")
    assert found == {f"{kind}{suffix}": (emits, emits) for kind, emits in kinds.items() for suffix in ("", "__eu")}


def test_without_a_transport_nothing_is_sent(environment: dict[str, str]) -> None:
    bare = {name: value for name, value in environment.items() if "OPENLINEAGE" not in name}
    program = "from airflow.providers.openlineage import conf; print('off:', conf.is_disabled())"
    assert "off: True" in told(bare, program)


@pytest.mark.parametrize(
    ("uri", "where"),
    [
        ("/a/b", ("file", "/a/b")),
        ("file:///a/b", ("file", "/a/b")),
        ("s3://key:s3cr3t@bucket/keep/it/?endpoint_override=http://h:1", ("s3://bucket", "keep/it")),
        ("gs://bucket/x", ("gs://bucket", "x")),
        ("abfss://container@account.dfs.core.windows.net/x", ("abfss://container@account.dfs.core.windows.net", "x")),
        ("hdfs://name:8020/x", ("hdfs://name:8020", "x")),
    ],
)
def test_places(uri: str, where: tuple[str, str]) -> None:
    assert dataset_of(uri) == where


@pytest.mark.parametrize("servers", ["h:9092", "h:9092,i:9092", " h:9092 , i", "PLAINTEXT://h:9092,SSL://i:1"])
def test_a_broker_is_named_by_its_first_address(servers: str) -> None:
    assert kafka_namespace(servers) == "kafka://h:9092"
