"""The forecast of a run, wherever the run is: in a folder, or among the published tables.

Forecasts are made with the run (forecast.py); here they are read, with the offsets behind them for one group.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast import TABLE, going_of, write_forecast
from sexton.coordinator.api.abandonment import Abandonment, abandonment
from sexton.coordinator.api.tables_view import TABLES as HELD_TABLES
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.expiry import SweepBlock, block_in
from sexton.coordinator.profiles import profile_of
from sexton.errors import UsageError
from sexton.history.published_story import block_of
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, read_published
from sexton.runs.folder import RunFolder, RunRecord
from sexton.tables import TABLES
from sexton.tables.offset_verdicts import HORIZON_DAYS

UNNAMED_RULE = "policy"
_OFFSET = ["group_id", "topic", "partition", "committed_offset", "log_partition"]
_HELD = ("committed_offsets", "unreachable_offsets")
_VERDICT = [
    "group_id",
    "topic",
    "partition",
    "broker_verdict",
    "broker_reason",
    "broker_expires_at_ms",
    "policy_verdict",
    "policy_reason",
    "policy_rule",
    "policy_expires_at_ms",
    "orphan",
    "pinned_by_producer_id",
    "changes_by",
    "log_partition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What goes within some days for one cause: offsets of groups, and the groups of which nothing is left."""

    days: int
    by: str
    offsets: int
    groups: int
    whole_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForecast:
    """What is to come of an offset. `expires_at_ms` and `by` are None where time alone does not let it go; then
    `changes_by` says what would (offset_verdicts). A rule that takes it only later is told as `policy`."""

    topic: str
    partition: int
    committed_offset: int | None
    expires_at_ms: int | None
    by: str | None
    reason: str
    changes_by: str | None


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
        """Sums by horizon and cause. A group that both the broker and a rule take from counts for each."""
        sums = self.rows.group_by(["horizon_days", "by"]).aggregate([("offset_count", "sum"), ("group_id", "count")])
        whole = (
            self.rows.filter(self.rows["is_whole_group"])
            .group_by(["horizon_days", "by"])
            .aggregate([([], "count_all")])
        )
        gone = {(row["horizon_days"], row["by"]): row["count_all"] for row in whole.to_pylist()}
        found = [
            Horizon(
                days=row["horizon_days"],
                by=row["by"],
                offsets=row["offset_count_sum"],
                groups=row["group_id_count"],
                whole_groups=gone.get((row["horizon_days"], row["by"]), 0),
            )
            for row in sums.to_pylist()
        ]
        return sorted(found, key=lambda one: (one.days, one.by))

    def groups(self) -> list[dict[str, Any]]:
        """Each group with what it loses within each horizon, by when the first of it goes."""
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


def forecast_of_folder(folder: RunFolder, record: RunRecord) -> ForecastResult:
    """The forecast that a run folder holds; UsageError where the run came not that far."""
    names = list(TABLES[TABLE].column_names)
    try:
        parts = [folder.read_table(TABLE, part, names) for part in record.log_partitions]
    except FileNotFoundError:
        raise UsageError("no forecast here", where=folder.root, fix="run plan_tombstones on this folder") from None
    schema = TABLES[TABLE].arrow_schema(with_run=False)
    return ForecastResult(
        cluster_id=record.cluster_id,
        as_of_ms=record.as_of_ms,
        retention_ms=record.retention_ms,
        profile=record.profile,
        policy_sha256=record.policy_sha256,
        rows=pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)]),
    )


def forecast_folder(folder: RunFolder, record: RunRecord) -> ForecastResult:
    """Forecast a judged run folder, and tell it."""
    for part in record.log_partitions:
        write_forecast(folder, record, part)
    return forecast_of_folder(folder, record)


def forecast_of_lake(lake: Lake, run: PublishedRun) -> ForecastResult:
    """The forecast that a run was published with; UsageError where it was published before there were any."""
    if TABLE not in run.snapshots:
        raise UsageError(
            f"the run of {run.key.as_of_ms} ms was published without a forecast", fix="ask --archive, or a newer run"
        )
    return ForecastResult(
        cluster_id=run.key.cluster_id,
        as_of_ms=run.key.as_of_ms,
        retention_ms=run.row["retention_ms"],
        profile=run.row["profile"],
        policy_sha256=run.row["policy_sha256"],
        rows=read_published(lake, run, TABLE, list(TABLES[TABLE].column_names)),
    )


def offsets_of_folder(folder: RunFolder, record: RunRecord, group_id: str) -> list[OffsetForecast]:
    """What is to come of each offset of a group, soonest first."""
    verdicts = [folder.read_table("offset_verdicts", part, _VERDICT) for part in record.log_partitions]
    offsets = [folder.read_table(name, part, _OFFSET) for part in record.log_partitions for name in _HELD]
    return _offsets(verdicts, offsets, group_id, as_of_ms=record.as_of_ms, profile=record.profile)


def offsets_of_lake(lake: Lake, run: PublishedRun, group_id: str) -> list[OffsetForecast]:
    """As `offsets_of_folder`, of a published run."""
    verdicts = read_published(lake, run, "offset_verdicts", _VERDICT)
    offsets = [read_published(lake, run, name, _OFFSET) for name in _HELD]
    return _offsets([verdicts], offsets, group_id, as_of_ms=run.key.as_of_ms, profile=run.row["profile"])


def abandonment_of_folder(folder: RunFolder, record: RunRecord, group_id: str) -> Abandonment | None:
    """What follows when a group's members never come back after a load at the run's instant; None without members."""
    for part in record.log_partitions:
        groups = folder.read_table("groups", part, ["group_id", "member_count"])
        own = groups.filter(pc.equal(groups["group_id"], group_id))
        if own.num_rows and own["member_count"][0].as_py():
            tables = {name: folder.read_table(name, part) for name in HELD_TABLES}
            block = block_in(folder.read_table("load_profile", part).to_pylist()[0])
            return _abandonment(
                tables, group_id, record.as_of_ms, retention_ms=record.retention_ms, profile=record.profile, block=block
            )
    return None


def abandonment_of_lake(lake: Lake, run: PublishedRun, group_id: str) -> Abandonment | None:
    """As `abandonment_of_folder`, of a published run."""
    tables = {}
    for name in HELD_TABLES:
        rows = read_published(lake, run, name)
        tables[name] = rows.filter(pc.equal(rows["group_id"], group_id))
    homes = tables["groups"]["log_partition"].to_pylist()
    return _abandonment(
        tables,
        group_id,
        run.key.as_of_ms,
        retention_ms=run.row["retention_ms"],
        profile=run.row["profile"],
        block=block_of(lake, run, homes[0]) if homes else None,
    )


def _abandonment(
    tables: dict[str, pa.Table],
    group_id: str,
    as_of_ms: int,
    *,
    retention_ms: int,
    profile: str,
    block: SweepBlock | None,
) -> Abandonment | None:
    return abandonment(
        TablesView(tables),
        group_id,
        loaded_at_ms=as_of_ms,
        retention_ms=retention_ms,
        profile=profile_of(profile),
        block=block,
    )


def _offsets(
    verdicts: list[pa.Table], offsets: list[pa.Table], group_id: str, *, as_of_ms: int, profile: str
) -> list[OffsetForecast]:
    own = pa.concat_tables([rows.filter(pc.equal(rows["group_id"], group_id)) for rows in verdicts])
    values = pa.concat_tables([rows.filter(pc.equal(rows["group_id"], group_id)) for rows in offsets])
    committed = {
        (row["log_partition"], row["topic"], row["partition"]): row["committed_offset"] for row in values.to_pylist()
    }
    going = {row["row"]: row for row in going_of(own, as_of_ms=as_of_ms, profile=profile_of(profile)).to_pylist()}
    found = []
    for number, row in enumerate(own.to_pylist()):
        goes = going.get(number)
        by = None if goes is None else goes["by"] or UNNAMED_RULE
        whose = "policy" if by not in (None, "broker") and row["policy_reason"] else "broker"
        found.append(
            OffsetForecast(
                topic=row["topic"],
                partition=row["partition"],
                committed_offset=committed.get((row["log_partition"], row["topic"], row["partition"])),
                expires_at_ms=None if goes is None else goes["at_ms"],
                by=by,
                reason=row[f"{whose}_reason"],
                changes_by=row["changes_by"],
            )
        )
    return sorted(found, key=lambda one: (one.expires_at_ms is None, one.expires_at_ms, one.topic, one.partition))
