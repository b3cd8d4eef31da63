"""What has to be true before an attempt touches anything: once per attempt, and all of it from what is there now.

A plan is not applied when it is not, byte for byte, the approved one, or older than allowed; when the code or the
policy is not what made it; when it takes more than the limits; when it was made by another retention than the broker's,
or nobody knows the broker's; when the cluster, its offsets topic or the number of its log partitions is another; and
when our clock or the plan's instant cannot be squared with the brokers'.
"""

from dataclasses import dataclass, field

import pyarrow.compute as pc

from sexton import __version__
from sexton.coordinator.partitioner import partition_of
from sexton.errors import Refused
from sexton.execution.cluster_protocol import BrokerTime, Identity
from sexton.execution.steps import GroupWork
from sexton.plans.record import Plan
from sexton.policy import Counts, DefaultLimits, Limits
from sexton.policy.durations import duration_text

MAX_SKEW_MS = 60_000
"""How far our clock and a broker's may be apart: what is judged and recorded by the one is written by the other."""
_NEW_PLAN = "make a new plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an apply is held to. `plan_sha256` is what was approved; `policy_sha256` that of the policy in force now,
    and `limits` its own or, without a policy, those of the settings. `recorded_retention_ms` is the broker's retention
    as the archive has it for the plan's instant, None where nothing recorded it."""

    approved_by: str
    plan_sha256: str
    policy_sha256: str | None
    max_age_ms: int
    lease_ms: int
    recorded_retention_ms: int | None = None
    limits: Limits = field(default_factory=DefaultLimits)
    max_skew_ms: int = MAX_SKEW_MS
    allow_log_sink: bool = False


def check_approval(plan: Plan, rules: Rules) -> None:
    """Refused unless somebody has approved this very plan."""
    place = f"plan {plan.record.plan_id}"
    if not rules.approved_by.strip():
        raise Refused("nobody has approved it", where=place, fix="name who did")
    if plan.sha256 != rules.plan_sha256:
        told = f"approved was {rules.plan_sha256}, this is {plan.sha256}"
        raise Refused(f"the plan was changed since it was approved: {told}", where=place, fix="approve it anew")


def check_plan(plan: Plan, rules: Rules, *, now_ms: int) -> None:
    """Refused unless the plan is still one that may be applied."""
    record = plan.record
    place = f"plan {record.plan_id}"
    age_ms = now_ms - record.as_of_ms
    if age_ms < 0:
        raise Refused(f"it is of an instant {-age_ms} ms ahead of this clock", where=place, fix="is the clock right?")
    if age_ms > rules.max_age_ms:
        told = f"it is of {age_ms / 3_600_000:.1f} h ago, allowed are {rules.max_age_ms / 3_600_000:.1f} h"
        raise Refused(told, where=place, fix=_NEW_PLAN)
    if record.code_version != __version__:
        raise Refused(f"version {record.code_version} made it, this is {__version__}", where=place, fix=_NEW_PLAN)
    if record.policy_sha256 != rules.policy_sha256:
        told = f"it was made by policy {_named(record.policy_sha256)}, in force is {_named(rules.policy_sha256)}"
        raise Refused(told, where=place, fix=f"{_NEW_PLAN}, or name the policy that it was made by")
    if over_limits := record.over_limits or rules.limits.exceeded(_taken(plan)):
        fix = f"raise the limit if that is meant, then {_NEW_PLAN}"
        raise Refused(f"it is over its limits: {'; '.join(over_limits)}", where=place, fix=fix)


def check_retention(plan: Plan, rules: Rules, *, live_ms: int | None) -> None:
    """Refused unless the plan was made by the broker's own retention: what another one takes is a what-if.

    `live_ms` is what a broker says now, None where it does not say. What plan.json says of the broker counts only
    against the plan: a file can be edited, so the archive or the broker has to agree.
    """
    record = plan.record
    place = f"plan {record.plan_id}"
    known_ms = {
        "as plan.json says": record.broker_retention_ms,
        "as the snapshot recorded it": rules.recorded_retention_ms,
        "as the broker says now": live_ms,
    }
    for source, broker_ms in known_ms.items():
        if broker_ms is not None and broker_ms != record.retention_ms:
            told = f"it is a what-if: it was made by a retention of {duration_text(record.retention_ms)}"
            raise Refused(
                f"{told}, the broker keeps offsets for {duration_text(broker_ms)}, {source}",
                where=place,
                fix=f"{_NEW_PLAN} without a retention of your own; a policy is what expires offsets earlier",
            )
    if rules.recorded_retention_ms is None and live_ms is None:
        raise Refused(
            "nobody knows the broker's retention: no snapshot recorded it, and the broker does not say it now",
            where=place,
            fix="allow this principal DESCRIBE_CONFIGS on the cluster",
        )


def check_cluster(plan: Plan, work: list[GroupWork], identity: Identity) -> None:
    """Refused unless this is the plan's cluster, and every group is where the plan looked for it."""
    record = plan.record
    place = f"plan {record.plan_id}"
    if identity.cluster_id != record.cluster_id:
        raise Refused(f"it is of cluster {record.cluster_id}, this is {identity.cluster_id}", where=place)
    if identity.topic_id != record.topic_id:
        told = f"__consumer_offsets was made anew: topic id {record.topic_id} then, {identity.topic_id} now"
        raise Refused(told, where=place, fix=_NEW_PLAN)
    for group in work:
        if (home := partition_of(group.group_id, identity.partition_count)) != group.log_partition:
            told = f"with {identity.partition_count} log partitions a group of the plan belongs to {home}"
            raise Refused(f"{told}, the plan has it in {group.log_partition}", where=place, fix=_NEW_PLAN)


def check_clock(plan: Plan, rules: Rules, time: BrokerTime, *, now_ms: int) -> None:
    """Refused unless a broker's clock is known to have reached the plan's instant, and ours agrees with it."""
    limit_ms = rules.max_skew_ms
    ahead_ms = max(time.at_least_ms, time.now_ms if time.now_ms is not None else -1) - now_ms
    behind_ms = 0 if time.now_ms is None else now_ms - time.now_ms
    for skew_ms, side in ((ahead_ms, "behind"), (behind_ms, "ahead of")):
        if skew_ms > limit_ms:
            told = f"this clock is {skew_ms / 1000:.0f} s {side} the brokers', allowed are {limit_ms / 1000:.0f} s"
            raise Refused(told, fix="set the clocks right, then make a new plan")
    if max(time.at_least_ms, time.now_ms or -1) < plan.record.as_of_ms:  # else something might go too early
        raise Refused(
            f"nothing shows that the brokers' clock has reached {plan.record.as_of_ms} ms, the instant of the plan",
            fix="allow this principal DESCRIBE on the cluster, or wait for any commit",
        )


def check_stamp(rules: Rules, *, stamp_ms: int, begun_ms: int, ended_ms: int) -> None:
    """Refused when what a broker wrote for us is stamped too far from when we asked for it."""
    skew_ms = max(begun_ms - stamp_ms, stamp_ms - ended_ms, 0)
    if skew_ms > rules.max_skew_ms:
        told = f"the broker stamped a tombstone of ours {stamp_ms} ms, this clock showed {begun_ms} to {ended_ms} ms"
        raise Refused(f"{told}: {skew_ms / 1000:.0f} s apart", fix="set the clocks right, then make a new plan")


def _taken(plan: Plan) -> Counts:
    """What the rows of a plan take. Its number of groups in all is what it says itself, 0 where it says none."""
    return Counts(
        offset_count=plan.undo.num_rows,
        group_count=len(pc.unique(plan.tombstones["group_id"])),
        groups_total=plan.record.counts.get("groups_total", 0),
    )


def _named(policy_sha256: str | None) -> str:
    return "none" if policy_sha256 is None else policy_sha256
