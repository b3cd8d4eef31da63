"""What the DAGs share: owner, retries, timetable, deadline, tags, macros."""

from datetime import timedelta
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]  # its stub leaves the deadlines out
    Asset,
    AsyncCallback,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
)

from sexton.airflow.alert_sinks import sender
from sexton.airflow.alerts import AlertOnFailure, alert_late_run
from sexton.airflow.assets import due_asset, due_name
from sexton.airflow.forms import form
from sexton.airflow.spark_tasks import macros
from sexton.settings import AFTER_RUNS, Cluster, settings

TAGS = ["kafka", "consumer-offsets", "sexton"]
WAITING_RUNS = 16
"""Maximum number of runs of a DAG that wait for an approval at the same time."""


def default_args() -> dict[str, Any]:
    """Return the tasks' defaults. Only exit code 1 is retried (spark_tasks.py): it may be a temporary failure.

    A notifier that cannot work fails the DAG's import, not the first alert.
    """
    config = settings()
    for entry in config.notify:
        sender(entry)
    return {
        "owner": config.owner,
        "retries": config.task_retries,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "execution_timeout": timedelta(hours=config.task_timeout_hours),
        "on_failure_callback": AlertOnFailure(),
    }


def of_dag(cluster: Cluster, dag_id: str, doc: str | None, **others: Any) -> dict[str, Any]:
    """Return the arguments that all DAGs share, overridden by `others`; tags and doc_md name the cluster if clusters
    have names.

    By default there is one run at a time, and none for missed intervals, because most DAGs describe the brokers as they
    are now. A run may start before there is an archive: it checks whether the archive covers its instant.
    """
    return {
        "dag_id": cluster.scoped_name(dag_id),
        "start_date": settings().start_date,
        "catchup": False,
        "max_active_runs": 1,
        "default_args": default_args(),
        "tags": [*TAGS, f"cluster:{cluster.name}"] if cluster.name else TAGS,
        "doc_md": f"Cluster **{cluster.name}** (`{cluster.cluster_id}`)\n\n{doc}" if cluster.name else doc,
        "user_defined_macros": macros(cluster),
        **others,
    }


def by_hand(cluster: Cluster, dag_id: str, doc: str | None) -> dict[str, Any]:
    """Return the arguments of a DAG that asks for approval: no schedule, backfill or other DAG starts a run."""
    manual = {"allowed_run_types": ("manual",), "max_active_runs": WAITING_RUNS, "params": form(cluster, dag_id)}
    return of_dag(cluster, dag_id, doc, **manual)


def timetable(cron: str) -> CronDataIntervalTimetable | None:
    """Return the timetable of a cron expression, None (manual runs only) for an empty text.

    A plain cron string would give empty data intervals in Airflow 3.
    """
    cron = cron.strip()
    return CronDataIntervalTimetable(cron, timezone="UTC") if cron else None


def audit_schedule(cron: str, cluster: Cluster, dag_id: str) -> CronDataIntervalTimetable | list[Asset] | None:
    """Return the schedule of an audit: a timetable as in `timetable`, or the Asset updated by runs that make it due."""
    return [due_asset(due_name(cluster, dag_id))] if cron.strip() == AFTER_RUNS else timetable(cron)


def deadline(minutes: int) -> DeadlineAlert | None:
    """Return an alert for runs that have not finished `minutes` after they were queued; None for 0.

    The time counts from the queue, because the logical date of a backfilled run is long past. The triggerer raises the
    alert, because not every executor runs callbacks.
    """
    if not minutes:
        return None
    return DeadlineAlert(
        name="late",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=minutes),
        callback=AsyncCallback(alert_late_run, kwargs={"minutes": minutes}),
    )
