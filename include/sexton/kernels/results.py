"""The tables of a run from the fold of a log partition: group state at the cut, as Arrow.

A group without a group record is a simple classic group. There may be hundreds of thousands of those and millions of
offsets, so nothing here makes a Python object for them.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.api.unloading import unexpected_unloads
from sexton.coordinator.endless_load import Endless
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.loading import GROUP_REMOVED, MISPLACED, SHARE_GROUP, UNDETERMINED
from sexton.coordinator.profile import LOADED, Profile
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.checkpoint.tables import PRODUCER_COLUMNS, VALUE_COLUMNS
from sexton.kernels.group_records import GroupRecords, replay_group_records
from sexton.kernels.layout import FoldState, Int64s
from sexton.kernels.load_stats import LoadStats, load_profile, load_stats
from sexton.kernels.partial_fold import PartialFold
from sexton.kernels.slow_path import UndecodableRows, keep_undecodable
from sexton.kernels.sorted_rows import SortedRows, sort_rows

_OFFSET_SCHEMA = cols.log_schema("committed_offsets", "log_partition")
_GROUP_SCHEMA = cols.log_schema(
    "groups", "offset_count", "pending_count", "has_open_transaction", "home_log_partition", "log_partition"
)
_MEMBER_SCHEMA = cols.log_schema("members")
_UNDECODABLE_SCHEMA = cols.log_schema("undecodable_records", "log_partition")
_TRANSACTION_SCHEMA = cols.log_schema("open_transactions", "log_partition")
TOMBSTONE_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("ordinal", pa.int32()),
        ("record_type", pa.int32()),
        ("member_id", pa.string()),
        ("regular_expression", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFold:
    """The result of one bucket of a log partition (kernels.buckets).

    `tables` are complete rows of its groups; `stats`, `transactions`, `undecodable` and `unexpected_unloads` go into
    the tables of the log partition (`join`).
    """

    tables: dict[str, pa.Table]
    stats: LoadStats
    transactions: pa.Table
    undecodable: UndecodableRows
    unexpected_unloads: list[str]


def finish(
    fold: PartialFold,
    *,
    log_partition: int,
    partition_count: int | None,
    held_elsewhere: Collection[str] = frozenset(),
    endless: Endless | None = None,
) -> dict[str, pa.Table]:
    """The rows of one log partition for every table of group state, by table; `fold` covers the whole log partition.

    The parameters are those of `finish_bucket` and `join`.
    """
    found = finish_bucket(
        fold, log_partition=log_partition, partition_count=partition_count, held_elsewhere=held_elsewhere
    )
    return {**found.tables, **join([found], log_partition=log_partition, endless=endless)}


def finish_bucket(
    fold: PartialFold,
    *,
    log_partition: int,
    partition_count: int | None,
    held_elsewhere: Collection[str] = frozenset(),
    is_first: bool = True,
) -> FinishedFold:
    """The result of one bucket of a log partition; `is_first`: it is the first bucket, or the only one.

    A coordinator with one cache (Profile.one_cache) serves a misplaced group from this log partition, unless the group
    is in `held_elsewhere`: then it serves the group's copy in another log partition. Without `partition_count` no group
    is known to be misplaced, and for groups in `held_elsewhere` it is not known which copy is served.

    In addition to the published tables there is `group_tombstones`: the tombstones that delete each group that is not
    classic, in the order in which they are written.
    """
    state = fold.state
    replay = replay_group_records(state, fold.profile)
    found = sort_rows(
        state,
        replay,
        log_partition=log_partition,
        partition_count=partition_count,
        held_elsewhere=held_elsewhere,
    )
    undecodable = _in_log_order(fold.undecodable + replay.undecodable)
    tables = {
        "committed_offsets": _offsets_table(state, found.committed),
        "unreachable_offsets": _offsets_table(state, found.unreachable).append_column("reason", _reasons(found)),
        "pending_offsets": _pending_table(state, found.pending),
        "groups": _groups_table(state, replay, found),
    }
    tables = {name: _of_log_partition(table, log_partition) for name, table in tables.items()}
    where = {"log_partition": log_partition}
    groups = [group for _, group in sorted(replay.groups.by_id.items())]
    tables["members"] = _from_rows(
        [{**row, **where} for group in groups for row in group.to_member_rows()], _MEMBER_SCHEMA
    )
    unloads = _unexpected_unloads(tables, replay, found)
    tables["group_tombstones"] = _from_rows(
        [row for group in groups if group.group_type != "Classic" for row in _tombstone_rows(group)],
        TOMBSTONE_SCHEMA,
    )
    return FinishedFold(
        tables=tables,
        stats=load_stats(fold, replay, found, undecodable, log_partition=log_partition, is_first=is_first),
        transactions=_open_transactions(state, found.pending),
        undecodable=undecodable,
        unexpected_unloads=unloads,
    )


def join(buckets: Sequence[FinishedFold], *, log_partition: int, endless: Endless | None = None) -> dict[str, pa.Table]:
    """The tables of a log partition whose rows do not belong to single groups, joined from its buckets.

    `endless` is the batch at which an older coordinator's load never ends (kernels.endless_load.endless_of).
    `unexpected_unloads` are the groups for which an older coordinator's load logs an error.
    """
    profile = load_profile([each.stats for each in buckets], log_partition=log_partition, endless=endless)
    is_loaded = profile["load_outcome"][0].as_py() == LOADED
    unloads = [name for each in buckets for name in each.unexpected_unloads] if is_loaded else []
    undecodable = _in_log_order([item for each in buckets for item in each.undecodable])
    rows = _from_rows([asdict(row) for _, row in undecodable], _UNDECODABLE_SCHEMA)
    return {
        "load_profile": profile.append_column("unexpected_unloads", pa.array([len(unloads)])),
        "open_transactions": _of_log_partition(_joined_transactions(buckets), log_partition),
        "undecodable_records": _of_log_partition(rows, log_partition),
        "unexpected_unloads": pa.table({"group_id": pa.array(unloads, pa.string())}),
    }


def _joined_transactions(buckets: Sequence[FinishedFold]) -> pa.Table:
    """Open transactions by producer id, each with its groups in all buckets and its first and last record."""
    if len(buckets) == 1:
        return buckets[0].transactions
    by_producer: dict[int, dict[str, Any]] = {}
    for row in (row for each in buckets for row in each.transactions.to_pylist()):
        whole = by_producer.setdefault(row["producer_id"], row)
        if whole is row:
            continue
        group_ids = whole["group_ids"] + row["group_ids"]
        if row["first_log_offset"] < whole["first_log_offset"]:
            whole |= {name: row[name] for name in ("first_log_offset", "first_timestamp_ms")}
        if row["last_log_offset"] > whole["last_log_offset"]:
            whole |= {name: row[name] for name in ("last_log_offset", "producer_epoch")}
        whole["group_ids"] = group_ids
    return _from_rows([row for _, row in sorted(by_producer.items())], _TRANSACTION_SCHEMA)


def _of_log_partition(table: pa.Table, log_partition: int) -> pa.Table:
    here = pa.repeat(pa.scalar(log_partition, pa.int32()), table.num_rows)
    return table.append_column("log_partition", here)


def _in_log_order(rows: UndecodableRows) -> UndecodableRows:
    """The rows in log order, up to the limit (`keep_undecodable`)."""
    kept: UndecodableRows = []
    for place, row in sorted(rows, key=lambda item: item[0]):
        keep_undecodable(kept, place, row)
    return kept


def _unexpected_unloads(tables: dict[str, pa.Table], replay: GroupRecords, found: SortedRows) -> list[str]:
    """Groups that are active at the end of a load although their last record removes them.

    A coordinator checks only groups without an offset that a client can fetch; up to 0.10.1 it checks all.
    """
    profile = replay.profile
    removed = [name for name in replay.removed_classic() if found.group_exists[replay.rows_of[name]]]
    if profile.offsets_excuse_unload:
        removed = [name for name in removed if not found.offset_counts[replay.rows_of[name]]]
    return [*unexpected_unloads(TablesView(tables), removed=removed, profile=profile)] if removed else []


def _from_rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema) if rows else schema.empty_table()


def _tombstone_rows(group: Group) -> list[dict[str, Any]]:
    return [
        {"group_id": group.group_id, "ordinal": ordinal, **asdict(tombstone)}
        for ordinal, tombstone in enumerate(group.tombstones())
    ]


def _offsets_table(state: FoldState, rows: Int64s) -> pa.Table:
    """Committed offsets for the given rows of `keys`."""
    values = state.keys.take(rows, axis=0)
    return _offset_rows(state, values, values, log_offset=L.LOG_OFFSET, producer_ids=values[:, L.PRODUCER_ID])


def _reasons(found: SortedRows) -> pa.Array:
    """For each unreachable row, why no client can fetch its offset."""
    others = pc.if_else(pa.array(found.is_shared), SHARE_GROUP, UNDETERMINED if found.group_home is None else MISPLACED)
    return pc.if_else(pa.array(found.is_removed), GROUP_REMOVED, others)


def _pending_table(state: FoldState, rows: Int64s) -> pa.Table:
    """Pending offsets for the given rows of `pending`."""
    values = state.pending.take(rows, axis=0)
    producer_ids = state.producers[values[:, L.PENDING_PRODUCER], L.P_ID]
    return _offset_rows(
        state, state.keys[values[:, L.PENDING_KEY]], values, log_offset=L.PENDING_LOG_OFFSET, producer_ids=producer_ids
    )


def _offset_rows(state: FoldState, keys: Int64s, values: Int64s, *, log_offset: int, producer_ids: Int64s) -> pa.Table:
    """The offsets in `values` for the matching rows of `keys`; the log_offset is in the column `log_offset`."""
    if not len(keys):
        return _OFFSET_SCHEMA.empty_table()
    numbers = {name: at for name, at in VALUE_COLUMNS.items() if name in _OFFSET_SCHEMA.names}
    absent = {"leader_epoch": -1, "expire_timestamp_ms": L.NONE}
    columns = {
        **cols.named_keys(state, keys),
        **cols.numbers(values, {**numbers, "log_offset": log_offset}, absent=absent),
        "metadata": cols.strings(state.text_bytes, values[:, L.TEXT_AT], values[:, L.TEXT_SIZE]).cast(pa.string()),
        "topic_id": cols.topic_ids(values[:, L.TOPIC_ID_HIGH], values[:, L.TOPIC_ID_LOW]).cast(pa.string()),
        "producer_id": pa.array(producer_ids),
    }
    return pa.table(columns, schema=_OFFSET_SCHEMA)


def _groups_table(state: FoldState, replay: GroupRecords, found: SortedRows) -> pa.Table:
    """The rows of `groups`, by id: replayed groups that have group records, and simple groups."""
    own = {row: replay.groups.by_id[name] for name, row in replay.rows_of.items() if name in replay.groups.by_id}
    rows = np.flatnonzero(found.group_exists)
    simple = rows[~np.isin(rows, list(own))] if own else rows
    table = _simple_groups(state, replay.profile, simple)
    if own:
        table = pa.concat_tables([table, _from_rows([group.to_group_row() for group in own.values()], _GROUP_SCHEMA)])
    order = np.concatenate([simple, np.array(list(own), np.int64)])
    homes = (
        pa.nulls(len(order), pa.int32()) if found.group_home is None else pa.array(found.group_home[order], pa.int32())
    )
    table = (
        table.append_column("offset_count", pa.array(found.offset_counts[order]))
        .append_column("pending_count", pa.array(found.pending_counts[order]))
        .append_column("has_open_transaction", pa.array(found.group_has_transaction[order]))
        .append_column("home_log_partition", homes)
    )
    return table.sort_by("group_id").combine_chunks()


def _simple_groups(state: FoldState, profile: Profile, rows: Int64s) -> pa.Table:
    """Groups without a group record, for some rows of `groups`."""
    groups = state.groups.take(rows, axis=0)
    template = ClassicGroup("", profile).to_group_row()
    alike = {
        column.name: pa.repeat(pa.scalar(template[column.name], column.type), len(groups)) for column in _GROUP_SCHEMA
    }
    group_ids = cols.names(state, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH]).cast(pa.string())
    return pa.table({**alike, "group_id": group_ids}, schema=_GROUP_SCHEMA)


def _open_transactions(state: FoldState, rows: Int64s) -> pa.Table:
    producers = state.producers[: state.counts[L.PRODUCERS]]
    producers = producers[producers[:, L.P_FIRST] != L.NONE]
    if not len(producers):
        return _TRANSACTION_SCHEMA.empty_table()
    producers = producers[np.argsort(producers[:, L.P_ID])]
    pending = state.pending[rows]
    holders = pa.table(
        {
            "producer_id": pa.array(state.producers[pending[:, L.PENDING_PRODUCER], L.P_ID]),
            "group_id": cols.named_keys(state, state.keys[pending[:, L.PENDING_KEY]])["group_id"],
        }
    )
    held: dict[int, list[str]] = {}
    for row in holders.group_by(["producer_id", "group_id"]).aggregate([]).sort_by("group_id").to_pylist():
        held.setdefault(row["producer_id"], []).append(row["group_id"])
    columns = {name: at for name, at in PRODUCER_COLUMNS.items() if name in _TRANSACTION_SCHEMA.names}
    return pa.table(
        {
            **cols.numbers(producers, columns),
            "group_ids": pa.array(
                [held.get(producer, []) for producer in producers[:, L.P_ID].tolist()], cols.TEXT_LIST
            ),
        },
        schema=_TRANSACTION_SCHEMA,
    )
