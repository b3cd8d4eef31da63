"""What the broker's expiry sweep does with an offset, and with a group that holds none any more (KIP-211).

Follows Kafka 4.3's OffsetExpirationConditionImpl, the groups' offsetExpirationCondition, OffsetMetadataManager
.cleanupExpiredOffsets and GroupCoordinatorShard.cleanupGroupMetadata; GroupMetadata.removeExpiredOffsets and
GroupMetadataManager.cleanupGroupMetadata up to 3.9; and OffsetManager.compact of 0.8.2. Which of these is the profile's
to say.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Literal

from sexton.coordinator.classic import CONSUMER, ClassicGroup
from sexton.coordinator.group import Group
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.share import ShareGroup
from sexton.coordinator.tombstones import Tombstone, group_tombstones, in_plan_order, offset_tombstone

_INT64_RANGE = range(-(1 << 63), 1 << 63)
_NOWHERE = -1
BROKER_RETENTION = "broker_retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to an offset, and why.

    `reason` is expired (its retention has passed since the base timestamp), expired_explicit (its own expire timestamp
    has come), not_due, subscribed, group_active (a classic group with members whose subscription nobody knows),
    pending_transaction or share_group. `base_timestamp_ms` is None under an explicit expiry; `expires_at_ms` is the
    instant when the offset is due, None while no instant alone can make it expire.
    """

    decision: Literal["keep", "expire"]
    reason: str
    base_timestamp_ms: int | None
    expires_at_ms: int | None


def verdict(
    offset: StoredOffset,
    topic: str,
    group: Group,
    *,
    is_pending: bool,
    retention_ms: int,
    now_ms: int,
    profile: Profile = NEWEST,
) -> Verdict:
    """Say what the coordinator does with `offset` of `topic` at `now_ms`.

    `is_pending` says whether an open transaction holds an offset of the very same group, topic and partition.
    """
    base_ms = None if offset.expire_timestamp_ms is not None else _base_timestamp_ms(offset, group, profile)
    is_due, due_at_ms = _due(offset, base_ms, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
    kept_by = _kept_by(group, topic, profile)
    if kept_by is None and not is_due:
        return Verdict(decision="keep", reason="not_due", base_timestamp_ms=base_ms, expires_at_ms=due_at_ms)
    if kept_by is None and is_pending and profile.pending_blocks_expiry:
        kept_by = "pending_transaction"
    if kept_by is not None:
        return Verdict(decision="keep", reason=kept_by, base_timestamp_ms=base_ms, expires_at_ms=None)
    reason = "expired" if offset.expire_timestamp_ms is None else "expired_explicit"
    return Verdict(decision="expire", reason=reason, base_timestamp_ms=base_ms, expires_at_ms=due_at_ms)


def sweep(loaded: Loaded, *, retention_ms: int, now_ms: int) -> list[Tombstone]:
    """The tombstones that the coordinator of this log partition writes at `now_ms`, in the order of the plan.

    It walks over groups, so offsets under a removed group are never met; a stray group's are. A group goes when it is
    empty and its last offset does, at once if it has none, unless a transaction holds any of its offsets.
    """
    profile = loaded.profile
    offsets_of: dict[str, dict[OffsetKey, StoredOffset]] = {}
    for key, offset in loaded.offsets.items():
        offsets_of.setdefault(key[0], {})[key] = offset
    pending = loaded.state.pending_keys()
    held_groups = loaded.state.open_groups()
    planned: list[Tombstone] = []
    for group_id, group in loaded.groups.by_id.items():
        offsets = offsets_of.get(group_id, {})
        expired = _expired(offsets, group, pending, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
        planned += expired
        is_held = group_id in held_groups and not (profile.leaks_open_transactions and not offsets)
        is_bare = len(expired) == len(offsets) and not is_held
        if is_bare and _is_deleted(group, profile):
            planned += group_tombstones(group)
    return in_plan_order(planned)


def sweep_all(
    loads: Mapping[int, Loaded], *, partition_count: int, retention_ms: int, now_ms: int
) -> dict[int, list[Tombstone]]:
    """What the sweep of a broker that leads all of `loads` appends to each log partition at `now_ms`.

    From 4.0 on a group's tombstones go to the log partition that holds it. Before, one cache holds the groups of all of
    them (Profile.one_cache), and the tombstones go to the log partition that the id hashes to; to none where the broker
    does not lead that (GroupMetadataManager.cleanupGroupMetadata). Of several copies of a group the cache has the one
    that was loaded first, in no order that the log tells; taken as first is that of its own log partition, then that of
    the lowest.
    """
    planned: dict[int, list[Tombstone]] = {log_partition: [] for log_partition in loads}
    cached_from: dict[str, int] = {}
    for log_partition, loaded in sorted(loads.items()):
        for group_id in loaded.groups.by_id:
            if partition_of(group_id, partition_count) == log_partition:
                cached_from[group_id] = log_partition
            cached_from.setdefault(group_id, log_partition)
    for log_partition, loaded in loads.items():
        for tombstone in sweep(loaded, retention_ms=retention_ms, now_ms=now_ms):
            goes_to = log_partition
            if loaded.profile.one_cache:
                is_cached = cached_from[tombstone.group_id] == log_partition
                goes_to = partition_of(tombstone.group_id, partition_count) if is_cached else _NOWHERE
            if goes_to in planned:
                planned[goes_to].append(tombstone)
    return {log_partition: in_plan_order(tombstones) for log_partition, tombstones in planned.items()}


def _is_deleted(group: Group, profile: Profile) -> bool:
    """Whether the sweep deletes a group that holds nothing any more."""
    if not profile.deletes_groups or not group.is_empty:
        return False
    if isinstance(group, ShareGroup) and not profile.deletes_share_groups:
        return False
    return profile.deletes_generation_0 or (isinstance(group, ClassicGroup) and group.generation > 0)


def _expired(
    offsets: Mapping[OffsetKey, StoredOffset],
    group: Group,
    pending: Set[OffsetKey],
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
) -> list[Tombstone]:
    found = []
    for key, offset in offsets.items():
        judged = verdict(
            offset,
            key[1],
            group,
            is_pending=key in pending,
            retention_ms=retention_ms,
            now_ms=now_ms,
            profile=profile,
        )
        if judged.decision == "expire":
            found.append(offset_tombstone(key, offset, cause=BROKER_RETENTION, key_type=profile.offset_key_type))
    return found


def _base_timestamp_ms(offset: StoredOffset, group: Group, profile: Profile) -> int:
    """When the offset's retention begins: for an empty classic group when it became empty, else at the commit."""
    if profile.expiry is Expiry.OWN_STAMP:
        return offset.commit_timestamp_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.is_empty:
        since = group.current_state_timestamp_ms
        return offset.commit_timestamp_ms if since is None else since
    return offset.commit_timestamp_ms


def _kept_by(group: Group, topic: str, profile: Profile) -> str | None:
    """Why the group keeps its offsets of `topic`, whatever their age; None when it does not."""
    if profile.expiry is Expiry.OWN_STAMP:
        return None
    if isinstance(group, ShareGroup):
        return "share_group"  # offsets cannot come under its id; were there any, Kafka's sweep would throw
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and not group.is_empty:
        is_known = group.protocol_type == CONSUMER and group.subscribed_topics is not None
        if not is_known or profile.expiry is Expiry.EMPTY_GROUPS:
            return "group_active"
    return "subscribed" if group.is_subscribed(topic) else None


def _due(
    offset: StoredOffset, base_ms: int | None, *, retention_ms: int, now_ms: int, profile: Profile
) -> tuple[bool, int | None]:
    """Whether the offset is due, and since or from which instant; in Java's signed 64 bits.

    Timestamps so far out that the sum overflows give no instant: by it the answer would never change. Before KIP-211
    the coordinator adds the retention when it stores an offset, and waits until the sum lies in the past.
    """
    grace_ms = 1 if profile.expiry is Expiry.OWN_STAMP else 0
    if base_ms is None:
        assert offset.expire_timestamp_ms is not None
        due_at_ms = offset.expire_timestamp_ms + grace_ms
        return now_ms >= due_at_ms, due_at_ms if due_at_ms in _INT64_RANGE else None
    if grace_ms:
        due_at_ms = _as_int64(base_ms + retention_ms) + grace_ms
        return now_ms >= due_at_ms, due_at_ms if due_at_ms in _INT64_RANGE else None
    is_due = _as_int64(now_ms - base_ms) >= retention_ms
    due_at_ms = base_ms + retention_ms
    is_true = due_at_ms in _INT64_RANGE and is_due == (now_ms >= due_at_ms)
    return is_due, due_at_ms if is_true else None


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
