"""Several clusters in one deployment: a DAG of each kind for each, none of which touches what is another's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronDataIntervalTimetable
from airflow.serialization.serialized_objects import DagSerialization
from jinja2 import Template

from sexton.airflow.change_tasks import ApplyPlan, PreviewPlan, PreviewRestore
from sexton.airflow.runs import run_folder
from sexton.settings import settings
from tests.airflow.test_change_tasks import World

DAGS = Path(__file__).resolve().parents[2] / "dags"
KINDS = sorted(path.stem for path in DAGS.glob("*.py"))
CLUSTERS = {
    "main": {"cluster_id": "main-id"},
    "eu": {
        "cluster_id": "eu-id", "schedule": "*/5 * * * *", "maintenance_schedule": "", "replicas_schedule": "",
        "transactions_schedule": "", "lag_schedule": "", "retention_minutes": 60, "deadline_minutes": 7,
        "policy": "/etc/eu.yaml",
    },
}  # fmt: skip
SEVERAL = json.dumps(CLUSTERS)


@pytest.fixture(scope="module")
def bag():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXTON_CLUSTERS", SEVERAL)
        patch.setenv("SEXTON_POLICY", "/etc/all.yaml")
        settings.cache_clear()
        yield DagBag(dag_folder=str(DAGS))
    settings.cache_clear()


def test_each_cluster_has_a_dag_of_each_kind(bag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == sorted([*KINDS, *(f"{kind}__eu" for kind in KINDS)])
    for kind in KINDS:
        for name in ("main", "eu"):
            dag = bag.dags[kind if name == "main" else f"{kind}__eu"]
            assert f"cluster:{name}" in dag.tags
            assert dag.doc_md.startswith(f"Cluster **{name}** (`{CLUSTERS[name]['cluster_id']}`)")
            DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_what_a_cluster_has_of_its_own(bag) -> None:
    main, eu = bag.dags["offset_retention"], bag.dags["offset_retention__eu"]
    assert eu.timetable == CronDataIntervalTimetable("*/5 * * * *", timezone="UTC")
    assert main.timetable == CronDataIntervalTimetable("0 * * * *", timezone="UTC")
    assert (main.params["retention_minutes"], eu.params["retention_minutes"]) == (None, 60)
    assert main.deadline is None
    assert eu.deadline[0].callback.kwargs == {"minutes": 7}
    assert not isinstance(bag.dags["maintenance__eu"].timetable, CronDataIntervalTimetable)
    for dag, policy in ((main, "/etc/all.yaml"), (eu, "/etc/eu.yaml")):
        (option, _) = dag.get_task("find_expired").application_args
        assert Template(option).render(params={"policy": ""}, **dag.user_defined_macros) == f"--policy={policy}"


@pytest.mark.parametrize(
    ("suffix", "cluster_id", "conn_id"), [("", "main", "kafka_default"), ("__eu", "eu", "kafka_eu")]
)
def test_no_task_touches_another_cluster(bag, suffix: str, cluster_id: str, conn_id: str) -> None:
    only = f"--cluster-id={cluster_id}-id"
    retention, maintenance = bag.dags[f"offset_retention{suffix}"], bag.dags[f"maintenance{suffix}"]
    chooses = [retention.get_task(stage) for stage in ("snapshot_log", "replay_groups")]
    own = [task for task in maintenance.tasks if task.task_id != "compact_tables"]  # which is for all clusters
    assert all(only in task.application_args for task in [*chooses, *own])
    assert (
        retention.get_task("snapshot_log").kafka_conn_id == maintenance.get_task("reconcile").kafka_conn_id == conn_id
    )
    assert {task.cluster.cluster_id for kind in ("apply_tombstones", "restore_offsets", "keep_offsets", "approve_keep")
            for task in bag.dags[kind + suffix].tasks if hasattr(task, "cluster")} == {f"{cluster_id}-id"}  # fmt: skip


def test_each_cluster_has_its_turns_and_the_tables_have_one(bag) -> None:
    pools = {
        kind: {task.task_id: task.pool for task in bag.dags[f"{kind}__eu"].tasks if task.pool != "default_pool"}
        for kind in KINDS
    }
    assert pools == {
        "offset_retention": {"snapshot_log": "sexton_kafka__eu", "publish_tables": "sexton_publish"},
        "offset_history": {},
        "maintenance": {"reconcile": "sexton_kafka__eu", "expire_runs": "sexton_publish"},
        "audit_replicas": {"audit_replicas": "sexton_audit__eu"},
        "audit_transactions": {"audit_transactions": "sexton_audit__eu"},
        "audit_lag": {"audit_lag": "sexton_audit__eu"},
        "apply_tombstones": {"apply": "sexton_apply__eu"},
        "restore_offsets": {"restore": "sexton_apply__eu"},
        "keep_offsets": {"keep": "sexton_kafka__eu"},
        "approve_keep": {},
    }
    program = "from sexton.airflow.pools import POOLS; print(*POOLS)"
    environment = {**os.environ, "SEXTON_CLUSTERS": SEVERAL}
    made = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    used = {task.pool for dag in bag.dags.values() for task in dag.tasks} - {"default_pool"}
    assert used == set(made.stdout.split())


def test_the_tables_are_compacted_once(bag) -> None:
    assert bag.dags["maintenance"].get_task("expire_runs").downstream_task_ids == {"compact_tables"}
    assert not bag.dags["maintenance__eu"].has_task("compact_tables")
    assert bag.dags["maintenance__eu"].get_task("expire_runs").downstream_task_ids == set()


def test_news_of_one_cluster_is_no_news_of_another(bag) -> None:
    main, eu = (bag.dags[f"offset_retention{suffix}"].get_task("publish_tables").outlets for suffix in ("", "__eu"))
    assert "sexton.groups" in {asset.name for asset in main}
    assert "sexton.groups__eu" in {asset.name for asset in eu}
    assert not {getattr(asset, "uri", asset.name) for asset in main} & {getattr(asset, "uri", "") for asset in eu}
    assert not {asset.name for asset in main} & {asset.name for asset in eu}


def test_their_runs_have_folders_of_their_own() -> None:
    assert run_folder("offset_retention", "scheduled__1") != run_folder("offset_retention__eu", "scheduled__1")


@pytest.mark.parametrize("clusters", ['{"eu": {}}', '{"a b": {"cluster_id": "x"}}', "[]", "eu"])
def test_what_cannot_be_is_an_import_error(monkeypatch, clusters: str) -> None:
    monkeypatch.setenv("SEXTON_CLUSTERS", clusters)
    settings.cache_clear()
    try:
        (error,) = DagBag(dag_folder=str(DAGS / "offset_retention.py")).import_errors.values()
    finally:
        settings.cache_clear()
    assert "clusters" in error


def test_commands_are_about_their_cluster(bag, tmp_path, monkeypatch) -> None:
    """By its connections, its id and its policy; a cluster without a policy has none, whatever the others have."""
    world = World(tmp_path, monkeypatch)
    for name in ("KAFKA_EU", "KAFKA_EU_APPLIER"):
        extra = {"bootstrap.servers": f"{name.lower()}:1"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": "kafka", "extra": extra}))
    eu = bag.dags["apply_tombstones__eu"].get_task("preview").cluster
    world.run(PreviewPlan(task_id="preview", cluster=eu))
    world.answer()
    world.run(ApplyPlan(task_id="apply", cluster=eu))
    world.run_id = "another"
    world.run(PreviewRestore(task_id="diff", cluster=eu), from_plan="a" * 64)
    assert [note["argv"][0] for note in world.ran] == ["show", "show", "apply", "restore", "show"]
    assert all("--cluster-id=eu-id" in note["argv"] for note in world.ran)
    assert all(note["environment"]["SEXTON_POLICY"] == "/etc/eu.yaml" for note in world.ran)
    assert [asked["subject"] for asked in world.asked] == ["Delete what plan aaaaaaaaaaaa names on cluster eu?"]
    servers = [text for note in world.ran for text in note["argv"] if text.startswith("--bootstrap-servers")]
    assert servers == ["--bootstrap-servers=kafka_eu_applier:1", "--bootstrap-servers=kafka_eu:1"]
