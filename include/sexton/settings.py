"""The settings of a deployment, read from the environment once (prefix `SEXTON_`); nothing else reads `os.environ`.

With the defaults the project runs on one machine without any configuration. If a deployment has several clusters
(SEXTON_CLUSTERS, docs/clusters.md), each takes the plain settings and overrides some.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from sexton.errors import UsageError
from sexton.numbers import whole_number

PROJECT_ROOT = Path(__file__).resolve().parents[2]
HOME = PROJECT_ROOT if (PROJECT_ROOT / "pyproject.toml").is_file() else Path.home() / ".sexton"
"""The project's folder, or a folder of the user if Sexton was installed without it."""

ClusterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Part of the ids of DAGs, pools and connections."""

AFTER_RUNS = "published"
"""Value of a schedule instead of a cron: the DAG runs after a publication of offset_retention that makes it due."""


class OfCluster(BaseModel):
    """The settings of a deployment that a named cluster may override."""

    bootstrap_servers: str = "127.0.0.1:19092"
    """Brokers of the cluster that the command line uses."""
    kafka_conn_id: str = Field("kafka_default", min_length=1)
    """Airflow connection of the cluster."""
    applier_conn_id: str = Field("kafka_applier", min_length=1)
    """Airflow connection of the principal that may delete; used only by apply, restore and keep."""
    schedule: str = "0 * * * *"
    """Cron of the DAG offset_retention, in UTC; empty: manual runs only."""
    deadline_minutes: int = Field(0, ge=0)
    """A run of offset_retention that is not done this long after it was queued raises an alert; 0: never."""
    maintenance_schedule: str = "30 3 * * *"
    """Cron of the DAG maintenance, in UTC; empty: manual runs only."""
    replicas_schedule: str = "30 4 * * 0"
    """Cron of the DAG audit_replicas, in UTC; empty: manual runs only."""
    transactions_schedule: str = AFTER_RUNS
    """When the DAG audit_transactions runs. `published`: after the publication of a run with the latest as_of so far,
    at most once in 20 hours; otherwise a cron, in UTC; empty: manual runs only."""
    lag_schedule: str = AFTER_RUNS
    """When the DAG audit_lag runs. `published`: after the publication of a run with the latest as_of so far; otherwise
    a cron, in UTC; empty: manual runs only."""
    retention_minutes: int | None = Field(None, ge=1)
    """Retention to use for verdicts, in minutes; default: the broker's."""
    policy: str = ""
    """Policy file; empty: only the broker's retention applies."""
    admin_only: bool = False
    """Whether groups are read through the Admin API instead of the offsets log; a cluster that hides the log is
    recognized without this (docs/admin-only.md)."""


class Cluster(OfCluster):
    """One cluster of a deployment. `cluster_id` is Kafka's; None accepts any cluster that the connection leads to.

    `name` is None if the settings name no clusters. The DAGs of the first cluster have plain names.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None
    is_first: bool
    cluster_id: str | None

    def is_of(self, cluster_id: str) -> bool:
        """Whether this may be the cluster with that id: True if the settings name no id."""
        return self.cluster_id in (None, cluster_id)

    def scoped_name(self, plain: str) -> str:
        """The name of this cluster's DAG, pool or Asset; the first cluster's is `plain`."""
        return plain if self.is_first else f"{plain}__{self.name}"


class ClusterSettings(OfCluster):
    """What a named cluster overrides; the rest is as in the plain settings, except for its connections and address.

    For all clusters but the first the connections are by default `kafka_<name>` and `kafka_<name>_applier`. The address
    is needed only if Sexton creates the connections.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,255}$")
    """As `kafka-cluster.sh cluster-id` prints it."""


class Settings(OfCluster, BaseSettings):
    """Settings of one deployment. A path may be any pyarrow.fs URI if the text below the setting says so;
    docs/settings.md shows these texts."""

    model_config = SettingsConfigDict(env_prefix="SEXTON_", extra="ignore")

    home: Path = HOME
    """Folder of var/ and .cache/; ~/.sexton if Sexton is installed without the project's folder."""
    archive: str = ""
    """Archive of log segments, a folder or URI; default <home>/var/archive."""
    warehouse: str = ""
    """Iceberg warehouse, a folder or URI; default <home>/var/warehouse."""
    catalog_uri: str = ""
    """Iceberg JDBC catalog; default SQLite under <home>/var."""
    catalog_properties: dict[str, str] = Field(default_factory=dict)
    """Properties of any other Iceberg catalog, as JSON; they replace the JDBC catalog."""
    runs: str = ""
    """Run folders of the scheduled pipeline, a folder or URI; default <home>/var/runs."""
    example_clients: bool = True
    """Whether `make up` runs example clients on its new broker, which then keeps offsets for one minute."""
    airflow_port: int = Field(8080, ge=1, le=65_535)
    """Port of the embedded Airflow on 127.0.0.1."""
    api_body_limit_bytes: int | None = Field(None, ge=65_536)
    """Maximum size of a request body that the dashboard reads (before it checks the login); default: no limit."""
    metrics_groups: int = Field(0, ge=0)
    """Maximum number of groups that have their own metrics: for each owner that the policy names or, without a policy,
    for the cluster; 0: none."""
    mcp_token: str = ""
    """Token that requests to `sexton mcp --http` need; empty: a new token at each start."""
    clusters: dict[ClusterName, ClusterSettings] = Field(default_factory=dict)
    """Several clusters, as JSON: name -> overridden settings; the first is the main cluster."""
    engine: Literal["spark", "local", "auto"] = "spark"
    """Where work is computed: Spark, `local` (the task's process) or `auto` (local for little work, else Spark)."""
    spark_conn_id: str = "spark_default"
    """Airflow connection of Spark."""
    catchup: bool = False
    """Whether offset_retention runs for missed intervals."""
    max_active_runs: int = Field(1, ge=1)
    """Concurrent runs of offset_retention, not counting backfills."""
    preload: bool = True
    """Whether Airflow's scheduler imports in advance the modules that tasks of LocalExecutor need."""
    owner: str = Field("kafka-platform", min_length=1)
    """Owner of the tasks in Airflow."""
    start_date: AwareDatetime = datetime(2025, 1, 1, tzinfo=UTC)
    """Earliest instant for which Airflow creates runs by backfill or catch-up; an instant in ISO 8601."""
    task_retries: int = Field(2, ge=0)
    """How often a task is retried, if a retry may succeed."""
    task_timeout_hours: float = Field(2, gt=0)
    """Maximum duration of a task."""
    fetch_timeout_hours: float = Field(12, gt=0)
    """Maximum duration of a task that reads whole logs from brokers, such as the first snapshot."""
    notify: list[str] = Field(default_factory=list)
    """Recipients of alerts, as JSON: slack:CONN_ID, smtp:CONN_ID:ADDRESS[,ADDRESS], apprise:CONN_ID, or the import path
    of a notifier of Airflow (docs/alerts.md)."""
    notify_details: bool = False
    """Whether alerts contain full error texts of libraries, which may name groups, topics and hosts."""
    expectations: Path | None = None
    """Folder of your own expectations, one query per `*.sql` file (docs/quality.md)."""
    approvers: list[str] = Field(default_factory=list)
    """Airflow user ids that may approve, as a JSON list; empty: anybody."""
    approval_self_allowed: bool = False
    """Whether the user who triggered a run may approve it."""
    approval_login_required: bool = False
    """Whether a run acts only if it was triggered in Airflow's UI or REST API, not in a shell."""
    approval_timeout_hours: float = Field(24, gt=0)
    """A request for approval that nobody answers within this time is rejected."""
    approval_max_age_hours: float = Field(4, gt=0)
    """An approval older than this is void: clear the task `approve` to ask the same question again."""
    apply_max_age_hours: float = Field(24, gt=0)
    """A plan whose as_of is longer ago than this is not applied."""
    max_offsets: int = Field(100_000, ge=0)
    """Without a policy, a plan that deletes more offsets than this is not applied."""
    max_share_of_groups: float = Field(0.5, ge=0, le=1)
    """Without a policy, a plan is not applied if a larger share of all groups than this would lose offsets."""
    apply_lease_s: int = Field(600, ge=1)
    """After how many seconds without a heartbeat another attempt may take over an apply."""
    allow_log_sink: bool = False
    """Whether tombstones may be written into the log for offsets that Kafka refuses to delete."""
    settle_ms: int = Field(60_000, ge=0)
    """How long after an instant a snapshot must be taken before runs can describe that instant (docs/time.md)."""
    inflated_cap_bytes: int = Field(64 * 1024 * 1024, ge=1)
    """Maximum size of a batch after decompression."""
    fold_task_bytes: int = Field(64 * 1024 * 1024, ge=1)
    """Log bytes that are replayed at a time; a Spark task replays four times as many."""
    bucket_keys: int = Field(500_000, ge=1)
    """Offsets per Spark task; a log partition with more is divided by group id."""
    fetch_bytes_per_second: int = Field(0, ge=0)
    """Total read rate of a snapshot; 0: no limit but the brokers' quotas."""
    admin_groups_per_second: int = Field(0, ge=0)
    """Groups per second that an admin snapshot queries; 0: no limit but the brokers' quotas."""
    lag_alert_hours: int = Field(24, ge=0)
    """Alert about groups that lose unread messages within this many hours; 0: never."""
    maintenance_deletes: bool = False
    """Whether maintenance deletes; otherwise it only reports."""
    maintenance_keep_all_hours: int = Field(48, ge=1)
    """Keep all published runs younger than this."""
    maintenance_keep_hourly_days: int = Field(14, ge=0)
    """Of the runs younger than this, keep the last one of each hour."""
    maintenance_keep_daily_months: int = Field(12, ge=0)
    """Of the runs younger than this, keep the last one of each day; of older runs, the last one of each month."""
    maintenance_holds: list[AwareDatetime] = Field(default_factory=list)
    """Instants (as_of) of runs that are kept whatever their age, as a JSON list in ISO 8601."""
    maintenance_lake_days: int = Field(7, ge=1)
    """How long Iceberg's snapshots, the tags of deleted runs and the branches of failed runs are kept."""
    maintenance_runs_days: int = Field(30, ge=1)
    """How long run folders of offset_retention and maintenance are kept."""
    maintenance_verify_days: int = Field(7, ge=1)
    """Maintenance reads the whole archive once in this many runs."""
    maintenance_checkpoint_days: int = Field(7, ge=1)
    """How many days after a successful check the newest checkpoint is compared with a full replay again."""
    maintenance_reconcile_groups: int = Field(1_000, ge=1)
    """Maximum number of groups that reconcile compares; of a larger cluster it compares a sample."""
    failpoint: str = ""
    """For tests: the point at which a process is killed, see `sexton doctor --failpoints`."""
    spark_master: str = "local[*]"
    """Master of the Spark server that `make up` starts; `sexton audit` uses Spark only if this names a cluster."""
    spark_driver_memory: str = "2g"
    """Memory of each driver, in Spark's notation."""
    spark_jars: str = ""
    """--jars of the tasks that write to the lake: the Iceberg runtime, a JDBC driver."""
    spark_ui: str = Field("", pattern=r"^(https?://\S+)?$")
    """Address of the Spark UI, linked from tasks."""

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show no values: some settings contain a login, and Airflow's tracebacks show local variables."""
        return []

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_digits(cls, value: Any, info: ValidationInfo) -> Any:
        is_number = cls.model_fields[str(info.field_name)].annotation in (int, int | None)
        return whole_number(value) if is_number and isinstance(value, str) and value else value

    @model_validator(mode="after")
    def _no_two_clusters_are_one(self) -> "Settings":
        """Refuse a name, cluster id or connection that two clusters share: nothing else would detect it."""
        every = self.every_cluster
        names = [(cluster.name or "").lower() for cluster in every]  # folders and variables may ignore case
        ids = [cluster.cluster_id for cluster in every]
        conn_ids = [conn_id for cluster in every for conn_id in {cluster.kafka_conn_id, cluster.applier_conn_id}]
        for what, used in (("name", names), ("cluster_id", ids), ("connection", conn_ids)):
            if twice := [text for text, times in Counter(used).items() if times > 1]:
                raise ValueError(f"clusters: {what} {twice[0]!r} is used more than once")
        return self

    @property
    def every_cluster(self) -> tuple[Cluster, ...]:
        """The clusters in the order of the setting `clusters`; if that is empty, one cluster without a name."""
        plain = {name: getattr(self, name) for name in OfCluster.model_fields}
        if not self.clusters:
            return (Cluster(name=None, is_first=True, cluster_id=None, **plain),)
        found: list[Cluster] = []
        for name, settings in self.clusters.items():
            conn_ids = {"kafka_conn_id": f"kafka_{name}", "applier_conn_id": f"kafka_{name}_applier"}
            apart = {**conn_ids, "bootstrap_servers": ""}  # the plain address is another cluster's
            own: dict[str, Any] = settings.model_dump(exclude_unset=True)
            found.append(Cluster(name=name, is_first=not found, **{**plain, **(apart if found else {}), **own}))
        return tuple(found)

    @property
    def var(self) -> Path:
        """Folder of all output of runs."""
        return self.home / "var"

    @property
    def cache(self) -> Path:
        """Folder of downloads and compiled kernels; safe to delete."""
        return self.home / ".cache"

    @property
    def archive_uri(self) -> str:
        return self.archive or str(self.var / "archive")

    @property
    def warehouse_uri(self) -> str:
        return self.warehouse or str(self.var / "warehouse")

    @property
    def iceberg_catalog_uri(self) -> str:
        return self.catalog_uri or f"jdbc:sqlite:{self.var / 'catalog.db'}"

    @property
    def runs_uri(self) -> str:
        return self.runs or str(self.var / "runs")


def setting_of(cluster: Cluster, name: str) -> Any:
    """The cluster's setting of that name, else the deployment's."""
    return getattr(cluster, name) if hasattr(cluster, name) else getattr(settings(), name)


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once; UsageError names the first invalid one, without its value."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in wrong["loc"]) or "settings"
        raise UsageError(f"{name}: {wrong['msg']}", where="SEXTON_*", fix="see docs/settings.md") from None
    except SettingsError as error:
        raise UsageError(str(error), where="SEXTON_*", fix="JSON is expected, see docs/settings.md") from None


def environment(**changes: str | None) -> dict[str, str]:
    """A copy of this process's environment with `changes` applied (None removes), for a child process."""
    merged: dict[str, str | None] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def program(name: str) -> str:
    """The path of a program of this Python environment, whatever PATH says."""
    return str(Path(sys.executable).parent / name)


def set_variables(values: Mapping[str, str]) -> None:
    """Set variables that libraries read, such as PYSPARK_PYTHON."""
    os.environ.update(values)


def variable(name: str) -> str | None:
    """A variable of the environment that is not one of our settings, such as JAVA_HOME."""
    return os.environ.get(name)
