"""What a policy makes of a plan: causes that are rules, groups that it keeps, limits, and what it cannot hold.

The verdicts are find_expired's; here they become tombstones. A policy never keeps anything from the broker: what it
holds and the broker expires anyway becomes a warning.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import GROUP_EMPTY
from sexton.plans.check import OFFSET_TYPES
from sexton.policy import CompiledPolicy, Counts, DefaultLimits, GroupFacts, Hold, OwnerCount, Policy, Rule
from sexton.policy.facts import last_active_ms
from sexton.runs.folder import RunRecord
from sexton.settings import settings
from sexton.verdicts.expiry import plan

RULE = "rule:"
VERDICTS = (
    "group_id",
    "broker_verdict",
    "broker_expires_at_ms",
    "policy_verdict",
    "policy_rule",
    "policy_owner",
)


def policy_of(record: RunRecord) -> Policy | None:
    """The policy that a run judged by; None without one."""
    return None if record.policy is None else Policy.from_canonical(record.policy)


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

    `verdicts` are row for row those of `held`. A group goes where the broker would delete it and a rule takes groups
    like it once they are bare (decision.decide_bare); by `group_empty` with its last offset, else by that rule.
    """
    expires = pc.equal(verdicts["policy_verdict"], "expire")
    rows = plan(held, expires, groups, group_tombstones, profile=profile)
    is_offset = pc.is_in(rows["record_type"], value_set=OFFSET_TYPES)
    at = pc.index_in(rows["target_log_offset"], value_set=held["log_offset"].combine_chunks())
    by_rule = pc.binary_join_element_wise(RULE, verdicts["policy_rule"].combine_chunks().take(at), "")
    group_ids = pc.unique(rows.filter(pc.invert(is_offset))["group_id"])
    causes = _group_causes(policy, groups, group_ids, held, now_ms=now_ms)
    at = pc.index_in(rows["group_id"], value_set=pa.array(causes, pa.string()))
    of_group = pa.array(causes.values(), pa.string()).take(at)
    cause = pc.if_else(is_offset, by_rule, of_group)
    return rows.set_column(rows.column_names.index("cause"), "cause", cause).filter(pc.is_valid(cause))


def _group_causes(
    policy: Policy, groups: pa.Table, group_ids: pa.Array, held: pa.Table, *, now_ms: int
) -> dict[str, str]:
    """Why each of some groups goes; those that the policy keeps are left out."""
    compiled = CompiledPolicy(policy)
    committed_ms = newest_commits(held.filter(pc.is_in(held["group_id"], value_set=group_ids)))
    found = {}
    for row in groups.filter(pc.is_in(groups["group_id"], value_set=group_ids)).to_pylist():
        rule = compiled.for_group(group_facts(row, committed_ms.get(row["group_id"]))).at(now_ms).bare_rule
        if rule is not None:
            found[row["group_id"]] = GROUP_EMPTY if row["group_id"] in committed_ms else RULE + rule
    return found


def group_facts(row: Mapping[str, Any], committed_ms: int | None) -> GroupFacts:
    """A row of the table groups as a policy asks about it; `committed_ms` is of its newest offset, None without any."""
    return GroupFacts(
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


def entry_of(policy: Policy, cause: str) -> Rule | None:
    """The rule that a cause names; None for causes that name none."""
    name = cause.removeprefix(RULE)
    return None if name == cause else next((rule for rule in policy.rules if rule.name == name), None)


def default_limits() -> DefaultLimits:
    """What a plan without a policy may take, by the settings."""
    config = settings()
    return DefaultLimits(max_offsets=config.max_offsets, max_share_of_groups=config.max_share_of_groups)


def limits_exceeded(
    policy: Policy, verdicts: pa.Table, taken: Mapping[str, int], *, groups_losing: int, groups_total: int
) -> list[str]:
    """A sentence for each limit that a plan exceeds. `taken` are its offsets by owner, `verdicts` those of the run."""
    totals = {item["values"]: item["counts"] for item in pc.value_counts(verdicts["policy_owner"]).to_pylist()}
    owners = {owner: OwnerCount(taken=count, total=totals.get(owner, 0)) for owner, count in taken.items()}
    counts = Counts(
        offset_count=sum(taken.values()), group_count=groups_losing, groups_total=groups_total, owners=owners
    )
    return policy.limits.exceeded(counts)


def not_held(policy: Policy, verdicts: pa.Table) -> tuple[int, list[str]]:
    """How many held offsets the broker takes before the hold ends, and what to say of them and of others it takes."""
    held = verdicts.filter(pc.equal(verdicts["policy_verdict"], "hold"))
    found = [(hold, _taken_in_spite(hold, held)) for hold in policy.holds]
    told = [_warning(hold, taken) for hold, taken in found if taken.num_rows]
    is_due = pc.equal(verdicts["broker_verdict"], "expire")
    kept = verdicts.filter(pc.and_(is_due, pc.equal(verdicts["policy_verdict"], "keep")))
    if kept.num_rows:
        told.append(
            f"{_some(kept.num_rows, 'offset')} that the policy keeps: the broker's own retention has passed, and the "
            "broker deletes them by itself"
        )
    return sum(taken.num_rows for _, taken in found), told


def _taken_in_spite(hold: Hold, held: pa.Table) -> pa.Table:
    """The offsets of a hold whose time with the broker comes before its end."""
    mine = held.filter(pc.equal(held["policy_rule"], hold.name))
    at_ms = mine["broker_expires_at_ms"]
    is_in_time = pc.is_valid(at_ms) if hold.until_ms is None else pc.less(at_ms, hold.until_ms)
    return mine.filter(pc.or_(pc.equal(mine["broker_verdict"], "expire"), pc.fill_null(is_in_time, False)))


def _warning(hold: Hold, taken: pa.Table) -> str:
    groups = len(pc.unique(taken["group_id"]))
    is_due = pc.sum(pc.equal(taken["broker_verdict"], "expire")).as_py()
    return (
        f"hold {hold.name} ({hold.kind}, {hold.owner}) does not keep {_some(taken.num_rows, 'offset')} of "
        f"{_some(groups, 'group')} from the broker, which deletes them by its own retention if they are not committed "
        f"again, {_some(is_due, 'offset')} of them at its next cleanup: raise offsets.retention.minutes, or restore "
        "them from the archive afterwards"
    )


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
