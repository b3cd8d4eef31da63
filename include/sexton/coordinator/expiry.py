"""The broker's expiry sweep: its verdict on an offset, and on a group without offsets (KIP-211).

Follows Kafka 4.3's OffsetExpirationConditionImpl, the groups' offsetExpirationCondition, OffsetMetadataManager
.cleanupExpiredOffsets and GroupCoordinatorShard.cleanupGroupMetadata; GroupMetadata.removeExpiredOffsets and
GroupMetadataManager.cleanupGroupMetadata up to 3.9; and OffsetManager.compact of 0.8.2, as the profile says.
`sexton.verdicts.expiry` applies the same rules to whole tables: its `judge_unblocked` corresponds to `verdict` here.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.share import ShareGroup
from sexton.coordinator.loading import HOLDS_NOTHING, Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST

_INT64_RANGE = range(-(1 << 63), 1 << 63)
CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS = "offsets.retention.check.interval.ms", 600_000
"""A coordinator's sweep interval: the setting, and Kafka's default in ms."""
SWEEP_BLOCKED, LOAD_WOULD_FAIL = "sweep_blocked", "load_would_fail"
Decision = Literal["keep", "expire"]
Key = TypeVar("Key", OffsetKey, tuple[str, int])
"""The key of an offset, or its topic and partition alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to an offset, and why.

    `reason` is expired (its retention has passed since the base timestamp), expired_explicit (its own expire timestamp
    has come), not_due, subscribed, group_active (a classic group with members and an unknown subscription),
    pending_transaction, commit_in_flight (pendingOffsetCommits), share_group, sweep_blocked (when it is due, the sweep
    of its log partition fails) or load_would_fail (no coordinator has it in memory).
    `base_timestamp_ms` is None for an offset with an expire timestamp; `expires_at_ms` is the instant when the offset
    is due, None if time alone does not make it expire.
    """

    decision: Decision
    reason: str
    base_timestamp_ms: int | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepBlock:
    """A group for which every sweep of its log partition fails, so that no tombstone is written.

    `from_ms` is the instant from which sweeps fail, because they try to delete that group from then on; None if all
    sweeps fail. Without `group_id` there is no sweep at all: the load of the log partition fails or never ends.
    """

    group_id: str | None
    from_ms: int | None

    def is_on(self, at_ms: int) -> bool:
        """Whether a sweep at `at_ms` fails."""
        return self.from_ms is None or at_ms >= self.from_ms


NOT_LOADED = SweepBlock(group_id=None, from_ms=None)
"""The block of a log partition whose load fails or never ends."""


def verdict(
    offset: StoredOffset,
    topic: str,
    group: Group,
    *,
    is_pending: bool,
    retention_ms: int,
    now_ms: int,
    profile: Profile = NEWEST,
    block: SweepBlock | None = None,
    is_in_flight: bool = False,
) -> Verdict:
    """The coordinator's verdict on `offset` of `topic` at `now_ms`.

    `is_pending` says whether an open transaction has an offset of the same group, topic and partition; `block` is the
    `sweep_block` of its log partition; `is_in_flight` says whether a plain commit of that key awaits the log's answer
    (ScalaCommits.pending), which cannot be derived from the log.
    """
    base_ms = None if offset.expire_timestamp_ms is not None else _base_timestamp_ms(offset, group, profile)
    is_due, expires_at_ms = _due(offset, base_ms, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
    reason = _kept_by(group, topic, profile)
    if reason is None and is_due and is_pending and profile.pending_blocks_expiry:
        reason = "pending_transaction"
    if reason is None and is_due and is_in_flight and profile.knows_commits_in_flight:
        reason = "commit_in_flight"
    if reason is not None:
        is_due, expires_at_ms = False, None
    elif is_due:
        reason = "expired" if offset.expire_timestamp_ms is None else "expired_explicit"
    else:
        reason = "not_due"
    goes_at_ms = now_ms if is_due else expires_at_ms
    if block == NOT_LOADED:
        is_due, reason, expires_at_ms = False, LOAD_WOULD_FAIL, None
    elif block is not None and goes_at_ms is not None and block.is_on(goes_at_ms):
        is_due, reason, expires_at_ms = False, SWEEP_BLOCKED, None
    decision: Decision = "expire" if is_due else "keep"
    return Verdict(decision=decision, reason=reason, base_timestamp_ms=base_ms, expires_at_ms=expires_at_ms)


def empty_since_ms(group: Group, profile: Profile) -> int | None:
    """When the group became empty, if the retention of its offsets begins then; else None."""
    if profile.expiry is Expiry.OWN_STAMP or not isinstance(group, ClassicGroup):
        return None
    return group.current_state_timestamp_ms if group.protocol_type is not None and group.is_empty else None


def is_kept_in_flight(key: tuple[str, str | None, int | None], in_flight: Collection[OffsetKey]) -> bool:
    """Whether commits in flight keep the target of a tombstone of `key`; for a group's record topic is None.

    From 0.10.1 to 3.9 (Profile.knows_commits_in_flight) such a commit keeps the offset of its own key, and it keeps the
    group even if all other offsets of the group expire (removeExpiredOffsets; hasOffsets).
    """
    group_id, topic, _ = key
    return key in in_flight if topic is not None else any(flying[0] == group_id for flying in in_flight)


def sweep_block(loaded: Loaded, *, retention_ms: int, now_ms: int) -> SweepBlock | None:
    """The first group for which the sweep of this log partition fails, and from when on; None where none does.

    The sweep appends the tombstones of all groups in one batch. Replaying the tombstone of a target assignment throws
    while any member has a target left (GroupMetadataManager.replay), which fails the batch (CoordinatorRuntime.append).
    This happens as soon as an Empty group with such a target has no offset to keep. A share group with offsets throws
    in ShareGroup.offsetExpirationCondition, whatever their age. NOT_LOADED if the load leaves nothing in memory that
    could be swept.
    """
    if loaded.holds_nothing:
        return NOT_LOADED
    profile, offsets_of = loaded.profile, offsets_by_group(loaded)
    pending, held_groups = loaded.state.pending_keys(), loaded.state.open_groups()
    found = []
    for group_id, group in loaded.groups.by_id.items():
        offsets = offsets_of.get(group_id, {})
        if isinstance(group, ShareGroup) and offsets and profile.sweeps_share_groups:
            found.append(SweepBlock(group_id=group_id, from_ms=None))
            continue
        is_held = is_held_by_transaction(group_id, offsets, held_groups, profile)
        if group.left_targets and is_deleted_by_sweep(group, profile) and not is_held:
            verdicts = verdicts_of_group(
                group, offsets, pending, retention_ms=retention_ms, now_ms=now_ms, profile=profile
            ).values()
            if all(one.decision == "expire" or one.expires_at_ms is not None for one in verdicts):
                instants = [one.expires_at_ms for one in verdicts if one.expires_at_ms is not None]
                found.append(SweepBlock(group_id=group_id, from_ms=max(instants, default=None)))
    return first_block(found)


def first_block(blocks: Iterable[SweepBlock]) -> SweepBlock | None:
    """The block that begins first; if several do, the one with the lowest group id."""
    return min(
        blocks,
        key=lambda one: (one.from_ms is not None, one.from_ms or 0, (one.group_id or "").encode()),
        default=None,
    )


def block_in(row: Mapping[str, Any]) -> SweepBlock | None:
    """The block of a log partition's sweep, from its row of load_profile."""
    if row.get("load_outcome") in HOLDS_NOTHING:
        return NOT_LOADED
    group_id = row.get("sweep_blocked_by")
    return None if group_id is None else SweepBlock(group_id=group_id, from_ms=row["sweep_blocked_from_ms"])


def offsets_by_group(loaded: Loaded) -> dict[str, dict[OffsetKey, StoredOffset]]:
    """The committed offsets of each group, without groups that have none."""
    found: dict[str, dict[OffsetKey, StoredOffset]] = {}
    for key, offset in loaded.offsets.items():
        found.setdefault(key[0], {})[key] = offset
    return found


def is_held_by_transaction(
    group_id: str, offsets: Collection[OffsetKey], held_groups: Set[str], profile: Profile
) -> bool:
    """Whether an open transaction prevents the sweep from deleting a group without offsets."""
    return group_id in held_groups and not (profile.leaks_open_transactions and not offsets)


def is_deleted_by_sweep(group: Group, profile: Profile) -> bool:
    """Whether the sweep deletes a group without offsets."""
    is_spared = isinstance(group, ShareGroup) and not profile.deletes_share_groups
    return profile.deletes_groups and not is_spared and is_deletable(group, profile)


def is_deletable(group: Group, profile: Profile) -> bool:
    """Whether a group without offsets gets a tombstone when it is deleted."""
    return group.is_empty and (
        profile.deletes_generation_0 or (isinstance(group, ClassicGroup) and group.generation > 0)
    )


def verdicts_of_group(
    group: Group,
    offsets: Mapping[Key, StoredOffset],
    pending: Set[Key],
    in_flight: Set[Key] = frozenset(),
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
    block: SweepBlock | None = None,
) -> dict[Key, Verdict]:
    """The `verdict` on each offset of a group; `pending` and `in_flight` are keys of the group."""
    return {
        key: verdict(
            offset,
            key[-2],
            group,
            is_pending=key in pending,
            is_in_flight=key in in_flight,
            retention_ms=retention_ms,
            now_ms=now_ms,
            profile=profile,
            block=block,
        )
        for key, offset in offsets.items()
    }


def _base_timestamp_ms(offset: StoredOffset, group: Group, profile: Profile) -> int:
    """When the offset's retention begins: for an Empty classic group when it became empty, else at the commit."""
    since_ms = empty_since_ms(group, profile)
    return offset.commit_timestamp_ms if since_ms is None else since_ms


def _kept_by(group: Group, topic: str, profile: Profile) -> str | None:
    """Why the group keeps its offsets of `topic` at any age; None when it does not."""
    if profile.expiry is Expiry.OWN_STAMP:
        return None
    if isinstance(group, ShareGroup):
        return "share_group"  # the offsets are left from a removed group with that id
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and not group.is_empty:
        is_known = group.protocol_type == CONSUMER and group.subscribed_topics is not None
        if not is_known or profile.expiry is Expiry.EMPTY_GROUPS:
            return "group_active"
    return "subscribed" if group.is_subscribed(topic) else None


def _due(
    offset: StoredOffset, base_ms: int | None, *, retention_ms: int, now_ms: int, profile: Profile
) -> tuple[bool, int | None]:
    """Whether the offset is due, and from which instant on, in Java's arithmetic of signed 64-bit integers.

    If the sum overflows, there is no instant, because the answer never changes. Before KIP-211 the coordinator adds the
    retention when it stores an offset, and waits until the sum is in the past.
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
