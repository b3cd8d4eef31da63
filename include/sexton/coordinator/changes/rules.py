"""Which operations of a coordinator could have written what stands in the log.

An operation is struck off only by evidence that rules it out: the value was not due, the group keeps offsets that
DeleteGroups would have taken, the release cannot do it, the topic is still there. Each rule names the classes that it
follows; what a release can do is in powers.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sexton.coordinator.changes.change import CAUSES, Before, Kind, Known, TopicPartition, TopicsAt, Write
from sexton.coordinator.changes.powers import Powers
from sexton.coordinator.expiry import Verdict, verdict
from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.log.entry import NO_PRODUCER_ID

FINAL_TYPES = frozenset({2, 3, 11, 17})
"""The record types whose tombstone deletes a group."""
SLACK_MS = 5_000
"""How long before its records' timestamp a sweep may have read the clock that it judged by."""
SLOW_SLACK_MS = 60_000
"""As SLACK_MS, where the sweep of a whole broker appends a batch after the other."""
MINUTE_MS = 60_000
_NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one write took from one group, and what the group was right before it."""

    group_id: str
    removed: Mapping[TopicPartition, StoredOffset]
    log_offsets: Mapping[TopicPartition, int]
    kept: Mapping[TopicPartition, StoredOffset]
    cancelled: frozenset[TopicPartition]
    """What the write names and had no committed value: pending ones, or none at all."""
    spared: frozenset[TopicPartition]
    """What open transactions hold and the write does not name."""
    pending: frozenset[TopicPartition]
    group: Group | None
    is_open: bool
    has_group_tombstone: bool
    is_atomic: bool
    has_repeats: bool

    @property
    def is_bare(self) -> bool:
        """Whether the write leaves nothing of the group's offsets."""
        return not self.kept and not self.is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What every rule looks at beside the case."""

    write: Write
    before: Before
    known: Known
    profile: Profile
    powers: Powers
    cases: Sequence[Case]


def possible_causes(case: Case, scene: Scene) -> frozenset[Kind]:
    """The operations that could have written the case; none where only a producer that went past the coordinator."""
    if scene.write.producer_id != NO_PRODUCER_ID:  # coordinators write tombstones outside of transactions only
        return frozenset()
    is_of_nothing = bool(case.cancelled - case.pending)
    if is_of_nothing and scene.write.is_whole and scene.powers.is_one_write:  # none deletes what is not there
        return frozenset()
    return frozenset(kind for kind in CAUSES if _RULES[kind](case, scene))


def _may_be_swept(case: Case, scene: Scene) -> bool:
    """GroupCoordinatorShard.cleanupGroupMetadata, GroupMetadata.removeExpiredOffsets, OffsetManager.compact."""
    if scene.write.timestamp_ms is None:
        return True
    if not scene.write.is_whole:
        return not any(
            offset.expire_timestamp_ms is not None and offset.expire_timestamp_ms > scene.write.timestamp_ms
            for offset in case.removed.values()
        )
    group = case.group
    if group is None or case.cancelled or case.has_repeats or not _tombstone_fits_sweep(case, scene):
        return False
    if not case.is_atomic and not scene.powers.is_one_write:
        return False
    return swept_by(case, group, scene) is not None


def _tombstone_fits_sweep(case: Case, scene: Scene) -> bool:
    """Whether the group's own tombstone is there or not as after a sweep."""
    assert case.group is not None
    profile = scene.profile
    if not profile.deletes_groups:  # a group's last member does, and its tombstone may come right behind
        return True
    is_due = case.is_bare and _is_deletable(case.group, profile)
    if case.has_group_tombstone:
        return is_due
    # Up to 3.9 what was committed and cancelled in memory keeps a group; 4.0.0 forgets to end transactions; and what a
    # plugin keeps of a streams group is no matter of the log.
    is_told = scene.powers.is_one_write and not profile.leaks_open_transactions and case.group.group_type != "Streams"
    return not (is_due and is_told)


def _is_deletable(group: Group, profile: Profile) -> bool:
    if not group.is_empty:
        return False
    return profile.deletes_generation_0 or (isinstance(group, ClassicGroup) and group.generation > 0)


def swept_by(case: Case, group: Group, scene: Scene) -> int | None:
    """A retention by which a sweep takes what the case has lost, and nothing else of the group; None without one."""
    at_ms = scene.write.timestamp_ms
    assert at_ms is not None
    known = scene.known.retentions_ms
    if known is None:
        longest = _longest_retention(case, group, scene, at_ms)
        known = () if longest is None else (longest,)
    for retention_ms in known:
        if all(is_due(key, offset, case, group, scene, retention_ms, at_ms) for key, offset in case.removed.items()):
            earlier_ms = at_ms - (SLACK_MS if scene.powers.is_one_write else SLOW_SLACK_MS)
            left = (
                key
                for key, offset in case.kept.items()
                if not since_unknown(offset, group, scene.profile)
                and is_due(key, offset, case, group, scene, retention_ms, earlier_ms)
            )
            if not scene.powers.sweeps_all_that_is_due or next(left, None) is None:
                return retention_ms
    return None


def _longest_retention(case: Case, group: Group, scene: Scene, at_ms: int) -> int | None:
    """The longest retention, in whole minutes, by which all that was removed was due; None where not even one minute.

    A longer one leaves fewer offsets that should have gone too, so no other has to be tried.
    """
    ages = []
    for key, offset in case.removed.items():
        if offset.expire_timestamp_ms is None and not since_unknown(offset, group, scene.profile):
            base_ms = verdict_of(key, offset, case, group, scene, MINUTE_MS, at_ms).base_timestamp_ms
            assert base_ms is not None, "only an explicit expiry has none"
            ages.append(at_ms - base_ms)
    if not ages:
        return _NEVER_MS
    return min(ages) // MINUTE_MS * MINUTE_MS or None if min(ages) >= 0 else None


def is_due(
    key: TopicPartition,
    offset: StoredOffset,
    case: Case,
    group: Group,
    scene: Scene,
    retention_ms: int,
    at_ms: int,
) -> bool:
    if since_unknown(offset, group, scene.profile):
        return True
    return verdict_of(key, offset, case, group, scene, retention_ms, at_ms).decision == "expire"


def verdict_of(
    key: TopicPartition,
    offset: StoredOffset,
    case: Case,
    group: Group,
    scene: Scene,
    retention_ms: int,
    at_ms: int,
) -> Verdict:
    return verdict(
        offset,
        key[0],
        group,
        is_pending=key in case.pending,
        retention_ms=retention_ms,
        now_ms=at_ms,
        profile=scene.profile,
    )


def since_unknown(offset: StoredOffset, group: Group, profile: Profile) -> bool:
    """Whether only the coordinator's memory knows since when the group was empty (old group values do not tell)."""
    return (
        offset.expire_timestamp_ms is None
        and profile.expiry is not Expiry.OWN_STAMP
        and isinstance(group, ClassicGroup)
        and group.protocol_type is not None
        and group.is_empty
        and group.current_state_timestamp_ms is None
    )


def _may_be_offset_delete(case: Case, scene: Scene) -> bool:
    """OffsetMetadataManager.deleteOffsets, GroupCoordinator.handleDeleteOffsets."""
    if not scene.powers.deletes_offsets or not case.is_atomic or not _group_tombstone_fits_request(case, scene):
        return False
    if any(_is_orphan(topic, offset, scene) for (topic, _), offset in case.removed.items()):
        return False  # topics that are not in the metadata are UNKNOWN_TOPIC_OR_PARTITION
    if not scene.write.is_whole:
        return True
    group = case.group
    if group is None or group.group_type == "Share" or case.has_repeats:
        return False
    if isinstance(group, ClassicGroup) and (group.is_empty or group.protocol_type != CONSUMER):
        return group.is_empty
    # what a streams group is subscribed to, a release may keep to itself until a heartbeat
    return group.group_type == "Streams" or not any(group.is_subscribed(topic) for topic, _ in case.removed)


def _may_be_group_delete(case: Case, scene: Scene) -> bool:
    """GroupCoordinatorShard.deleteGroups, GroupCoordinator.handleDeleteGroups."""
    powers, group = scene.powers, case.group
    if not powers.deletes_groups or not case.is_atomic:
        return False
    if powers.is_one_write and not case.has_group_tombstone:
        return False
    if not scene.write.is_whole:
        return True
    if group is None or not group.is_empty or case.kept:
        return False
    if powers.is_one_write:
        return not case.spared and (not case.has_repeats or scene.profile.leaks_open_transactions)
    return case.has_group_tombstone == _is_deletable(group, scene.profile)


def _may_be_topic_delete(case: Case, scene: Scene) -> bool:
    """OffsetMetadataManager.onTopicsDeleted, .onPartitionsDeleted, GroupCoordinator.handleDeletedPartitions."""
    if not scene.powers.deletes_topics or not _group_tombstone_fits_request(case, scene):
        return False
    topics = {topic for topic, _ in case.removed}
    return all(_may_be_gone(topic, case, scene) and not _left_of(topic, case, scene) for topic in sorted(topics))


def _group_tombstone_fits_request(case: Case, scene: Scene) -> bool:
    """Whether a request that is about offsets may have written the group's tombstone, where there is one."""
    if not case.has_group_tombstone:
        return True
    if not scene.powers.drops_bare_groups:
        return False
    if not scene.write.is_whole:
        return True
    return case.group is not None and case.is_bare and _is_deletable(case.group, scene.profile)


def _may_be_gone(topic: str, case: Case, scene: Scene) -> bool:
    """Whether the topic may have been deleted at the instant of the write, by what is known of topics."""
    before, after = topics_around(scene)
    stored = [offset for (name, _), offset in case.removed.items() if name == topic]
    if after is not None and topic in after.ids:
        own = after.ids[topic]
        was_there = before is not None and own is not None and before.ids.get(topic) == own
        return not was_there and not any(own is not None and offset.topic_id == own for offset in stored)
    return not all(_is_orphan(topic, offset, scene) for offset in stored)


def _is_orphan(topic: str, offset: StoredOffset, scene: Scene) -> bool:
    """Whether the topic was gone before, so that nobody could delete it, nor ask for its offsets to be deleted."""
    before, after = topics_around(scene)
    return (
        before is not None
        and after is not None
        and topic not in before.ids
        and topic not in after.ids
        and offset.commit_timestamp_ms <= before.taken_at_ms
    )


def topics_around(scene: Scene) -> tuple[TopicsAt | None, TopicsAt | None]:
    """What was recorded of topics before the write and after it."""
    at_ms, before, after = scene.write.timestamp_ms, scene.known.before, scene.known.after
    if at_ms is None:
        return None, None
    return (
        before if before is not None and before.taken_at_ms <= at_ms else None,
        after if after is not None and after.taken_at_ms >= at_ms else None,
    )


def _left_of(topic: str, case: Case, scene: Scene) -> bool:
    """Whether offsets stay that the deletion of the topic would have taken, in this group or another."""
    if not scene.write.is_whole:
        return False
    ids = {offset.topic_id for (name, _), offset in case.removed.items() if name == topic} - {None}

    def is_taken(topic_id: str | None) -> bool:
        return not scene.powers.follows_topic_ids or topic_id is None or topic_id in ids

    if any(name == topic and is_taken(offset.topic_id) for (name, _), offset in case.kept.items()):
        return True
    if not scene.powers.is_one_write:
        return False
    taken = {other.group_id: other.log_offsets for other in scene.cases}
    return any(
        is_taken(topic_id) and (topic, partition) not in taken.get(group_id, ())
        for group_id, partition, topic_id in scene.before.holders_of(topic)
    )


_RULES: Mapping[Kind, Callable[[Case, Scene], bool]] = {
    Kind.EXPIRED: _may_be_swept,
    Kind.DELETED: _may_be_offset_delete,
    Kind.GROUP_DELETED: _may_be_group_delete,
    Kind.TOPIC_DELETED: _may_be_topic_delete,
}
