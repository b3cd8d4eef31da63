"""What the DAGs share: owner, retries, timetable, deadline, tags, and the Assets that a run publishes."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]  # its stub leaves the deadlines out
    Asset,
    AssetAlias,
    AsyncCallback,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
)

from sexton.airflow.alerts import AlertOnFailure, alert_late_run
from sexton.airflow.notifiers import sinks
from sexton.settings import AFTER_RUNS, Cluster, settings
from sexton.uris import split_login

TAGS = ["kafka", "consumer-offsets", "sexton"]
BY_HAND: Any = ("manual",)
"""Run types of the DAGs that change a cluster: no schedule, backfill or other DAG starts them."""
WAITING_RUNS = 16
"""Maximum of runs of a DAG that wait for an approval at the same time."""

PUBLISHED_TABLES = (
    "committed_offsets",
    "unreachable_offsets",
    "pending_offsets",
    "groups",
    "members",
    "offset_verdicts",
    "expiry_forecast",
    "tombstones",
    "open_transactions",
    "undecodable_records",
    "load_profile",
    "offset_changes",
    "expiry_sweeps",
    "commit_counts",
    "topic_partitions",
    "dq_results",
    "runs",
)
"""What a run of offset_retention publishes."""
INTERVAL_TABLES = ("offset_changes", "expiry_sweeps", "commit_counts")
"""Those of them whose rows outlive their run."""
REPLICA_TABLES, TRANSACTION_TABLES = ("replica_state", "replica_differences"), ("transactions", "transactional_ids")
EXPIRING_TABLES = (*(table for table in PUBLISHED_TABLES if table not in INTERVAL_TABLES), "time_lag")
"""Tables from which expire_runs deletes."""
ALL_TABLES = (*PUBLISHED_TABLES, *REPLICA_TABLES, *TRANSACTION_TABLES, "time_lag", "apply_ledger")


def default_args() -> dict[str, Any]:
    """Return the tasks' defaults. Only exit code 1 is retried (spark_tasks.py): it may be a temporary failure.

    A notifier that cannot work fails the DAG's import, not the first alert.
    """
    config = settings()
    sinks(config.notify)
    return {
        "owner": config.owner,
        "retries": config.task_retries,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "execution_timeout": timedelta(hours=config.task_timeout_hours),
        "on_failure_callback": AlertOnFailure(),
    }


def of_every_dag(cluster: Cluster, doc: str | None) -> dict[str, Any]:
    """Return the arguments that all DAGs share; tags and doc_md name the cluster if clusters have names.

    A run may start before there was an archive: whether that covers an instant is checked by the run.
    """
    return {
        "start_date": settings().start_date,
        "default_args": default_args(),
        "tags": [*TAGS, f"cluster:{cluster.name}"] if cluster.name else TAGS,
        "doc_md": f"Cluster **{cluster.name}** (`{cluster.cluster_id}`)\n\n{doc}" if cluster.name else doc,
    }


def timetable(cron: str) -> CronDataIntervalTimetable | None:
    """Return the timetable of a cron, None (manual runs only) for an empty one.

    A plain cron string would give empty data intervals in Airflow 3.
    """
    cron = cron.strip()
    return CronDataIntervalTimetable(cron, timezone="UTC") if cron else None


def audit_schedule(cron: str, cluster: Cluster, dag_id: str) -> CronDataIntervalTimetable | list[Asset] | None:
    """Return the schedule of an audit: as `timetable`, or the Asset of runs that make it due."""
    return [due_asset(_due(cluster, dag_id))] if cron.strip() == AFTER_RUNS else timetable(cron)


def due_asset(name: str) -> Asset:
    """Return the Asset that a publication updates if an audit is due by it, by the name of its alias."""
    return Asset(name=name, group="sexton")


def due_audits(cluster: Cluster) -> list[AssetAlias]:
    """Return the aliases through which a publication may update these Assets: a plain outlet always is updated."""
    return [AssetAlias(name=_due(cluster, dag_id), group="sexton") for dag_id in ("audit_lag", "audit_transactions")]


def _due(cluster: Cluster, dag_id: str) -> str:
    return cluster.scoped_name(f"sexton.{dag_id}.due")


def deadline(minutes: int) -> DeadlineAlert | None:
    """Return an alert for runs that have not finished `minutes` after they were queued; None for 0.

    It counts from the queue, because the logical date of a backfilled run is long ago. The triggerer awaits it, because
    not every executor runs callbacks.
    """
    if not minutes:
        return None
    return DeadlineAlert(
        name="late",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=minutes),
        callback=AsyncCallback(alert_late_run, kwargs={"minutes": minutes}),
    )


def table_assets(cluster: Cluster) -> list[Asset]:
    """Return one Asset per published table. DAGs can be scheduled on its updates for the cluster."""
    _, warehouse = split_login(settings().warehouse_uri)
    root = (warehouse if "://" in warehouse else Path(warehouse).absolute().as_uri()).rstrip("/")
    part = "" if cluster.is_first else f"/cluster_id={cluster.cluster_id}"
    return [
        Asset(name=cluster.scoped_name(f"sexton.{table}"), uri=f"{root}/{table}{part}", group="sexton")
        for table in PUBLISHED_TABLES
    ]
