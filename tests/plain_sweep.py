"""The broker's sweep by the row: its tombstones in plain Python, against which the columns of verdicts.expiry are held.

Follows GroupCoordinatorShard.cleanupGroupMetadata, createGroupTombstoneRecords and GroupCoordinatorRecordHelpers of
Kafka 4.3, and GroupMetadataManager.cleanupGroupMetadata up to 3.9. The verdicts are those of coordinator.expiry.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sexton.coordinator.expiry import (
    Verdict,
    empty_since_ms,
    is_deleted_by_sweep,
    is_held_by_transaction,
    is_kept_in_flight,
    offsets_by_group,
    sweep_block,
    verdicts_of_group,
)
from sexton.coordinator.groups.classic import CONSUMER
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.groups import CLASSIC_TYPE
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import GROUP_EMPTY, OFFSET_TYPE
from sexton.records import GroupKey, GroupMetadataKey, Key, MemberKey, OffsetCommitKey, RegularExpressionKey, encode_key

BROKER_RETENTION = "broker_retention"
_TYPE_ORDER = {
    record_type: rank
    for order in ((0, 1, 2), (8, 7, 6, 5, 16, 4, 3), (14, 13, 12, 10, 9, 15, 11), (22, 21, 20, 19, 17, 23))
    for rank, record_type in enumerate(order)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A planned record without a value. Fields that its key does not have are None, and targets of group records."""

    record_type: int
    group_id: str
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    regular_expression: str | None = None
    cause: str
    target_log_offset: int | None = None
    target_committed_offset: int | None = None

    @property
    def key(self) -> bytes:
        """The key's bytes, as the coordinator writes them."""
        key: Key
        if self.topic is not None and self.partition is not None:
            key = OffsetCommitKey(group_id=self.group_id, topic=self.topic, partition=self.partition)
        elif self.member_id is not None:
            key = MemberKey(group_id=self.group_id, member_id=self.member_id)
        elif self.regular_expression is not None:
            key = RegularExpressionKey(group_id=self.group_id, regular_expression=self.regular_expression)
        elif self.record_type == CLASSIC_TYPE:
            key = GroupMetadataKey(group_id=self.group_id)
        else:
            key = GroupKey(group_id=self.group_id)
        return encode_key(self.record_type, key)


def offset_tombstone(key: OffsetKey, offset: StoredOffset, *, cause: str, key_type: int = OFFSET_TYPE) -> Tombstone:
    """The tombstone of a committed offset; `key_type` is 0 where a 0.8.2 broker writes it."""
    group_id, topic, partition = key
    return Tombstone(
        record_type=key_type,
        group_id=group_id,
        topic=topic,
        partition=partition,
        cause=cause,
        target_log_offset=offset.log_offset,
        target_committed_offset=offset.committed_offset,
    )


def group_tombstones(group: Group) -> list[Tombstone]:
    """The tombstones of a group itself, which follow its offsets' tombstones."""
    return [
        Tombstone(
            record_type=part.record_type,
            group_id=group.group_id,
            member_id=part.member_id,
            regular_expression=part.regular_expression,
            cause=GROUP_EMPTY,
        )
        for part in group.tombstones()
    ]


def in_plan_order(tombstones: Iterable[Tombstone]) -> list[Tombstone]:
    """By group id, then offsets by topic and partition, then the record types of the group in the order of writing.

    Strings are ordered by their UTF-8 bytes.
    """
    return sorted(
        tombstones,
        key=lambda item: (
            item.group_id.encode(),
            item.record_type > OFFSET_TYPE,
            _TYPE_ORDER[item.record_type],
            (item.topic or item.member_id or item.regular_expression or "").encode(),
            item.partition or 0,
        ),
    )


def sweep(loaded: Loaded, *, retention_ms: int, now_ms: int, in_flight: Collection[OffsetKey] = ()) -> list[Tombstone]:
    """The tombstones that the coordinator of this log partition writes at `now_ms`, in the order of the plan.

    It iterates over groups: it never sees offsets of a removed group, but it sees those of a misplaced group. An Empty
    group is removed with its last offset, at once if it has none, unless a transaction holds any of its offsets. Where
    the sweep fails (`sweep_block`), it writes nothing. `in_flight` are plain commits that the log has not answered.
    """
    block = sweep_block(loaded, retention_ms=retention_ms, now_ms=now_ms)
    if block is not None and block.is_on(now_ms):
        return []
    return sweep_unblocked(loaded, retention_ms=retention_ms, now_ms=now_ms, in_flight=in_flight)


def sweep_unblocked(
    loaded: Loaded, *, retention_ms: int, now_ms: int, in_flight: Collection[OffsetKey] = ()
) -> list[Tombstone]:
    """`sweep` without the groups that make it fail."""
    profile = loaded.profile
    flying = frozenset(in_flight if profile.knows_commits_in_flight else ())
    offsets_of = offsets_by_group(loaded)
    pending = loaded.state.pending_keys()
    held_groups = loaded.state.open_groups()
    planned: list[Tombstone] = []
    for group_id, group in loaded.groups.by_id.items():
        offsets = offsets_of.get(group_id, {})
        verdicts = verdicts_of_group(
            group, offsets, pending, flying, retention_ms=retention_ms, now_ms=now_ms, profile=profile
        )
        expired = [key for key, judged in verdicts.items() if judged.decision == "expire"]
        planned += [
            offset_tombstone(key, offsets[key], cause=BROKER_RETENTION, key_type=profile.offset_key_type)
            for key in expired
        ]
        is_bare = len(expired) == len(offsets) and not is_held_by_transaction(group_id, offsets, held_groups, profile)
        is_bare = is_bare and not is_kept_in_flight((group_id, None, None), flying)
        if is_bare and is_deleted_by_sweep(group, profile) and not group.left_targets:
            planned += group_tombstones(group)
    return in_plan_order(planned)


def changes_by(
    judged: Verdict, group: Group, *, retention_ms: int, now_ms: int, profile: Profile = NEWEST
) -> str | None:
    """What changes the verdict: time, one event, or either of two; None where nothing does.

    time, commit (of this offset), subscription (to its topic, given up by all or taken up by any member), group_empty
    (the last member leaves), transaction_end and sweep_unblocked (the cause of a failing sweep or load is gone).
    """
    since_ms = empty_since_ms(group, profile)
    match judged.reason:
        case "not_due" if judged.expires_at_ms is None:
            return "commit" if since_ms is None else None
        case "not_due":
            return "time"
        case "subscribed":
            return "subscription, group_empty"
        case "group_active":
            is_read = profile.expiry is Expiry.UNSUBSCRIBED and group.protocol_type == CONSUMER
            return "subscription, group_empty" if is_read else "group_empty"
        case "pending_transaction":
            return "transaction_end"
        case "commit_in_flight":
            return "commit"
        case "share_group":
            return None
        case "sweep_blocked" | "load_would_fail":
            return "sweep_unblocked"
    if profile.expiry is Expiry.OWN_STAMP:
        return "commit"
    # A commit does not make a group less empty: if the retention counts from when the group became Empty, it stays due.
    stays_due = since_ms is not None and now_ms - since_ms >= retention_ms
    return "subscription" if stays_due else "commit, subscription"
