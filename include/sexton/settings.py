"""What a deployment can set, read from the environment once (prefix `SEXTON_`); nothing else reads `os.environ`.

Every setting has a default under which the project runs on one machine with no configuration at all. Of several
clusters in one deployment (SEXTON_CLUSTERS, docs/clusters.md) each is the plain settings with some of its own.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from sexton.errors import UsageError

PROJECT_ROOT = Path(__file__).resolve().parents[2]

ClusterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""A part of ids of DAGs, pools and connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster of a deployment; `cluster_id` is Kafka's own, None: whatever cluster the connection leads to.

    `name` is None while the settings name no clusters. Only the first has nothing added to the names of its DAGs.
    """

    name: str | None
    is_first: bool
    cluster_id: str | None
    bootstrap_servers: str
    kafka_conn_id: str
    applier_conn_id: str
    schedule: str
    deadline_minutes: int
    maintenance_schedule: str
    retention_minutes: int | None
    policy: str

    def is_of(self, cluster_id: str) -> bool:
        """Whether this is the cluster of that id, as far as the settings tell."""
        return self.cluster_id in (None, cluster_id)

    def scoped_name(self, plain: str) -> str:
        """This cluster's DAG, pool or Asset among those that the first cluster has under a plain name."""
        return plain if self.is_first else f"{plain}__{self.name}"


class ClusterSettings(BaseModel):
    """What a named cluster has of its own; what is left out is as the plain settings have it, but for the way there.

    The connections of any but the first are by default `kafka_<name>` and `kafka_<name>_applier`; its address is needed
    only where the connections are made from the settings.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,255}$", description="as `kafka-cluster.sh cluster-id` tells it")
    bootstrap_servers: str = Field(default="", min_length=1)
    kafka_conn_id: str = Field(default="", min_length=1)
    applier_conn_id: str = Field(default="", min_length=1)
    schedule: str = ""
    deadline_minutes: int = Field(default=0, ge=0)
    maintenance_schedule: str = ""
    retention_minutes: int | None = Field(default=None, ge=1)
    policy: str = ""


class Settings(BaseSettings):
    """Settings of one deployment. Paths may be any pyarrow.fs URI where a field says so."""

    model_config = SettingsConfigDict(env_prefix="SEXTON_", extra="ignore")

    home: Path = Field(default=PROJECT_ROOT, description="where var/ and .cache/ are kept")
    archive: str = Field(default="", description="archive of segments, a folder or URI; default <home>/var/archive")
    warehouse: str = Field(default="", description="Iceberg warehouse, a folder or URI; default <home>/var/warehouse")
    catalog_uri: str = Field(default="", description="Iceberg JDBC catalog; default SQLite under <home>/var")
    catalog_properties: dict[str, str] = Field(
        default_factory=dict, description="any other Iceberg catalog, as JSON: its properties replace the JDBC one's"
    )
    runs: str = Field(default="", description="run folders of the scheduled pipeline; default <home>/var/runs")
    bootstrap_servers: str = Field(default="127.0.0.1:19092", description="the cluster whose offsets are kept")
    example_clients: bool = Field(
        default=True,
        description="whether `make up` has clients at work on the broker that it makes, which keeps offsets a minute",
    )
    airflow_port: int = Field(default=8080, ge=1, le=65_535, description="of the embedded Airflow, on 127.0.0.1")
    api_body_limit_bytes: int = Field(
        default=8 * 1024 * 1024, ge=65_536, description="largest body of a request to Airflow's API server"
    )
    clusters: dict[ClusterName, ClusterSettings] = Field(
        default_factory=dict, description="several clusters, as JSON: name -> what it has of its own; the first is main"
    )
    kafka_conn_id: str = Field(default="kafka_default", description="Airflow connection of the cluster")
    spark_conn_id: str = Field(default="spark_default", description="Airflow connection of Spark")
    schedule: str = Field(default="0 * * * *", description="cron of offset_retention, in UTC; empty: only by hand")
    catchup: bool = Field(default=False, description="whether offset_retention runs for intervals that it missed")
    max_active_runs: int = Field(default=1, ge=1, description="of offset_retention at a time, besides backfills")
    deadline_minutes: int = Field(
        default=0, ge=0, description="how long after it was queued a run that is not done is an alert; 0: never"
    )
    notify: list[str] = Field(
        default_factory=list,
        description="who hears of alerts, as JSON: slack:CONN_ID, smtp:CONN_ID:ADDRESS[,ADDRESS], apprise:CONN_ID",
    )
    notify_details: bool = Field(
        default=False, description="whether they hear foreign errors in full, which may name groups, topics and hosts"
    )
    retention_minutes: int | None = Field(default=None, ge=1, description="to judge by; else what the broker says")
    policy: str = Field(default="", description="file of retention rules; empty: the broker's retention alone decides")
    applier_conn_id: str = Field(
        default="kafka_applier", description="Airflow connection of the principal that may delete, for applying alone"
    )
    approvers: list[str] = Field(
        default_factory=list, description="who may approve, as a JSON list of Airflow user ids; empty: anybody"
    )
    approval_self_allowed: bool = Field(default=False, description="whether who triggered a run may approve it, too")
    approval_login_required: bool = Field(
        default=False,
        description="whether a run acts only when Airflow's UI or REST API triggered it, not a shell",
    )
    approval_timeout_hours: float = Field(default=24, gt=0, description="no answer by then means no")
    approval_max_age_hours: float = Field(
        default=4, gt=0, description="an approval that is older is not acted on, and asked for again"
    )
    apply_max_age_hours: float = Field(default=24, gt=0, description="a plan whose as_of is older is not applied")
    max_offsets: int = Field(
        default=100_000, ge=0, description="a plan without a policy that takes more offsets is not applied"
    )
    max_share_of_groups: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="a plan without a policy by which a larger share of all groups loses something is not applied",
    )
    apply_lease_s: int = Field(
        default=600, ge=1, description="after how long without a sign of life another attempt may take an apply over"
    )
    allow_log_sink: bool = Field(
        default=False, description="whether tombstones may be written into the log itself where Kafka refuses to"
    )
    settle_ms: int = Field(default=60_000, ge=0, description="how long after as_of a snapshot may settle the cut")
    inflated_cap_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="largest batch once inflated")
    fold_task_bytes: int = Field(default=128 * 1024 * 1024, ge=1, description="log bytes that one Spark task folds")
    fetch_bytes_per_second: int = Field(
        default=0, ge=0, description="how fast a snapshot may read, in all; 0: as fast as the brokers' quotas allow"
    )
    maintenance_schedule: str = Field(
        default="30 3 * * *", description="cron of the DAG maintenance, in UTC; empty: manual runs only"
    )
    maintenance_deletes: bool = Field(default=False, description="whether maintenance deletes; otherwise report only")
    maintenance_keep_all_hours: int = Field(default=48, ge=1, description="published runs: all that are younger stay")
    maintenance_keep_hourly_days: int = Field(default=14, ge=0, description="the last of each hour that are younger")
    maintenance_keep_daily_months: int = Field(
        default=12, ge=0, description="the last of each day; older: of each month"
    )
    maintenance_holds: list[AwareDatetime] = Field(
        default_factory=list, description="as_of of runs that stay whatever their age, as a JSON list of ISO 8601"
    )
    maintenance_lake_days: int = Field(
        default=7, ge=1, description="how long Iceberg's snapshots and the branches of failed runs are kept"
    )
    maintenance_runs_days: int = Field(
        default=30,
        ge=1,
        description="how long run folders of offset_retention and maintenance are kept",
    )
    maintenance_verify_days: int = Field(default=7, ge=1, description="in how many runs all of the archive is read")
    maintenance_checkpoint_days: int = Field(
        default=7,
        ge=1,
        description="how many days after a successful check the newest checkpoint is compared with a full replay again",
    )
    maintenance_reconcile_groups: int = Field(
        default=1_000, ge=1, description="maximum of groups compared; larger clusters are sampled"
    )
    failpoint: str = Field(
        default="", description="for tests: where a process is killed, see `sexton doctor --failpoints`"
    )
    spark_master: str = Field(default="local[*]", description="used where spark-submit names no master")
    spark_driver_memory: str = Field(default="2g", description="of each job that is a driver, as Spark writes it")
    spark_jars: str = Field(
        default="", description="--jars of the stages that write to the lake: the Iceberg runtime, a JDBC driver"
    )

    @model_validator(mode="after")
    def _no_two_clusters_are_one(self) -> "Settings":
        """A connection of two clusters would be a mistake that nothing else sees: refused with its name."""
        every = self.every_cluster
        names = [(cluster.name or "").lower() for cluster in every]  # folders and variables may not know case
        ids = [cluster.cluster_id for cluster in every]
        conn_ids = [conn_id for cluster in every for conn_id in {cluster.kafka_conn_id, cluster.applier_conn_id}]
        for what, used in (("name", names), ("cluster_id", ids), ("connection", conn_ids)):
            if twice := [text for text, times in Counter(used).items() if times > 1]:
                raise ValueError(f"clusters: {what} {twice[0]!r} is of more than one")
        return self

    @property
    def every_cluster(self) -> tuple[Cluster, ...]:
        """The clusters in the order of the settings; one without a name where they name none."""
        plain = {name: getattr(self, name) for name in ClusterSettings.model_fields if name != "cluster_id"}
        if not self.clusters:
            return (Cluster(name=None, is_first=True, cluster_id=None, **plain),)
        found: list[Cluster] = []
        for name, settings in self.clusters.items():
            conn_ids = {"kafka_conn_id": f"kafka_{name}", "applier_conn_id": f"kafka_{name}_applier"}
            apart = {**conn_ids, "bootstrap_servers": ""}  # another cluster's would lead to that one
            own: dict[str, Any] = settings.model_dump(exclude_unset=True)
            found.append(Cluster(name=name, is_first=not found, **{**plain, **(apart if found else {}), **own}))
        return tuple(found)

    @property
    def var(self) -> Path:
        """Everything that a run makes."""
        return self.home / "var"

    @property
    def cache(self) -> Path:
        """Downloads and compiled kernels: survives runs, safe to delete."""
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


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once; UsageError tells the first that is wrong, without its value."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in wrong["loc"]) or "settings"
        raise UsageError(f"{name}: {wrong['msg']}", where="SEXTON_*", fix="see docs/settings.md") from None
    except SettingsError as error:
        raise UsageError(str(error), where="SEXTON_*", fix="it takes JSON, see docs/settings.md") from None


def environment(**changes: str | None) -> dict[str, str]:
    """A copy of this process's environment for a child process, with `changes` applied (None removes)."""
    merged: dict[str, str | None] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def set_variables(values: Mapping[str, str]) -> None:
    """Set variables that libraries read from this process's environment, such as PYSPARK_PYTHON."""
    os.environ.update(values)


def variable(name: str) -> str | None:
    """One variable of the environment that is not ours to name, such as JAVA_HOME."""
    return os.environ.get(name)
