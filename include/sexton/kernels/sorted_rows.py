"""Sorts the rows of a fold: committed, unreachable and pending offsets, each by key.

There may be millions of offsets and hundreds of thousands of groups: nothing here makes a Python object for them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.groups.share import ShareGroup
from sexton.coordinator.profile import Profile
from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.columns import Mask, key_columns, topic_partitions
from sexton.kernels.group_records import GroupRecords
from sexton.kernels.layout import FoldState, Int64s
from sexton.kernels.text import partition_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """Rows of the fold, each kind ordered by key."""

    committed: Int64s
    unreachable: Int64s
    is_removed: Mask
    """For each row of `unreachable`: whether its group is gone."""
    is_shared: Mask
    """For each row of `unreachable`: whether its group is a share group. Other rows are misplaced, or may be."""
    pending: Int64s
    """Rows of `pending`."""
    group_exists: Mask
    group_home: Int64s | None
    """The log partition that each group hashes to; None if the number of log partitions is not known."""
    group_has_transaction: Mask
    """Whether the coordinator considers a transaction with the group's offsets open."""
    offset_counts: Int64s
    pending_counts: Int64s


def sort_rows(
    state: FoldState,
    replay: GroupRecords,
    *,
    log_partition: int,
    partition_count: int | None,
    held_elsewhere: Collection[str],
) -> SortedRows:
    """Sort the rows of `state`, whose group records are `replay`; for the parameters see `results.finish_bucket`.

    Where groups exist as long as they have offsets (Profile.offsets_hold_groups), those groups are added to `replay`.
    """
    groups, keys = state.groups[: state.counts[L.GROUPS]], state.keys[: state.counts[L.KEYS]]
    stored = np.flatnonzero(keys[:, L.LOG_OFFSET] != L.NONE)
    of_group = keys[stored, L.KEY_GROUP]
    pending = state.pending[: state.counts[L.PENDING]]
    pending_rows = np.flatnonzero(pending[:, L.PENDING_VALUES] > 0)
    of_pending = keys[pending[pending_rows, L.PENDING_KEY], L.KEY_GROUP]
    has_transaction = np.zeros(len(groups), bool)
    has_transaction[of_pending] = True
    has_transaction[keys[pending[pending[:, L.PENDING_VALUES] == L.LEAKED, L.PENDING_KEY], L.KEY_GROUP]] = True
    exists = groups[:, L.LAST_VALUE] != L.NONE
    if replay.profile.offsets_hold_groups:
        exists[:] = False
        exists[of_group] = exists[of_pending] = True
        replay.groups.complete({name for name, row in replay.rows_of.items() if exists[row]})
    for group_id, row in replay.rows_of.items():
        exists[row] = group_id in replay.groups.by_id
    homes: Int64s | None = None
    is_share_group = _share_groups(replay, len(groups))
    lost = ~exists[of_group] | is_share_group[of_group]
    if partition_count is not None:
        homes = np.empty(len(groups), np.int64)
        place(state.key_bytes, groups, partition_count, homes)
        lost |= _is_away(state, homes != log_partition, replay.profile, held_elsewhere)[of_group]
    else:
        lost |= _are_in(state, np.arange(len(groups)), held_elsewhere)[of_group]
    unreachable = _by_key(state, stored[lost])
    return SortedRows(
        committed=_by_key(state, stored[~lost]),
        unreachable=unreachable,
        is_removed=~exists[keys[unreachable, L.KEY_GROUP]],
        is_shared=is_share_group[keys[unreachable, L.KEY_GROUP]],
        pending=pending_rows[_pending_order(state, pending_rows)],
        group_exists=exists,
        group_home=homes,
        group_has_transaction=has_transaction,
        offset_counts=np.bincount(of_group[~lost], minlength=len(groups)),
        pending_counts=np.bincount(of_pending, minlength=len(groups)),
    )


def _share_groups(replay: GroupRecords, count: int) -> Mask:
    """For each of `count` rows of groups, whether it is a share group."""
    found = np.zeros(count, bool)
    rows = (row for name, row in replay.rows_of.items() if isinstance(replay.groups.by_id.get(name), ShareGroup))
    found[list(rows)] = True
    return found


def _is_away(state: FoldState, is_misplaced: Mask, profile: Profile, held_elsewhere: Collection[str]) -> Mask:
    """Groups that clients find in another log partition."""
    if not profile.one_cache:
        return is_misplaced
    return is_misplaced & _are_in(state, np.flatnonzero(is_misplaced), held_elsewhere)


def _are_in(state: FoldState, rows: Int64s, group_ids: Collection[str]) -> Mask:
    """For each row of a group, whether its id is among `group_ids`."""
    found = np.zeros(state.counts[L.GROUPS], bool)
    if group_ids:
        found[rows] = [cols.group_name(state, row) in group_ids for row in rows.tolist()]
    return found


@compiled
def place(arena: Any, groups: Any, partition_count: int, homes: Any) -> None:
    """Write the log partition that each group hashes to into `homes`."""
    data = pointer(arena)
    for row in range(len(groups)):
        homes[row] = partition_of(data, groups[row, L.GROUP_AT], groups[row, L.GROUP_LENGTH], partition_count)


def _by_key(state: FoldState, rows: Int64s) -> Int64s:
    """Rows of `keys` in the order of group_id, topic, partition."""
    if not len(rows):
        return rows
    # Names repeat: each is sorted once and replaced by its rank. Ranks and partition are sorted as one int64 per row if
    # they fit into it.
    keys = state.keys.take(rows, axis=0)
    named = topic_partitions(state, keys)
    topics, partitions = named["topic"].dictionary_encode(), np.asarray(named["partition"]).astype(np.int64)
    groups = _ranks(cols.group_ids(state))[keys[:, L.KEY_GROUP]]
    ranks = groups * len(topics.dictionary) + _ranks(topics.dictionary)[np.asarray(topics.indices)]
    lowest = partitions.min()
    width = int(partitions.max() - lowest) + 1
    if (int(ranks.max()) + 1) * width < 1 << 63:
        order = np.argsort(ranks * width + (partitions - lowest))
    else:
        order = np.lexsort((partitions, ranks))
    ordered: Int64s = rows[order]
    return ordered


def _ranks(names: pa.Array) -> Int64s:
    """The rank of each distinct name."""
    return cols.places(np.asarray(pc.sort_indices(names)), len(names))


def _pending_order(state: FoldState, rows: Int64s) -> Int64s:
    """Order of rows of `pending` by producer_id, then key."""
    if not len(rows):
        return rows
    pending = state.pending[rows]
    named = pa.table(
        {
            "producer_id": pa.array(state.producers[pending[:, L.PENDING_PRODUCER], L.P_ID]),
            **key_columns(state, state.keys[pending[:, L.PENDING_KEY]]),
        }
    )
    order: Int64s = np.asarray(pc.sort_indices(named, [(name, "ascending") for name in named.column_names]))
    return order
