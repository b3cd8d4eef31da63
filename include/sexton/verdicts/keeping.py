"""What `sexton keep` has done and will do with offsets under a hold with `keep`, as columns next to their verdicts.

The broker counts retention from Sexton's repeated commit, or from the end of Sexton's join. Policies count from what
clients did, else a hold with an end would never end and no group that Sexton keeps would ever be idle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.offsets import OffsetKey
from sexton.policy import Policy
from sexton.policy.field_types import FOREVER_MS
from sexton.verdicts.expiry import KEY, with_column

KEPT, DUE, NOT_KEPT, ENDED = "kept", "due", "not_kept", "ended"
"""Statuses of an offset under a hold with `keep`: the broker expires it after the second run of `sexton keep` from now;
before that run; before the next run, or the last attempt to keep it failed; the hold keeps it no longer."""
ALIVE = pa.array([KEPT, DUE])
_DONE = pa.array(["done", "raced"])
CLIENT_MS = ("client_commit_timestamp_ms", "client_state_timestamp_ms")
_STEP = {"keep_at_ms": pa.int64(), "keep_outcome": pa.string(), "keep_error": pa.string()}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepStep:
    """The last attempt to keep an offset. `outcome` is None if it is not known."""

    at_ms: int
    outcome: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSteps:
    """The steps of `sexton keep`, as the ledger has them.

    `commits`: (offset, producer id of Sexton's repeated commit) -> when a client made the original commit.
    `by_log_offset`: (offset, log_offset of Sexton's repeated commit, where known) -> the same.
    `states`: (group, log_offset of the record that Sexton's join left) -> when the last client left the group Empty.
    """

    commits: Mapping[tuple[OffsetKey, int], int] = field(default_factory=dict)
    by_log_offset: Mapping[tuple[OffsetKey, int], int] = field(default_factory=dict)
    states: Mapping[tuple[str, int], int] = field(default_factory=dict)
    last: Mapping[OffsetKey, KeepStep] = field(default_factory=dict)


NOTHING_DONE = KeepSteps()


def client_times(offsets: pa.Table, groups: pa.Table, steps: KeepSteps) -> pa.Table:
    """For each of `offsets` the instants of clients that Sexton's own records hide (CLIENT_MS); NULL if not hidden."""
    count = offsets.num_rows
    if not steps.commits and not steps.states:
        return pa.table({name: pa.nulls(count, pa.int64()) for name in CLIENT_MS})
    commits: list[int | None] = [None] * count
    states: list[int | None] = [None] * count
    own = pa.array({key[0] for key, _ in steps.commits} | {name for name, _ in steps.states}, pa.string())
    at = pc.indices_nonzero(pc.is_in(offsets["group_id"], value_set=own))
    places = _by_group(groups, "log_offset", own)
    for row, number in zip(offsets.select([*KEY, "producer_id"]).take(at).to_pylist(), at.to_pylist(), strict=True):
        name, topic, partition, producer_id = row.values()
        commits[number] = steps.commits.get(((name, topic, partition), producer_id))
        states[number] = steps.states.get((name, places[name])) if name in places else None
    return pa.table(dict(zip(CLIENT_MS, (pa.array(one, pa.int64()) for one in (commits, states)), strict=True)))


def activity_of_clients(offsets: pa.Table, groups: pa.Table, verdicts: pa.Table) -> tuple[pa.Table, pa.Table]:
    """`offsets` and `groups` with the times of clients' commits and changes of state in place of Sexton's; `verdicts`
    has CLIENT_MS, row for row."""
    commit, state = (verdicts[name] for name in CLIENT_MS)
    if commit.null_count + state.null_count == 2 * len(verdicts):
        return offsets, groups
    own = verdicts.filter(pc.is_valid(state))
    by_group = dict(zip(own["group_id"].to_pylist(), own[CLIENT_MS[1]].to_pylist(), strict=True))
    before = pa.array([by_group.get(name) for name in groups["group_id"].to_pylist()], pa.int64())
    name = "current_state_timestamp_ms"
    return (
        with_column(offsets, "commit_timestamp_ms", pc.coalesce(commit, offsets["commit_timestamp_ms"])),
        with_column(groups, name, pc.coalesce(before, groups[name])) if by_group else groups,
    )


def base_of_clients(verdicts: pa.Table, offsets: pa.Table) -> pa.Table:
    """`verdicts` with the base_timestamp_ms from which retention would count without Sexton's own records."""
    commit, state = (verdicts[name] for name in CLIENT_MS)
    base = verdicts["base_timestamp_ms"]
    since_commit = pc.coalesce(commit, base)
    counted = pc.if_else(pc.equal(base, offsets["commit_timestamp_ms"]), since_commit, pc.coalesce(state, base))
    return with_column(verdicts, "base_timestamp_ms", counted)


def keep_columns(
    policy: Policy,
    offsets: pa.Table,
    verdicts: pa.Table,
    steps: KeepSteps,
    *,
    now_ms: int,
    every_ms: int | None,
    check_interval_ms: int,
) -> pa.Table:
    """Until when a hold keeps each offset, its status, and the last attempt: kept_until_ms, keep_status and _STEP.

    `offsets` have the times of clients' commits, `verdicts` the bases from these. All NULL if no hold has `keep`.
    `every_ms` is the time between two runs; without it runs are assumed to be in time, and every offset that is not
    `ended` is `kept`.
    """
    holds = [hold for hold in policy.holds if hold.keep_ms is not None]
    count = offsets.num_rows
    if not holds:
        own = {"kept_until_ms": pa.int64(), "keep_status": pa.string(), **_STEP}
        return pa.table({name: pa.nulls(count, kind) for name, kind in own.items()})
    at = pc.index_in(verdicts["policy_rule"], value_set=pa.array([hold.name for hold in holds], pa.string()))
    is_kept = np.asarray(pc.fill_null(pc.and_(pc.is_valid(at), pc.equal(verdicts["policy_verdict"], "hold")), False))
    hold_of = np.asarray(pc.fill_null(at, 0)).astype(np.int64)
    keep_ms = np.array([hold.keep_ms for hold in holds], np.int64)[hold_of]
    end_ms = np.array([FOREVER_MS if hold.until_ms is None else hold.until_ms for hold in holds], np.int64)[hold_of]
    committed = np.asarray(pc.fill_null(offsets["commit_timestamp_ms"], 0)).astype(np.int64)
    is_endless = keep_ms > FOREVER_MS - np.maximum(committed, 0)  # also where the sum is beyond 64 bits
    until = np.minimum(np.where(is_endless, FOREVER_MS, committed + keep_ms), end_ms)
    expires = np.asarray(pc.fill_null(verdicts["broker_expires_at_ms"], FOREVER_MS)).astype(np.int64)
    last = _last_steps(offsets, is_kept, steps)
    base = pc.coalesce(verdicts["base_timestamp_ms"], offsets["commit_timestamp_ms"])
    has_failed = pc.and_(
        pc.greater_equal(last["keep_at_ms"], base),
        pc.invert(pc.fill_null(pc.is_in(last["keep_outcome"], value_set=_DONE), False)),
    )
    left_ms, wait_ms = expires - now_ms - check_interval_ms, every_ms or 0
    is_due = (left_ms < 2 * wait_ms) & (every_ms is not None)
    is_missed = (left_ms < wait_ms) | np.asarray(pc.fill_null(has_failed, False))
    status = np.select([now_ms >= until, ~is_due, is_missed], [3, 0, 2], 1)
    names = pa.array([KEPT, DUE, NOT_KEPT, ENDED]).take(pa.array(status))
    return pa.table(
        {
            "kept_until_ms": pa.array(until, mask=~is_kept),
            "keep_status": pc.if_else(pa.array(is_kept), names, pa.nulls(count, pa.string())),
            **last,
        }
    )


def expected_expiry(verdicts: pa.Table, broker_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """The earliest instant at which the broker expires each offset if `sexton keep` goes on; NULL if it is kept for
    ever.

    `verdicts` has kept_until_ms and keep_status.
    """
    until = verdicts["kept_until_ms"]
    is_alive = pc.is_in(verdicts["keep_status"], value_set=ALIVE)
    never = pc.equal(until, FOREVER_MS)
    later = pc.if_else(pc.fill_null(never, False), None, pc.max_element_wise(broker_ms, until, skip_nulls=False))
    return pc.if_else(is_alive, later, broker_ms)


def _last_steps(offsets: pa.Table, is_kept: Any, steps: KeepSteps) -> dict[str, pa.Array]:
    """The columns _STEP: the last attempt of each kept offset."""
    found: list[list[Any]] = [[None] * offsets.num_rows for _ in _STEP]
    numbers = pa.array(np.flatnonzero(is_kept) if steps.last else [], pa.int64())
    for row, number in zip(offsets.select(KEY).take(numbers).to_pylist(), numbers.to_pylist(), strict=True):
        if (step := steps.last.get(tuple(row.values()))) is not None:
            for column, value in zip(found, (step.at_ms, step.outcome, step.error), strict=True):
                column[number] = value
    return {name: pa.array(values, kind) for (name, kind), values in zip(_STEP.items(), found, strict=True)}


def _by_group(groups: pa.Table, name: str, own: pa.Array) -> dict[str, Any]:
    some = groups.filter(pc.is_in(groups["group_id"], value_set=own))
    return dict(zip(some["group_id"].to_pylist(), some[name].to_pylist(), strict=True))
