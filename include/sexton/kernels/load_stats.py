"""The row of `load_profile`: what loading a log partition costs and how it ends."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.endless_load import NEVER_ENDS, Endless
from sexton.coordinator.load_model import MODEL
from sexton.coordinator.loading import HOT_GROUPS
from sexton.coordinator.profile import LOADED, Profile
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.group_records import GroupRecords
from sexton.kernels.layout import FoldState
from sexton.kernels.partial_fold import PartialFold
from sexton.kernels.slow_path import log_order_before
from sexton.kernels.sorted_rows import SortedRows
from sexton.tables import TABLES

_AFTER_ALL = 1 << 80
"""Position after all records of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStats:
    """The contribution of one bucket of a log partition to its row (kernels.buckets)."""

    profile: Profile
    log: Mapping[str, int | None]
    """Values of the whole log partition, the same in every bucket."""
    counts: Counter[str]
    """Values that are summed over the buckets; without misplaced_groups where the number of log partitions is not
    known."""
    failure: tuple[int, str] | None
    """The first record that makes a load fail: its position in the log, and the reason."""
    hot_groups: Sequence[tuple[int, str]]
    """Number of commits and id of the groups with the most commits."""
    commits: int
    first_unstable_log_offset: int | None


def load_stats(
    fold: PartialFold,
    replay: GroupRecords,
    found: SortedRows,
    undecodable: list[tuple[int, Undecodable]],
    *,
    log_partition: int,
    is_first: bool,
) -> LoadStats:
    """Statistics of a fold; `undecodable` has the records that could not be decoded, in log order.

    `is_first`: it is the first bucket, or the only one.
    """
    at_the_end = [(_AFTER_ALL, reason) for reason in replay.groups.loading_failures()]
    failures = [*((at, str(row)) for at, row in undecodable if row.fails_load), *replay.failures, *at_the_end]
    counters: Mapping[str, int] = fold.counters
    counts = Counter(
        {
            "records": counters["records"],
            "live_records": len(found.committed)
            + len(found.unreachable)
            + len(found.pending)
            + sum(replay.live_records.values()),
            "tombstones": counters["offset_tombstones"] + replay.tombstones,
            "control_records": counters["control_records"],
            "unknown_types": sum(fold.unknown_types.values()),
            "undecodable_records": replay.undecodable_count,
            "read_values": counters["offset_values"],
            **_fates(fold, found, fold.undecodable_values),
        }
    )
    if is_first:
        counts["undecodable_records"] += len(fold.undecodable) + int(fold.batch_counters[L.READ_LEFT_OUT])
    if found.group_home is not None:
        counts["misplaced_groups"] = int(((found.group_home != log_partition) & found.group_exists).sum())
    hot_groups, commits = _hot_groups(fold.state)
    return LoadStats(
        profile=fold.profile,
        log={
            **{name: counters[name] for name in ("bytes", "batches", "largest_batch_bytes", "future_batches")},
            "first_log_offset": fold.first_log_offset,
            "next_log_offset": fold.next_log_offset,
        },
        counts=counts,
        failure=min(failures, key=lambda failure: failure[0], default=None),
        hot_groups=hot_groups,
        commits=commits,
        first_unstable_log_offset=_first_unstable(fold.state),
    )


def load_profile(stats: Sequence[LoadStats], *, log_partition: int, endless: Endless | None = None) -> pa.Table:
    """The row of `load_profile` of a log partition, from the statistics of its buckets.

    `endless` is the first batch too large for an older coordinator's buffer; it does not count if a failure before it
    ends the load.
    """
    first, counts = stats[0], sum((each.counts for each in stats), Counter[str]())
    failure = min((each.failure for each in stats if each.failure), key=lambda failure: failure[0], default=None)
    if endless is not None and failure is not None and failure[0] < log_order_before(endless.log_offset):
        endless = None
    hot_groups = sorted((-commits, name.encode(), name) for each in stats for commits, name in each.hot_groups)
    commits = sum(each.commits for each in stats)
    unstable = [each.first_unstable_log_offset for each in stats if each.first_unstable_log_offset is not None]
    row: dict[str, Any] = {
        "log_partition": log_partition,
        **first.log,
        "misplaced_groups": None,
        **{name: counts[name] for name in first.counts},
        "load_would_fail": endless is not None or failure is not None,
        "load_failure": failure[1] if failure else None,
        "load_outcome": first.profile.after_failure.value if failure else LOADED,
        "hot_groups": [name for _, _, name in hot_groups[:HOT_GROUPS]],
        "hottest_group_share": -hot_groups[0][0] / commits if hot_groups else None,
        "first_unstable_log_offset": min(unstable, default=None),
    }
    if endless is not None:
        row |= {"load_failure": endless.text(row["largest_batch_bytes"]), "load_outcome": NEVER_ENDS}
    row["predicted_load_ms"] = MODEL.predict_ms(
        records=row["records"], control_records=row["control_records"], live_records=row["live_records"]
    )
    row["garbage_share"] = 1 - row["live_records"] / row["records"] if row["records"] else None
    declared = TABLES["load_profile"].arrow_schema(with_run=False)
    return pa.Table.from_pylist([row], pa.schema([field for field in declared if field.name in row]))


def _fates(fold: PartialFold, found: SortedRows, undecodable: int) -> dict[str, int]:
    """Number of offset values by fate (`sexton.tables.FATES`); they add up to all values that were read."""
    state = fold.state
    keys, counted = state.keys[: state.counts[L.KEYS]], fold.counters
    stored, pending = len(found.committed) + len(found.unreachable), len(found.pending)
    values = int(keys[:, L.SINCE].sum() + state.pending[found.pending, L.PENDING_VALUES].sum())
    return {
        "live": len(found.committed),
        "unreachable": len(found.unreachable),
        "pending": pending,
        "superseded": values - stored - pending,
        "tombstoned": counted["tombstoned"],
        "aborted": counted["aborted"],
        "cancelled": int(state.producers[: state.counts[L.PRODUCERS], L.P_CANCELLED].sum()),
        "undecodable": undecodable,
    }


def _hot_groups(state: FoldState) -> tuple[list[tuple[int, str]], int]:
    """(commits, id) of the groups with the most commits, and the total number of commits."""
    groups = state.groups[: state.counts[L.GROUPS]]
    groups = groups[groups[:, L.COMMITS] > 0]
    total = int(groups[:, L.COMMITS].sum())
    if not total:
        return [], 0
    fifth = np.sort(groups[:, L.COMMITS])[-min(HOT_GROUPS, len(groups))]
    groups = groups[groups[:, L.COMMITS] >= fifth]
    names = cols.names(state, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH]).cast(pa.string())
    hot = pa.table({"name": names, "commits": groups[:, L.COMMITS]})
    order = pc.select_k_unstable(hot, HOT_GROUPS, [("commits", "descending"), ("name", "ascending")])
    hot = hot.take(order)
    return list(zip(hot["commits"].to_pylist(), hot["name"].to_pylist(), strict=True)), total


def _first_unstable(state: FoldState) -> int | None:
    """Where the oldest open transaction begins: the log cleaner does not go beyond it."""
    first = state.producers[: state.counts[L.PRODUCERS], L.P_FIRST]
    open_ones = first[first != L.NONE]
    return int(open_ones.min()) if len(open_ones) else None
