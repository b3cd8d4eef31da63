"""The limits on what one plan may delete, and the sentences about those that a plan exceeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from sexton.policy.field_types import Model

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerCount:
    """Offsets under one owner's rules: their total, and how many a plan deletes (`taken`)."""

    taken: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The size of a plan: offsets, groups that lose offsets or are deleted, and the number of all groups."""

    offset_count: int
    group_count: int
    groups_total: int
    owners: Mapping[str, OwnerCount] = field(default_factory=dict)


class Limits(Model):
    """How much one plan may delete. A plan beyond a limit is made and shown, but never applied."""

    max_offsets: int = Field(default=10_000, ge=0, description="a whole number of offsets")
    max_groups: int = Field(default=500, ge=0, description="a whole number of groups")
    max_share_of_groups: Share = Field(default=0.05, description="a share from 0 to 1 of all groups, such as 0.05")
    max_share_of_owner: Share = Field(
        default=0.5, description="a share from 0 to 1 of the offsets under one owner's rules, such as 0.5"
    )

    def exceeded(self, counts: Counts) -> list[str]:
        """Return a sentence for every exceeded limit; an empty list if the plan may be applied."""
        sentences, named = [], self._named
        if counts.offset_count > self.max_offsets:
            sentences.append(
                f"{counts.offset_count:,} offsets would be deleted; {named('max_offsets')} is {self.max_offsets:,}"
            )
        if counts.group_count > self.max_groups:
            sentences.append(
                f"{counts.group_count:,} groups would lose offsets or be deleted; "
                f"{named('max_groups')} is {self.max_groups:,}"
            )
        if _is_more(counts.group_count, counts.groups_total, self.max_share_of_groups):
            sentences.append(
                f"{counts.group_count:,} of {counts.groups_total:,} groups would lose offsets or be deleted; "
                f"{named('max_share_of_groups')} is {self.max_share_of_groups:g}"
            )
        for owner, count in sorted(counts.owners.items()):
            if _is_more(count.taken, count.total, self.max_share_of_owner):
                sentences.append(
                    f"{count.taken:,} of {count.total:,} offsets under rules of {owner!r} would be deleted; "
                    f"limits.max_share_of_owner is {self.max_share_of_owner:g}"
                )
        return sentences

    def _named(self, name: str) -> str:
        return f"limits.{name}"


class DefaultLimits(Limits):
    """The limits of a plan without a policy, from the settings, which the sentences name.

    Such a plan deletes what the broker is about to expire, so there are no owners, only a share of all groups.
    """

    max_groups: int = Field(default=1 << 62, ge=0)
    max_share_of_owner: Share = 1.0

    def _named(self, name: str) -> str:
        return f"SEXTON_{name.upper()}"


def _is_more(part: int, whole: int, share: float) -> bool:
    """Return whether `part` is more than a share of `whole`. Any part of 0 is more."""
    return part > 0 and (whole <= 0 or part / whole > share)
