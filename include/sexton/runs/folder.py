"""A run folder: what the stages of one run hand to each other, and what `sexton audit --out DIR` leaves.

    DIR/run.json                              RunRecord, written by replay_groups, completed by later stages
    DIR/<table>/<log_partition>.parquet       one file per table and log partition (0.parquet for the whole-run tables)
    DIR/fold/<log_partition>/                 the checkpoint: the finished fold of that log partition
    DIR/internal/                             what only later stages read
    DIR/batches/<log_partition>.log           the plan as Kafka record batches
    DIR/dq/  DIR/report.html  DIR/summary.json

The folder is on a filesystem that driver and executors share.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton import __version__
from sexton.archive.log_position import LogPosition
from sexton.coordinator.api.recorded_settings import Recorded
from sexton.errors import UsageError
from sexton.kernels.parquet import cast, write_table
from sexton.tables import TABLES

WHOLE_RUN = 0
"""File stem of tables that are not split by log partition."""


class RunRecord(BaseModel):
    """What one run describes and what it found out; the single source for later stages, summary.json and `runs`."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    cluster_id: str = "unknown"
    topic_id: str = "unknown"
    as_of_ms: int
    taken_at_ms: int
    profile: str
    profile_source: str = "asked for"
    profile_doubts: list[str] = Field(default_factory=list)
    """What speaks against the profile; `warnings` has it too."""
    retention_ms: int
    retention_source: str
    broker_retention_ms: int | None = Field(default=None, description="the broker's own, where it was recorded")
    source: str
    partition_count: int | None
    log_partitions: list[int]
    missing_log_partitions: list[int] = Field(default_factory=list)
    cuts: dict[int, int] = Field(default_factory=dict, description="log partition -> log_offset where reading stopped")
    positions: dict[int, LogPosition] = Field(default_factory=dict, description="log partition -> that in the archive")
    coverage: str = "complete"
    coverage_reason: str = ""
    has_topics: bool = False
    topics_at_ms: int | None = Field(default=None, description="when the topics were recorded; None for a file's")
    sees_all_topics: bool | None = Field(default=None, description="whether one that is not there is gone")
    misplaced_sources: dict[int, list[int]] = Field(
        default_factory=dict,
        description="log partition -> others that hold groups which hash to it and are served from there",
    )
    endless: list[int] = Field(default_factory=list)
    """Log partitions whose load never ends."""
    blocked: dict[int, str] = Field(default_factory=dict, description="log partition -> why nothing is planned for it")
    checkpoint_sha256: str | None = None
    base_as_of_ms: int | None = Field(default=None, description="of the checkpoint that the replay went on from")
    inflated_cap_bytes: int | None = None
    max_message_bytes: int | None = Field(default=None, description="of the offsets topic, where it was recorded")
    broker_settings: dict[str, str] = Field(default_factory=dict, description="of the broker, as they were recorded")
    topic_settings: dict[str, str] = Field(default_factory=dict, description="of the offsets topic, likewise")
    leaders: dict[int, int] = Field(default_factory=dict, description="log partition -> broker that led it, likewise")
    changes_since_ms: int | None = Field(default=None, description="beginning of the interval of offset_changes")
    plan_id: str | None = None
    plan_sha256: str | None = Field(default=None, description="of the plan.json that is kept in the archive")
    policy_sha256: str | None = None
    policy: str | None = Field(default=None, description="the policy that was judged by, as canonical JSON")
    counts: dict[str, int] = Field(default_factory=dict, description="table -> rows")
    warnings: list[str] = Field(default_factory=list)
    code_version: str = __version__

    @property
    def recorded(self) -> Recorded:
        """What the snapshot recorded of the brokers and of the offsets topic."""
        return Recorded(
            broker_settings=self.broker_settings,
            topic_settings=self.topic_settings,
            max_message_bytes=self.max_message_bytes,
            leaders=self.leaders,
        )


class RunFolder:
    """The files of one run under `root`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def table_file(self, table: str, log_partition: int = WHOLE_RUN) -> Path:
        return self.root / table / f"{log_partition}.parquet"

    def fold_dir(self, log_partition: int) -> Path:
        return self.root / "fold" / str(log_partition)

    def batches_file(self, log_partition: int) -> Path:
        return self.root / "batches" / f"{log_partition}.log"

    def size_bytes(self, *tables: str) -> int:
        """Bytes on disk of some tables of this run: how much work a stage that reads them has."""
        return sum(file.stat().st_size for table in tables for file in (self.root / table).glob("*.parquet"))

    def reset(self) -> None:
        """Remove what an earlier attempt left, so that no file of it is taken for one of this run."""
        for name in [*TABLES, "internal", "fold", "partial", "batches", "dq"]:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in ("run.json", "report.html", "summary.json"):
            (self.root / name).unlink(missing_ok=True)
        self.root.mkdir(parents=True, exist_ok=True)

    def read_run(self) -> RunRecord:
        """The record that replay_groups left; UsageError when the folder holds none."""
        path = self.root / "run.json"
        try:
            return RunRecord.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError("no run here", where=path, fix="run replay_groups on this folder first") from None
        except ValidationError as error:
            raise UsageError(f"not a run record: {error.errors()[0]['msg']}", where=path) from None

    def write_run(self, record: RunRecord) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        write_bytes(self.root / "run.json", record.model_dump_json(indent=2).encode())

    def write_table(self, record: RunRecord, table: str, rows: pa.Table, log_partition: int = WHOLE_RUN) -> int:
        """Write the rows of one log partition, completed by the run's columns and cast to the declared schema."""
        schema = TABLES[table].arrow_schema(with_run=True)
        if not rows.num_rows:
            write_parquet(self.table_file(table, log_partition), schema.empty_table())
            return 0
        run_columns: dict[str, Any] = {
            "cluster_id": record.cluster_id,
            "as_of_ms": record.as_of_ms,
            "run_id": record.run_id,
        }
        columns = [
            pa.repeat(pa.scalar(run_columns[field.name], field.type), rows.num_rows)
            if field.name in run_columns
            else cast(rows.column(field.name), field.type)
            for field in schema
        ]
        write_parquet(self.table_file(table, log_partition), pa.table(columns, schema=schema))
        return int(rows.num_rows)

    def write_internal(self, name: str, rows: pa.Table, log_partition: int) -> None:
        """Write rows that only later stages read."""
        write_parquet(self.internal_file(name, log_partition), rows)

    def read_internal(self, name: str, log_partition: int) -> pa.Table:
        return pq.read_table(self.internal_file(name, log_partition), partitioning=None)

    def internal_file(self, name: str, log_partition: int) -> Path:
        return self.root / "internal" / name / f"{log_partition}.parquet"

    def read_table(self, table: str, log_partition: int, columns: list[str] | None = None) -> pa.Table:
        return pq.read_table(self.table_file(table, log_partition), columns=columns, partitioning=None)


def snapshot_cluster(run_dir: Path) -> str | None:
    """The cluster that the run's snapshot_log copied from, by that job's outcome; None without one."""
    try:
        outcome = json.loads((run_dir / "outcome" / "snapshot_log.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = outcome.get("cluster_id") if isinstance(outcome, dict) else None
    return found if isinstance(found, str) else None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: readers never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


def write_parquet(path: Path, table: pa.Table) -> None:
    """As `write_bytes`, for a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    write_table(table, part)
    part.replace(path)


def tree_sha256(root: Path) -> str:
    """SHA-256 over the names and bytes of every file below `root`, in name order."""
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
