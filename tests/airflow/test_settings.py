"""What a deployment sets reaches the DAG, and what cannot be is refused when a run is triggered."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import AsyncCallback, CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from sexton.airflow import spark_tasks as tasks
from sexton.airflow.alerts import alert_late_run
from sexton.settings import settings
from tests.airflow.test_spark_tasks import dag_run

DAG_FILE = Path(__file__).resolve().parents[2] / "dags" / "offset_retention.py"


@pytest.fixture
def load(monkeypatch):
    """The DAG as a deployment with these variables has it."""

    def bag(**variables: str) -> DagBag:
        for name, value in variables.items():
            monkeypatch.setenv(f"SEXTON_{name.upper()}", value)
        settings.cache_clear()
        return DagBag(dag_folder=str(DAG_FILE))

    yield bag
    monkeypatch.undo()
    settings.cache_clear()


def dag_of(bag: DagBag):
    assert bag.import_errors == {}
    return bag.dags["offset_retention"]


def test_without_settings_nothing_catches_up_and_one_run_is_active(load) -> None:
    dag = dag_of(load())
    assert (dag.catchup, dag.max_active_runs, dag.deadline) == (False, 1, None)


@pytest.mark.parametrize(("catchup", "runs"), [("true", "4"), ("false", "2")])
def test_catchup_and_active_runs(load, catchup: str, runs: str) -> None:
    dag = dag_of(load(catchup=catchup, max_active_runs=runs))
    assert (dag.catchup, dag.max_active_runs) == (catchup == "true", int(runs))


def test_a_schedule_or_none(load) -> None:
    assert dag_of(load(schedule="*/10 * * * *")).timetable == CronDataIntervalTimetable("*/10 * * * *", timezone="UTC")
    assert not isinstance(dag_of(load(schedule="")).timetable, CronDataIntervalTimetable)


def test_limits_of_the_tasks(load) -> None:
    def shape(dag) -> tuple:
        times = {task.task_id: task.execution_timeout for task in dag.tasks}
        (retries,), (owner,) = ({getattr(task, name) for task in dag.tasks} for name in ("retries", "owner"))
        return times["snapshot_log"], times["replay_groups"], retries, owner, f"{dag.start_date:%Y-%m-%d}"

    hours = [timedelta(hours=number) for number in (12, 2, 10, 0.5)]
    assert shape(dag_of(load())) == (*hours[:2], 2, "kafka-platform", "2025-01-01")
    given = {"owner": "me", "task_retries": "0", "start_date": "2024-03-01T00:00:00Z"}
    given |= {"fetch_timeout_hours": "10", "task_timeout_hours": "0.5"}
    assert shape(dag_of(load(**given))) == (*hours[2:], 0, "me", "2024-03-01")


def test_a_deadline(load) -> None:
    """It survives what the DAG processor does to it, and calls a function that its own module has."""
    dag = dag_of(load(deadline_minutes="90"))
    (alert,) = dag.deadline
    assert alert.interval == timedelta(minutes=90)
    assert isinstance(alert.callback, AsyncCallback)
    assert alert.callback.path == f"{alert_late_run.__module__}.{alert_late_run.__qualname__}"
    assert alert.callback.kwargs == {"minutes": 90}
    stored = DagSerialization.to_dict(dag)["dag"]["deadline"]
    assert "alert_late_run" in str(stored)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"notify": '["pigeon:loft"]'}, "no notifier is named 'pigeon:loft'"),
        ({"notify": '["smtp:mail"]'}, "smtp:CONN_ID:ADDRESS"),
        ({"notify": '["no.such.PAGER"]'}, "'no.such.PAGER' cannot be used: No module named 'no'"),
        ({"notify": '["tests.airflow.sinks.http_server"]'}, "is not an Airflow notifier"),
        ({"task_timeout_hours": "0"}, "task_timeout_hours"),
        ({"start_date": "2024-01-01T00:00:00"}, "start_date"),
        ({"max_active_runs": "0"}, "max_active_runs"),
        ({"deadline_minutes": "-1"}, "deadline_minutes"),
        ({"retention_minutes": "0"}, "retention_minutes"),
        ({"schedule": "hourly"}, "AirflowTimetableInvalid"),
    ],
)
def test_a_setting_that_cannot_be_is_an_import_error(load, variables: dict[str, str], told: str) -> None:
    (error,) = load(**variables).import_errors.values()
    assert told in error


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"as_of": "yesterday"}, "'yesterday' is not a 'ISO 8601 instant or epoch milliseconds'"),
        ({"as_of": "2026-02-30"}, "'2026-02-30' is not a 'ISO 8601 instant or epoch milliseconds'"),
        ({"as_of": 1795228111458}, "1795228111458 is not of type 'null', 'string'"),
        ({"since": "2026-11-21T25"}, "'2026-11-21T25' is not a 'ISO"),
        ({"retention_minutes": -5}, "-5 is less than or equal to the minimum of 0"),
        ({"retention_minutes": 0}, "0 is less than or equal to the minimum of 0"),
        ({"retention_minutes": 1.5}, "1.5 is not of type 'null', 'integer'"),
        ({"profile": "mine"}, "'mine' does not match"),
        ({"profile": "offset_manager:latest"}, "'offset_manager:latest' does not match"),
        ({"full": "yes"}, "'yes' is not of type 'boolean'"),
    ],
)
def test_triggering_refuses(load, conf: dict[str, object], told: str) -> None:
    """As the REST API and backfills do it: the stored DAG's parameters, with the run's conf over them."""
    dag = DagSerialization.from_dict(DagSerialization.to_dict(dag_of(load())))
    ((name, _),) = conf.items()
    with pytest.raises((ParamValidationError, ValueError), match=name) as caught:
        dag.params.deep_merge(conf).validate()
    assert told in str(caught.value)


INTERVAL = {
    "data_interval_start": datetime(2026, 11, 21, 5, tzinfo=UTC),
    "data_interval_end": datetime(2026, 11, 21, 6, tzinfo=UTC),
}


@pytest.mark.parametrize(
    "params",
    [
        {"as_of": "2026-11-21T05:00Z", "since": "2026-11-21T06:00Z"},
        {"as_of": "2026-11-21T05:00Z", "since": "2026-11-21T05:00Z"},
        {"since": "2026-11-21T06:00Z"},
    ],
    ids=["after", "equal", "the interval's own end"],
)
def test_an_interval_that_ends_before_it_begins_is_refused_by_the_first_task(params: dict[str, str]) -> None:
    """Whose arguments ask for as_of; a parameter's schema knows nothing of the others."""
    (cluster,) = settings().every_cluster
    assert any(text.startswith("--as-of={{ as_of_ms(") for text in tasks.arguments_of(tasks.STAGES[0], cluster))
    with pytest.raises(AirflowFailException, match=r"since .* is not before as_of"):
        tasks.as_of_ms(dag_run(**INTERVAL), params)
