"""The inputs of a policy (a group, an offset) and its decision."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

TIME_REASONS = frozenset({"expired", "expired_explicit", "not_due", "sweep_blocked", "between_snapshots"})
"""The broker's reasons that depend on time alone. For any other reason it keeps an offset whatever its age.

sweep_blocked is one of them: the offset is or will be due, and only the broker's sweep fails. A rule may expire it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """A group, with values as in the table `groups`.

    `last_active_ms` is when the group last committed or changed its state, None if unknown.
    """

    group_id: str
    group_type: str
    state: str
    protocol_type: str | None
    last_active_ms: int | None
    member_count: int

    @property
    def idle_since_ms(self) -> int | None:
        """Since when the group is idle; None if it has members or if that is unknown."""
        return self.last_active_ms if self.member_count == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetInput:
    """A committed offset with the broker's verdict, with values as in the table `offset_verdicts`.

    `is_pending`: an open transaction has an offset of the same group, topic and partition. The broker's reason shows
    this only after its retention has passed.
    """

    topic: str
    partition: int
    commit_timestamp_ms: int
    base_timestamp_ms: int | None
    orphan: str | None
    is_pending: bool
    broker_verdict: str
    broker_reason: str
    broker_expires_at_ms: int | None

    @property
    def since_ms(self) -> int:
        """Start of a rule's retention: the broker's start, or the commit time if the client chose an expiry instant."""
        return self.commit_timestamp_ms if self.base_timestamp_ms is None else self.base_timestamp_ms

    @property
    def kept_by(self) -> str | None:
        """Why the broker keeps it at any age: subscribed, group_active, share_group, pending_transaction; else None."""
        return None if self.broker_reason in TIME_REASONS else self.broker_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A policy's decision about an offset, and why.

    `reason` is held_legal, held_operational, no_rule, not_due, expired, or why the broker keeps it whatever its age.
    `rule` is the hold or rule that decides, None for no_rule. `expires_at_ms` is the instant from which the policy
    expires it if only time passes: when it was due if it has expired, None if time alone cannot expire it.
    """

    verdict: Literal["keep", "expire", "hold"]
    reason: str
    rule: str | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrace:
    """The outcome of one hold or rule for an offset."""

    rule: str
    outcome: Literal["decides", "not reached", "does not match"]
    why: str


LAST_MS = (1 << 63) - 1
"""Maximum of a broker's clock."""


def is_due(since_ms: int, retention_ms: int, *, now_ms: int) -> bool:
    """Return whether the retention has passed at `now_ms`, in signed 64-bit arithmetic like the broker.

    A timestamp whose difference overflows is never due, as at the broker.
    """
    return _as_int64(now_ms - since_ms) >= retention_ms


def due_at_ms(since_ms: int, retention_ms: int, *, now_ms: int) -> int | None:
    """Return the instant when the retention has passed; None if that is beyond 64 bits."""
    due_ms = since_ms + retention_ms
    is_instant = -(1 << 63) <= due_ms <= LAST_MS and is_due(since_ms, retention_ms, now_ms=now_ms) == (now_ms >= due_ms)
    return due_ms if is_instant else None


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def last_active_ms(commit_timestamps_ms: Iterable[int], current_state_timestamp_ms: int | None) -> int | None:
    """Return when a group last committed (one of its present offsets) or changed its state; None if unknown."""
    stamps_ms = [*commit_timestamps_ms, *(() if current_state_timestamp_ms is None else (current_state_timestamp_ms,))]
    return max(stamps_ms, default=None)
