"""replay_groups for a cluster that hides its log: the tables of group state from admin snapshots (coverage `admin`).

An admin snapshot has the answers of the coordinators at one instant; earlier admin snapshots bound when things happened
(archive.admin_intervals). What only the bytes of the log show is NULL, or its table is empty: commit times to the
millisecond, log positions, producers, pending offsets, load profiles.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.admin_intervals import MergedSnapshots, merge_snapshots
from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.archive.cluster_metadata import differences_text
from sexton.as_text import MINUTE_MS
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile
from sexton.history.admin_difference import changes_of_snapshots
from sexton.job_params import ReplayRequest
from sexton.kernels.results import TOMBSTONE_SCHEMA
from sexton.pipeline.run_record import retention_of, topic_partitions
from sexton.runs.admin_tables import ONLY_PARTITION, tables_of
from sexton.runs.choose_profile import Choice, choose
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord, Shard
from sexton.settings import settings
from sexton.tables import TABLES
from sexton.uris import uri_without_login

EMPTY = ("unreachable_offsets", "pending_offsets", "open_transactions", "undecodable_records", "load_profile")
"""Tables that no admin snapshot can fill."""
CHANGES = "offset_changes"


def run(
    engine: Engine, folder: RunFolder, request: ReplayRequest, series: SnapshotSeries, snapshot: AdminSnapshot
) -> RunRecord:
    """Fill the state tables of `folder` from an admin snapshot and the earlier ones."""
    merged = merge_snapshots(series, snapshot)
    choice = choose(request.profile, snapshot.metadata.broker_version)
    groups, members, offsets = tables_of(merged)
    changes, left_out = _changes(series, request, snapshot, choice.profile)
    tables = {"groups": groups, "members": members, "committed_offsets": offsets}
    if changes is not None:
        tables[CHANGES] = changes
    parts = {part for rows in (groups, changes or groups) for part in rows["log_partition"].unique().to_pylist()}
    record = _record(request, series, merged, choice, sorted(parts or {ONLY_PARTITION}))
    folder.reset()
    folder.write_run(record)
    written = engine.map(
        "Writing tables",
        record.log_partitions,
        lambda part: folder.write_tables(record, _of_partition(tables, part), Shard(part)),
        work_bytes=sum(rows.nbytes for rows in tables.values()),
    )
    counts = folder.write_tables(record, {"topic_partitions": topic_partitions(snapshot.metadata.topics or [])})
    for each in written:
        counts.update(each)
    damaged = [f"an admin snapshot is left out: {why}" for why in series.damaged.values()]
    record = record.model_copy(
        update={
            "counts": counts,
            "engine": engine.name,
            "changes_since_ms": None if changes is None else request.since_ms,
            "warnings": [*record.warnings, *left_out, *damaged],
        }
    )
    folder.write_run(record)
    return record


def _changes(
    series: SnapshotSeries, request: ReplayRequest, snapshot: AdminSnapshot, profile: Profile
) -> tuple[pa.Table | None, list[str]]:
    """(rows of offset_changes since the admin snapshot of the requested start, warnings). The rows are None if no start
    is requested, or if no admin snapshot fits it."""
    since = None if request.since_ms is None else series.at(request.since_ms)
    if since is None or since.taken_at_ms >= snapshot.taken_at_ms:
        return None, []
    asked_ms = None if request.retention_minutes is None else request.retention_minutes * MINUTE_MS
    changes, left_out = changes_of_snapshots(series, since, snapshot, retention_ms=asked_ms, profile=profile)
    count = snapshot.metadata.partition_count
    homes = [partition_of(name, count) if count else ONLY_PARTITION for name in changes["group_id"].to_pylist()]
    what = f"changes of {left_out} groups are not recorded: a snapshot at one of its ends lacks them"
    return changes.append_column("log_partition", pa.array(homes, pa.int32())), [what] if left_out else []


def _record(
    request: ReplayRequest, series: SnapshotSeries, merged: MergedSnapshots, choice: Choice, parts: list[int]
) -> RunRecord:
    snapshot = merged.snapshot
    metadata = snapshot.metadata
    recorded = metadata.retention_minutes
    minutes, source = retention_of(recorded, request, choice.profile)
    if recorded is None and request.retention_minutes is None:
        source += ", assumed: the brokers do not show theirs"
    return RunRecord(
        run_id=request.run_id,
        cluster_id=snapshot.cluster_id,
        topic_id=metadata.topic_id,
        as_of_ms=snapshot.taken_at_ms if request.as_of_ms is None else request.as_of_ms,
        taken_at_ms=snapshot.taken_at_ms,
        profile=choice.profile.text,
        profile_source=choice.source,
        profile_doubts=choice.doubts,
        retention_ms=minutes * MINUTE_MS,
        retention_source=source,
        broker_retention_ms=int(recorded) * MINUTE_MS if recorded else None,
        source=uri_without_login(str(request.archive)),
        partition_count=metadata.partition_count or None,
        log_partitions=parts,
        cuts=dict.fromkeys(parts, 0),
        coverage=series.coverage,
        origins=("admin_snapshots",),
        coverage_reason=f"{series.source}, the log is not read: {snapshot.reason}",
        admin_snapshot_sha256=snapshot.sha256,
        inflated_cap_bytes=settings().inflated_cap_bytes,
        broker_settings=dict(metadata.settings),
        topic_settings=dict(metadata.topic_settings),
        max_message_bytes=metadata.max_message_bytes,
        has_topics=True,
        topics_at_ms=snapshot.taken_at_ms,
        sees_all_topics=metadata.sees_all_topics,
        warnings=[*_warnings(merged), *choice.warnings],
    )


def _warnings(merged: MergedSnapshots) -> list[str]:
    snapshot = merged.snapshot
    found = [*snapshot.warnings, *differences_text(snapshot.metadata.brokers_differ)]
    if not merged.earlier:
        found.append(
            "this is the first admin snapshot: it is not known when offsets were committed, so verdicts are few"
        )
    else:
        found.append(
            "members that came and left between two admin snapshots and committed nothing new, and commits of "
            "the same value by an administrator, are not seen: the snapshots compared are up to "
            f"{merged.longest_gap_ms // 1000} s apart"
        )
    return found


def _of_partition(tables: Mapping[str, pa.Table], part: int) -> dict[str, pa.Table]:
    """The tables of one log partition, with empty ones for tables that no admin snapshot fills."""
    filled = {
        name: rows.filter(pc.equal(rows["log_partition"], part)).sort_by(_ORDERS[name]) for name, rows in tables.items()
    }
    empty = {name: TABLES[name].arrow_schema(with_run=False).empty_table() for name in EMPTY}
    return {**filled, **empty, "group_tombstones": TOMBSTONE_SCHEMA.empty_table()}


_ORDERS = {
    "groups": [("group_id", "ascending")],
    "members": [("group_id", "ascending"), ("member_id", "ascending")],
    "committed_offsets": [("group_id", "ascending"), ("topic", "ascending"), ("partition", "ascending")],
    CHANGES: [("group_id", "ascending"), ("topic", "ascending"), ("partition", "ascending")],
}
