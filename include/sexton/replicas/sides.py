"""The keys and groups for which replicas would answer differently, and each replica's answer.

Equal tables cost one comparison. Otherwise rows that every replica has are dropped by column operations; only the
remaining rows become Python objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.replicas.evidence import GroupKey
from sexton.replicas.states import ReplicaState

_KEY = ("group_id", "topic", "partition")
_GROUP_COLUMNS = (
    *("group_id", "group_type", "state", "protocol_type", "protocol", "generation", "leader", "subscribed_topics"),
)
_MEMBER_COLUMNS = (
    *("group_id", "member_id", "group_instance_id", "client_id", "client_host", "member_epoch", "assignment"),
)
Row = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class ReplicaSide:
    """One replica's values of a key (`committed`, and `pending` by producer id) or of a group (`group` and its
    `members`); `reach` is the end of what was folded for this replica."""

    reach: int
    committed: Row | None = None
    pending: dict[int, Row] = field(default_factory=dict)
    group: Row | None = None
    members: dict[str, Row] = field(default_factory=dict)


Sides = Mapping[str, ReplicaSide]
"""ReplicaSide by replica."""


def differing(states: Sequence[ReplicaState]) -> dict[GroupKey, dict[str, ReplicaSide]]:
    """Every key and every group that is not equal in all states, with its value in each state."""
    keys = {
        *_unlike([state.committed for state in states], _KEY),
        *_unlike([state.pending for state in states], _KEY),
    }
    shown = {
        *_unlike([_flat(state.groups, _GROUP_COLUMNS) for state in states], ("group_id",)),
        *_unlike([_flat(state.members, _MEMBER_COLUMNS) for state in states], ("group_id",)),
    }
    # If only some replicas have cleaned a group's tombstone away, `shown` may have the group: where an offset outlived
    # its group, or where a tombstone alone created the group. That is not a difference.
    groups = shown & {
        *_unlike([state.group_values for state in states], ("group_id",)),
        *((group_id,) for group_id, _, _ in keys),
    }
    found: dict[GroupKey, dict[str, ReplicaSide]] = {
        (*key, *(None,) * (3 - len(key))): {state.replica: ReplicaSide(reach=state.reach) for state in states}
        for key in (*sorted(keys), *sorted(groups))
    }
    group_ids = pa.array(sorted({key[0] for key in found}), pa.string())
    for state in states:
        for row in _of_groups(state.committed, group_ids):
            if (sides := found.get(tuple(row[name] for name in _KEY))) is not None:
                sides[state.replica].committed = row
        for row in _of_groups(state.pending, group_ids):
            if (sides := found.get(tuple(row[name] for name in _KEY))) is not None:
                sides[state.replica].pending[row["producer_id"]] = row
        for row in _of_groups(state.groups, group_ids):
            if (sides := found.get((row["group_id"], None, None))) is not None:
                sides[state.replica].group = row
        for row in _of_groups(state.members, group_ids):
            if (sides := found.get((row["group_id"], None, None))) is not None:
                sides[state.replica].members[row["member_id"]] = row
    return found


def everything(states: Sequence[ReplicaState]) -> dict[GroupKey, dict[str, ReplicaSide]]:
    """Every key with a committed or pending offset, and every group, with its value in each of the states."""
    found: dict[GroupKey, dict[str, ReplicaSide]] = {}

    def side(state: ReplicaState, key: GroupKey) -> ReplicaSide:
        sides = found.setdefault(key, {})
        return sides.setdefault(state.replica, ReplicaSide(reach=state.reach))

    for state in states:
        for row in state.committed.to_pylist():
            side(state, (row["group_id"], row["topic"], row["partition"])).committed = row
        for row in state.pending.to_pylist():
            side(state, (row["group_id"], row["topic"], row["partition"])).pending[row["producer_id"]] = row
        for row in state.groups.to_pylist():
            side(state, (row["group_id"], None, None)).group = row
    return found


def _flat(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns `names`, with each list of strings joined into one string."""
    columns = (table[name] for name in names)
    flat = [pc.binary_join(column, ",") if pa.types.is_list(column.type) else column for column in columns]
    return pa.table(flat, names=list(names))


def _unlike(tables: Sequence[pa.Table], key: Sequence[str]) -> set[tuple[Any, ...]]:
    """Keys of rows that are not in every table."""
    first = tables[0]
    if all(table.equals(first) for table in tables[1:]):
        return set()
    together = pa.concat_tables(tables)
    counted = together.group_by(together.column_names).aggregate([([], "count_all")])
    rare = counted.filter(pc.less(counted["count_all"], len(tables))).select(list(key))
    return set(zip(*(rare[name].to_pylist() for name in key), strict=True))


def _of_groups(table: pa.Table, group_ids: pa.Array) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["group_id"], group_ids)).to_pylist()
    return rows
