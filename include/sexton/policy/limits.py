"""How much one plan may take, and in which sentences a plan is told that it takes more."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from sexton.policy.fields import Model

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


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


class Limits(Model):
    """How much one plan may take. A plan beyond a limit is made and shown, and never applied."""

    max_offsets: int = Field(default=10_000, ge=0, description="a whole number of offsets")
    max_groups: int = Field(default=500, ge=0, description="a whole number of groups")
    max_share_of_groups: Share = Field(default=0.05, description="a share from 0 to 1 of all groups, such as 0.05")
    max_share_of_owner: Share = Field(
        default=0.5, description="a share from 0 to 1 of the offsets under one owner's rules, such as 0.5"
    )

    def exceeded(self, counts: Counts) -> list[str]:
        """A sentence for every limit that the counts exceed; none where the plan may be applied."""
        told, named = [], self._named
        if counts.offset_count > self.max_offsets:
            told.append(f"{counts.offset_count:,} offsets would go; {named('max_offsets')} is {self.max_offsets:,}")
        if counts.group_count > self.max_groups:
            told.append(
                f"{counts.group_count:,} groups would lose something; {named('max_groups')} is {self.max_groups:,}"
            )
        if _is_more(counts.group_count, counts.groups_total, self.max_share_of_groups):
            told.append(
                f"{counts.group_count:,} of {counts.groups_total:,} groups would lose something; "
                f"{named('max_share_of_groups')} is {self.max_share_of_groups:g}"
            )
        for owner, count in sorted(counts.owners.items()):
            if _is_more(count.taken, count.total, self.max_share_of_owner):
                told.append(
                    f"{count.taken:,} of {count.total:,} offsets under rules of {owner!r} would go; "
                    f"limits.max_share_of_owner is {self.max_share_of_owner:g}"
                )
        return told

    def _named(self, name: str) -> str:
        return f"limits.{name}"


class DefaultLimits(Limits):
    """The limits of a plan without a policy: those of the settings, which the sentences name.

    Such a plan takes what the broker is about to remove, so there is no owner to ask, and only a share of the groups.
    """

    max_groups: int = Field(default=1 << 62, ge=0)
    max_share_of_owner: Share = 1.0

    def _named(self, name: str) -> str:
        return f"SEXTON_{name.upper()}"


def _is_more(part: int, whole: int, share: float) -> bool:
    """Whether `part` is more than a share of `whole`; something of nothing is more than any share."""
    return part > 0 and (whole <= 0 or part / whole > share)
