"""Finishes the fold of a log partition: the rows of group state at the cut, as Arrow tables.

The few group records are replayed by `coordinator.groups`, which the plain replay uses too. A group without a record
of its own is a simple classic group; there may be hundreds of thousands of those, and millions of offsets, so that
nothing here makes a Python object for them. Group records that cannot be decoded or replayed become rows and failures,
as in `coordinator.group_coordinator`.
"""

import struct
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator import decoding
from sexton.coordinator.classic import ClassicGroup
from sexton.coordinator.decoding import Decoded, Undecodable
from sexton.coordinator.group import Group
from sexton.coordinator.groups import Groups
from sexton.coordinator.load_model import MODEL
from sexton.coordinator.loading import GROUP_REMOVED, HOT_GROUPS, LOADED, STRAY
from sexton.coordinator.offsets import FATES
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import new_groups
from sexton.errors import LogError, TransitionError
from sexton.kernels import columns as cols
from sexton.kernels.columns import Mask
from sexton.kernels.compiled import compiled
from sexton.kernels.memory import pointer
from sexton.kernels.partial import PartialFold
from sexton.kernels.reread import place_of
from sexton.kernels.store import key_columns
from sexton.kernels.table import (
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    EXPIRE_MS,
    GROUP_AT,
    GROUP_LENGTH,
    GROUPS,
    KEY_GROUP,
    KEYS,
    LAST_VALUE,
    LEADER_EPOCH,
    LEAKED,
    LOG_OFFSET,
    NONE,
    P_CANCELLED,
    P_EPOCH,
    P_FIRST,
    P_FIRST_MS,
    P_ID,
    P_LAST,
    PRODUCER_ID,
    PRODUCERS,
    R_AT,
    R_BASE_OFFSET,
    R_GROUP,
    R_KEY_SIZE,
    R_LAST_VALUE,
    R_LOG_OFFSET,
    R_VALUE_SIZE,
    RECORDS,
    SINCE,
    TEXT_AT,
    TEXT_SIZE,
    TOPIC_ID_HIGH,
    TOPIC_ID_LOW,
    W_COUNT,
    W_KEY,
    W_LOG_OFFSET,
    W_PRODUCER,
    WAITING,
    Int64s,
    State,
)
from sexton.kernels.text import log_partition_of
from sexton.log.batch import Record

TEXT_LIST = pa.list_(pa.string())
_OFFSET_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
        ("expire_timestamp_ms", pa.int64()),
        ("topic_id", pa.string()),
        ("log_offset", pa.int64()),
        ("producer_id", pa.int64()),
    ]
)
_GROUP_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("group_type", pa.string()),
        ("state", pa.string()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("generation", pa.int32()),
        ("leader", pa.string()),
        ("current_state_timestamp_ms", pa.int64()),
        ("member_count", pa.int32()),
        ("subscribed_topics", TEXT_LIST),
        ("subscription_known", pa.bool_()),
        ("log_offset", pa.int64()),
    ]
)
_MEMBER_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rack_id", pa.string()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("member_epoch", pa.int32()),
        ("subscribed_topics", TEXT_LIST),
        ("assignment", TEXT_LIST),
        ("assignment_epochs", TEXT_LIST),
        ("log_partition", pa.int32()),
    ]
)
_UNDECODABLE_SCHEMA = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("record_type", pa.int32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("log_partition", pa.int32()),
    ]
)
_TRANSACTION_SCHEMA = pa.schema(
    [
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("first_log_offset", pa.int64()),
        ("last_log_offset", pa.int64()),
        ("first_timestamp_ms", pa.int64()),
        ("group_ids", TEXT_LIST),
    ]
)
_TOMBSTONE_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("ordinal", pa.int32()),
        ("record_type", pa.int32()),
        ("member_id", pa.string()),
        ("regular_expression", pa.string()),
    ]
)


@dataclass(slots=True)
class _Replay:
    """The group records of a fold, replayed."""

    profile: Profile
    groups: Groups
    rows_of: dict[str, int] = field(default_factory=dict)
    """Row in the fold's `groups` of every group with a record of its own, there or removed."""
    undecodable: list[tuple[int, Undecodable]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    live_records: dict[bytes, bool] = field(default_factory=dict)
    tombstones: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Rows of the fold by what became of them, each ordered by key."""

    committed: Int64s
    unreachable: Int64s
    is_removed: Mask
    """For each row of `unreachable`: whether its group is gone (else it is stray)."""
    pending: Int64s
    """Rows of `waiting`."""
    group_exists: Mask
    group_is_stray: Mask | None
    group_has_transaction: Mask
    """Whether the coordinator takes a transaction with the group's offsets for open."""
    offset_counts: Int64s
    pending_counts: Int64s


def finish(
    fold: PartialFold,
    *,
    log_partition: int,
    partition_count: int | None,
    held_elsewhere: Container[str] = frozenset(),
) -> dict[str, pa.Table]:
    """The rows of one log partition for every table of group state, by table; `fold` is that of the whole of it.

    Without `partition_count` no group is known to be stray. Where stray groups are served (Profile.one_cache), those
    `held_elsewhere` are not: another log partition's copy is. Besides the published tables there is `group_tombstones`:
    for every group that is not classic the records that delete it, in their order.
    """
    state = fold.state
    replay = _replay_groups(state, fold.profile)
    found = _sort(
        state,
        replay,
        log_partition=log_partition,
        partition_count=partition_count,
        held_elsewhere=held_elsewhere,
    )
    undecodable = sorted(fold.undecodable + replay.undecodable, key=lambda item: item[0])
    tables = {
        "committed_offsets": _offsets_table(state, found.committed),
        "unreachable_offsets": _offsets_table(state, found.unreachable).append_column(
            "reason", pc.if_else(pa.array(found.is_removed), GROUP_REMOVED, STRAY)
        ),
        "pending_offsets": _pending_table(state, found.pending),
        "groups": _groups_table(state, replay, found),
        "open_transactions": _open_transactions(state, found.pending),
        "load_profile": _load_profile(fold, replay, found, undecodable, log_partition=log_partition),
    }
    here = pa.scalar(log_partition, pa.int32())
    tables = {
        name: table
        if "log_partition" in table.column_names
        else table.append_column("log_partition", pa.repeat(here, table.num_rows))
        for name, table in tables.items()
    }
    where = {"log_partition": log_partition}
    groups = [group for _, group in sorted(replay.groups.by_id.items())]
    return {
        **tables,
        "members": _from_rows([{**row, **where} for group in groups for row in group.to_member_rows()], _MEMBER_SCHEMA),
        "undecodable_records": _from_rows([{**row.to_row(), **where} for _, row in undecodable], _UNDECODABLE_SCHEMA),
        "group_tombstones": _from_rows(
            [row for group in groups if group.group_type != "Classic" for row in _tombstone_rows(group)],
            _TOMBSTONE_SCHEMA,
        ),
    }


def _from_rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema) if rows else schema.empty_table()


def _tombstone_rows(group: Group) -> list[dict[str, Any]]:
    return [
        {
            "group_id": group.group_id,
            "ordinal": ordinal,
            "record_type": tombstone.record_type,
            "member_id": tombstone.member_id,
            "regular_expression": tombstone.regular_expression,
        }
        for ordinal, tombstone in enumerate(group.tombstones())
    ]


def _replay_groups(state: State, profile: Profile) -> _Replay:
    """Replay the group records; an offset value between two of a group's own makes it anew where it was removed."""
    replay = _Replay(profile, new_groups(profile))
    last_own: dict[int, int] = {}
    names = _Names(state)
    for row in state.records[: state.counts[RECORDS]].tolist():
        group, log_offset, last_value = row[R_GROUP], row[R_LOG_OFFSET], row[R_LAST_VALUE]
        if last_value > last_own.get(group, NONE):
            replay.groups.touch(names[group])
        last_own[group] = log_offset
        _replay_record(replay, state, row)
    for group in last_own:
        replay.rows_of[names[group]] = group
        if state.groups[group, LAST_VALUE] > last_own[group]:
            replay.groups.touch(names[group])
    return replay


@dataclass(slots=True)
class _Names:
    """Group ids by their row."""

    state: State

    def __getitem__(self, group: int) -> str:
        at, size = self.state.groups[group, [GROUP_AT, GROUP_LENGTH]].tolist()
        return self.state.key_bytes[at : at + size].tobytes().decode()


def _replay_record(replay: _Replay, state: State, row: list[int]) -> None:
    at, middle = row[R_AT], row[R_AT] + row[R_KEY_SIZE]
    key = state.record_bytes[at:middle].tobytes()
    value = None if row[R_VALUE_SIZE] < 0 else state.record_bytes[middle : middle + row[R_VALUE_SIZE]].tobytes()
    log_offset, base_offset = row[R_LOG_OFFSET], row[R_BASE_OFFSET]
    record = Record(log_offset=log_offset, timestamp_ms=-1, key=key, value=value)
    judged = decoding.decode(record, base_offset=base_offset, profile=replay.profile)
    if isinstance(judged, Undecodable):
        replay.undecodable.append((place_of(log_offset), judged))
        return
    assert isinstance(judged, Decoded), "the loop keeps known types alone"
    replay.tombstones += value is None
    try:
        replay.groups.replay(judged.record_type, judged.key, judged.value, log_offset=log_offset)
    except TransitionError as error:
        replay.failures.append((place_of(log_offset), f"log_offset {log_offset}: {error}"))
    except LogError as error:
        (record_type,) = struct.unpack_from(">h", key)
        refused = decoding.undecodable(
            record, error.reason, error.detail, base_offset=base_offset, record_type=record_type
        )
        replay.undecodable.append((place_of(log_offset), refused))
    else:
        replay.live_records[key] = value is not None


def _sort(
    state: State,
    replay: _Replay,
    *,
    log_partition: int,
    partition_count: int | None,
    held_elsewhere: Container[str],
) -> _Sorted:
    groups, keys = state.groups[: state.counts[GROUPS]], state.keys[: state.counts[KEYS]]
    stored = np.flatnonzero(keys[:, LOG_OFFSET] != NONE)
    of_group = keys[stored, KEY_GROUP]
    waiting = state.waiting[: state.counts[WAITING]]
    pending = np.flatnonzero(waiting[:, W_COUNT] > 0)
    of_pending = keys[waiting[pending, W_KEY], KEY_GROUP]
    has_transaction = np.zeros(len(groups), bool)
    has_transaction[of_pending] = True
    has_transaction[keys[waiting[waiting[:, W_COUNT] == LEAKED, W_KEY], KEY_GROUP]] = True
    exists = groups[:, LAST_VALUE] != NONE
    if replay.profile.offsets_hold_groups:
        exists[:] = False
        exists[of_group] = exists[of_pending] = True
        replay.groups.complete({name for name, row in replay.rows_of.items() if exists[row]})
    for group_id, row in replay.rows_of.items():
        exists[row] = group_id in replay.groups.by_id
    is_stray: Mask | None = None
    lost = ~exists[of_group]
    if partition_count is not None:
        homes = np.empty(len(groups), np.int64)
        _place(state.key_bytes, groups, partition_count, homes)
        is_stray = homes != log_partition
        lost |= _is_away(state, is_stray, replay.profile, held_elsewhere)[of_group]
    unreachable = _by_key(state, stored[lost])
    return _Sorted(
        committed=_by_key(state, stored[~lost]),
        unreachable=unreachable,
        is_removed=~exists[keys[unreachable, KEY_GROUP]],
        pending=pending[_pending_order(state, pending)],
        group_exists=exists,
        group_is_stray=is_stray,
        group_has_transaction=has_transaction,
        offset_counts=np.bincount(of_group[~lost], minlength=len(groups)),
        pending_counts=np.bincount(of_pending, minlength=len(groups)),
    )


def _is_away(state: State, is_stray: Mask, profile: Profile, held_elsewhere: Container[str]) -> Mask:
    """Groups that clients look for in another log partition."""
    if not profile.one_cache:
        return is_stray
    names, away = _Names(state), is_stray.copy()
    strays = np.flatnonzero(is_stray)
    away[strays] = [names[row] in held_elsewhere for row in strays.tolist()]
    return away


@compiled
def _place(arena: Any, groups: Any, partition_count: int, homes: Any) -> None:
    """The log partition of each group."""
    data = pointer(arena)
    for row in range(len(groups)):
        homes[row] = log_partition_of(data, groups[row, GROUP_AT], groups[row, GROUP_LENGTH], partition_count)


def _by_key(state: State, rows: Int64s) -> Int64s:
    """Rows of `keys` in the order of group_id, topic, partition."""
    if not len(rows):
        return rows
    # Names come again and again: each is sorted once, and then numbers, which takes half of the time.
    groups = state.groups[: state.counts[GROUPS]]
    group_ids = cols.strings(state.key_bytes, groups[:, GROUP_AT], groups[:, GROUP_LENGTH])
    named = key_columns(state, rows)
    topics = named["topic"].dictionary_encode()
    ranks = pa.table(
        {
            "group_id": _ranks(group_ids)[state.keys[rows, KEY_GROUP]],
            "topic": _ranks(topics.dictionary)[np.asarray(topics.indices)],
            "partition": named["partition"],
        }
    )
    order = pc.sort_indices(ranks, [(name, "ascending") for name in ranks.column_names])
    ordered: Int64s = rows[np.asarray(order)]
    return ordered


def _ranks(names: pa.Array) -> Int64s:
    """For each of some names, no two the same, its place among them."""
    return cols.places(np.asarray(pc.sort_indices(names)), len(names))


def _pending_order(state: State, rows: Int64s) -> Int64s:
    """Order of rows of `waiting` by producer_id, then key."""
    if not len(rows):
        return rows
    waiting = state.waiting[rows]
    named = pa.table(
        {
            "producer_id": pa.array(state.producers[waiting[:, W_PRODUCER], P_ID]),
            **key_columns(state, waiting[:, W_KEY]),
        }
    )
    order: Int64s = np.asarray(pc.sort_indices(named, [(name, "ascending") for name in named.column_names]))
    return order


def _offsets_table(state: State, rows: Int64s) -> pa.Table:
    """Committed offsets of some rows of `keys`."""
    values = state.keys.take(rows, axis=0)
    return _offset_rows(state, rows, values, log_offset=LOG_OFFSET, producer_ids=values[:, PRODUCER_ID])


def _pending_table(state: State, rows: Int64s) -> pa.Table:
    """Undecided offsets of some rows of `waiting`."""
    values = state.waiting.take(rows, axis=0)
    producer_ids = state.producers[values[:, W_PRODUCER], P_ID]
    return _offset_rows(state, values[:, W_KEY], values, log_offset=W_LOG_OFFSET, producer_ids=producer_ids)


def _offset_rows(state: State, keys: Int64s, values: Int64s, *, log_offset: int, producer_ids: Int64s) -> pa.Table:
    """The offset that each row of `values` holds of a row of `keys`; its log_offset is in the column `log_offset`."""
    if not len(keys):
        return _OFFSET_SCHEMA.empty_table()
    numbers = {
        "committed_offset": COMMITTED,
        "leader_epoch": LEADER_EPOCH,
        "commit_timestamp_ms": COMMIT_MS,
        "expire_timestamp_ms": EXPIRE_MS,
        "log_offset": log_offset,
    }
    columns = {
        **_named(state, keys),
        **cols.numbers(values, numbers, absent={"leader_epoch": -1, "expire_timestamp_ms": NONE}),
        "metadata": cols.strings(state.text_bytes, values[:, TEXT_AT], values[:, TEXT_SIZE]).cast(pa.string()),
        "topic_id": cols.topic_ids(values[:, TOPIC_ID_HIGH], values[:, TOPIC_ID_LOW]).cast(pa.string()),
        "producer_id": pa.array(producer_ids),
    }
    return pa.table(columns, schema=_OFFSET_SCHEMA)


def _named(state: State, keys: Int64s) -> dict[str, pa.Array]:
    named = key_columns(state, keys)
    return {**named, "group_id": named["group_id"].cast(pa.string()), "topic": named["topic"].cast(pa.string())}


def _groups_table(state: State, replay: _Replay, found: _Sorted) -> pa.Table:
    """Groups by id: those with records of their own as replayed, all others alike."""
    own = {row: replay.groups.by_id[name] for name, row in replay.rows_of.items() if name in replay.groups.by_id}
    rows = np.flatnonzero(found.group_exists)
    simple = rows[~np.isin(rows, list(own))] if own else rows
    table = _simple_groups(state, replay.profile, simple)
    if own:
        table = pa.concat_tables([table, _from_rows([group.to_group_row() for group in own.values()], _GROUP_SCHEMA)])
    order = np.concatenate([simple, np.array(list(own), np.int64)])
    table = (
        table.append_column("offset_count", pa.array(found.offset_counts[order]))
        .append_column("pending_count", pa.array(found.pending_counts[order]))
        .append_column("has_open_transaction", pa.array(found.group_has_transaction[order]))
    )
    return table.sort_by("group_id").combine_chunks()


def _simple_groups(state: State, profile: Profile, rows: Int64s) -> pa.Table:
    """Groups without a record of their own, by some rows of `groups`."""
    groups = state.groups.take(rows, axis=0)
    template = ClassicGroup("", profile).to_group_row()
    alike = {
        column.name: pa.repeat(pa.scalar(template[column.name], column.type), len(groups)) for column in _GROUP_SCHEMA
    }
    group_ids = cols.strings(state.key_bytes, groups[:, GROUP_AT], groups[:, GROUP_LENGTH]).cast(pa.string())
    return pa.table({**alike, "group_id": group_ids}, schema=_GROUP_SCHEMA)


def _open_transactions(state: State, pending: Int64s) -> pa.Table:
    producers = state.producers[: state.counts[PRODUCERS]]
    producers = producers[producers[:, P_FIRST] != NONE]
    if not len(producers):
        return _TRANSACTION_SCHEMA.empty_table()
    producers = producers[np.argsort(producers[:, P_ID])]
    waiting = state.waiting[pending]
    holders = pa.table(
        {
            "producer_id": pa.array(state.producers[waiting[:, W_PRODUCER], P_ID]),
            "group_id": _named(state, waiting[:, W_KEY])["group_id"],
        }
    )
    held: dict[int, list[str]] = {}
    for row in holders.group_by(["producer_id", "group_id"]).aggregate([]).sort_by("group_id").to_pylist():
        held.setdefault(row["producer_id"], []).append(row["group_id"])
    columns = {
        "producer_id": P_ID,
        "producer_epoch": P_EPOCH,
        "first_log_offset": P_FIRST,
        "last_log_offset": P_LAST,
        "first_timestamp_ms": P_FIRST_MS,
    }
    return pa.table(
        {
            **cols.numbers(producers, columns),
            "group_ids": pa.array([held.get(producer, []) for producer in producers[:, P_ID].tolist()], TEXT_LIST),
        },
        schema=_TRANSACTION_SCHEMA,
    )


def _fates(fold: PartialFold, found: _Sorted, undecodable: int) -> dict[str, int]:
    """How many offset values ended in each fate (`coordinator.offsets.FATES`); they add up to all that were read."""
    state = fold.state
    keys, counted = state.keys[: state.counts[KEYS]], fold.counters
    stored, pending = len(found.committed) + len(found.unreachable), len(found.pending)
    fates = Counter(
        live=len(found.committed),
        unreachable=len(found.unreachable),
        pending=pending,
        superseded=int(keys[:, SINCE].sum()) - stored + int(state.waiting[found.pending, W_COUNT].sum()) - pending,
        tombstoned=counted["tombstoned"],
        aborted=counted["aborted"],
        cancelled=int(state.producers[: state.counts[PRODUCERS], P_CANCELLED].sum()),
        undecodable=undecodable,
    )
    return {fate: fates[fate] for fate in FATES}


def _load_profile(
    fold: PartialFold,
    replay: _Replay,
    found: _Sorted,
    undecodable: list[tuple[int, Undecodable]],
    *,
    log_partition: int,
) -> pa.Table:
    failures = [(at, str(row)) for at, row in undecodable if row.fails_load] + replay.failures
    counters: Mapping[str, int] = fold.counters
    stray = found.group_is_stray
    row = {
        "log_partition": log_partition,
        "bytes": counters["bytes"],
        "batches": counters["batches"],
        "records": counters["records"],
        "live_records": len(found.committed)
        + len(found.unreachable)
        + len(found.pending)
        + sum(replay.live_records.values()),
        "tombstones": counters["offset_tombstones"] + replay.tombstones,
        "control_records": counters["control_records"],
        "largest_batch_bytes": counters["largest_batch_bytes"],
        "first_log_offset": fold.first_log_offset,
        "next_log_offset": fold.next_log_offset,
        "stray_groups": None if stray is None else int((stray & found.group_exists).sum()),
        "load_would_fail": bool(failures),
        "load_failure": min(failures, key=lambda failure: failure[0])[1] if failures else None,
        "load_outcome": fold.profile.after_failure.value if failures else LOADED,
        "unknown_types": sum(fold.unknown_types.values()),
        "future_batches": counters["future_batches"],
        **_hot_groups(fold.state),
        "first_unstable_log_offset": _first_unstable(fold.state),
        "read_values": counters["offset_values"],
        **_fates(fold, found, fold.undecodable_values),
    }
    records = counters["records"]
    row["predicted_load_ms"] = MODEL.predict_ms(
        records=records, control_records=counters["control_records"], live_records=row["live_records"]
    )
    row["garbage_share"] = 1 - row["live_records"] / records if records else None
    kinds = {
        **dict.fromkeys(row, pa.int64()),
        "log_partition": pa.int32(),
        "load_would_fail": pa.bool_(),
        "load_failure": pa.string(),
        "load_outcome": pa.string(),
        "garbage_share": pa.float64(),
        "hot_groups": TEXT_LIST,
        "hottest_group_share": pa.float64(),
    }
    return pa.Table.from_pylist([row], pa.schema(list(kinds.items())))


def _hot_groups(state: State) -> dict[str, Any]:
    """The groups with most commits, the hottest first, and the share of all commits that is the hottest one's."""
    groups = state.groups[: state.counts[GROUPS]]
    groups = groups[groups[:, COMMITS] > 0]
    total = int(groups[:, COMMITS].sum())
    if not total:
        return {"hot_groups": [], "hottest_group_share": None}
    fifth = np.sort(groups[:, COMMITS])[-min(HOT_GROUPS, len(groups))]
    groups = groups[groups[:, COMMITS] >= fifth]
    names = cols.strings(state.key_bytes, groups[:, GROUP_AT], groups[:, GROUP_LENGTH]).cast(pa.string())
    hot = pa.table({"name": names, "commits": groups[:, COMMITS]})
    order = pc.select_k_unstable(hot, HOT_GROUPS, [("commits", "descending"), ("name", "ascending")])
    hot = hot.take(order)
    return {"hot_groups": hot["name"].to_pylist(), "hottest_group_share": hot["commits"][0].as_py() / total}


def _first_unstable(state: State) -> int | None:
    """Where the oldest open transaction begins: the log cleaner does not go beyond it."""
    first = state.producers[: state.counts[PRODUCERS], P_FIRST]
    open_ones = first[first != NONE]
    return int(open_ones.min()) if len(open_ones) else None
