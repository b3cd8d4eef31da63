"""Compares offsets with the cluster's topics, as Arrow columns.

Finds orphans (offsets of a deleted topic, a recreated topic, a deleted partition) and offsets below the start or beyond
the end of the partition's log. Orphans are found as in `coordinator.orphans`, but without a Python object for each
offset; the tests compare both.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsTable:
    """The cluster's topics: rows of topic_partitions, in any order.

    If not all topics could be seen (`sees_all` False), offsets of a missing topic are not orphans. `recorded_at_ms` is
    None if unknown: the topics then apply to commits of any time.
    """

    partitions: pa.Table
    sees_all: bool = True
    recorded_at_ms: int | None = None


def against_topics(offsets: pa.Table, known: TopicsTable | None) -> pa.Table:
    """For each row of `offsets`, in order: orphan (NULL if it is not an orphan, or if that is unknown),
    behind_log_start, beyond_log_end.

    `known` is None if no topics were recorded.
    """
    count = offsets.num_rows
    if known is None:
        unknown = pa.nulls(count, pa.bool_())
        orphan = pa.nulls(count, pa.string())
        return pa.table({"orphan": orphan, "behind_log_start": unknown, "beyond_log_end": unknown})
    names, ids, first, sizes, log_starts, log_ends = _by_topic(known.partitions)
    at_topic = np.asarray(pc.fill_null(pc.index_in(offsets["topic"], value_set=names), len(names)))
    partition = np.asarray(offsets["partition"]).astype(np.int64)
    has_topic = at_topic < len(names)
    has_partition = has_topic & (partition >= 0) & (partition < np.append(sizes, 0)[at_topic])
    now_id = pa.chunked_array([ids, pa.nulls(1, pa.string())]).take(pa.array(at_topic))
    is_another = np.asarray(pc.fill_null(pc.not_equal(offsets["topic_id"], now_id), False))
    is_judged = np.ones(count, bool)
    if known.recorded_at_ms is not None:  # a later commit proves that its topic exists, recorded or not
        is_judged = np.asarray(pc.less(offsets["commit_timestamp_ms"], known.recorded_at_ms))
    kind = np.select([~is_judged, ~has_topic, is_another, ~has_partition], [3, 0 if known.sees_all else 3, 1, 2], 3)
    place = np.where(has_partition, np.append(first, 0)[at_topic] + partition, len(log_starts) - 1)
    starts, ends, committed = log_starts[place], log_ends[place], np.asarray(offsets["committed_offset"])
    is_here = has_partition & (kind == _NONE)
    return pa.table(
        {
            "orphan": _KINDS.take(pa.array(kind)),
            "behind_log_start": pa.array(committed < starts, pa.bool_(), mask=~(is_here & (starts >= 0))),
            "beyond_log_end": pa.array(committed > ends, pa.bool_(), mask=~(is_here & is_judged & (ends >= 0))),
        }
    )


_KINDS = pa.array(["topic_gone", "topic_recreated", "partition_gone", None])
_NONE = len(_KINDS) - 1
_Numbers = npt.NDArray[np.int64]


def _by_topic(partitions: pa.Table) -> tuple[pa.Array, pa.Array, _Numbers, _Numbers, _Numbers, _Numbers]:
    """Each topic's name, id, row of its partition 0 and number of partitions; then log start and log end of all rows.

    The last two have one extra entry, for no partition.
    """
    rows = partitions.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    runs = pc.run_end_encode(rows["topic"].combine_chunks()) if rows.num_rows else None
    ends = np.zeros(0, np.int64) if runs is None else np.asarray(runs.run_ends).astype(np.int64)
    first = np.append(0, ends)[:-1]
    of_first = rows.take(pa.array(first))
    starts, ends_of_logs = (
        np.append(np.asarray(rows[name]).astype(np.int64), -1) for name in ("log_start_offset", "log_end_offset")
    )
    names, ids = (of_first[name].combine_chunks() for name in ("topic", "topic_id"))
    return names, ids, first, ends - first, starts, ends_of_logs
