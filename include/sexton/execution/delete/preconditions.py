"""The checks of a whole plan before an attempt deletes anything; if one fails, the plan is refused.

- The plan is byte for byte the approved one, not too old, and within its limits.
- It was made by this version of the code, with the policy in force and the broker's own retention, which must be known.
- It is for this cluster, this offsets topic and this number of log partitions.
- This machine's clock agrees with the brokers' clock, which has reached the plan's instant.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow.compute as pc

from sexton import __version__
from sexton.as_text import HOUR_MS, MINUTE_MS
from sexton.coordinator.partitioner import partition_of
from sexton.errors import Refused
from sexton.execution.delete.group_calls import PlannedGroup
from sexton.execution.kafka_admin import BrokerTime, ClusterIdentity
from sexton.kafka.topics import UNKNOWN_ID
from sexton.ledger.entries import Result
from sexton.plans.plan import Plan
from sexton.policy import Counts, DefaultLimits, Limits
from sexton.policy.durations import duration_text

MAX_SKEW_MS = MINUTE_MS
"""Maximum difference between this machine's clock, which measures ages, and a broker's, which stamps records."""
_NEW_PLAN = "make a new plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The conditions of an attempt.

    `plan_sha256` is the one that was approved. `policy_sha256` is that of the policy in force now. `limits` are the
    policy's; without a policy, those of the settings. `recorded_retention_ms` is the broker's retention in the archive
    at the plan's instant, None where it was not recorded.
    """

    approved_by: str
    plan_sha256: str
    policy_sha256: str | None
    max_age_ms: int
    lease_ms: int
    recorded_retention_ms: int | None = None
    limits: Limits = field(default_factory=DefaultLimits)
    allow_log_sink: bool = False


def check_approval(plan: Plan, rules: Rules) -> None:
    """Refused unless exactly this plan was approved."""
    if not rules.approved_by.strip():
        raise Refused("plan not approved", where=_where(plan), fix="pass --approved-by")
    if plan.sha256 != rules.plan_sha256:
        raise Refused(
            f"the plan was changed since it was approved: approved {rules.plan_sha256}, this is {plan.sha256}",
            where=_where(plan),
            fix="approve it again",
        )


def check_plan(plan: Plan, rules: Rules, *, now_ms: int) -> None:
    """Refused unless the plan's age, version, policy and limits allow to apply it."""
    record, where = plan.record, _where(plan)
    age_ms = now_ms - record.as_of_ms
    if age_ms < 0:
        raise Refused(f"its instant is {-age_ms} ms ahead of this clock", where=where, fix="check this machine's clock")
    if age_ms > rules.max_age_ms:
        ages = f"{age_ms / HOUR_MS:.1f} h old, allowed are {rules.max_age_ms / HOUR_MS:.1f} h"
        raise Refused(f"the plan is {ages}", where=where, fix=_NEW_PLAN)
    if record.code_version != __version__:
        raise Refused(f"version {record.code_version} made it, this is {__version__}", where=where, fix=_NEW_PLAN)
    if record.policy_sha256 != rules.policy_sha256:
        policies = (
            f"it was made by policy {record.policy_sha256 or 'none'}, in force is {rules.policy_sha256 or 'none'}"
        )
        raise Refused(policies, where=where, fix=f"{_NEW_PLAN}, or name the policy that it was made with")
    taken = Counts(
        offset_count=plan.undo.num_rows,
        group_count=len(pc.unique(plan.tombstones["group_id"])),
        groups_total=record.counts.get("groups_total", 0),
    )
    if over_limits := record.over_limits or rules.limits.exceeded(taken):
        fix = f"raise the limit if that is meant, then {_NEW_PLAN}"
        raise Refused(f"it is over its limits: {'; '.join(over_limits)}", where=where, fix=fix)


def check_retention(plan: Plan, rules: Rules, *, live_ms: int | None) -> None:
    """Refused unless the plan was made with the broker's own retention; with another retention it is a what-if.

    `live_ms` is a broker's current value, None where it is not reported. The archive or the broker has to confirm the
    retention: plan.json can be edited, so it can only count against the plan.
    """
    record = plan.record
    known_ms = {
        "as plan.json says": record.broker_retention_ms,
        "as the snapshot recorded it": rules.recorded_retention_ms,
        "as the broker says now": live_ms,
    }
    for source, broker_ms in known_ms.items():
        if broker_ms is not None and broker_ms != record.retention_ms:
            raise Refused(
                f"it is a what-if: it was made with a retention of {duration_text(record.retention_ms)}, "
                f"the broker keeps offsets for {duration_text(broker_ms)}, {source}",
                where=_where(plan),
                fix=f"{_NEW_PLAN} without a retention of your own; use a policy to expire offsets earlier",
            )
    if rules.recorded_retention_ms is None and live_ms is None:
        raise Refused(
            "the broker's retention is unknown: no snapshot recorded it, and the broker does not say it now",
            where=_where(plan),
            fix="allow this principal DESCRIBE_CONFIGS on the cluster",
        )


def check_cluster(plan: Plan, groups: Iterable[PlannedGroup], identity: ClusterIdentity) -> None:
    """Refused unless this is the plan's cluster, and every group still belongs to the plan's log partition.

    For a plan from admin snapshots only the cluster is checked, and the topic's id where both ids are known: its groups
    are compared by fresh admin snapshots, wherever they are.
    """
    record, where = plan.record, _where(plan)
    if identity.cluster_id != record.cluster_id:
        raise Refused(f"it is for cluster {record.cluster_id}, this is {identity.cluster_id}", where=where)
    if not record.basis.needs_log and UNKNOWN_ID in (record.topic_id, identity.topic_id):
        return
    if identity.topic_id != record.topic_id:
        ids = f"topic id {record.topic_id} then, {identity.topic_id} now"
        raise Refused(f"__consumer_offsets was recreated: {ids}", where=where, fix=_NEW_PLAN)
    for group in groups if record.basis.needs_log else ():
        if (home := partition_of(group.group_id, identity.partition_count)) != group.log_partition:
            homes = f"with {identity.partition_count} log partitions a group of the plan belongs to {home}"
            raise Refused(f"{homes}, the plan has it in {group.log_partition}", where=where, fix=_NEW_PLAN)


def check_clock(plan: Plan, time: BrokerTime, *, now_ms: int) -> None:
    """Refused unless a broker's clock is known to have reached the plan's instant, and this clock agrees with it.

    For a plan from admin snapshots all instants are from the clocks of the machines that took the snapshots. So a
    broker's clock has to agree only if the broker shows it.
    """
    ahead_ms = max(time.at_least_ms, time.now_ms if time.now_ms is not None else -1) - now_ms
    behind_ms = 0 if time.now_ms is None else now_ms - time.now_ms
    for skew_ms, side in ((ahead_ms, "behind"), (behind_ms, "ahead of")):
        if skew_ms > MAX_SKEW_MS:
            skew = f"this clock is {skew_ms / 1000:.0f} s {side} the brokers', allowed are {MAX_SKEW_MS / 1000:.0f} s"
            raise Refused(skew, fix="set the clocks right, then make a new plan")
    if time.now_ms is None and not plan.record.basis.needs_log:
        return
    if max(time.at_least_ms, time.now_ms or -1) < plan.record.as_of_ms:  # else offsets might be deleted too early
        raise Refused(
            f"nothing shows that the brokers' clock has reached {plan.record.as_of_ms} ms, the instant of the plan",
            fix="allow this principal DESCRIBE on the cluster, or wait for any commit",
        )


def check_stamps(results: Iterable[Result], *, begun_ms: int, ended_ms: int) -> None:
    """Refused when a broker's timestamp on a record of Sexton is too far from the time of the request."""
    for stamp_ms in (result.written_timestamp_ms for result in results):
        if stamp_ms is None:
            continue
        skew_ms = max(begun_ms - stamp_ms, stamp_ms - ended_ms, 0)
        if skew_ms > MAX_SKEW_MS:
            raise Refused(
                f"the broker stamped our tombstone {stamp_ms} ms, this clock showed {begun_ms} to {ended_ms} ms: "
                f"{skew_ms / 1000:.0f} s apart",
                fix="set the clocks right, then make a new plan",
            )


def _where(plan: Plan) -> str:
    return f"plan {plan.record.plan_id}"
