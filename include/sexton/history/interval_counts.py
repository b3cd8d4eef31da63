"""Counts of an interval: the broker's sweeps, and how often each group committed.

A sweep is inferred from rows of offset_changes that are close in time and that a sweep caused or may have caused: a
broker appends all tombstones of a sweep in a log partition together (up to 3.9 as one batch per group, one directly
after the other), and sweeps again only after offsets.retention.check.interval.ms (10 minutes by default).

Commits are values of record types 0 and 1 in the log of the interval, also those of aborted transactions. Records that
compaction removed before the snapshot are missing, so the count is a lower bound.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.kernels.checkpoint.commits import Commits
from sexton.tables import TABLES

SWEEPS, COMMITS = "expiry_sweeps", "commit_counts"
EXPIRED = "expired"
SWEEP_GAP_MS = 1_000
"""Maximum time between two consecutive tombstones of one sweep."""
_NO_TIME = -1


def sweeps_of(changes: pa.Table) -> pa.Table:
    """The sweeps of one log partition, from its rows of offset_changes, without the run's columns."""
    rows = changes.filter(_may_be_swept(changes)).sort_by("log_offset").combine_chunks()
    schema = TABLES[SWEEPS].arrow_schema(with_run=False)
    if not rows.num_rows:
        return schema.empty_table()
    at_ms = np.asarray(pc.fill_null(rows["timestamp_ms"], _NO_TIME))
    log_offset = np.asarray(rows["log_offset"])
    is_apart = np.where(at_ms[1:] == _NO_TIME, np.diff(log_offset) > 1, np.abs(np.diff(at_ms)) > SWEEP_GAP_MS)
    sweep = np.concatenate([[0], np.cumsum(is_apart)])
    first = np.flatnonzero(np.concatenate([[True], is_apart]))
    last = np.concatenate([first[1:], [len(sweep)]]) - 1
    is_certain = np.asarray(pc.equal(rows["kind"], EXPIRED)).astype(np.int64)
    named = pa.table({"sweep": sweep, "group_id": rows["group_id"]})
    groups = named.group_by(["sweep", "group_id"]).aggregate([]).group_by("sweep").aggregate([([], "count_all")])
    count = len(first)
    columns: Mapping[str, Any] = {
        "log_partition": rows["log_partition"].take(first),
        "first_log_offset": log_offset[first],
        "last_log_offset": log_offset[last],
        "started_at_ms": pa.array(at_ms[first], mask=at_ms[first] == _NO_TIME),
        "offsets": np.bincount(sweep, minlength=count),
        "certain_offsets": np.bincount(sweep, weights=is_certain, minlength=count).astype(np.int64),
        "groups": groups.sort_by("sweep")["count_all"],
        "coordinator": pa.nulls(count, pa.int32()),
    }
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _may_be_swept(changes: pa.Table) -> pa.Array:
    """The rows that a sweep caused or may have caused."""
    candidates = changes["candidates"].combine_chunks()
    holders = pc.list_parent_indices(candidates).filter(pc.equal(pc.list_flatten(candidates), EXPIRED))
    may_be = np.asarray(pc.equal(changes["kind"], EXPIRED)).astype(bool)
    may_be[np.asarray(holders)] = True
    return pa.array(may_be)


def swept_by(sweeps: pa.Table, leader: int | None, led_from: int) -> pa.Table:
    """Sweeps of one log partition with their coordinator: `leader`, which has led it since log_offset `led_from`; NULL
    for earlier sweeps."""
    is_known = pc.greater_equal(sweeps["first_log_offset"], led_from)
    coordinator = pc.if_else(is_known, pa.scalar(leader, pa.int32()), pa.scalar(None, pa.int32()))
    return sweeps.set_column(sweeps.column_names.index("coordinator"), "coordinator", coordinator)


def sweeps_of_brokers(sweeps: pa.Table, brokers: Mapping[int, int | None]) -> list[dict[str, Any]]:
    """The sweeps of brokers over all their log partitions, oldest first: rows of expiry_sweeps with the same
    coordinator, merged where they are close in time.

    For a row without a coordinator, `brokers` has the leader of its log partition when the snapshot was taken. Rows
    without an instant (record format 0) are left out.
    """
    timed = [row for row in sweeps.to_pylist() if row["started_at_ms"] is not None]
    found: list[dict[str, Any]] = []
    latest: dict[int | None, dict[str, Any]] = {}
    for row in sorted(timed, key=itemgetter("started_at_ms")):
        broker = row.get("coordinator")  # older runs do not have this column
        broker = brokers.get(row["log_partition"]) if broker is None else broker
        one = latest.get(broker)
        if one is None or row["started_at_ms"] - one["last_ms"] > SWEEP_GAP_MS:
            one = latest[broker] = {"coordinator": broker, "started_at_ms": row["started_at_ms"], "offsets": 0}
            one |= {"certain_offsets": 0, "log_partitions": 0}
            found.append(one)
        one["last_ms"] = row["started_at_ms"]
        one["offsets"] += row["offsets"]
        one["certain_offsets"] += row["certain_offsets"]
        one["log_partitions"] += 1
    return found


def commits_between(start: Commits, end: Commits, *, log_partition: int, span_ms: int) -> pa.Table:
    """The groups that committed between two instants in one log partition, without the run's columns.

    `span_ms` is the time between these instants. `is_whole` is true if the log has every record from this time.
    """
    schema = TABLES[COMMITS].arrow_schema(with_run=False)
    known = pc.index_in(end.by_group["group_id"], value_set=start.by_group["group_id"].combine_chunks())
    earlier = pc.fill_null(start.by_group["commits"].take(known), 0)
    counted = end.by_group.set_column(1, "commits", pc.subtract(end.by_group["commits"], earlier))
    found = counted.filter(pc.greater(counted["commits"], 0)).sort_by("group_id")
    is_whole = end.records - start.records == end.end - start.end
    columns: Mapping[str, Any] = {
        "group_id": found["group_id"],
        "log_partition": np.full(found.num_rows, log_partition),
        "commits": found["commits"],
        "commits_per_second": pc.divide(pc.cast(found["commits"], pa.float64()), span_ms / 1000),
        "is_whole": np.full(found.num_rows, is_whole),
    }
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)
