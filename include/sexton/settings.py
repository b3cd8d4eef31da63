"""What a deployment can set, read from the environment once (prefix `SEXTON_`); nothing else reads `os.environ`.

Every setting has a default under which the project runs on one machine with no configuration at all.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import AwareDatetime, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parents[2]


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
    airflow_port: int = Field(default=8080, ge=1, le=65_535, description="of the embedded Airflow, on 127.0.0.1")
    kafka_conn_id: str = Field(default="kafka_default", description="Airflow connection of the cluster")
    spark_conn_id: str = Field(default="spark_default", description="Airflow connection of Spark")
    schedule: str = Field(default="0 * * * *", description="cron of offset_retention, in UTC; empty: only by hand")
    catchup: bool = False
    max_active_runs: int = Field(default=1, ge=1)
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
    retention_minutes: int | None = Field(default=None, ge=1, description="None: what the broker says")
    policy: str = Field(default="", description="file of retention rules; empty: the broker's retention alone decides")
    applier_conn_id: str = Field(
        default="kafka_applier", description="Airflow connection of the principal that may delete, for applying alone"
    )
    approvers: list[str] = Field(
        default_factory=list, description="who may approve, as a JSON list of Airflow user ids; empty: anybody"
    )
    approval_self_allowed: bool = Field(default=False, description="whether who triggered a run may approve it, too")
    approval_timeout_hours: float = Field(default=24, gt=0, description="no answer by then means no")
    approval_max_age_hours: float = Field(
        default=4, gt=0, description="an approval that is older is not acted on, and asked for again"
    )
    apply_max_age_hours: float = Field(default=24, gt=0, description="a plan whose as_of is older is not applied")
    apply_lease_s: int = Field(
        default=600, ge=1, description="after how long without a sign of life another attempt may take an apply over"
    )
    allow_log_sink: bool = Field(
        default=False, description="whether tombstones may be written into the log itself where Kafka refuses to"
    )
    settle_ms: int = Field(default=60_000, ge=0, description="how long after as_of a snapshot may settle the cut")
    inflated_cap_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="largest batch once inflated")
    chunk_bytes: int = Field(default=128 * 1024 * 1024, ge=1, description="log bytes that one Spark task folds")
    fetch_bytes_per_second: int = Field(
        default=0, ge=0, description="how fast a snapshot may read, in all; 0: as fast as the brokers' quotas allow"
    )
    house_schedule: str = Field(default="30 3 * * *", description="cron of keep_house, in UTC; empty: only by hand")
    house_deletes: bool = Field(default=False, description="whether keep_house removes what it only tells otherwise")
    house_keep_all_hours: int = Field(default=48, ge=1, description="published runs: all that are younger stay")
    house_keep_hourly_days: int = Field(default=14, ge=0, description="the last of each hour that are younger")
    house_keep_daily_months: int = Field(default=12, ge=0, description="the last of each day; older: of each month")
    house_holds: list[AwareDatetime] = Field(
        default_factory=list, description="as_of of runs that stay whatever their age, as a JSON list of ISO 8601"
    )
    house_lake_days: int = Field(
        default=7, ge=1, description="how long Iceberg's snapshots and the branches of failed runs are kept"
    )
    house_verify_days: int = Field(default=7, ge=1, description="in how many days all of the archive is read")
    house_recheck_days: int = Field(
        default=7, ge=1, description="how often the newest checkpoint is held against a full replay"
    )
    house_drill_groups: int = Field(default=1_000, ge=1, description="groups that a drill compares; of more, some")
    kill_at: str = Field(
        default="", description="for tests: where a process is killed, see `sexton doctor --kill-points`"
    )
    spark_master: str = Field(default="local[*]", description="used where spark-submit names no master")
    spark_driver_memory: str = "2g"
    spark_jars: str = Field(
        default="", description="--jars of the stages that write to the lake: the Iceberg runtime, a JDBC driver"
    )

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
    """The settings of this process, read once."""
    return Settings()


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
