"""How much one plan may take, and in which sentences a plan is told that it takes more."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.policy.model import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerCount:
    """One owner's offsets: those under the rules of this owner, and how many of them a plan takes."""

    taken: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a plan takes: offsets, groups that lose something (an offset or all there is), and of how many groups."""

    offset_count: int
    group_count: int
    groups_total: int
    owners: Mapping[str, OwnerCount] = field(default_factory=dict)


def exceeded(limits: "Limits", counts: Counts) -> list[str]:
    """A sentence for every limit that the counts exceed; none where the plan may be applied."""
    told = []
    if counts.offset_count > limits.max_offsets:
        told.append(f"{counts.offset_count:,} offsets would go; limits.max_offsets is {limits.max_offsets:,}")
    if counts.group_count > limits.max_groups:
        told.append(f"{counts.group_count:,} groups would lose something; limits.max_groups is {limits.max_groups:,}")
    if _is_more(counts.group_count, counts.groups_total, limits.max_share_of_groups):
        told.append(
            f"{counts.group_count:,} of {counts.groups_total:,} groups would lose something; "
            f"limits.max_share_of_groups is {limits.max_share_of_groups:g}"
        )
    for owner, count in sorted(counts.owners.items()):
        if _is_more(count.taken, count.total, limits.max_share_of_owner):
            told.append(
                f"{count.taken:,} of {count.total:,} offsets under rules of {owner!r} would go; "
                f"limits.max_share_of_owner is {limits.max_share_of_owner:g}"
            )
    return told


def _is_more(part: int, whole: int, share: float) -> bool:
    """Whether `part` is more than a share of `whole`; something of nothing is more than any share."""
    return part > 0 and (whole <= 0 or part / whole > share)
