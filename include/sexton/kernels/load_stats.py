"""The row of `load_profile`: what loading a log partition costs and how it ends."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.endless_load import NEVER_ENDS, Endless
from sexton.coordinator.load_model import MODEL
from sexton.coordinator.loading import HOT_GROUPS, LOADED
from sexton.coordinator.offsets import FATES
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.group_records import GroupRecords
from sexton.kernels.layout import State
from sexton.kernels.partial_fold import PartialFold
from sexton.kernels.slow_path import log_order_before
from sexton.kernels.sorted_rows import SortedRows
from sexton.tables import TABLES

_AFTER_ALL = 1 << 80
"""After every record of the log."""


def load_profile(
    fold: PartialFold,
    replay: GroupRecords,
    found: SortedRows,
    undecodable: list[tuple[int, Undecodable]],
    *,
    log_partition: int,
    endless: Endless | None = None,
) -> pa.Table:
    """The one row; `undecodable` holds the records that could not be decoded, in the order of the log.

    `endless` is the first batch too large for an older coordinator's buffer; a failure before it ends the load first.
    """
    at_the_end = [(_AFTER_ALL, reason) for reason in replay.groups.loading_failures()]
    failures = [*((at, str(row)) for at, row in undecodable if row.fails_load), *replay.failures, *at_the_end]
    failure = min(failures, key=lambda failure: failure[0], default=None)
    if endless is not None and failure is not None and failure[0] < log_order_before(endless.log_offset):
        endless = None
    counters: Mapping[str, int] = fold.counters
    misplaced = None if found.group_home is None else found.group_home != log_partition
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
        "stray_groups": None if misplaced is None else int((misplaced & found.group_exists).sum()),
        "load_would_fail": endless is not None or failure is not None,
        "load_failure": failure[1] if failure else None,
        "load_outcome": fold.profile.after_failure.value if failure else LOADED,
        "unknown_types": sum(fold.unknown_types.values()),
        "future_batches": counters["future_batches"],
        "undecodable_records": len(fold.undecodable)
        + int(fold.batch_counters[L.READ_LEFT_OUT])
        + replay.undecodable_count,
        **_hot_groups(fold.state),
        "first_unstable_log_offset": _first_unstable(fold.state),
        "read_values": counters["offset_values"],
        **_fates(fold, found, fold.undecodable_values),
    }
    if endless is not None:
        row |= {"load_failure": endless.text(counters["largest_batch_bytes"]), "load_outcome": NEVER_ENDS}
    records = counters["records"]
    row["predicted_load_ms"] = MODEL.predict_ms(
        records=records, control_records=counters["control_records"], live_records=row["live_records"]
    )
    row["garbage_share"] = 1 - row["live_records"] / records if records else None
    declared = TABLES["load_profile"].arrow_schema(with_run=False)
    return pa.Table.from_pylist([row], pa.schema([declared.field(name) for name in row]))


def _fates(fold: PartialFold, found: SortedRows, undecodable: int) -> dict[str, int]:
    """How many offset values ended in each fate (`coordinator.offsets.FATES`); they add up to all that were read."""
    state = fold.state
    keys, counted = state.keys[: state.counts[L.KEYS]], fold.counters
    stored, pending = len(found.committed) + len(found.unreachable), len(found.pending)
    fates = Counter(
        live=len(found.committed),
        unreachable=len(found.unreachable),
        pending=pending,
        superseded=int(keys[:, L.SINCE].sum())
        - stored
        + int(state.pending[found.pending, L.PENDING_VALUES].sum())
        - pending,
        tombstoned=counted["tombstoned"],
        aborted=counted["aborted"],
        cancelled=int(state.producers[: state.counts[L.PRODUCERS], L.P_CANCELLED].sum()),
        undecodable=undecodable,
    )
    return {fate: fates[fate] for fate in FATES}


def _hot_groups(state: State) -> dict[str, Any]:
    """The groups with most commits, the hottest first, and the hottest one's share of all commits."""
    groups = state.groups[: state.counts[L.GROUPS]]
    groups = groups[groups[:, L.COMMITS] > 0]
    total = int(groups[:, L.COMMITS].sum())
    if not total:
        return {"hot_groups": [], "hottest_group_share": None}
    fifth = np.sort(groups[:, L.COMMITS])[-min(HOT_GROUPS, len(groups))]
    groups = groups[groups[:, L.COMMITS] >= fifth]
    names = cols.strings(state.key_bytes, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH]).cast(pa.string())
    hot = pa.table({"name": names, "commits": groups[:, L.COMMITS]})
    order = pc.select_k_unstable(hot, HOT_GROUPS, [("commits", "descending"), ("name", "ascending")])
    hot = hot.take(order)
    return {"hot_groups": hot["name"].to_pylist(), "hottest_group_share": hot["commits"][0].as_py() / total}


def _first_unstable(state: State) -> int | None:
    """Where the oldest open transaction begins: the log cleaner does not go beyond it."""
    first = state.producers[: state.counts[L.PRODUCERS], L.P_FIRST]
    open_ones = first[first != L.NONE]
    return int(open_ones.min()) if len(open_ones) else None
