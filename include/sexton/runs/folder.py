"""A run folder: what the stages of one run pass to each other, and what `sexton audit --out DIR` leaves.

It is a folder or a URI: driver and executors read and write it from any machine.

    DIR/run.json                              RunRecord, written by replay_groups, completed by later stages
    DIR/<table>/<log_partition>.parquet       one file per table and log partition (0.parquet for the whole-run tables)
    DIR/<table>/<log_partition>-<bucket>.parquet    instead, for each bucket of a log partition with very many keys
    DIR/fold/<log_partition>[-<bucket>]/      the checkpoint: the finished fold of that log partition
    DIR/internal/                             read by later stages only
    DIR/batches/<log_partition>.log           the plan as Kafka record batches
    DIR/dq/  DIR/report.html  DIR/summary.json
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton import __version__
from sexton.archive.files import read_json
from sexton.archive.folder import Folder
from sexton.archive.log_position import LogPosition
from sexton.coordinator.api.configs import Recorded
from sexton.errors import UndecodableInput, UsageError
from sexton.kernels.parquet import cast, parquet_file
from sexton.tables import COMMITTED_OFFSETS, TABLES
from sexton.tables.table import Column, Origin, Table, is_filled

LOG_OFFSET = COMMITTED_OFFSETS.column("log_offset")
_KEPT_BYTES = 512 * 1024 * 1024
WHOLE_RUN = 0
"""File stem of tables that are not split by log partition."""
SHARDED = (
    *("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "members"),
    *("offset_verdicts", "tombstones", "expiry_forecast"),
)
"""Tables with rows per group: a log partition has one file per shard."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """The unit of work of a task: a log partition, or a bucket of one with very many keys (kernels.buckets)."""

    log_partition: int
    bucket: int | None = None

    def __str__(self) -> str:
        """The name of its files and folders."""
        return str(self.log_partition) if self.bucket is None else f"{self.log_partition}-{self.bucket:04d}"

    @property
    def is_first(self) -> bool:
        """Whether it has the rows that a log partition has only once."""
        return not self.bucket


def shards_of(log_partition: int, bounds: Sequence[str]) -> list[Shard]:
    """The shards of a log partition; all buckets but the first start at `bounds`."""
    if not bounds:
        return [Shard(log_partition)]
    return [Shard(log_partition, bucket) for bucket in range(len(bounds) + 1)]


class ReplicaCounts(BaseModel):
    """Counts of an audit of the brokers' replicas (tables replica_state and replica_differences).

    `kinds` counts, by kind of difference, groups and offsets that differ after any change of leader. `wrong` counts
    them by replica that must not lead; a row with several wrong replicas counts for each. `behind` counts those that
    differ only after an unclean election. `statuses` counts replicas.
    """

    model_config = ConfigDict(frozen=True)

    as_of_ms: int
    log_partitions: int
    statuses: dict[str, int]
    kinds: dict[str, int]
    wrong: dict[str, int]
    behind: int


class TransactionCounts(BaseModel):
    """Counts of an audit of transactions (table transactions).

    `verdicts` counts open transactions that pin offsets, by verdict; `overdue` of them should have ended. Hanging
    transactions pin offsets of `hanging_groups` groups, `hanging_offsets` in all; the oldest has been open since
    `hanging_since_ms`.
    """

    model_config = ConfigDict(frozen=True)

    as_of_ms: int
    verdicts: dict[str, int]
    overdue: int
    hanging_groups: int
    hanging_offsets: int
    hanging_since_ms: int | None

    @property
    def hanging(self) -> int:
        return self.verdicts.get("hanging", 0)


class LagCounts(BaseModel):
    """Counts of an audit of lag (table time_lag) for the `offsets` of the run at `as_of_ms`: the largest lag that is
    certain, how many offsets lose unread messages within a day of the run, and how many would reset, by reason."""

    model_config = ConfigDict(frozen=True)

    as_of_ms: int
    offsets: int
    longest_ms: int
    losing: int
    losing_groups: int
    resets: dict[str, int]


PARTITION_COUNT_CHANGED = "partition_count_changed"
"""Why a group lost its offsets: the partition count changed, and clients use another log partition now."""


class LostGroups(BaseModel):
    """Groups that have only misplaced offsets: `groups` groups with `offsets` offsets.

    `first` maps the first of these groups to the log partitions that have their offsets. `earlier_count` is the topic's
    earlier partition count, None unless exactly one explains these log partitions. `not_here` maps groups of `first` to
    the log partition that they hash to, if it is not in the input and so may have newer offsets.
    """

    model_config = ConfigDict(frozen=True)

    cause: str = PARTITION_COUNT_CHANGED
    earlier_count: int | None
    groups: int
    offsets: int
    first: dict[str, list[int]]
    not_here: dict[str, int] = {}


class RunRecord(BaseModel):
    """The input and the findings of one run; the single source for later stages, summary.json and `runs`."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    cluster_id: str = "unknown"
    topic_id: str = "unknown"
    as_of_ms: int
    taken_at_ms: int
    profile: str
    profile_source: str = "asked for"
    profile_doubts: list[str] = Field(default_factory=list)
    """What contradicts the profile; also in `warnings`."""
    retention_ms: int
    retention_source: str
    broker_retention_ms: int | None = None
    """The broker's own retention, where it was recorded."""
    source: str
    log_dirs: list[str] = Field(default_factory=list)
    """Log directories of the broker, if `source` has several."""
    partition_count: int | None
    partition_count_warnings: list[str] = Field(default_factory=list)
    """Why the partition count is assumed or unknown, if nothing proves it; also in `warnings`."""
    log_partitions: list[int]
    missing_log_partitions: list[int] = Field(default_factory=list)
    cuts: dict[int, int] = Field(default_factory=dict)
    """Log partition -> log_offset where reading stopped."""
    bounds: dict[int, list[str]] = Field(default_factory=dict)
    """Log partition with several buckets -> the group ids at which all buckets but the first begin."""
    positions: dict[int, LogPosition] = Field(default_factory=dict)
    """Log partition -> the position in the archive where reading stopped."""
    coverage: str = "complete"
    coverage_reason: str = ""
    origins: tuple[Origin, ...] = ("log",)
    """The evidence that fills the run's columns and tables (Column.known_from)."""
    admin_snapshot_sha256: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each file of the admin snapshot that a run with coverage `admin` reads."""
    has_topics: bool = False
    topics_at_ms: int | None = None
    """When the topics were recorded; None if they come from a file."""
    sees_all_topics: bool | None = None
    """Whether a topic that is not listed does not exist."""
    misplaced_sources: dict[int, list[int]] = Field(default_factory=dict)
    """Log partition -> other log partitions with groups that hash to it and are served from there."""
    unloadable: list[int] = Field(default_factory=list)
    """Log partitions whose load would fail or never end."""
    lost: LostGroups | None = None
    """Groups that lost their offsets when the partition count changed."""
    blocked: dict[int, str] = Field(default_factory=dict)
    """Log partition -> why nothing is planned for it."""
    engine: str | None = None
    """The engine of the replay: spark or local."""
    checkpoint_sha256: str | None = None
    base_as_of_ms: int | None = None
    """The instant of the checkpoint that the replay continued from."""
    inflated_cap_bytes: int | None = None
    max_message_bytes: int | None = None
    """max.message.bytes of the offsets topic, where it was recorded."""
    broker_settings: dict[str, str] = Field(default_factory=dict)
    """Settings of the broker, as recorded."""
    topic_settings: dict[str, str] = Field(default_factory=dict)
    """Settings of the offsets topic, as recorded."""
    leaders: dict[int, int] = Field(default_factory=dict)
    """Log partition -> the broker that led it, as recorded."""
    changes_since_ms: int | None = None
    """Beginning of the interval of offset_changes."""
    plan_id: str | None = None
    plan_sha256: str | None = None
    """SHA-256 of the plan.json that is kept in the archive."""
    policy_sha256: str | None = None
    policy: str | None = None
    """The policy of the verdicts, as canonical JSON."""
    replicas: ReplicaCounts | None = None
    """Counts of the newest audit of replicas at as_of, if the lake has one."""
    transactions: TransactionCounts | None = None
    """Counts of the newest audit of transactions at as_of, if the lake has one."""
    lag: LagCounts | None = None
    """Counts of the newest audit of lag of an earlier run, if the lake has one."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Table -> rows."""
    warnings: list[str] = Field(default_factory=list)
    code_version: str = __version__

    @property
    def shards(self) -> list[Shard]:
        """The shards of all log partitions, in order of log partition and group id."""
        return [shard for part in self.log_partitions for shard in shards_of(part, self.bounds.get(part, ()))]

    def knows(self, declared: Column | Table) -> bool:
        """Whether the evidence of this run can fill a column or table."""
        return is_filled(declared.known_from, self.origins)

    @property
    def knows_places(self) -> bool:
        """Whether the log position of each row is known."""
        return self.knows(LOG_OFFSET)

    @property
    def exit_code(self) -> int:
        """Exit code of a command or job that reads the run: 5 if some input could not be decoded or loaded, else 0."""
        return UndecodableInput.exit_code if self.counts.get("undecodable_records") or self.unloadable else 0

    @property
    def recorded(self) -> Recorded:
        """The settings of brokers and offsets topic that the snapshot recorded."""
        return Recorded(
            broker_settings=self.broker_settings,
            topic_settings=self.topic_settings,
            max_message_bytes=self.max_message_bytes,
            leaders=self.leaders,
        )


class RunFolder(Folder):
    """The files of one run. With `keeps_tables`, tables written by this process stay in memory if there is room."""

    def __init__(
        self, root: Path | str, *names: str, fs: pafs.FileSystem | None = None, keeps_tables: bool = False
    ) -> None:
        super().__init__(root, *names, fs=fs)
        self._kept: dict[tuple[str, ...], pa.Table] = {}
        self._room_bytes = _KEPT_BYTES if keeps_tables else 0

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the tables in memory: another process reads the files."""
        return {**self.__dict__, "_kept": {}, "_room_bytes": 0}

    def fold(self, shard: Shard) -> Folder:
        """The folder of a shard's checkpoint."""
        return self.sub("fold", str(shard))

    def size_bytes(self, *tables: str) -> int:
        """Bytes of some tables' files in this run: the amount of work for a stage that reads them."""
        return sum(sum(self.sub(table).sizes().values()) for table in tables)

    def reset(self) -> None:
        """Remove the files of an earlier attempt, so that none is taken for a file of this run."""
        files = ("run.json", "report.html", "summary.json")
        for name in (*TABLES, "internal", "fold", "partial", "batches", "dq", *files):
            self.remove(name)

    def read_run(self) -> RunRecord:
        """The record that replay_groups wrote; UsageError if the folder has none."""
        where = self.sub("run.json")
        if not self.exists("run.json"):
            raise UsageError("no run here", where=where, fix="run replay_groups on this folder first")
        try:
            return RunRecord.model_validate_json(self.read("run.json"))
        except ValidationError as error:
            raise UsageError(f"not a run record: {error.errors()[0]['msg']}", where=where) from None

    def write_run(self, record: RunRecord) -> None:
        self.write(record.model_dump_json(indent=2).encode(), "run.json")

    def write_tables(
        self, record: RunRecord, tables: Mapping[str, pa.Table], shard: Shard | int = WHOLE_RUN
    ) -> Counter[str]:
        """Write the declared tables of a log partition or shard; return rows by table. Other tables are for later
        stages only."""
        counts = Counter[str]()
        for name, rows in tables.items():
            if name in TABLES:
                counts[name] = self.write_table(record, name, rows, shard)
            else:
                self._write(rows, "internal", name, f"{shard}.parquet")
        return counts

    def write_table(self, record: RunRecord, table: str, rows: pa.Table, shard: Shard | int = WHOLE_RUN) -> int:
        """Write rows of a log partition or shard, with the run's columns and the log partition added, cast to the
        declared schema. Columns that only the log or only admin snapshots can fill are NULL if `rows` lack them."""
        schema = TABLES[table].arrow_schema(with_run=True)
        if not rows.num_rows:
            self.write_rows(schema.empty_table(), table, shard)
            return 0
        here = set(rows.column_names)
        same: dict[str, Any] = {name: getattr(record, name) for name in ("cluster_id", "as_of_ms", "run_id")}
        if "log_partition" not in here:
            same["log_partition"] = shard.log_partition if isinstance(shard, Shard) else shard
        unfilled = {column.name for column in TABLES[table].columns if column.known_from is not None} - here
        columns = [
            pa.repeat(pa.scalar(same[field.name], field.type), rows.num_rows)
            if field.name in same
            else pa.nulls(rows.num_rows, field.type)
            if field.name in unfilled
            else cast(rows.column(field.name), field.type)
            for field in schema
        ]
        self.write_rows(pa.table(columns, schema=schema), table, shard)
        return int(rows.num_rows)

    def write_rows(self, rows: pa.Table, table: str, shard: Shard | int = WHOLE_RUN) -> None:
        """Write rows unchanged."""
        self._write(rows, table, f"{shard}.parquet")

    def read_table(self, table: str, shard: Shard | int, columns: list[str] | None = None) -> pa.Table:
        """The rows of a shard, or of all shards of a log partition, in order."""
        try:
            return self._read(columns, table, f"{shard}.parquet")
        except FileNotFoundError:
            buckets = self._buckets(table, shard)
            if not buckets:
                raise
            return pa.concat_tables([self.read_table(table, bucket, columns) for bucket in buckets])

    def shards_in(self, table: str, log_partition: int) -> list[Shard]:
        """The shards of a log partition that have a file of a table."""
        whole = Shard(log_partition)
        return [whole] if self.exists(table, f"{whole}.parquet") else self._buckets(table, log_partition)

    def _buckets(self, table: str, shard: Shard | int) -> list[Shard]:
        names = (re.fullmatch(r"(\d+)-(\d+)\.parquet", name) for name in self.sub(table).files())
        found = (Shard(int(name[1]), int(name[2])) for name in names if name)
        return sorted(each for each in found if each.log_partition == shard)

    def write_internal(self, name: str, rows: pa.Table, shard: Shard) -> None:
        """Write rows for later stages only."""
        self._write(rows, "internal", name, f"{shard}.parquet")

    def read_internal(self, name: str, shard: Shard, columns: list[str] | None = None) -> pa.Table:
        return self._read(columns, "internal", name, f"{shard}.parquet")

    def _write(self, rows: pa.Table, *names: str) -> None:
        self.write(parquet_file(rows), *names)
        if self._room_bytes > rows.nbytes:
            self._room_bytes -= rows.nbytes
            self._kept[names] = rows
        else:
            self._kept.pop(names, None)

    def _read(self, columns: list[str] | None, *names: str) -> pa.Table:
        if names in self._kept:
            rows = self._kept[names]
            return rows if columns is None else rows.select(columns)
        with self.open(*names) as file:
            return pq.ParquetFile(file, pre_buffer=True).read(columns=columns)

    def remove(self, *names: str) -> None:
        self._kept = {kept: rows for kept, rows in self._kept.items() if kept[: len(names)] != names}
        super().remove(*names)


def snapshot_cluster(folder: RunFolder) -> str | None:
    """The cluster that the run's snapshot_log copied, from the outcome of that job; None without one."""
    try:
        found = read_json(folder.fs, folder.path("outcome", "snapshot_log.json")).get("cluster_id")
    except (UsageError, OSError):
        return None
    return found if isinstance(found, str) else None


def files_sha256(hashes: Mapping[str, str]) -> str:
    """SHA-256 over file names and their SHA-256s, in order of names."""
    digest = hashlib.sha256()
    for name, sha256 in sorted(hashes.items(), key=lambda item: item[0].split("/")):
        digest.update(name.encode() + b"\0" + bytes.fromhex(sha256))
    return digest.hexdigest()
