"""Tasks that run a Spark job: one spark-submit each, and what Airflow does for each exit code.

    0  success
    5  success with an alert: everything was written, but some bytes could not be decoded
    4  skipped, with the tasks after it: the archive does not cover the instant
    2  failed, no retry: usage or input          3  failed, no retry: data quality          6  failed, no retry: refused
    1  failed, retried: a broker or a network may answer next time

A job writes its exit code and error to `<run-dir>/outcome/<task_id>.json`, because that of spark-submit differs between
masters and deploy modes. Without that file the exit code of spark-submit counts. Each of its `alerts` is raised.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from sexton.airflow.alerts import raise_alert
from sexton.airflow.brokers import BOOTSTRAP, client_config, config_file
from sexton.airflow.defaults import PUBLISHED_TABLES
from sexton.airflow.formats import instant_ms, ms_of
from sexton.airflow.openlineage import lineage_of
from sexton.airflow.pools import KAFKA_POOL, OF_A_CLUSTER, PUBLISH_POOL
from sexton.airflow.runs import outcome_file, read_outcome, run_folder
from sexton.errors import DataQualityFailure, NoCoverage, Refused, UndecodableInput, UsageError
from sexton.settings import Cluster, settings
from sexton.uris import secrets_of, uri_without_login

STAGES = ("snapshot_log", "replay_groups", "find_expired", "plan_tombstones", "validate_tables", "publish_tables")
"""The six stages in their order: task id, file in spark_jobs/ and module in sexton.pipeline."""

MAINTENANCE_TASKS = ("verify", "check_checkpoint", "expire_runs", "compact_tables", "reconcile")
"""The tasks of maintenance: task id, file in spark_jobs/ and module in sexton.maintenance."""

ANY_ERROR = 1
NEVER_RETRIED = {
    UsageError.exit_code: "usage or input is wrong or missing",
    DataQualityFailure.exit_code: "a critical check failed, nothing was published",
    Refused.exit_code: "a guard said no",
}
CHOOSES_CLUSTER = ("snapshot_log", "replay_groups", "verify", "check_checkpoint", "expire_runs", "reconcile")
"""Tasks that choose among the archive's clusters. Later stages continue with the cluster that replay_groups chose."""
LAKE_TASKS = ("validate_tables", "publish_tables", "expire_runs", "compact_tables")
"""Tasks that write to Iceberg."""
TASK_POOLS = {
    "snapshot_log": KAFKA_POOL,
    "reconcile": KAFKA_POOL,
    **dict.fromkeys(("publish_tables", "expire_runs", "compact_tables"), PUBLISH_POOL),
}
"""Tasks of which one may run at a time."""
ARCHIVE = f"--archive={uri_without_login(settings().archive_uri)}"
"""Without a login, because Airflow, `ps` and Spark's event log show arguments. The job adds it from its settings."""
RUN_DIR = "--run-dir={{ run_folder(dag.dag_id, run_id) }}"
AS_OF = "--as-of={{ as_of_ms(dag_run, params) }}"
NOW = "--now={{ as_of_ms(dag_run, params) }}"
"""Ages are measured at the end of the run's data interval."""
DELETE = "{{ '--delete' if params.delete else '' }}"


def as_of_ms(dag_run: Any, params: Mapping[str, Any]) -> int:
    """Return the instant that a run describes: its parameter, else the end of its data interval, else its trigger time.

    A manual run may have no data interval. `run_after` always exists and stays the same in a retry.
    """
    asked, since = _instant("as_of", params), _instant("since", params)
    as_of = ms_of(getattr(dag_run, "data_interval_end", None) or dag_run.run_after) if asked is None else asked
    if since is not None and since >= as_of:  # the form's schema checks each field alone
        raise AirflowFailException(f"since {params['since']!r} is not before as_of, which is {as_of} ms")
    return as_of


def since_ms(dag_run: Any, params: Mapping[str, Any]) -> int | str:
    """Return the start of the interval whose changes a run reports: its parameter, else the start of its data interval.

    Empty if there is none, or if `as_of` is not the end of the data interval.
    """
    asked = _instant("since", params)
    if asked is not None:
        return asked
    start, end = getattr(dag_run, "data_interval_start", None), getattr(dag_run, "data_interval_end", None)
    if start is None or end is None or not start < end or as_of_ms(dag_run, params) != ms_of(end):
        return ""
    return ms_of(start)


def _instant(name: str, params: Mapping[str, Any]) -> int | None:
    """Return a field of the form in epoch milliseconds, None if it is empty."""
    asked = str(params.get(name) or "").strip()
    if not asked:
        return None
    try:
        return instant_ms(asked)
    except ValueError:
        raise AirflowFailException(f"{name} {asked!r} is neither ISO 8601 nor epoch milliseconds") from None


def policy_file(default: str, params: Mapping[str, Any]) -> str:
    """Return the cluster's `default` policy or the file next to it that the parameter names; empty if there is none."""
    name = str(params.get("policy") or "")
    if not name:
        return default
    if not default:
        raise AirflowFailException(f"policy {name!r} cannot be found: SEXTON_POLICY is not set, whose folder has it")
    return str(Path(default).parent / name)


def macros(cluster: Cluster) -> dict[str, Any]:
    """Return the functions that ARGUMENTS call: user_defined_macros of every DAG with Spark jobs."""
    return {
        "as_of_ms": as_of_ms,
        "policy_file": partial(policy_file, cluster.policy),
        "run_folder": run_folder,
        "since_ms": since_ms,
    }


ARGUMENTS: dict[str, list[str]] = {
    "snapshot_log": [
        ARCHIVE,
        AS_OF,
        f"--settle-ms={settings().settle_ms}",
        f"--bytes-per-second={settings().fetch_bytes_per_second or ''}",
        "--topic=__consumer_offsets",
        RUN_DIR,
    ],
    "replay_groups": [
        ARCHIVE,
        AS_OF,
        "--since={{ since_ms(dag_run, params) }}",
        f"--settle-ms={settings().settle_ms}",
        "--profile={{ params.profile }}",
        "--retention-minutes={{ params.retention_minutes or '' }}",
        "{{ '--full' if params.full else '' }}",
        "--run-id={{ run_id }}.{{ ti.try_number }}",
        RUN_DIR,
    ],
    "find_expired": ["--policy={{ policy_file(params) }}", RUN_DIR],
    "publish_tables": [ARCHIVE, RUN_DIR],
    "verify": [ARCHIVE, NOW, "--subset={{ params.subset or '' }}", RUN_DIR],
    "check_checkpoint": [ARCHIVE, NOW, RUN_DIR],
    "expire_runs": [ARCHIVE, NOW, DELETE, RUN_DIR],
    "compact_tables": [NOW, DELETE, RUN_DIR],
    "reconcile": [ARCHIVE, NOW, RUN_DIR],
}
"""Arguments of the tasks that take more than the run folder. An option whose value is empty is not passed."""


def alerts_of(outcome: Mapping[str, Any]) -> list[str]:
    """Return the alerts of a job's outcome, such as a gap in the history of a log."""
    alerts = outcome.get("alerts")
    return [str(line) for line in alerts] if isinstance(alerts, list) else []


class SparkJob(SparkSubmitOperator):
    """Runs `spark_jobs/<task_id>.py` and ends as the job's exit code demands."""

    broker: str | None = None
    """The cluster's address, once the task has talked to one."""

    def execute(self, context: Any) -> None:
        for secret in secrets_of(settings().archive_uri):
            mask_secret(secret)
        self.application_args = [text for text in self.application_args or [] if text and not text.endswith("=")]
        folder = _folder_of(context)
        outcome_file(folder, self.task_id).unlink(missing_ok=True)  # that of an earlier attempt
        failure: AirflowException | None = None
        try:
            super().execute(context)
        except AirflowException as error:
            failure = error
        outcome = read_outcome(folder, self.task_id)
        for line in alerts_of(outcome):
            raise_alert(context, severity="warning", message=line)
        if failure is not None:
            self._end_as(outcome, failure, context)
        self._describe(context["outlet_events"], context)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what was read and written, for Airflow's OpenLineage provider."""
        return lineage_of(self.task_id, task_instance.dag_id, broker=self.broker, tables=PUBLISHED_TABLES)

    def _end_as(self, outcome: Mapping[str, Any], error: AirflowException, context: Any) -> None:
        """Return if the job's work is done nevertheless; else raise what its exit code demands."""
        code = outcome.get("exit_code") or self._exit_code()
        line = str(outcome.get("error") or f"spark-submit ended with {code}")
        if code == UndecodableInput.exit_code:
            raise_alert(
                context,
                severity="warning",
                message="some bytes could not be read: see undecodable_records and load_profile",
            )
        elif code == NoCoverage.exit_code:
            raise AirflowSkipException(f"no coverage: {line}") from None
        elif code in NEVER_RETRIED:
            raise AirflowFailException(f"{NEVER_RETRIED[code]}: {line}") from None
        else:
            raise error

    def _exit_code(self) -> int:
        """Return the exit code of spark-submit. The hook has no public field for it."""
        code = getattr(getattr(self._hook, "_submit_sp", None), "returncode", None)
        return code if isinstance(code, int) else ANY_ERROR

    def _describe(self, outlet_events: Any, context: Any) -> None:
        """Add the instant and the run folder to the Asset events."""
        for asset in self.outlets:
            outlet_events[asset].extra = {
                "as_of_ms": as_of_ms(context["dag_run"], context["params"]),
                "run_folder": _folder_of(context),
            }


class KafkaJob(SparkJob):
    """A job that talks to the cluster of an Airflow connection."""

    def __init__(self, *, kafka_conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Any) -> None:
        config = client_config(self.kafka_conn_id)
        self.broker = config[BOOTSTRAP]
        with config_file(config) as file:
            broker = [f"--bootstrap-servers={config[BOOTSTRAP]}", f"--client-config={file or ''}"]
            self.application_args = [*(self.application_args or []), *broker]
            super().execute(context)


def spark_job(task_id: str, cluster: Cluster, *, outlets: Sequence[Asset] = ()) -> SparkJob:
    """Return the task that runs `spark_jobs/<task_id>.py`, in a pool where only one may run at a time."""
    config = settings()
    only = [f"--cluster-id={cluster.cluster_id or ''}"] if task_id in CHOOSES_CLUSTER else []
    common: dict[str, Any] = {
        "task_id": task_id,
        "application": str(config.home / "spark_jobs" / f"{task_id}.py"),
        "application_args": [*ARGUMENTS.get(task_id, [RUN_DIR]), *only],
        "conn_id": config.spark_conn_id,
        "name": f"sexton-{task_id}",
        "driver_memory": config.spark_driver_memory,
        "outlets": list(outlets),
        "doc_md": f"Options and a standalone run: `spark-submit spark_jobs/{task_id}.py --help`.",
    }
    if task_id in LAKE_TASKS:
        common["jars"] = config.spark_jars or None
    pool = TASK_POOLS.get(task_id)
    if pool is not None:
        common["pool"] = cluster.scoped_name(pool) if pool in OF_A_CLUSTER else pool
    if pool == KAFKA_POOL:
        return KafkaJob(kafka_conn_id=cluster.kafka_conn_id, **common)
    return SparkJob(**common)


def _folder_of(context: Any) -> str:
    return run_folder(context["dag_run"].dag_id, context["dag_run"].run_id)
