"""Finds the operations of a coordinator that could have written the tombstones of a group.

Only evidence rules an operation out: the value was not due, the group keeps offsets that DeleteGroups would have
removed, the release has no such operation, the topic still exists. Each rule names the Kafka classes that it follows;
the operations of a release are part of its Profile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sexton.as_text import MINUTE_MS
from sexton.coordinator.changes.model import ChangeEvidence, StateBefore, TopicPartition, TopicsAt, Write
from sexton.coordinator.expiry import Verdict, is_deletable, verdict
from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.log.entry import NO_PRODUCER_ID
from sexton.tables.change_causes import CAUSES, ChangeKind

FINAL_TYPES = frozenset({2, 3, 11, 17})
"""The record types whose tombstone deletes a group."""
SLACK_MS = 5_000
"""How long before the timestamp of its records a sweep may have read its clock."""
SLOW_SLACK_MS = MINUTE_MS
"""SLACK_MS where the sweep of a whole broker appends one batch after the other."""
_NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoval:
    """The offsets of one group that one write removed, and the group's state right before it."""

    group_id: str
    removed: Mapping[TopicPartition, StoredOffset]
    log_offsets: Mapping[TopicPartition, int]
    kept: Mapping[TopicPartition, StoredOffset]
    cancelled: frozenset[TopicPartition]
    """Keys named by the write that had no committed value: a pending value, or none at all."""
    spared: frozenset[TopicPartition]
    """Keys with pending values in open transactions that the write does not name."""
    pending: frozenset[TopicPartition]
    group: Group | None
    is_open: bool
    has_group_tombstone: bool
    is_atomic: bool
    has_repeats: bool
    profile: Profile

    @property
    def is_bare(self) -> bool:
        """Whether the group has no offsets left after the write."""
        return not self.kept and not self.is_open

    def is_due(self, key: TopicPartition, offset: StoredOffset, retention_ms: int, at_ms: int) -> bool:
        return self.since_unknown(offset) or self.verdict_of(key, offset, retention_ms, at_ms).decision == "expire"

    def verdict_of(self, key: TopicPartition, offset: StoredOffset, retention_ms: int, at_ms: int) -> Verdict:
        assert self.group is not None
        return verdict(
            offset,
            key[0],
            self.group,
            is_pending=key in self.pending,
            retention_ms=retention_ms,
            now_ms=at_ms,
            profile=self.profile,
        )

    def since_unknown(self, offset: StoredOffset) -> bool:
        """Whether only the coordinator's memory has the instant since which the group was empty (old group values lack
        it)."""
        group = self.group
        return (
            offset.expire_timestamp_ms is None
            and self.profile.expiry is not Expiry.OWN_STAMP
            and isinstance(group, ClassicGroup)
            and group.protocol_type is not None
            and group.is_empty
            and group.current_state_timestamp_ms is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """Input of every rule, in addition to the removal from one group."""

    write: Write
    before: StateBefore
    known: ChangeEvidence
    profile: Profile
    removals: Sequence[GroupRemoval]


def possible_causes(removal: GroupRemoval, context: WriteContext) -> frozenset[ChangeKind]:
    """The operations that could have written the removal; empty where only a producer that bypassed the coordinator
    could have."""
    if context.write.producer_id != NO_PRODUCER_ID:  # coordinators write tombstones outside of transactions only
        return frozenset()
    is_of_nothing = bool(removal.cancelled - removal.pending)
    if is_of_nothing and context.write.is_whole and context.profile.is_one_write:  # no operation deletes a missing key
        return frozenset()
    return frozenset(kind for kind in CAUSES if _RULES[kind](removal, context))


def _may_be_swept(removal: GroupRemoval, context: WriteContext) -> bool:
    """GroupCoordinatorShard.cleanupGroupMetadata, GroupMetadata.removeExpiredOffsets, OffsetManager.compact."""
    if context.write.timestamp_ms is None:
        return True
    if not context.write.is_whole:
        return not any(
            offset.expire_timestamp_ms is not None and offset.expire_timestamp_ms > context.write.timestamp_ms
            for offset in removal.removed.values()
        )
    group = removal.group
    if group is None or removal.cancelled or removal.has_repeats or not _tombstone_fits_sweep(removal, context):
        return False
    if not removal.is_atomic and not context.profile.is_one_write:
        return False
    return swept_by(removal, context) is not None


def _tombstone_fits_sweep(removal: GroupRemoval, context: WriteContext) -> bool:
    """Whether the group's tombstone is present or missing as it would be after a sweep."""
    assert removal.group is not None
    profile = context.profile
    if not profile.deletes_groups:  # a group is removed with its last member, perhaps right after this write
        return True
    is_due = removal.is_bare and is_deletable(removal.group, profile)
    if removal.has_group_tombstone:
        return is_due
    # Not certain: up to 3.9 commits that were only in memory may keep a group; 4.0.0 does not end all transactions; the
    # state that a plugin keeps of a streams group is not in the log.
    is_certain = (
        context.profile.is_one_write and not profile.leaks_open_transactions and removal.group.group_type != "Streams"
    )
    return not (is_due and is_certain)


def swept_by(removal: GroupRemoval, context: WriteContext) -> int | None:
    """A retention with which a sweep removes exactly these offsets of the group; None if there is none."""
    at_ms = context.write.timestamp_ms
    assert at_ms is not None
    known = context.known.retentions_ms
    if known is None:
        longest = _longest_retention(removal, at_ms)
        known = () if longest is None else (longest,)
    for retention_ms in known:
        if all(removal.is_due(key, offset, retention_ms, at_ms) for key, offset in removal.removed.items()):
            earlier_ms = at_ms - (SLACK_MS if context.profile.is_one_write else SLOW_SLACK_MS)
            left = (
                key
                for key, offset in removal.kept.items()
                if not removal.since_unknown(offset) and removal.is_due(key, offset, retention_ms, earlier_ms)
            )
            if not context.profile.sweeps_all_that_is_due or next(left, None) is None:
                return retention_ms
    return None


def _longest_retention(removal: GroupRemoval, at_ms: int) -> int | None:
    """The longest retention, in whole minutes, with which all removed offsets were due; None if not even one minute
    fits.

    The longer the retention, the fewer of the kept offsets were due as well, so no shorter one has to be tried.
    """
    ages = []
    for key, offset in removal.removed.items():
        if offset.expire_timestamp_ms is None and not removal.since_unknown(offset):
            base_ms = removal.verdict_of(key, offset, MINUTE_MS, at_ms).base_timestamp_ms
            assert base_ms is not None, "only an explicit expiry has none"
            ages.append(at_ms - base_ms)
    if not ages:
        return _NEVER_MS
    return min(ages) // MINUTE_MS * MINUTE_MS or None if min(ages) >= 0 else None


def _may_be_offset_delete(removal: GroupRemoval, context: WriteContext) -> bool:
    """OffsetMetadataManager.deleteOffsets, GroupCoordinator.handleDeleteOffsets."""
    if (
        not context.profile.has_offset_delete
        or not removal.is_atomic
        or not _group_tombstone_fits_request(removal, context)
    ):
        return False
    if any(_is_orphan(topic, offset, context) for (topic, _), offset in removal.removed.items()):
        return False  # topics that are not in the metadata are UNKNOWN_TOPIC_OR_PARTITION
    if not context.write.is_whole:
        return True
    group = removal.group
    if group is None or group.group_type == "Share" or removal.has_repeats:
        return False
    if isinstance(group, ClassicGroup) and (group.is_empty or group.protocol_type != CONSUMER):
        return group.is_empty
    # the coordinator may not know the subscription of a streams group before its next heartbeat
    return group.group_type == "Streams" or not any(group.is_subscribed(topic) for topic, _ in removal.removed)


def _may_be_group_delete(removal: GroupRemoval, context: WriteContext) -> bool:
    """GroupCoordinatorShard.deleteGroups, GroupCoordinator.handleDeleteGroups."""
    profile, group = context.profile, removal.group
    if not profile.has_delete_groups or not removal.is_atomic:
        return False
    if profile.is_one_write and not removal.has_group_tombstone:
        return False
    if not context.write.is_whole:
        return True
    if group is None or not group.is_empty or removal.kept:
        return False
    if profile.is_one_write:
        return not removal.spared and (not removal.has_repeats or context.profile.leaks_open_transactions)
    return removal.has_group_tombstone == is_deletable(group, profile)


def _may_be_topic_delete(removal: GroupRemoval, context: WriteContext) -> bool:
    """OffsetMetadataManager.onTopicsDeleted, .onPartitionsDeleted, GroupCoordinator.handleDeletedPartitions."""
    if not context.profile.drops_deleted_topics or not _group_tombstone_fits_request(removal, context):
        return False
    topics = {topic for topic, _ in removal.removed}
    return all(
        _may_be_gone(topic, removal, context) and not _left_of(topic, removal, context) for topic in sorted(topics)
    )


def _group_tombstone_fits_request(removal: GroupRemoval, context: WriteContext) -> bool:
    """Whether a request about offsets may have written the group's tombstone, where there is one."""
    if not removal.has_group_tombstone:
        return True
    if not context.profile.batch_per_group:
        return False
    if not context.write.is_whole:
        return True
    return removal.group is not None and removal.is_bare and is_deletable(removal.group, context.profile)


def _may_be_gone(topic: str, removal: GroupRemoval, context: WriteContext) -> bool:
    """Whether the topic may have been deleted at the instant of the write, according to the recorded topics."""
    before, after = topics_around(context)
    stored = [offset for (name, _), offset in removal.removed.items() if name == topic]
    if after is not None and topic in after.ids:
        own = after.ids[topic]
        was_there = before is not None and own is not None and before.ids.get(topic) == own
        return not was_there and not any(own is not None and offset.topic_id == own for offset in stored)
    return not all(_is_orphan(topic, offset, context) for offset in stored)


def _is_orphan(topic: str, offset: StoredOffset, context: WriteContext) -> bool:
    """Whether the topic was gone before the write, so that no request could delete it or its offsets."""
    before, after = topics_around(context)
    return (
        before is not None
        and after is not None
        and topic not in before.ids
        and topic not in after.ids
        and offset.commit_timestamp_ms <= before.taken_at_ms
    )


def topics_around(context: WriteContext) -> tuple[TopicsAt | None, TopicsAt | None]:
    """The topics recorded before the write and after it."""
    at_ms, before, after = context.write.timestamp_ms, context.known.before, context.known.after
    if at_ms is None:
        return None, None
    return (
        before if before is not None and before.taken_at_ms <= at_ms else None,
        after if after is not None and after.taken_at_ms >= at_ms else None,
    )


def _left_of(topic: str, removal: GroupRemoval, context: WriteContext) -> bool:
    """Whether offsets remain, in this group or another, that the deletion of the topic would have removed."""
    if not context.write.is_whole:
        return False
    ids = {offset.topic_id for (name, _), offset in removal.removed.items() if name == topic} - {None}

    def is_taken(topic_id: str | None) -> bool:
        return not context.profile.drops_topics_by_id or topic_id is None or topic_id in ids

    if any(name == topic and is_taken(offset.topic_id) for (name, _), offset in removal.kept.items()):
        return True
    if not context.profile.is_one_write:
        return False
    taken = {other.group_id: other.log_offsets for other in context.removals}
    return any(
        is_taken(topic_id) and (topic, partition) not in taken.get(group_id, ())
        for group_id, partition, topic_id in context.before.holders_of(topic)
    )


_RULES: Mapping[ChangeKind, Callable[[GroupRemoval, WriteContext], bool]] = {
    ChangeKind.EXPIRED: _may_be_swept,
    ChangeKind.DELETED: _may_be_offset_delete,
    ChangeKind.GROUP_DELETED: _may_be_group_delete,
    ChangeKind.TOPIC_DELETED: _may_be_topic_delete,
}
