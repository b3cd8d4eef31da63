"""The pipeline's tasks: one spark-submit a stage, and what each exit code of a job means to Airflow.

    0  success
    5  success with an alert: everything was written, but some bytes could not be decoded
    4  skipped: the archive cannot answer for that instant, so nothing downstream may look as if it did
    2  failed, no retry: usage or input          3  failed, no retry: data quality          6  failed, no retry: refused
    1  failed, retried: a broker or a network may answer next time

A job leaves its code and its error in `<run-dir>/outcome/<stage>.json`, because what spark-submit ends with differs
between masters and deploy modes. A job that died before it could write one counts as what spark-submit ended with.
The `alerts` that it leaves there are raised, one each.
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
"""What has to go one at a time."""
ARCHIVE = f"--archive={uri_without_login(settings().archive_uri)}"
"""Airflow shows the arguments of every task, `ps` and Spark's event log those of every job, so they have no login: the
job takes it from its own settings."""
RUN_DIR = "--run-dir={{ run_folder(dag.dag_id, run_id) }}"
AS_OF = "--as-of={{ as_of_ms(dag_run, params) }}"
NOW = "--now={{ as_of_ms(dag_run, params) }}"
"""Ages are measured at the end of the run's data interval."""
DELETE = "{{ '--delete' if params.delete else '' }}"


def as_of_ms(dag_run: Any, params: Mapping[str, Any]) -> int:
    """The instant that a run describes: its parameter, else the end of its data interval, else when it was triggered.

    A manual run may have neither logical date nor data interval; `run_after` is always there and never moves, so that
    a retry describes the same instant.
    """
    asked, since = _instant("as_of", params), _instant("since", params)
    as_of = ms_of(getattr(dag_run, "data_interval_end", None) or dag_run.run_after) if asked is None else asked
    if since is not None and since >= as_of:  # the form's schema knows one field at a time
        raise AirflowFailException(f"since {params['since']!r} is not before as_of, which is {as_of} ms")
    return as_of


def since_ms(dag_run: Any, params: Mapping[str, Any]) -> int | str:
    """Where the interval begins whose changes a run tells: its parameter, else the start of its data interval.

    Empty where there is none, as of a run that was asked for another instant than its interval's end.
    """
    asked = _instant("since", params)
    if asked is not None:
        return asked
    start, end = getattr(dag_run, "data_interval_start", None), getattr(dag_run, "data_interval_end", None)
    if start is None or end is None or not start < end or as_of_ms(dag_run, params) != ms_of(end):
        return ""
    return ms_of(start)


def _instant(name: str, params: Mapping[str, Any]) -> int | None:
    """The epoch milliseconds of a field of the form; None where it is empty."""
    asked = str(params.get(name) or "").strip()
    if not asked:
        return None
    try:
        return instant_ms(asked)
    except ValueError:
        raise AirflowFailException(f"{name} {asked!r} is neither ISO 8601 nor epoch milliseconds") from None


def policy_file(own: str, params: Mapping[str, Any]) -> str:
    """The policy that a run judges by: the cluster's `own`, or the file beside it that a parameter names; or none."""
    name = str(params.get("policy") or "")
    if not name:
        return own
    if not own:
        raise AirflowFailException(f"policy {name!r} is no file: SEXTON_POLICY is not set, which it would lie beside")
    return str(Path(own).parent / name)


def macros(cluster: Cluster) -> dict[str, Any]:
    """What the arguments' templates call; every DAG with stages passes it as user_defined_macros."""
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
    """What a job that did its work wants people to know, such as a break in the history of a log."""
    alerts = outcome.get("alerts")
    return [str(line) for line in alerts] if isinstance(alerts, list) else []


class SparkStage(SparkSubmitOperator):
    """Runs `spark_jobs/<task_id>.py` of this project and turns its exit code into what Airflow should do."""

    broker: str | None = None
    """Where the cluster was, once the task has talked to one."""

    def execute(self, context: Any) -> None:
        for secret in secrets_of(settings().archive_uri):
            mask_secret(secret)
        self.application_args = [text for text in self.application_args or [] if text and not text.endswith("=")]
        folder = _folder_of(context)
        outcome_file(folder, self.task_id).unlink(missing_ok=True)  # an earlier attempt must not speak for this one
        failure: AirflowException | None = None
        try:
            super().execute(context)
        except AirflowException as error:
            failure = error
        outcome = read_outcome(folder, self.task_id)
        for line in alerts_of(outcome):
            raise_alert(context, severity="warning", message=line)
        if failure is not None:
            self._settle(context, failure, outcome)
        self._describe(context["outlet_events"], context)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What was read and written; Airflow's OpenLineage provider asks, where it is installed."""
        return lineage_of(self.task_id, task_instance.dag_id, broker=self.broker, tables=PUBLISHED_TABLES)

    def _settle(self, context: Any, error: AirflowException, outcome: Mapping[str, Any]) -> None:
        """Return when the job's work is done after all; else raise what its exit code asks for."""
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
        """What the submit process ended with. The hook keeps the process and puts its code into no field of its own."""
        code = getattr(getattr(self._hook, "_submit_sp", None), "returncode", None)
        return code if isinstance(code, int) else ANY_ERROR

    def _describe(self, outlet_events: Any, context: Any) -> None:
        """Tell consumers of the Assets which instant the news is about."""
        for asset in self.outlets:
            outlet_events[asset].extra = {
                "as_of_ms": as_of_ms(context["dag_run"], context["params"]),
                "run_folder": _folder_of(context),
            }


class SnapshotStage(SparkStage):
    """A stage that talks to the cluster of an Airflow connection."""

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


def spark_job(task_id: str, cluster: Cluster, *, outlets: Sequence[Asset] = ()) -> SparkStage:
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
        return SnapshotStage(kafka_conn_id=cluster.kafka_conn_id, **common)
    return SparkStage(**common)


def _folder_of(context: Any) -> str:
    return run_folder(context["dag_run"].dag_id, context["dag_run"].run_id)
