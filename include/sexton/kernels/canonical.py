"""Brings a fold that begins at the start of its log partition into the canonical form that a checkpoint stores.

Splitting a log leaves traces in a fold: the order of keys, dead keys, and first end markers that only matter to an
earlier slice. The canonical form has none of these: the same log gives the same tables and the same bytes, whether it
is read in one pass, in slices or from a checkpoint on.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.kernels import layout as L
from sexton.kernels.columns import group_ids, key_columns, places
from sexton.kernels.layout import FoldState, Int64s


def canonical(state: FoldState) -> FoldState:
    """The canonical form of `state`, which begins at the start of its log partition; only for writing it
    (`checkpoint.tables`): nothing can be folded onto it.

    It has the keys with a stored or pending value, in order of the log_offset of their newest value; pending values in
    order of log_offset; the producers with something open, and all groups, in order of id.
    """
    counts = state.counts.copy()
    keys, producers = state.keys[: counts[L.KEYS]], state.producers[: counts[L.PRODUCERS]]
    pending = state.pending[: counts[L.PENDING]]
    pending = pending[pending[:, L.PENDING_VALUES] != 0]
    newest = keys[:, L.LOG_OFFSET].copy()
    np.maximum.at(newest, pending[:, L.PENDING_KEY], pending[:, L.PENDING_LOG_OFFSET])
    order = _by_newest(state, newest)
    rank = places(order, len(keys))
    by_id, open_count = _open_first(producers)
    pending[:, L.PENDING_KEY] = rank[pending[:, L.PENDING_KEY]]
    pending[:, L.PENDING_PRODUCER] = places(by_id, len(producers))[pending[:, L.PENDING_PRODUCER]]
    producers = producers[by_id]
    producers[:, L.P_MARKER], producers[:, L.P_MARKER_AT] = -1, L.NONE
    ids = producers[pending[:, L.PENDING_PRODUCER], L.P_ID]
    counts[[L.KEYS, L.PENDING, L.PRODUCERS]] = len(order), len(pending), open_count
    groups = state.groups[: counts[L.GROUPS]]
    by_name = np.asarray(pc.sort_indices(group_ids(state)))
    records = state.records[: counts[L.RECORDS]].copy()
    records[:, L.R_GROUP] = places(by_name, len(groups))[records[:, L.R_GROUP]]
    return state._replace(
        counts=counts,
        groups=groups[by_name],
        records=records,
        keys=_settled(keys.take(order, axis=0)),
        pending=pending[np.lexsort((pending[:, L.PENDING_KEY], ids, pending[:, L.PENDING_LOG_OFFSET]))],
        producers=producers,
    )


def _by_newest(state: FoldState, newest: Int64s) -> Int64s:
    """Rows of live keys in order of `newest`; in a damaged log, keys that share a log_offset are in order of name."""
    live = np.flatnonzero(newest != L.NONE)
    order: Int64s = live[np.argsort(newest[live], kind="stable")]
    if np.any(np.diff(newest[order]) == 0):
        by_name = pa.table({"newest": newest[live], **key_columns(state, state.keys[live])})
        by_name_order = pc.sort_indices(by_name, sort_keys=[(name, "ascending") for name in by_name.column_names])
        order = live[np.asarray(by_name_order)]
    return order


def _settled(keys: Int64s) -> Int64s:
    """Rows of keys without last tombstones, and without traces of removed values."""
    keys[:, L.LAST_TOMBSTONE] = L.NONE
    gone = keys[:, L.LOG_OFFSET] == L.NONE
    keys[gone, L.PRODUCER_ID] = -1
    keys[gone, L.VALUE : L.VALUE_END] = 0
    return keys


def _open_first(producers: Int64s) -> tuple[Int64s, int]:
    """Rows of producers, those with open transactions first, by id; and the number of producers with open transactions.

    The other producers are not written, but transactions that Kafka 4.0.0 leaves open still refer to them.
    """
    is_open = (producers[:, L.P_FIRST] != L.NONE) | (producers[:, L.P_CANCELLED] != 0)
    order: Int64s = np.lexsort((producers[:, L.P_ID], ~is_open))
    return order, int(is_open.sum())
