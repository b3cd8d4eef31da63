"""Tasks that run a Spark job, and what Airflow does for each exit code.

The type of the Spark connection decides how: with `spark` a task runs spark-submit, to any master; with `spark_connect`
it starts a Python process, which uses the server's Spark. A job that rarely or never needs Spark is always a Python
process.

    0  success
    5  success with an alert: everything was written, but some bytes could not be decoded
    4  skipped, with the tasks after it: the archive does not cover the instant
    2  failed, no retry: usage or input          3  failed, no retry: data quality          6  failed, no retry: refused
    1  failed, retried: a broker or a network may answer next time

A job writes its exit code and error to `<run-dir>/outcome/<task_id>.json`, because spark-submit's exit code differs
between masters and deploy modes. Without that file the exit code of the process counts. The task raises each alert in
the file's `alerts`.
"""

import ast
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import NAMESPACE_URL, uuid5

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import Asset, AssetAlias, BaseHook, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from sexton.airflow.alerts import airflow_url, raise_alert
from sexton.airflow.assets import (
    ALL_TABLES,
    EXPIRING_TABLES,
    PUBLISHED_TABLES,
    REPLICA_TABLES,
    TRANSACTION_TABLES,
    due_asset,
)
from sexton.airflow.brokers import BOOTSTRAP, client_config, config_file
from sexton.airflow.commands import ANY_ERROR
from sexton.airflow.formats import instant_ms
from sexton.airflow.openlineage import DatasetKind, lineage_of
from sexton.airflow.pools import AUDIT_POOL, KAFKA_POOL, OF_A_CLUSTER, PUBLISH_POOL
from sexton.airflow.runs import has_file, read_outcome, remove_outcome, run_folder
from sexton.airflow.warm_jobs import ForkedJob, is_warm
from sexton.as_text import ms_of
from sexton.errors import EXIT_MEANINGS, DataQualityFailure, NoCoverage, Refused, UndecodableInput, UsageError
from sexton.job_params import REQUESTS
from sexton.job_params import STAGES as STAGES  # for the DAG
from sexton.process_id import TASK, host, process_id
from sexton.settings import Cluster, environment, setting_of, settings, variable
from sexton.uris import secrets_of, uri_without_login

NEVER_RETRIED = {UsageError.exit_code, DataQualityFailure.exit_code, Refused.exit_code}
RUN_DIR = "--run-dir={{ run_folder(dag.dag_id, run_id) }}"
CLUSTER_DEFAULTS = "-Dspark.executor.memoryOverheadFactor=1.6 -Dspark.cores.max=8"
"""Default resources of a task on a Spark cluster: memory for Python on top of a 1 GB heap (docs/deploy.md), and at most
8 cores of a standalone cluster. They are properties of spark-submit's JVM, so arguments, spark-defaults.conf and the
user's SPARK_SUBMIT_OPTS override them."""
DESCRIBED = ("cluster_id", "run_id", "coverage", "engine", "plan_id", "counts", "failed_expectations")
"""Fields of a job's outcome that its Asset events carry."""
UNTOLD = ("stage", "exit_code", "warnings")
"""Fields of the outcome that are not in its XCom: Airflow knows them, or (warnings) they may name groups."""
LINKED = {"cluster": "cluster_id", "as_of": "as_of_ms"}
"""Parameters of the dashboard -> fields of the outcome."""


def as_of_ms(dag_run: Any, params: Mapping[str, Any]) -> int:
    """Return the instant that a run describes: its parameter, else the end of its data interval, else its trigger time.

    A manual run may have no data interval. `run_after` always exists and stays the same in a retry.
    """
    asked, since = _instant("as_of", params), _instant("since", params)
    as_of = ms_of(getattr(dag_run, "data_interval_end", None) or dag_run.run_after) if asked is None else asked
    if since is not None and since >= as_of:  # the form's schema checks each field alone
        raise AirflowFailException(f"since {params['since']!r} is not before as_of, which is {as_of} ms")
    return as_of


def now_ms(dag_run: Any) -> int:
    """Return the instant from which a run could start: when it was triggered, or the end of its scheduled interval."""
    return ms_of(dag_run.run_after)


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
        raise AirflowFailException(f"policy {name!r} cannot be found: SEXTON_POLICY, whose folder is used, is not set")
    return str(Path(default).parent / name)


def arguments_of(task_id: str, cluster: Cluster) -> list[str]:
    """Return the arguments of a task: values of settings, and templates. Arguments with an empty value are dropped.

    An archive's URI has no login, because Airflow, `ps` and Spark's event log show arguments. The job adds it from its
    settings.
    """
    given = []
    for name, option, field in REQUESTS[task_id].options():
        param = option.name or name
        flag, is_flag = f"--{param.replace('_', '-')}", field.annotation is bool
        if option.task:
            given.append(f"{flag}={{{{ {option.task} }}}}")
        elif option.form:
            asked = f"'{flag}' if params.{param} else ''" if is_flag else f"params.{param} or ''"
            given.append(f"{{{{ {asked} }}}}" if is_flag else f"{flag}={{{{ {asked} }}}}")
        elif option.setting:
            value = setting_of(cluster, option.setting)
            if name == "archive":
                value = uri_without_login(value)
            given.append((flag if value else "") if is_flag else f"{flag}={'' if value is None else value}")
    return given


def macros(cluster: Cluster) -> dict[str, Any]:
    """Return the functions that arguments call: the user_defined_macros of DAGs."""
    return {
        "as_of_ms": as_of_ms,
        "instant": lambda name, params: _instant(name, params) or "",
        "now_ms": now_ms,
        "policy_file": partial(policy_file, cluster.policy),
        # Without a login, as in `arguments_of`.
        "run_folder": lambda dag_id, run_id: uri_without_login(run_folder(dag_id, run_id)),
        "since_ms": since_ms,
    }


@dataclass(frozen=True, slots=True)
class Job:
    """The resources and data that a task uses.

    Tasks in one `pool` run one at a time. A `lazy` job rarely needs Spark, and then starts it itself: with spark-submit
    a JVM would nearly always start for nothing. `reads` and `writes` are the kinds of the task's OpenLineage datasets,
    `reads_tables` and `writes_tables` the published tables among them.
    """

    pool: str | None = None
    needs_spark: bool = True
    lazy: bool = False
    writes_iceberg: bool = False
    reads: Sequence[DatasetKind] = ()
    writes: Sequence[DatasetKind] = ()
    reads_tables: Sequence[str] = ()
    writes_tables: Sequence[str] = ()


JOBS = {
    "snapshot_log": Job(KAFKA_POOL, reads=["topic"], writes=["archive"]),
    "replay_groups": Job(reads=["archive"], writes=["archive", "runs"]),
    "find_expired": Job(reads=["archive", "runs"], writes=["runs"]),
    "plan_tombstones": Job(reads=["runs"], writes=["runs"]),
    "validate_tables": Job(writes_iceberg=True, reads=["runs"]),
    "publish_tables": Job(
        PUBLISH_POOL, lazy=True, writes_iceberg=True, reads=["runs"], writes=["archive"], writes_tables=PUBLISHED_TABLES
    ),
    "build_history": Job(
        writes_iceberg=True, reads=["archive"], writes=["archive", "runs"], writes_tables=PUBLISHED_TABLES
    ),
    "verify": Job(needs_spark=False, reads=["archive"]),
    "check_checkpoint": Job(reads=["archive"]),
    "expire_runs": Job(PUBLISH_POOL, writes_iceberg=True, writes=["archive"], writes_tables=EXPIRING_TABLES),
    "compact_tables": Job(PUBLISH_POOL, writes_iceberg=True, writes_tables=ALL_TABLES),
    "reconcile": Job(KAFKA_POOL, reads=["topic", "archive"], writes=["archive"]),
    "audit_replicas": Job(AUDIT_POOL, writes_iceberg=True, reads=["topic", "archive"], writes_tables=REPLICA_TABLES),
    "audit_transactions": Job(
        AUDIT_POOL,
        writes_iceberg=True,
        reads=["topic", "archive"],
        writes=["archive"],
        reads_tables=["runs", "open_transactions", "pending_offsets"],
        writes_tables=TRANSACTION_TABLES,
    ),
    "audit_lag": Job(
        AUDIT_POOL,
        needs_spark=False,
        reads=["archive"],
        writes=["archive"],
        reads_tables=["runs", "committed_offsets", "pending_offsets", "topic_partitions", "time_lag"],
        writes_tables=["time_lag"],
    ),
}
"""Task id -> its Job. The id is also the name of a file in spark_jobs/."""


def alerts_of(outcome: Mapping[str, Any]) -> list[str]:
    """Return the messages of the alerts in a job's outcome, such as one about a gap in the archived log."""
    alerts = outcome.get("alerts")
    return [str(line) for line in alerts] if isinstance(alerts, list) else []


class SparkLink(BaseOperatorLink):
    """Links to the web UI of the Spark that the task uses. The UI shows the jobs of the whole deployment."""

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        return settings().spark_ui if operator.needs_spark() else ""


class SparkJob(SparkSubmitOperator):
    """Runs `spark_jobs/<task_id>.py` and ends as the job's exit code demands."""

    operator_extra_links: Collection[BaseOperatorLink] = (SparkLink(),)

    broker: str | None = None
    """The cluster's address, once the task has connected to it."""
    process: SubprocessHook | None = None
    """The job's process, unless it uses spark-submit."""
    exit_code: int | None = None
    outcome: Mapping[str, Any] = {}
    """The job's report, once it has ended successfully."""

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override]  # spark-submit returns nothing
        """Run the job; its outcome, without names of groups, is the task's XCom."""
        for secret in (*secrets_of(settings().archive_uri), *secrets_of(settings().runs_uri)):
            mask_secret(secret)
        self.application_args = [text for text in self.application_args or [] if text and not text.endswith("=")]
        folder = _folder_of(context)
        forget = partial(remove_outcome, folder, self.task_id)
        failure: AirflowException | None = None
        try:
            if not self.needs_spark():
                self._run(forget)
            elif BaseHook.get_connection(self._conn_id).conn_type == SparkConnectHook.conn_type:
                # The stages of a run share a session, so that the server's workers load the package and its kernels
                # once per run. Every other job has its own session, since a cancelled task ends all work in its
                # session.
                shared = folder if self.task_id in STAGES else f"{folder} {self.task_id}"
                session = f"session_id={uuid5(NAMESPACE_URL, shared)}"
                self._run(forget, SPARK_REMOTE=f"{_connect_url(self._conn_id)};{session}")
            elif JOBS[self.task_id].lazy:
                self._run(forget)
            else:
                forget()
                self.env_vars = {**(self.env_vars or {}), TASK: _this_task()}
                super().execute(context)
        except AirflowException as error:
            failure = error
        outcome = read_outcome(folder, self.task_id)
        for line in alerts_of(outcome):
            raise_alert(context, message=line)
        if failure is not None:
            self._end_as(outcome, failure, context)
        self.outcome = {name: value for name, value in outcome.items() if name not in UNTOLD}
        self._describe(context["outlet_events"], context)
        return self.outcome

    def on_kill(self) -> None:
        if self.process is None:
            super().on_kill()
        else:
            self.process.send_sigterm()  # type: ignore[no-untyped-call]  # Airflow has no types here

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what was read and written, for Airflow's OpenLineage provider."""
        return lineage_of(JOBS[self.task_id], dag_id=task_instance.dag_id, broker=self.broker)

    def needs_spark(self) -> bool:
        """Whether the task uses Spark."""
        job = JOBS[self.task_id]
        is_local = settings().engine == "local" and self.task_id in STAGES and not job.writes_iceberg
        return job.needs_spark and not is_local

    def _run(self, forget: Callable[[], None], **variables: str) -> None:
        """Run the job as a Python process, after `forget`; AirflowException if it fails."""
        if is_warm():
            self.process = ForkedJob(forget)  # not called before: a store's threads do not survive a fork
        else:
            forget()
            self.process = SubprocessHook()
        job = [sys.executable, self.application, *(self.application_args or [])]
        done = self.process.run_command(job, env=environment(**variables, **{TASK: _this_task()}), cwd=str(Path.cwd()))
        self.exit_code = done.exit_code
        if done.exit_code:
            raise AirflowException(f"{self.task_id} ended with {done.exit_code}")

    def _end_as(self, outcome: Mapping[str, Any], error: AirflowException, context: Any) -> None:
        """Return if the job's work is done despite the error; else raise the exception for its exit code."""
        code = outcome.get("exit_code") or self._exit_code()
        line = str(outcome.get("error") or f"the job ended with {code}")
        if code == UndecodableInput.exit_code:
            raise_alert(context, message="some bytes could not be read: see undecodable_records and load_profile")
        elif code == NoCoverage.exit_code:
            raise AirflowSkipException(f"no coverage: {line}") from None
        elif code in NEVER_RETRIED:
            raise AirflowFailException(f"{EXIT_MEANINGS[code]}: {line}") from None
        else:
            raise error

    def _exit_code(self) -> int:
        """Return the exit code of the process. The hook of spark-submit has no public field for it."""
        code = self.exit_code if self.process else getattr(getattr(self._hook, "_submit_sp", None), "returncode", None)
        return code if isinstance(code, int) else ANY_ERROR

    def _describe(self, outlet_events: Any, context: Any) -> None:
        """Add the instant, the run folder and the fields DESCRIBED to the Asset events; update Assets of due audits."""
        extra = {
            **{name: self.outcome[name] for name in DESCRIBED if name in self.outcome},
            "as_of_ms": as_of_ms(context["dag_run"], context["params"]),
            "run_folder": uri_without_login(_folder_of(context)),
        }
        for outlet in self.outlets:
            if not isinstance(outlet, AssetAlias):
                outlet_events[outlet].extra = extra
            elif any(f".{dag_id}." in outlet.name for dag_id in self.outcome.get("due", ())):
                outlet_events[outlet].add(due_asset(outlet.name), extra=extra)


class DashboardLink(BaseOperatorLink):
    """Links from the publishing task to the run's page in the dashboard."""

    name = "Dashboard"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        found = {name: operator.outcome[key] for name, key in LINKED.items() if key in operator.outcome}
        return f"{airflow_url()}/sexton/?{urlencode(found)}" if len(found) == len(LINKED) else ""


class RunFileLink(BaseOperatorLink):
    """Links from the checking task to an HTML page of the run, which the dashboard serves even if the run failed."""

    file: tuple[str, ...]
    page: str

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's signature
        if not has_file(run_folder(ti_key.dag_id, ti_key.run_id), *self.file):
            return ""
        run = "/".join(quote(name, safe="") for name in (ti_key.dag_id, ti_key.run_id))
        return f"{airflow_url()}/sexton/runs/{run}/{self.page}"


class DataDocsLink(RunFileLink):
    name, file, page = "Data Docs", ("dq", "index.html"), "data-docs/"


class ReportLink(RunFileLink):
    name, file, page = "Report", ("report.html",), "report.html"


class CheckingJob(SparkJob):
    """The job that checks a run."""

    operator_extra_links = (DataDocsLink(), ReportLink(), SparkLink())


class PublishingJob(SparkJob):
    """The job that publishes a run."""

    operator_extra_links = (DashboardLink(), SparkLink())


class KafkaJob(SparkJob):
    """A job that talks to the cluster of an Airflow connection."""

    def __init__(self, *, kafka_conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override]  # of spark-submit alone: nothing
        config = client_config(self.kafka_conn_id)
        self.broker = config[BOOTSTRAP]
        with config_file(config) as file:
            broker = [f"--bootstrap-servers={config[BOOTSTRAP]}", f"--client-config={file or ''}"]
            self.application_args = [*(self.application_args or []), *broker]
            return super().execute(context)


def spark_job(task_id: str, cluster: Cluster, *, outlets: Sequence[Asset | AssetAlias] = ()) -> SparkJob:
    """Return the task that runs `spark_jobs/<task_id>.py`."""
    config, job = settings(), JOBS[task_id]
    common: dict[str, Any] = {
        "task_id": task_id,
        "application": str(config.home / "spark_jobs" / f"{task_id}.py"),
        "application_args": [*arguments_of(task_id, cluster), RUN_DIR],
        "conn_id": config.spark_conn_id,
        "name": f"sexton-{task_id}",
        "driver_memory": config.spark_driver_memory,
        "env_vars": {"SPARK_SUBMIT_OPTS": f"{CLUSTER_DEFAULTS} {variable('SPARK_SUBMIT_OPTS') or ''}"},
        "outlets": list(outlets),
        "doc_md": _doc(config.home / "spark_jobs" / f"{task_id}.py"),
    }
    if "bytes_per_second" in REQUESTS[task_id].model_fields:
        common["execution_timeout"] = timedelta(hours=config.fetch_timeout_hours)
    if job.writes_iceberg:
        common["jars"] = config.spark_jars or None
    if job.pool is not None:
        common["pool"] = cluster.scoped_name(job.pool) if job.pool in OF_A_CLUSTER else job.pool
    if job.pool in (KAFKA_POOL, AUDIT_POOL):
        return KafkaJob(kafka_conn_id=cluster.kafka_conn_id, **common)
    return {"validate_tables": CheckingJob, "publish_tables": PublishingJob}.get(task_id, SparkJob)(**common)


def _connect_url(conn_id: str) -> str:
    """The URL of a Connect server. With a token in the URL, PySpark requires TLS for every host but localhost.

    If the connection's extra has `"use_ssl": false`, the token is sent as a plain header, without TLS.
    """
    url = SparkConnectHook(conn_id).get_connection_url()
    return url.replace(";token=", ";authorization=Bearer%20") if "use_ssl=False" in url else url


def _this_task() -> str:
    """The ids, as JSON, of the task's process and of the worker's, which can cancel the task. If either process ends,
    the job ends."""
    pids = [pid for pid in (os.getpid(), os.getppid()) if pid]  # 0: the parent is outside of this container
    return json.dumps({"where": host(), "processes": [asdict(process_id(pid)) for pid in pids]})


def _doc(job: Path) -> str:
    """Return Markdown: a job's docstring, and how to run the job alone. The job is parsed: an import is slow."""
    source = job.read_text("utf-8") if job.is_file() else ""
    said = (ast.get_docstring(ast.parse(source)) or "").replace("<", "&lt;")
    return f"{said}\n\nOptions and a standalone run: `spark-submit spark_jobs/{job.name} --help`."


def _folder_of(context: Any) -> str:
    return run_folder(context["dag_run"].dag_id, context["dag_run"].run_id)
