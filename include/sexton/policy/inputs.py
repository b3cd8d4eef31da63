"""What is known of a group and of an offset when a policy judges them, and what it decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Orphan = Literal["topic_gone", "topic_recreated", "partition_gone"]
"""Why no client can use an offset any more: its topic is not there, has another id now, or lacks the partition."""
GroupType = Literal["Classic", "Consumer", "Share", "Streams"]
State = Literal[
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
]
"""Every state that a group of one of the types can be in, as ListGroups names them."""
ORPHANS: tuple[Orphan, ...] = get_args(Orphan)
GROUP_TYPES: tuple[GroupType, ...] = get_args(GroupType)
STATES: tuple[State, ...] = get_args(State)

TIME_REASONS = frozenset({"expired", "expired_explicit", "not_due", "sweep_blocked"})
"""The broker's reasons that are about time alone; for every other one it keeps an offset whatever its age.

So is sweep_blocked: the offset is due, or will be, and it is the broker's sweep that fails. A rule may let it go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """A group, in the words of the table `groups`.

    `last_active_ms` is when it last committed or changed its state, None where nothing tells.
    """

    group_id: str
    group_type: str
    state: str
    protocol_type: str | None
    last_active_ms: int | None
    member_count: int

    @property
    def idle_since_ms(self) -> int | None:
        """Since when nothing has happened to it; None for a group with members, which is never idle, or unknown."""
        return self.last_active_ms if self.member_count == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetInput:
    """A committed offset with what the broker would do with it, in the words of the table `offset_verdicts`.

    `is_pending` says whether an open transaction holds an offset of the very same group, topic and partition: the
    broker's reason tells it only once its own retention has passed.
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
        """From when a rule's retention counts: as the broker counts, and from the commit where its client chose."""
        return self.commit_timestamp_ms if self.base_timestamp_ms is None else self.base_timestamp_ms

    @property
    def kept_by(self) -> str | None:
        """Why it is kept whatever its age (subscribed, group_active, share_group, pending_transaction), if it is."""
        return None if self.broker_reason in TIME_REASONS else self.broker_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy does with an offset, and why.

    `reason` is held_legal or held_operational, no_rule, not_due, expired, or why the broker keeps it whatever its age.
    `rule` is the hold or rule that decides, None for no_rule. `expires_at_ms` is the instant from which the policy
    expires it if nothing happens but time: for an expired one when it was due, None while no instant alone can.
    """

    verdict: Literal["keep", "expire", "hold"]
    reason: str
    rule: str | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrace:
    """What became of one hold or rule, in the order in which they are asked."""

    rule: str
    outcome: Literal["decides", "not reached", "does not match"]
    why: str


LAST_MS = (1 << 63) - 1
"""No clock of a broker comes further."""


def is_due(since_ms: int, retention_ms: int, *, now_ms: int) -> bool:
    """Whether the retention has passed at `now_ms`, in the signed 64 bits in which the broker counts.

    A stamp so far out that the difference overflows is never due, as it never is for the broker.
    """
    return _as_int64(now_ms - since_ms) >= retention_ms


def due_at_ms(since_ms: int, retention_ms: int, *, now_ms: int) -> int | None:
    """The instant when the retention has passed; None where that never is (the sums leave 64 bits)."""
    due_ms = since_ms + retention_ms
    is_instant = -(1 << 63) <= due_ms <= LAST_MS and is_due(since_ms, retention_ms, now_ms=now_ms) == (now_ms >= due_ms)
    return due_ms if is_instant else None


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def last_active_ms(commit_timestamps_ms: Iterable[int], current_state_timestamp_ms: int | None) -> int | None:
    """When a group last committed (by the offsets that it still has) or changed its state; None where nothing tells."""
    stamps_ms = [*commit_timestamps_ms, *(() if current_state_timestamp_ms is None else (current_state_timestamp_ms,))]
    return max(stamps_ms, default=None)
