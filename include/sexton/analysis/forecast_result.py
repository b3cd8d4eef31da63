"""Reads the forecast of a run from its folder or from the published tables; forecast.py computes its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast import TABLE, VERDICT, going_of, write_forecast
from sexton.analysis.sweep_clock import SweepClock, clock_of_leader, gone
from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.folder import filesystem
from sexton.archive.leader_epochs import led_from
from sexton.coordinator.api.abandonment import Abandonment, abandonment
from sexton.coordinator.api.tables_view import TABLES as HELD_TABLES
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.expiry import CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS, SweepBlock, block_in
from sexton.coordinator.profiles import profile_of
from sexton.errors import SextonError, UsageError
from sexton.history.interval_counts import SWEEPS
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.judging import check_interval_ms, read_held
from sexton.settings import settings
from sexton.tables import TABLES, interval_tables
from sexton.tables.expiry_forecast import HORIZON_DAYS
from sexton.verdicts.keeping import ALIVE

UNNAMED_RULE = "policy"
_OFFSET = ["group_id", "topic", "partition", "committed_offset", "log_partition"]
_HELD = ("committed_offsets", "unreachable_offsets")
_SWEEP = ["log_partition", "first_log_offset", "started_at_ms", "certain_offsets"]
_RUNS_WITH_SWEEPS = 24
"""Maximum number of published runs from which observed sweeps are read."""
_VERDICT = [
    *("group_id", "topic", "partition", "broker_verdict", "broker_reason", "broker_expires_at_ms", "policy_verdict"),
    *("policy_reason", "policy_rule", "policy_expires_at_ms", "orphan", "pinned_by_producer_id", "changes_by"),
    *("log_partition", "kept_until_ms", "keep_status"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Deletions within a number of days for one cause: offsets, their groups, and the groups deleted entirely."""

    days: int
    by: str
    offsets: int
    groups: int
    whole_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForecast:
    """The forecast of an offset. `expires_at_ms` and `by` are None if time alone does not expire it; `changes_by` then
    names the event that would (offset_verdicts). `by` is `policy` for a rule that applies only later.

    The broker removes an expired offset at its next sweep (sweep_clock): expected at `gone_ms` (None if no sweep of the
    log partition was observed), and between `gone_from_ms` and `gone_until_ms` unless the log partition is loaded again
    before that. Until `kept_until_ms` a hold keeps the offset alive (`sexton keep`), so `expires_at_ms` is not earlier.
    """

    topic: str
    partition: int
    committed_offset: int | None
    expires_at_ms: int | None
    by: str | None
    reason: str
    changes_by: str | None
    gone_ms: int | None = None
    gone_from_ms: int | None = None
    gone_until_ms: int | None = None
    kept_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastResult:
    """The forecast of a run: `rows` are those of expiry_forecast, without the run's columns."""

    cluster_id: str
    as_of_ms: int
    retention_ms: int
    profile: str
    policy_sha256: str | None
    rows: pa.Table

    def horizons(self) -> list[Horizon]:
        """Sums by horizon and cause. A group that loses offsets to both the broker and a rule counts for each."""
        rows = self.rows.append_column("whole", self.rows["is_whole_group"].cast(pa.int64()))
        counted = [("offset_count", "sum"), ("group_id", "count"), ("whole", "sum")]
        found = [
            Horizon(
                days=row["horizon_days"],
                by=row["by"],
                offsets=row["offset_count_sum"],
                groups=row["group_id_count"],
                whole_groups=row["whole_sum"],
            )
            for row in rows.group_by(["horizon_days", "by"]).aggregate(counted).to_pylist()
        ]
        return sorted(found, key=lambda one: (one.days, one.by))

    def groups(self) -> list[dict[str, Any]]:
        """Each group with its losses within each horizon, the earliest loss first."""
        by_group: dict[tuple[int, str], dict[str, Any]] = {}
        for row in self.rows.to_pylist():
            key = (row["log_partition"], row["group_id"])
            own = by_group.setdefault(
                key,
                {
                    "group_id": row["group_id"],
                    **{f"within_{days}_days": 0 for days in HORIZON_DAYS},
                    "whole_within_days": None,
                    "first_expires_at_ms": row["first_expires_at_ms"],
                    "by": set(),
                },
            )
            own[f"within_{row['horizon_days']}_days"] += row["offset_count"]
            own["first_expires_at_ms"] = min(own["first_expires_at_ms"], row["first_expires_at_ms"])
            own["by"].add(row["by"])
            if row["is_whole_group"]:
                own["whole_within_days"] = min(own["whole_within_days"] or row["horizon_days"], row["horizon_days"])
        found = [{**own, "by": sorted(own["by"])} for own in by_group.values()]
        return sorted(found, key=lambda own: (own["first_expires_at_ms"], own["group_id"]))


class RunTables(Protocol):
    """The tables of a run, in a folder or in the lake."""

    @property
    def as_of_ms(self) -> int: ...
    @property
    def row(self) -> Mapping[str, Any]:
        """cluster_id, topic_id, retention_ms, profile and policy_sha256 of the run."""

    def read(self, name: str, columns: Sequence[str] | None = None, *, group_id: str | None = None) -> pa.Table:
        """The rows of a table, of one group or of all; UsageError if the run has no forecast."""

    def blocks(self) -> dict[int, SweepBlock]:
        """Log partition -> why the broker's sweep of it fails, for those where it fails."""
        rows = self.read("load_profile").to_pylist()  # none in a run by Admin API
        return {row["log_partition"]: block for row in rows if (block := block_in(row)) is not None}

    def check_interval_ms(self) -> int:
        """The broker's sweep interval as recorded, else Kafka's default."""

    def sweeps(self) -> "Sweeps":
        """Observed sweeps by log partition (expiry_sweeps), from the run and, in the lake, earlier runs."""

    def sweep_rows(self) -> pa.Table:
        """The run's own rows of expiry_sweeps; empty for a run without an interval."""


@dataclass(frozen=True, slots=True)
class FolderTables(RunTables):
    """The tables of a run folder."""

    folder: RunFolder
    record: RunRecord

    @property
    def as_of_ms(self) -> int:
        return self.record.as_of_ms

    @property
    def row(self) -> Mapping[str, Any]:
        return self.record.model_dump(include={"cluster_id", "topic_id", "retention_ms", "profile", "policy_sha256"})

    def read(self, name: str, columns: Sequence[str] | None = None, *, group_id: str | None = None) -> pa.Table:
        names = None if columns is None else list(columns)
        try:
            parts = [self.folder.read_table(name, part, names) for part in self.record.log_partitions]
        except FileNotFoundError:
            raise UsageError(f"no {name} here", where=self.folder, fix="run plan_tombstones on this folder") from None
        empty = TABLES[name].arrow_schema(with_run=True).empty_table()
        found = parts or [empty if names is None else empty.select(names)]
        return pa.concat_tables([_of_group(part, group_id) for part in found])

    def check_interval_ms(self) -> int:
        return check_interval_ms(self.record)

    def sweeps(self) -> "Sweeps":
        return _sweeps_in([self.sweep_rows()])

    def sweep_rows(self) -> pa.Table:
        if self.record.changes_since_ms is None or TABLES[SWEEPS] not in interval_tables(self.record.origins):
            return TABLES[SWEEPS].arrow_schema(with_run=True).empty_table()
        return self.read(SWEEPS)


@dataclass(frozen=True, slots=True)
class LakeTables(RunTables):
    """The tables of a published run."""

    lake: Lake
    run: PublishedRun

    @property
    def as_of_ms(self) -> int:
        return self.run.key.as_of_ms

    @property
    def row(self) -> Mapping[str, Any]:
        return {**self.run.row, "cluster_id": self.run.key.cluster_id}

    def read(self, name: str, columns: Sequence[str] | None = None, *, group_id: str | None = None) -> pa.Table:
        if name == TABLE and TABLE not in self.run.snapshots:
            raise UsageError(
                f"the run of {self.as_of_ms} ms was published without a forecast",
                fix="pass --archive, or use a newer run",
            )
        names = None if columns is None else list(columns)
        return _of_group(read_published(self.lake, self.run, name, names), group_id)

    def check_interval_ms(self) -> int:
        fs, root = filesystem(settings().archive_uri)
        try:
            found = newest_metadata(fs, root, cluster_id=self.run.key.cluster_id, at_ms=self.as_of_ms)
        except (SextonError, OSError):  # the lake alone is enough to read
            found = None
        return int((found.settings if found else {}).get(CHECK_INTERVAL) or DEFAULT_CHECK_INTERVAL_MS)

    def sweeps(self) -> "Sweeps":
        runs = published_runs(self.lake, self.run.key.cluster_id)
        mine = [each for each in runs if each.key.as_of_ms <= self.as_of_ms and SWEEPS in each.snapshots]
        return _sweeps_in([read_published(self.lake, each, SWEEPS, _SWEEP) for each in mine[-_RUNS_WITH_SWEEPS:]])

    def sweep_rows(self) -> pa.Table:
        if SWEEPS not in self.run.snapshots:
            return TABLES[SWEEPS].arrow_schema(with_run=True).empty_table()
        return read_published(self.lake, self.run, SWEEPS)


Sweeps = dict[int, list[tuple[int, int]]]
"""Log partition -> (log_offset of the first tombstone, start in ms) of each sweep."""


def _clock(tables: RunTables, sweeps: Sweeps, log_partition: int, check_interval_ms: int) -> SweepClock | None:
    """The sweep clock of a log partition: from the sweeps of its current leader if the archive shows since when it has
    led, else from all sweeps. None without a sweep."""
    seen = sweeps.get(log_partition)
    if not seen:
        return None
    fs, root = filesystem(settings().archive_uri)
    try:
        row, back_to = tables.row, min(at for at, _ in seen)
        found = led_from(
            fs, root, row["cluster_id"], row["topic_id"], log_partition, as_of_ms=tables.as_of_ms, back_to=back_to
        )
    except (SextonError, OSError):  # the tables alone are enough to read
        found = None
    return clock_of_leader(seen, led_from=found and found[1], check_interval_ms=check_interval_ms)


def _sweeps_in(tables: Sequence[pa.Table]) -> Sweeps:
    """The certain sweeps in rows of expiry_sweeps, by log partition."""
    found: Sweeps = {}
    for row in (row for table in tables for row in table.to_pylist()):
        if row["certain_offsets"] and row["started_at_ms"] is not None:
            found.setdefault(row["log_partition"], []).append((row["first_log_offset"], row["started_at_ms"]))
    return found


def _of_group(rows: pa.Table, group_id: str | None) -> pa.Table:
    return rows if group_id is None else rows.filter(pc.equal(rows["group_id"], group_id))


def forecast_of(tables: RunTables) -> ForecastResult:
    """The forecast of a run; UsageError if the run has none."""
    schema = TABLES[TABLE].arrow_schema(with_run=False)
    row = tables.row
    return ForecastResult(
        cluster_id=row["cluster_id"],
        as_of_ms=tables.as_of_ms,
        retention_ms=row["retention_ms"],
        profile=row["profile"],
        policy_sha256=row["policy_sha256"],
        rows=tables.read(TABLE, schema.names).cast(schema),
    )


def forecast_folder(folder: RunFolder, record: RunRecord) -> ForecastResult:
    """Write the forecast of a judged run folder, and return it."""
    for shard in record.shards:
        verdicts = folder.read_table("offset_verdicts", shard, list(VERDICT))
        write_forecast(folder, record, shard, verdicts, read_held(folder, shard), folder.read_table("groups", shard))
    return forecast_of(FolderTables(folder, record))


def abandonment_of(tables: RunTables, group_id: str) -> Abandonment | None:
    """The consequences if a group's members never return after a load at the run's instant; None without members."""
    held = {name: tables.read(name, group_id=group_id) for name in HELD_TABLES}
    members = held["groups"]["member_count"].to_pylist()
    if not any(members):
        return None
    row = tables.row
    return abandonment(
        TablesView(held),
        group_id,
        loaded_at_ms=tables.as_of_ms,
        retention_ms=row["retention_ms"],
        profile=profile_of(row["profile"]),
        block=tables.blocks().get(held["groups"]["log_partition"].to_pylist()[0]),
    )


def offsets_of(tables: RunTables, group_id: str) -> list[OffsetForecast]:
    """The forecast of each offset of a group, the soonest first."""
    own = tables.read("offset_verdicts", _VERDICT, group_id=group_id)
    values = pa.concat_tables([tables.read(name, _OFFSET, group_id=group_id) for name in _HELD])
    committed = {
        (row["log_partition"], row["topic"], row["partition"]): row["committed_offset"] for row in values.to_pylist()
    }
    going = {
        row["row"]: row
        for row in going_of(own, as_of_ms=tables.as_of_ms, profile=profile_of(tables.row["profile"])).to_pylist()
    }
    sweeps, check_interval_ms = tables.sweeps(), tables.check_interval_ms()
    clocks = {
        part: _clock(tables, sweeps, part, check_interval_ms) for part in own["log_partition"].unique().to_pylist()
    }
    found = []
    for number, row in enumerate(own.to_pylist()):
        goes = going.get(number)
        by = None if goes is None else goes["by"] or UNNAMED_RULE
        whose = "policy" if by not in (None, "broker") and row["policy_reason"] else "broker"
        swept = None
        if goes is not None and by == "broker":
            swept = gone(
                clocks[row["log_partition"]], max(goes["at_ms"], tables.as_of_ms), check_interval_ms=check_interval_ms
            )
        found.append(
            OffsetForecast(
                topic=row["topic"],
                partition=row["partition"],
                committed_offset=committed.get((row["log_partition"], row["topic"], row["partition"])),
                expires_at_ms=None if goes is None else goes["at_ms"],
                by=by,
                reason=row[f"{whose}_reason"],
                changes_by=row["changes_by"],
                gone_ms=None if swept is None else swept.expected_ms,
                gone_from_ms=None if swept is None else swept.earliest_ms,
                gone_until_ms=None if swept is None else swept.latest_ms,
                kept_until_ms=row["kept_until_ms"] if row["keep_status"] in ALIVE.to_pylist() else None,
            )
        )
    return sorted(found, key=lambda one: (one.expires_at_ms is None, one.expires_at_ms, one.topic, one.partition))
