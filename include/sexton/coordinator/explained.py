"""What else there is to know of an offset beside the broker's verdict: what would turn it, and what is odd about it.

Nothing of this is Kafka's own: the coordinator neither looks for topics that are gone (it is told of deletions, see
OffsetMetadataManager.onTopicsDeleted, and what it missed stays), nor where a topic's log begins. Told plainly here; the
kernels `sweep`, `orphans` and `pins` tell the same over whole tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.expiry import Verdict
from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic as it was recorded: its id in Kafka's text form (None before 2.8), and where each partition's log begins.

    A start of -1 is not known.
    """

    topic_id: str | None
    log_starts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The cluster's topics by name. Who does not see all of them (`sees_all`) cannot tell that one is gone.

    `recorded_at_ms` is None where nothing tells it: then they stand for every instant.
    """

    by_name: Mapping[str, KnownTopic]
    sees_all: bool = True
    recorded_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """An open transaction that holds a value of the very same key."""

    producer_id: int
    first_log_offset: int
    first_timestamp_ms: int | None


def orphan_of(key: OffsetKey, offset: StoredOffset, known: KnownTopics) -> str | None:
    """topic_gone, topic_recreated or partition_gone; None for an offset of what is there, or that nobody can tell of.

    A commit proves its topic: one from after the topics were recorded is about what they cannot tell of.
    """
    if known.recorded_at_ms is not None and offset.commit_timestamp_ms >= known.recorded_at_ms:
        return None
    topic = known.by_name.get(key[1])
    if topic is None:
        return "topic_gone" if known.sees_all else None
    if None not in (offset.topic_id, topic.topic_id) and offset.topic_id != topic.topic_id:
        return "topic_recreated"
    return None if 0 <= key[2] < len(topic.log_starts) else "partition_gone"


def is_behind_log_start(key: OffsetKey, offset: StoredOffset, known: KnownTopics) -> bool | None:
    """Whether what the offset points to has been deleted; None where the log's start is not known, or another's."""
    topic = known.by_name.get(key[1])
    if topic is None or not 0 <= key[2] < len(topic.log_starts) or topic.log_starts[key[2]] < 0:
        return None
    if orphan_of(key, offset, known) is not None:
        return None
    return offset.committed_offset < topic.log_starts[key[2]]


def has_left_topic(group: Group, topic: str) -> bool:
    """Whether the group has members, what they are subscribed to is known, and the topic is not part of it."""
    topics = group.subscribed_topics
    return group.member_count > 0 and topics is not None and topic not in topics


def pin_of(key: OffsetKey, loaded: Loaded) -> Pin | None:
    """The oldest open transaction that holds a value of `key`."""
    pins = [
        Pin(
            producer_id=producer_id,
            first_log_offset=transaction.first_log_offset,
            first_timestamp_ms=transaction.first_timestamp_ms,
        )
        for producer_id, transaction in loaded.open_transactions.items()
        if key in loaded.pending.get(producer_id, {})
    ]
    return min(pins, key=lambda pin: (pin.first_log_offset, pin.producer_id), default=None)


def changes_by(
    judged: Verdict,
    group: Group,
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile = NEWEST,
) -> str | None:
    """What turns the verdict, at once or from then on by time: one event, or either of two; None where nothing does.

    time, commit (of this offset), subscription (to its topic, given up by all or taken up by some member), group_empty
    (the last member leaves), transaction_end and sweep_unblocked (what makes the sweep fail is gone).
    """
    empty_since_ms = _empty_since_ms(group, profile)
    match judged.reason:
        case "not_due" if judged.expires_at_ms is None:
            return "commit" if empty_since_ms is None else None
        case "not_due":
            return "time"
        case "subscribed":
            return "subscription, group_empty"
        case "group_active":
            is_read = profile.expiry is Expiry.UNSUBSCRIBED and group.protocol_type == CONSUMER
            return "subscription, group_empty" if is_read else "group_empty"
        case "pending_transaction":
            return "transaction_end"
        case "share_group":
            return None
        case "sweep_blocked":
            return "sweep_unblocked"
    if profile.expiry is Expiry.OWN_STAMP:
        return "commit"
    # A commit does not make a group less empty: what counts from when it became so stays due.
    stays_due = empty_since_ms is not None and now_ms - empty_since_ms >= retention_ms
    return "subscription" if stays_due else "commit, subscription"


def _empty_since_ms(group: Group, profile: Profile) -> int | None:
    """When the group became empty, where the retention of its offsets begins then; else None."""
    if profile.expiry is Expiry.OWN_STAMP or not isinstance(group, ClassicGroup):
        return None
    return group.current_state_timestamp_ms if group.protocol_type is not None and group.is_empty else None
