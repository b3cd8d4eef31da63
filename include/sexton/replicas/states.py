"""The answers of each replica if it led: its log folded by the coordinator's rules, as it is and after catching up.

A replica that is behind, or that has diverged from the leader, is folded twice: as it is (what clients would read after
an unclean election), and as replication would leave it: truncated where its leader epochs diverge from the leader's,
followed by the leader's records. Clients see wrong answers in the second fold after any election of this replica.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from sexton.coordinator.api.coordinator import CoordinatorShard, shard_after_load
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.profile import LOADED, Profile
from sexton.kernels import layout as L
from sexton.kernels.columns import spans, strings
from sexton.kernels.fold import PartialFold, fold_task
from sexton.kernels.layout import FoldState
from sexton.kernels.results import finish
from sexton.log.headers import headers_of
from sexton.log.segment import FoldTask, Segment, SegmentSlice, file_bytes
from sexton.replicas.folders import ReplicaLog

_OFFSET_COLUMNS = (
    *("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms"),
    *("log_offset", "producer_id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The state of a coordinator after loading [log start, `reach`) of a replica.

    `failure` is why the load fails. Clients then get NOT_COORDINATOR for every group, even if the tables have rows.
    """

    replica: str
    reach: int
    failure: str | None
    tables: Mapping[str, pa.Table]
    """The tables of `kernels.results.finish`."""
    groups: pa.Table
    """Rows of `groups` without groups that have neither a record of their own nor a committed or pending offset.

    A deleted or aborted offset leaves such a group in memory only, and the next sweep removes the group.
    """
    group_values: pa.Table
    """The last record (group_id, key, log_offset) of each key that belongs to a group and is not an offset; keys whose
    last record is a tombstone are left out."""
    record_count: int
    batch_count: int
    newest_ms: int

    @property
    def committed(self) -> pa.Table:
        """Committed offsets, also of removed groups: a group's tombstone may be cleaned away before its offsets'."""
        tables = (self.tables[name].select(_OFFSET_COLUMNS) for name in ("committed_offsets", "unreachable_offsets"))
        return pa.concat_tables(tables)

    @property
    def pending(self) -> pa.Table:
        return self.tables["pending_offsets"].select(_OFFSET_COLUMNS)

    @property
    def members(self) -> pa.Table:
        return self.tables["members"]

    @property
    def transactions(self) -> pa.Table:
        return self.tables["open_transactions"]

    def shard(self, profile: Profile) -> CoordinatorShard:
        """The log partition as a coordinator serves it, for `coordinator.api`."""
        outcome = LOADED if self.failure is None else profile.after_failure
        return shard_after_load(TablesView(self.tables), outcome, profile=profile)

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction with offsets begins, else `reach`."""
        first = pc.min(self.transactions["first_log_offset"]).as_py()
        return self.reach if first is None else min(first, self.reach)


def state_of(log: ReplicaLog, *, stop: int, profile: Profile, cap_bytes: int) -> tuple[ReplicaState, PartialFold]:
    """The state from a replica's own bytes below `stop`, and the fold, to which further records can be added."""
    reach = min(stop, log.end)
    fold = _fold(log, log.start, reach, None, profile, cap_bytes)
    return _state(log, fold, reach), fold


def caught_up(
    log: ReplicaLog,
    leader: ReplicaLog,
    *,
    own: tuple[ReplicaState, PartialFold],
    stop: int,
    profile: Profile,
    cap_bytes: int,
) -> ReplicaState:
    """The state of a replica after it has followed `leader` up to `stop`. The fold in `own` cannot be used again."""
    state, fold = own
    kept = min(log.diverges_from(leader), state.reach)
    if kept < leader.start:  # the replica would start anew at the leader's log start
        return _state(log, _fold(leader, leader.start, stop, None, profile, cap_bytes), stop)
    if kept < state.reach:
        fold = _fold(log, log.start, kept, None, profile, cap_bytes)
    elif kept >= stop:
        return state
    return _state(log, _fold(leader, kept, stop, fold, profile, cap_bytes), stop)


def _state(log: ReplicaLog, fold: PartialFold, reach: int) -> ReplicaState:
    tables = finish(fold, log_partition=log.log_partition, partition_count=None)
    groups = tables["groups"]
    is_bare = pc.and_(
        pc.is_null(groups["log_offset"]), pc.equal(pc.add(groups["offset_count"], groups["pending_count"]), 0)
    )
    return ReplicaState(
        replica=log.replica,
        reach=reach,
        failure=tables["load_profile"]["load_failure"][0].as_py(),
        tables=tables,
        groups=groups.filter(pc.invert(is_bare)),
        group_values=_group_values(fold.state),
        record_count=fold.counters["records"],
        batch_count=fold.counters["batches"],
        newest_ms=fold.max_timestamp_ms,
    )


def _group_values(state: FoldState) -> pa.Table:
    records = state.records[: state.counts[L.RECORDS]]
    keys = spans(state.record_bytes, records[:, L.R_AT], records[:, L.R_KEY_SIZE]).dictionary_encode()
    last = np.empty(len(keys.dictionary), np.int64)
    last[np.asarray(keys.indices)] = np.arange(len(records))  # the last record of each key stays
    kept = records[np.sort(last)]
    kept = kept[kept[:, L.R_VALUE_SIZE] >= 0]
    groups = state.groups[kept[:, L.R_GROUP]]
    return pa.table(
        {
            "group_id": strings(state.key_bytes, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH]).cast(pa.string()),
            "key": spans(state.record_bytes, kept[:, L.R_AT], kept[:, L.R_KEY_SIZE]),
            "log_offset": pa.array(kept[:, L.R_LOG_OFFSET]),
        }
    )


def _fold(
    log: ReplicaLog, first: int, stop: int, onto: PartialFold | None, profile: Profile, cap_bytes: int
) -> PartialFold:
    """The fold of the batches that begin in [first, stop), after `onto`."""
    slices = tuple(_slices(log, first, stop))
    task = FoldTask(log_partition=log.log_partition, index=0, slices=slices, is_last=True)
    data = (file_bytes(log.fs, span.path, span.size_bytes) for span in slices)
    return fold_task(data, task=task, cap_bytes=cap_bytes, as_of_ms=None, taken_at_ms=None, profile=profile, onto=onto)


def _slices(log: ReplicaLog, first: int, stop: int) -> Iterator[SegmentSlice]:
    for number, segment in enumerate(log.segments):
        end = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.end
        if end <= first or segment.base_offset >= stop:
            continue
        yield SegmentSlice(
            path=segment.path,
            size_bytes=segment.size_bytes,
            start_byte=0 if segment.base_offset >= first else _byte_of(log.fs, segment, first),
            end_byte=segment.size_bytes if end <= stop else _byte_of(log.fs, segment, stop),
            base_offset=segment.base_offset,
        )


def _byte_of(fs: pafs.FileSystem, segment: Segment, log_offset: int) -> int:
    """The byte at which the first batch at or after `log_offset` begins; the end of the file if there is none."""
    data = file_bytes(fs, segment.path, segment.size_bytes)
    for headers in headers_of(data, floor_offset=segment.base_offset):
        found = np.flatnonzero(headers.base_offset >= log_offset)
        if len(found):
            return int(headers.position[found[0]])
    return segment.size_bytes
