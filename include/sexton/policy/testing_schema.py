"""The model of `tests:`, in a policy file or a separate file. testing.py runs them.

A test describes a group, and one of its offsets, with the properties that a policy reads. A test without an offset is
about a group without offsets.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints

from sexton.policy.field_types import A_DURATION, AN_INSTANT, DurationMs, InstantMs, Model
from sexton.policy.inputs import GroupInput, OffsetInput
from sexton.vocabulary import GROUP_STATES, GROUP_TYPES, ORPHANS, GroupState, GroupType, Orphan

KeptBy = Literal["subscribed", "group_active", "share_group", "pending_transaction"]
KEPT_BY: tuple[KeptBy, ...] = get_args(KeptBy)
_MEMBERLESS = ("Empty", "Dead")


class GivenGroup(Model):
    """The group of a test. The defaults are those of an unused group."""

    id: str = Field(description="the group id")
    type: GroupType = Field(default="Classic", description=f"one of {', '.join(GROUP_TYPES)}")
    state: GroupState = Field(default="Empty", description=f"one of {', '.join(GROUP_STATES)}")
    idle_ms: DurationMs | None = Field(
        default=None, alias="idle", description=f"{A_DURATION}: for how long nothing has happened to it"
    )

    def facts(self, *, now_ms: int) -> GroupInput:
        """Return the policy's input. Without `idle` the last activity is unknown."""
        return GroupInput(
            group_id=self.id,
            group_type=self.type,
            state=self.state,
            protocol_type=None,
            last_active_ms=None if self.idle_ms is None else now_ms - self.idle_ms,
            member_count=0 if self.state in _MEMBERLESS else 1,
        )


class GivenOffset(Model):
    """The offset of a test."""

    topic: str = Field(default="topic", description="the topic's name")
    partition: int = Field(default=0, ge=0, description="the partition's number")
    age_ms: DurationMs = Field(alias="age", description=f"{A_DURATION}: for how long its retention has been running")
    orphan: Orphan | None = Field(default=None, description=f"one of {', '.join(ORPHANS)}")
    kept_by: KeptBy | None = Field(
        default=None, description=f"why the broker keeps it whatever its age: one of {', '.join(KEPT_BY)}"
    )

    def facts(self, *, now_ms: int) -> OffsetInput:
        """Return the policy's input."""
        since_ms = now_ms - self.age_ms
        return OffsetInput(
            topic=self.topic,
            partition=self.partition,
            commit_timestamp_ms=since_ms,
            base_timestamp_ms=since_ms,
            orphan=self.orphan,
            is_pending=self.kept_by == "pending_transaction",
            broker_verdict="keep",
            broker_reason=self.kept_by or "not_due",
            broker_expires_at_ms=None,
        )


class Expected(Model):
    """The expected decision. Only the given fields are compared."""

    verdict: Literal["keep", "expire", "hold"] = Field(description="keep, expire or hold")
    rule: str | None = Field(default=None, description="the name of the hold or rule that decides, or none")
    reason: str | None = Field(default=None, description="such as expired, not_due, no_rule, held_legal, subscribed")


class PolicyTest(Model):
    """One test."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(description="what it shows")
    at_ms: InstantMs | None = Field(default=None, alias="at", description=f"{AN_INSTANT}; without it, now")
    group: GivenGroup = Field(description="a mapping of id, type, state, idle")
    offset: GivenOffset | None = Field(default=None, description="a mapping of topic, partition, age, orphan, kept_by")
    expect: Expected = Field(description="a mapping of verdict, rule, reason")


class PolicyTestFile(Model):
    """A file of tests without a policy."""

    tests: tuple[PolicyTest, ...] = Field(description="a list of expectations")
