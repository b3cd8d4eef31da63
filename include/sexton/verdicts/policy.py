"""A policy's verdicts on whole tables of offsets, and the tombstones that it asks for, as Arrow columns.

The rules are `sexton.policy.decide`: conditions on a group are matched once (CompiledPolicy), the rest is arithmetic;
the tests compare the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import GROUP_EMPTY
from sexton.policy import CompiledPolicy, GroupInput, GroupRules, Policy
from sexton.policy.decision import NO_RULE
from sexton.policy.inputs import LAST_MS, TIME_REASONS, last_active_ms
from sexton.verdicts.expiry import is_of_offset, plan, with_column
from sexton.verdicts.keeping import activity_of_clients
from sexton.vocabulary import ORPHANS

RULE = "rule:"
"""Prefix of a rule's name in the cause of a policy's tombstone."""
_KINDS = pa.array([*ORPHANS, None])
_NONE = -1
_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def judge_by_policy(
    policy: Policy, offsets: pa.Table, verdicts: pa.Table, groups: pa.Table, *, now_ms: int
) -> pa.Table:
    """The verdict of `policy` on each row of `offsets` at `now_ms`, in their order.

    `verdicts` are row for row those of `offsets` (broker_reason, base_timestamp_ms, orphan, pinned_by_producer_id),
    `groups` has a row for each of their groups. Columns: policy_verdict, policy_reason, policy_rule,
    policy_expires_at_ms, policy_owner.
    """
    fates, at = _fates(policy, offsets, verdicts["orphan"], groups, now_ms=now_ms)
    base = verdicts["base_timestamp_ms"]
    since = np.asarray(pc.coalesce(base, offsets["commit_timestamp_ms"])).astype(np.int64)
    retention = np.array([fate.spans[0].retention_ms for fate in fates] or [_NONE], np.int64)[at]
    is_held = np.array([fate.is_hold for fate in fates] or [False])[at]
    is_kept = ~np.asarray(pc.is_in(verdicts["broker_reason"], value_set=pa.array(sorted(TIME_REASONS))))
    is_pending = np.asarray(pc.is_valid(verdicts["pinned_by_producer_id"]))
    with np.errstate(over="ignore"):  # signed 64-bit, as in Java
        is_due = now_ms - since >= retention
    outcome = np.select([is_held, retention == _NONE, is_kept, ~is_due, is_pending], [0, 1, 2, 3, 4], 5)
    expires, is_instant = _expires_at(fates, at, since, now_ms=now_ms)
    deciders = pa.array([fate.decides for fate in fates], pa.string())
    owner_of = {entry.name: entry.owner for entry in (*policy.holds, *policy.rules)}
    owners = pa.array([owner_of.get(fate.decides or "") for fate in fates], pa.string())
    reasons = pa.array([fate.reason for fate in fates], pa.string())
    outcomes, numbers = pa.array(outcome), pa.array(at)
    return pa.table(
        {
            "policy_verdict": _VERDICTS.take(outcomes),
            "policy_reason": pc.coalesce(
                _REASONS.take(outcomes),
                pc.if_else(pa.array(outcome == 2), verdicts["broker_reason"].combine_chunks(), reasons.take(numbers)),
            ),
            "policy_rule": deciders.take(numbers),
            "policy_expires_at_ms": pa.array(expires, mask=~is_instant | is_kept | is_pending),
            "policy_owner": owners.take(numbers),
        }
    )


_VERDICTS = pa.array(["hold", "keep", "keep", "keep", "keep", "expire"])
_REASONS = pa.array([None, None, None, "not_due", "pending_transaction", "expired"])


class _Span(NamedTuple):
    """The first and the last instant at which a retention applies; it is _NONE if no rule expires an offset."""

    start_ms: int
    last_ms: int
    retention_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fate:
    """What a policy does to a group's offsets of one orphan kind (or none): the span with `now_ms`, and later spans.

    `decides` is the hold or rule that decides now, None without one. `reason` is the verdict's reason if a hold or no
    rule decides.
    """

    decides: str | None
    reason: str
    is_hold: bool
    spans: tuple[_Span, ...]


def _fates(
    policy: Policy, offsets: pa.Table, orphans: pa.ChunkedArray, groups: pa.Table, *, now_ms: int
) -> tuple[list[_Fate], _Numbers]:
    """The distinct fates of the offsets, and for each offset the number of its fate.

    Groups with the same rules share a fate, so there are few, except where a rule waits for a group to be idle.
    """
    known = groups["group_id"].combine_chunks()
    of_group = np.asarray(pc.index_in(offsets["group_id"], value_set=known)).astype(np.int64)
    of_kind = np.asarray(pc.index_in(orphans, value_set=_KINDS)).astype(np.int64)
    pairs, at = np.unique(of_group * len(_KINDS) + of_kind, return_inverse=True)
    numbers = np.unique(pairs // len(_KINDS))
    rows = groups.select(_GROUP_COLUMNS).take(pa.array(numbers)).to_pylist()
    committed_ms = newest_commits(offsets)
    compiled = CompiledPolicy(policy)
    rules = {
        int(number): compiled.for_group(group_facts(row, committed_ms.get(row["group_id"])))
        for number, row in zip(numbers, rows, strict=True)
    }
    fates: list[_Fate] = []
    places: dict[tuple[int, int], int] = {}
    number_of = np.empty(len(pairs), np.int64)
    for index, pair in enumerate(pairs.tolist()):
        group, kind = divmod(pair, len(_KINDS))
        shared = (id(rules[group]), kind)
        if shared not in places:
            places[shared] = len(fates)
            fates.append(_fate(rules[group], _KINDS[kind].as_py(), now_ms=now_ms))
        number_of[index] = places[shared]
    return fates, number_of[at]


_GROUP_COLUMNS = [
    "group_id",
    "group_type",
    "state",
    "protocol_type",
    "current_state_timestamp_ms",
    "member_count",
]


def _fate(rules: GroupRules, orphan: str | None, *, now_ms: int) -> _Fate:
    span, *_ = coming = rules.from_(now_ms)
    one = span.candidate(orphan)
    spans = []
    for each in coming:
        its, last_ms = each.candidate(orphan), LAST_MS if each.end_ms is None else each.end_ms - 1
        spans.append(_Span(each.start_ms, last_ms, its.retention_ms if its else _NONE))
    return _Fate(
        decides=span.hold.name if span.hold else one.rule if one else None,
        reason=span.hold.reason if span.hold else NO_RULE,
        is_hold=span.hold is not None,
        spans=tuple(spans),
    )


def _expires_at(fates: Sequence[_Fate], at: _Numbers, since: _Numbers, *, now_ms: int) -> tuple[_Numbers, _Mask]:
    """When time alone expires each offset, and whether there is such an instant."""
    found, is_found = np.zeros(len(since), np.int64), np.zeros(len(since), bool)
    for number in range(max((len(fate.spans) for fate in fates), default=0)):
        spans = [fate.spans[number] if number < len(fate.spans) else _NEVER for fate in fates]
        start, last, retention = np.array(spans, np.int64).T[:, at]
        with np.errstate(over="ignore"):
            due_at = since + retention
            is_instant = (due_at >= since) & ((now_ms - since >= retention) == (now_ms >= due_at))
        goes = ~is_found & (retention != _NONE) & is_instant & (due_at <= last)
        found = np.where(goes, due_at if number == 0 else np.maximum(due_at, start), found)
        is_found |= goes
    return found, is_found


_NEVER = _Span(0, LAST_MS, _NONE)


def plan_by_policy(
    policy: Policy,
    held: pa.Table,
    verdicts: pa.Table,
    groups: pa.Table,
    group_tombstones: pa.Table,
    *,
    now_ms: int,
    profile: Profile,
) -> pa.Table:
    """The tombstones of one log partition that a policy asks for, as `verdicts.expiry.plan` gives them.

    `verdicts` are row for row those of `held`. A group is deleted if the broker would delete it and a rule expires it
    once it has no offset (decision.decide_bare). The cause is `group_empty` if it loses its last offset, else the rule.
    """
    expires = pc.equal(verdicts["policy_verdict"], "expire")
    rows = plan(held, expires, groups, group_tombstones, profile=profile)
    is_offset = is_of_offset(rows)
    by_rule = pc.binary_join_element_wise(RULE, verdicts["policy_rule"].combine_chunks().take(rows["target_row"]), "")
    group_ids = pc.unique(rows.filter(pc.invert(is_offset))["group_id"])
    by_clients, clients = activity_of_clients(held, groups, verdicts)
    causes = _group_causes(policy, clients, group_ids, by_clients, now_ms=now_ms)
    at = pc.index_in(rows["group_id"], value_set=pa.array(causes, pa.string()))
    of_group = pa.array(causes.values(), pa.string()).take(at)
    cause = pc.if_else(is_offset, by_rule, of_group)
    return with_column(rows, "cause", cause).filter(pc.is_valid(cause))


def _group_causes(
    policy: Policy, groups: pa.Table, group_ids: pa.Array, held: pa.Table, *, now_ms: int
) -> dict[str, str]:
    """The cause of each group's removal; groups that the policy keeps are left out."""
    compiled = CompiledPolicy(policy)
    committed_ms = newest_commits(held.filter(pc.is_in(held["group_id"], value_set=group_ids)))
    found = {}
    for row in groups.filter(pc.is_in(groups["group_id"], value_set=group_ids)).to_pylist():
        rule = compiled.for_group(group_facts(row, committed_ms.get(row["group_id"]))).at(now_ms).bare_rule
        if rule is not None:
            found[row["group_id"]] = GROUP_EMPTY if row["group_id"] in committed_ms else RULE + rule
    return found


def group_facts(row: Mapping[str, Any], committed_ms: int | None) -> GroupInput:
    """A row of the table groups as input for a policy; `committed_ms` is the commit time of its newest offset, None
    without any."""
    return GroupInput(
        group_id=row["group_id"],
        group_type=row["group_type"],
        state=row["state"],
        protocol_type=row["protocol_type"],
        last_active_ms=last_active_ms(
            [] if committed_ms is None else [committed_ms], row["current_state_timestamp_ms"]
        ),
        member_count=row["member_count"],
    )


def newest_commits(held: pa.Table) -> dict[str, int]:
    """Group -> commit_timestamp_ms of its newest offset."""
    newest = held.group_by("group_id").aggregate([("commit_timestamp_ms", "max")])
    return dict(zip(newest["group_id"].to_pylist(), newest["commit_timestamp_ms_max"].to_pylist(), strict=True))
