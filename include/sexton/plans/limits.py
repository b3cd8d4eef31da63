"""Compares a plan with the limits of its policy or of the settings, and warns of offsets that the policy keeps or holds
but the broker will expire.

A policy never stops the broker from expiring an offset.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import count, some
from sexton.policy import Counts, DefaultLimits, Hold, OwnerCount, Policy, Rule
from sexton.runs.folder import RunRecord
from sexton.settings import settings
from sexton.verdicts.keeping import ALIVE
from sexton.verdicts.policy import RULE

VERDICTS = (
    *("group_id", "broker_verdict", "broker_expires_at_ms"),
    *("policy_verdict", "policy_rule", "policy_owner", "keep_status"),
)


def policy_of(record: RunRecord) -> Policy | None:
    """The policy of a run; None without one."""
    return None if record.policy is None else Policy.from_canonical(record.policy)


def entry_of(policy: Policy, cause: str) -> Rule | None:
    """The rule NAME of the cause `rule:NAME`; None for other causes."""
    name = cause.removeprefix(RULE)
    return None if name == cause else next((rule for rule in policy.rules if rule.name == name), None)


def default_limits() -> DefaultLimits:
    """The limits of a plan without a policy, from the settings."""
    config = settings()
    return DefaultLimits(max_offsets=config.max_offsets, max_share_of_groups=config.max_share_of_groups)


def owner_totals(verdicts: pa.Table) -> Counter[str]:
    """Owner of the deciding rule -> number of offsets."""
    return Counter({item["values"]: item["counts"] for item in pc.value_counts(verdicts["policy_owner"]).to_pylist()})


def limits_exceeded(
    policy: Policy, totals: Mapping[str, int], taken: Mapping[str, int], *, groups_losing: int, groups_total: int
) -> list[str]:
    """A sentence for each limit that a plan exceeds. `taken` is owner -> offsets that the plan removes, `totals` is
    owner -> offsets in the run."""
    owners = {owner: OwnerCount(taken=count, total=totals.get(owner, 0)) for owner, count in taken.items()}
    counts = Counts(
        offset_count=sum(taken.values()), group_count=groups_losing, groups_total=groups_total, owners=owners
    )
    return policy.limits.exceeded(counts)


@dataclass(frozen=True, slots=True)
class Unheeded:
    """Counts of what the broker removes in spite of a policy.

    `by_hold` has, for each hold of the policy in order, the offsets that the broker expires before the hold ends, their
    groups, and how many of these offsets have already expired. `kept` counts expired offsets that the policy keeps.
    """

    by_hold: tuple[tuple[int, int, int], ...]
    kept: int


def unheeded(policy: Policy, verdicts: pa.Table) -> Unheeded:
    """Count what the broker removes in spite of `policy`, from verdicts that include all of a group's or none.

    Held offsets that `sexton keep` keeps alive are not counted.
    """
    is_alive = pc.is_in(verdicts["keep_status"], value_set=ALIVE)
    held = verdicts.filter(pc.and_not(pc.equal(verdicts["policy_verdict"], "hold"), is_alive))
    is_due = pc.equal(verdicts["broker_verdict"], "expire")
    kept = pc.sum(pc.and_(is_due, pc.fill_null(pc.equal(verdicts["policy_verdict"], "keep"), False))).as_py() or 0
    return Unheeded(tuple(_removed_anyway(hold, held) for hold in policy.holds), kept)


def not_held(policy: Policy, found: Sequence[Unheeded]) -> tuple[int, list[str]]:
    """(number of held offsets that the broker removes before the hold ends, warnings about what it removes)."""
    sums = [tuple(map(sum, zip(*own, strict=True))) for own in zip(*(each.by_hold for each in found), strict=True)]
    warnings = [_warning(hold, *own) for hold, own in zip(policy.holds, sums, strict=False) if own[0]]
    if kept := sum(each.kept for each in found):
        warnings.append(
            f"the policy keeps {some(kept, 'offset')} whose retention at the broker has passed, so the broker deletes "
            "them"
        )
    return sum(own[0] for own in sums), warnings


def _removed_anyway(hold: Hold, held: pa.Table) -> tuple[int, int, int]:
    """(offsets that the broker expires before the hold ends, their groups, how many of them have already expired)."""
    mine = held.filter(pc.equal(held["policy_rule"], hold.name))
    at_ms = mine["broker_expires_at_ms"]
    is_in_time = pc.is_valid(at_ms) if hold.until_ms is None else pc.less(at_ms, hold.until_ms)
    taken = mine.filter(pc.or_(pc.equal(mine["broker_verdict"], "expire"), pc.fill_null(is_in_time, False)))
    due = pc.sum(pc.equal(taken["broker_verdict"], "expire")).as_py() or 0
    return taken.num_rows, len(pc.unique(taken["group_id"])), due


def _warning(hold: Hold, offsets: int, groups: int, due: int) -> str:
    return (
        f"hold {hold.name} ({hold.kind}, {hold.owner}) does not protect {some(offsets, 'offset')} of "
        f"{some(groups, 'group')}: the broker deletes them by its own retention unless they are committed again, "
        f"{count(due)} of them at its next sweep: raise offsets.retention.minutes, or restore them from the archive "
        "afterwards"
    )
