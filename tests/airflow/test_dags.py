"""Rules that every DAG file keeps, and the shapes of the DAGs."""

import itertools
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Asset, AssetAlias, CronDataIntervalTimetable
from airflow.sdk.definitions._internal.types import is_arg_set
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from sexton.airflow.approval import AlertApprovalWaits
from sexton.airflow.assets import ALL_TABLES, EXPIRING_TABLES, PUBLISHED_TABLES
from sexton.airflow.change_tasks import ChangeCluster
from sexton.airflow.pools import POOLS
from sexton.airflow.spark_tasks import JOBS, STAGES

AUDITS = ("audit_replicas", "audit_transactions", "audit_lag")
MAINTENANCE_TASKS = [task for task in JOBS if task not in (*STAGES, *AUDITS, "build_history")]
ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"


@pytest.fixture(scope="module")
def bag():
    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def dag(bag):
    return bag.dags["offset_retention"]


@pytest.fixture(scope="module")
def maintenance(bag):
    return bag.dags["maintenance"]


def test_dag_files_import(bag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == {path.stem for path in DAGS.glob("*.py")}


def test_every_dag_tells_who_what_and_how(bag) -> None:
    for dag in bag.dags.values():
        assert dag.tags
        assert dag.description
        assert len(dag.doc_md) > 200
        assert not dag.catchup
        for task in dag.tasks:
            assert task.owner != "airflow"
            assert task.retries >= 1
            assert task.retry_exponential_backoff
            assert task.execution_timeout is not None
            assert task.on_failure_callback
            assert task.pool == "default_pool" or task.pool in POOLS
            assert len(task.doc_md.split("Options and a standalone run")[0]) > 40, task.task_id


def test_stages_are_one_chain(dag) -> None:
    assert [task.task_id for task in dag.topological_sort()] == list(STAGES)
    for stage, following in itertools.pairwise(STAGES):
        assert dag.get_task(stage).downstream_task_ids == {following}
        assert dag.get_task(stage).trigger_rule == "all_success"


def test_stems_name_job_and_stage(dag) -> None:
    for stage in STAGES:
        application = Path(dag.get_task(stage).application)
        assert application == ROOT / "spark_jobs" / f"{stage}.py"
        assert application.is_file()
        assert (ROOT / "include" / "sexton" / "pipeline" / f"{stage}.py").is_file()


def test_nothing_is_removed_before_the_archive_is_verified(maintenance) -> None:
    verify, check, expire, compact, reconcile = (maintenance.get_task(task) for task in MAINTENANCE_TASKS)
    assert {task.task_id for task in maintenance.tasks} == set(MAINTENANCE_TASKS)
    assert verify.downstream_task_ids == {"check_checkpoint", "expire_runs"}
    assert expire.downstream_task_ids == {"compact_tables"}
    assert check.downstream_task_ids == compact.downstream_task_ids == set()
    assert reconcile.downstream_task_ids == reconcile.upstream_task_ids == set()
    assert all(task.trigger_rule == "all_success" for task in maintenance.tasks)


def test_maintenance_removes_nothing_unless_it_is_told_to(maintenance) -> None:
    assert maintenance.params["delete"] is False


def test_stems_name_job_module_and_test_of_maintenance(bag, maintenance) -> None:
    tasks = [(task, "maintenance") for task in maintenance.tasks]
    tasks += [(task, "audits") for name in AUDITS for task in bag.dags[name].tasks]
    for task, package in tasks:
        name, application = task.task_id, Path(task.application)
        assert application == ROOT / "spark_jobs" / f"{name}.py"
        assert application.is_file()
        assert (ROOT / "include" / "sexton" / package / f"{name}.py").is_file()
        assert (ROOT / "tests" / package / f"test_{name}.py").is_file()


@pytest.mark.parametrize("name", ["offset_retention", "maintenance", "audit_replicas"])
def test_intervals_are_not_empty(bag, name) -> None:
    assert isinstance(bag.dags[name].timetable, CronDataIntervalTimetable)
    assert bag.dags[name].max_active_runs == 1


@pytest.mark.parametrize("name", ["audit_lag", "audit_transactions"])
def test_audits_of_today_follow_the_publications_that_make_them_due(bag, dag, name) -> None:
    assert [asset.name for asset in bag.dags[name].timetable.asset_condition.objects] == [f"sexton.{name}.due"]
    assert bag.dags[name].max_active_runs == 1
    outlets = dag.get_task("publish_tables").outlets
    assert f"sexton.{name}.due" in {alias.name for alias in outlets if isinstance(alias, AssetAlias)}


CHANGING = {
    "apply_tombstones": ("preview", "approve", "apply", "notify"),
    "restore_offsets": ("diff", "approve", "restore", "notify"),
}


@pytest.mark.parametrize("name", list(CHANGING))
def test_a_cluster_is_changed_by_hand_and_after_an_answer_only(bag, name) -> None:
    dag = bag.dags[name]
    assert dag.allowed_run_types == {"manual"}
    assert not isinstance(dag.timetable, CronDataIntervalTimetable)
    assert [task.task_id for task in dag.topological_sort()] == list(CHANGING[name])
    for before, after in itertools.pairwise(CHANGING[name]):
        assert dag.get_task(before).downstream_task_ids == {after}
        assert dag.get_task(after).trigger_rule == "all_success"
    act = dag.get_task(CHANGING[name][2])
    assert act.pool == "sexton_apply"
    assert {task.task_id for task in dag.tasks if isinstance(task, ChangeCluster)} == {act.task_id}


@pytest.mark.parametrize("name", [*CHANGING, "approve_keep"])
def test_no_answer_is_no_approval(bag, name) -> None:
    approve = bag.dags[name].get_task("approve")
    assert approve.defaults is None
    assert approve.options == ["Approve", "Reject"]
    assert approve.response_timeout == timedelta(hours=24)
    assert approve.ignore_downstream_trigger_rules
    assert [type(notifier) for notifier in approve.notifiers] == [AlertApprovalWaits]
    assert set(approve.template_fields) == set()  # its body quotes names that anybody may choose


def test_keeping_is_off_until_it_is_switched_on(bag) -> None:
    keep, approve = bag.dags["keep_offsets"], bag.dags["approve_keep"]
    assert keep.is_paused_upon_creation
    assert keep.timetable == CronDataIntervalTimetable("30 * * * *", timezone="UTC")  # `--every` is an hour
    assert (keep.allowed_run_types, keep.max_active_runs) == ({"scheduled", "manual"}, 1)
    assert keep.get_task("keep").pool == "sexton_kafka"  # it takes a snapshot
    assert approve.allowed_run_types == {"manual"}
    assert [task.task_id for task in approve.topological_sort()] == ["propose", "approve", "record"]
    assert {task.trigger_rule for task in approve.tasks} == {"all_success"}


def test_applying_writes_nothing_by_default(bag) -> None:
    params = bag.dags["apply_tombstones"].params
    assert params["sink"] == "dry_run"
    assert params["allow_log_sink"] is False


REFUSED = {
    "apply_tombstones": {
        "plan_id": ["", "A" * 64, "a" * 63 + "\n", "../" + "a" * 61, None], "sink": ["everything"],
        "allow_log_sink": ["yes"],
    },
    "restore_offsets": {
        "from_plan": ["x"], "as_of": ["yesterday", "2026-02-30"], "groups": [[""], "a"], "topics": [[1]],
        "clamp": [None],
    },
    "offset_retention": {
        "since": ["before"], "retention_minutes": ["7"], "policy": ["../secrets.yaml", "/etc/passwd", "..yaml", "a b"],
    },
    "maintenance": {"delete": ["yes", None], "subset": ["third", "1/"]},
    "audit_replicas": {"log_partitions": ["seven"]},
    "approve_keep": {"patterns": [[], [""], None, "a"], "max_offsets": [-1], "days": [0, 91, None], "revoke": [None]},
}  # fmt: skip
TAKEN = {
    "apply_tombstones": {"plan_id": ["0123456789abcdef" * 4], "sink": ["log"]},
    "restore_offsets": {
        "from_ledger": ["", "0" * 64], "as_of": ["", "2026-11-21T06:00:00Z"], "groups": [["a", "<b>"]],
        "topics": [["t:0"]], "pattern": ["", r"team-\pL+"], "from_plan": [""],
    },
    "offset_retention": {
        "as_of": [
            "", "1795228111458", "2026-11-21", "2026-11-21T06:00:00Z", "2026-11-21 06:00:00.123+02:00",
        ],
        "since": ["", "2026-11-21T05:00:00Z"], "retention_minutes": [None, 1, 10080], "full": [True],
        "profile": ["auto"],
        "policy": ["", "strict-2.yaml"],
    },
    "maintenance": {"delete": [True], "subset": ["", "3/7"]},
    "audit_replicas": {"log_partitions": [""]},
    "approve_keep": {"patterns": [["a.*", "b"]], "max_offsets": [0], "days": [1, 90], "revoke": [True]},
}  # fmt: skip
"""The empty text, too, where earlier runs may have it."""


def every_value(forms):
    """DAG, field and value, each as a case of its own."""
    cases = [(name, field, value) for name, form in forms.items() for field, each in form.items() for value in each]
    return pytest.mark.parametrize(("name", "field", "value"), cases)


@every_value(REFUSED)
def test_a_form_refuses(bag, name, field, value) -> None:
    with pytest.raises(ParamValidationError):
        bag.dags[name].params.get_param(field).resolve(value)


@every_value(TAKEN)
def test_a_form_takes(bag, name, field, value) -> None:
    assert bag.dags[name].params.get_param(field).resolve(value) == value


def test_a_plan_has_to_be_named() -> None:
    dag = DagBag(dag_folder=str(DAGS / "apply_tombstones.py")).dags["apply_tombstones"]  # tests above fill the form
    with pytest.raises((ParamValidationError, ValueError), match="plan_id"):
        DagSerialization.from_dict(DagSerialization.to_dict(dag)).params.deep_merge({"sink": "dry_run"}).validate()


def test_pools(dag, maintenance) -> None:
    assert [maintenance.get_task(step).pool for step in MAINTENANCE_TASKS] == [
        "default_pool", "default_pool", "sexton_publish", "sexton_publish", "sexton_kafka"
    ]  # fmt: skip
    assert dag.get_task("snapshot_log").pool == "sexton_kafka"
    assert dag.get_task("publish_tables").pool == "sexton_publish"


def test_outlets_are_the_published_tables(dag) -> None:
    from sexton.tables import ROWS_OF_RUNS, TABLES

    assert set(PUBLISHED_TABLES) == {name for name, table in TABLES.items() if table.kind != "append"}
    assert set(ALL_TABLES) == set(TABLES)
    assert set(EXPIRING_TABLES) == {table.name for table in ROWS_OF_RUNS} | {"runs"}
    outlets = {asset.name: asset.uri for asset in dag.get_task("publish_tables").outlets if isinstance(asset, Asset)}
    assert set(outlets) == {f"sexton.{table}" for table in PUBLISHED_TABLES}
    assert all(uri.endswith(name.removeprefix("sexton.")) and "://" in uri for name, uri in outlets.items())
    assert not any(dag.get_task(stage).outlets for stage in STAGES[:-1])


def test_an_empty_field_does_not_disable_the_form() -> None:
    """Airflow's form keeps Trigger and Run Backfill disabled while a field is empty whose type does not allow null."""
    dags = DagBag(dag_folder=str(DAGS)).dags  # tests above fill the forms
    params = {(dag_id, name): dag.params.get_param(name) for dag_id, dag in dags.items() for name in dag.params}
    has_to_be_filled = {field for field, param in params.items() if not is_arg_set(param.value)}
    assert has_to_be_filled == {("apply_tombstones", "plan_id"), ("offset_history", "from")}
    for field in params.keys() - has_to_be_filled:
        param = params[field]
        if param.value in (None, "", []):
            assert "null" in param.schema["type"], field
            assert param.value != "", f"{field}: of an empty text the form makes null as soon as it is touched"
            assert param.resolve(None) is None, field


def test_every_field_of_a_form_is_explained(bag) -> None:
    for dag in bag.dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.description
            assert param.schema["title"]
            assert param.schema["section"]


PARSE = """
import os, sys, time
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
heavy = {"pyspark", "numba", "kafka", "confluent_kafka", "pandas", "pyarrow"}
for name in sys.argv[1:]:
    if not os.fork():
        start = time.process_time()
        __import__(name)
        print(name, time.process_time() - start, *(heavy & set(sys.modules)), flush=True)
        os._exit(0)
    os.wait()
"""


def test_parsing_is_quick_and_light() -> None:
    """A DAG file costs the processor little, and brings no Spark, numba or Kafka client with it."""
    names = sorted(path.stem for path in DAGS.glob("*.py"))
    done = subprocess.run([sys.executable, "-c", PARSE, *names], cwd=DAGS, capture_output=True, text=True, check=True)
    told = [line.split() for line in done.stdout.splitlines() if line.partition(" ")[0] in names]
    assert [name for name, *_ in told] == names
    assert not [each for each in told if len(each) > 2 or float(each[1]) >= 1.0], "parsed in so many seconds"
