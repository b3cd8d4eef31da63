"""What every DAG of ours has in common: owner, retries, schedule, form fields, the Assets that a run publishes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]  # its stub leaves the deadlines out
    Asset,
    AsyncCallback,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
    Param,
)

from sexton.airflow.alerts import AlertOnFailure, alert_late_run
from sexton.airflow.formats import INSTANT, ISO_OR_MS
from sexton.airflow.notifiers import sinks
from sexton.settings import Cluster, settings
from sexton.uris import split_login

OWNER = "kafka-platform"
TAGS = ["kafka", "consumer-offsets", "sexton"]
BY_HAND: Any = ("manual",)
"""Kinds of runs that may change a cluster: neither a schedule, a backfill nor another DAG starts one."""
WAITING_RUNS = 16
"""Runs of a DAG that may wait for their answers at the same time."""
START_DATE = datetime(2025, 1, 1, tzinfo=UTC)
"""Backfills may reach back to here; whether the archive can answer for an instant is the run's own finding."""

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


def default_args() -> dict[str, Any]:
    """Only exit code 1 is retried, see `sexton.airflow.spark_tasks`: what it stands for may pass by itself.

    A notifier that cannot work is an error of the DAG's import, not of the first alert.
    """
    sinks(settings().notify)
    return {
        "owner": OWNER,
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "execution_timeout": timedelta(hours=2),
        "on_failure_callback": AlertOnFailure(),
    }


def tags(cluster: Cluster) -> list[str]:
    """Of every DAG, with the cluster's name where clusters have names."""
    return [*TAGS, *([f"cluster:{cluster.name}"] if cluster.name else [])]


def doc_of(doc: str | None, cluster: Cluster) -> str:
    """What a DAG says of itself, and of which cluster where clusters have names."""
    return f"Cluster **{cluster.name}** (`{cluster.cluster_id}`)\n\n{doc}" if cluster.name else str(doc)


def timetable(cron: str) -> CronDataIntervalTimetable | None:
    """Of an empty one None: only when triggered. A plain cron string gives empty data intervals in Airflow 3."""
    cron = cron.strip()
    return CronDataIntervalTimetable(cron, timezone="UTC") if cron else None


def deadline(minutes: int) -> DeadlineAlert | None:
    """An alert about a run that is not finished so long after it was queued; None for 0.

    Counted from the queue, because a backfilled run's own instant is long ago. Awaited by the triggerer, because not
    every executor runs callbacks.
    """
    if not minutes:
        return None
    return DeadlineAlert(
        name="late",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=minutes),
        callback=AsyncCallback(alert_late_run, kwargs={"minutes": minutes}),
    )


def retention_params(cluster: Cluster) -> dict[str, Param]:
    """The trigger form of offset_retention."""
    return {
        "as_of": Param(
            None,
            type=["null", "string"],
            format=INSTANT,
            pattern=ISO_OR_MS,
            title="As of",
            description="The instant to describe: ISO 8601 (UTC unless it says otherwise) or epoch milliseconds. "
            "Empty: the end of the run's data interval, or the time of triggering when it has none.",
            section="What to describe",
        ),
        "since": Param(
            None,
            type=["null", "string"],
            format=INSTANT,
            pattern=ISO_OR_MS,
            title="Changes since",
            description="Tell in offset_changes what happened from this instant to the one described. Empty: from the "
            "start of the run's data interval, or not at all when another instant than its end is described.",
            section="What to describe",
        ),
        "retention_minutes": Param(
            cluster.retention_minutes,
            type=["null", "integer"],
            exclusiveMinimum=0,  # of a minimum the form makes 1 out of 0 and says nothing
            title="Retention in minutes",
            description="Judge with this retention instead of the broker's offsets.retention.minutes. What such a run "
            "plans is to look at: only plans by the broker's own retention are applied.",
            section="How to judge",
        ),
        "profile": Param(
            "auto",
            type="string",
            pattern=r"^(auto|(group_coordinator|group_metadata_manager|offset_manager)(:\d+(\.\d+)*)?)$",
            title="Profile",
            description="Whose rules: group_coordinator (Kafka 4.x), group_metadata_manager (0.10.1 to 3.9) or "
            "offset_manager (0.8.2 to 0.10.0), each with `:RELEASE` or without; auto: that of the recorded "
            "broker, else what the log proves, else the newest.",
            section="How to judge",
        ),
        "policy": Param(
            None,
            type=["null", "string"],
            pattern=r"^$|^(?!\.)[A-Za-z0-9_.-]{1,128}$",
            title="Policy",
            description="Judge by another policy than the deployment's: the name of a file beside that of "
            "SEXTON_POLICY. What such a run plans is to look at: only plans by the deployment's policy are applied.",
            section="How to judge",
        ),
        "full": Param(
            False,
            type="boolean",
            title="Replay in full",
            description="Read the whole log up to the instant instead of going on from the nearest published "
            "checkpoint. The result is the same.",
            section="How to replay",
        ),
    }


def maintenance_params() -> dict[str, Param]:
    """The trigger form of maintenance."""
    return {
        "delete": Param(
            settings().maintenance_deletes,
            type="boolean",
            title="Remove what may go",
            description="Let published runs go that the policy does not keep, what publishing left in the lake, "
            "and old run folders. "
            "Without it expire_runs and compact_tables only report what they would remove.",
            section="What to do",
        ),
        "subset": Param(
            None,
            type=["null", "string"],
            pattern=r"^$|^\d{1,9}/\d{1,9}$",
            title="Part of the archive to read",
            description="n/t reads part n of t, 1/1 everything. Empty: the next part; in some runs all is read.",
            section="What to do",
        ),
    }


def table_assets(cluster: Cluster) -> list[Asset]:
    """One Asset a published table, for DAGs that want to run when it has news of the cluster."""
    _, warehouse = split_login(settings().warehouse_uri)
    root = (warehouse if "://" in warehouse else Path(warehouse).absolute().as_uri()).rstrip("/")
    part = "" if cluster.is_first else f"/cluster_id={cluster.cluster_id}"
    return [
        Asset(name=cluster.scoped_name(f"sexton.{table}"), uri=f"{root}/{table}{part}", group="sexton")
        for table in PUBLISHED_TABLES
    ]
