"""The broker's expiry sweep: its verdict on an offset, and on a group without offsets (KIP-211).

Follows Kafka 4.3's OffsetExpirationConditionImpl, the groups' offsetExpirationCondition, OffsetMetadataManager
.cleanupExpiredOffsets and GroupCoordinatorShard.cleanupGroupMetadata; GroupMetadata.removeExpiredOffsets and
GroupMetadataManager.cleanupGroupMetadata up to 3.9; and OffsetManager.compact of 0.8.2. The profile selects.
`sexton.verdicts.expiry` applies the same rules to whole tables: its `judge_unblocked` corresponds to `verdict` here,
its `plan` to `sweep`.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.share import ShareGroup
from sexton.coordinator.loading import HOLDS_NOTHING, Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import Tombstone, group_tombstones, in_plan_order, offset_tombstone

_INT64_RANGE = range(-(1 << 63), 1 << 63)
BROKER_RETENTION = "broker_retention"
CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS = "offsets.retention.check.interval.ms", 600_000
"""A coordinator's sweep interval: the setting, and Kafka's default in ms."""
SWEEP_BLOCKED, LOAD_WOULD_FAIL = "sweep_blocked", "load_would_fail"
Decision = Literal["keep", "expire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to an offset, and why.

    `reason` is expired (its retention has passed since the base timestamp), expired_explicit (its own expire timestamp
    has come), not_due, subscribed, group_active (a classic group with members and an unknown subscription),
    pending_transaction, commit_in_flight (pendingOffsetCommits), share_group, sweep_blocked (when it is due, the sweep
    of its log partition fails) or load_would_fail (no coordinator holds it).
    `base_timestamp_ms` is None under an explicit expiry; `expires_at_ms` is the instant when the offset is due, None
    while no instant alone can make it expire.
    """

    decision: Decision
    reason: str
    base_timestamp_ms: int | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepBlock:
    """A group for which every sweep of its log partition fails, so that no tombstone is written.

    `from_ms` is the instant from which sweeps fail, because they try to delete that group from then on; None where all
    fail. Without `group_id` there is no sweep at all: the load of the log partition fails or never ends (NOT_LOADED).
    """

    group_id: str | None
    from_ms: int | None

    def is_on(self, at_ms: int) -> bool:
        """Whether a sweep at `at_ms` fails."""
        return self.from_ms is None or at_ms >= self.from_ms


NOT_LOADED = SweepBlock(group_id=None, from_ms=None)


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
    `sweep_block` of its log partition; `is_in_flight` says whether a plain commit of it awaits the log's answer
    (ScalaCommits.pending), which no log shows.
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


def changes_by(
    judged: Verdict,
    group: Group,
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile = NEWEST,
) -> str | None:
    """What changes the verdict: time, one event, or either of two; None where nothing does.

    time, commit (of this offset), subscription (to its topic, given up by all or taken up by any member), group_empty
    (the last member leaves), transaction_end and sweep_unblocked (the cause of a failing sweep or load is gone).
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
        case "commit_in_flight":
            return "commit"
        case "share_group":
            return None
        case "sweep_blocked" | "load_would_fail":
            return "sweep_unblocked"
    if profile.expiry is Expiry.OWN_STAMP:
        return "commit"
    # A commit does not make a group less empty: if the retention counts from when the group became Empty, it stays due.
    stays_due = empty_since_ms is not None and now_ms - empty_since_ms >= retention_ms
    return "subscription" if stays_due else "commit, subscription"


def _empty_since_ms(group: Group, profile: Profile) -> int | None:
    """When the group became empty, if the retention of its offsets begins then; else None."""
    if profile.expiry is Expiry.OWN_STAMP or not isinstance(group, ClassicGroup):
        return None
    return group.current_state_timestamp_ms if group.protocol_type is not None and group.is_empty else None


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


def is_kept_in_flight(key: tuple[str, str | None, int | None], in_flight: Collection[OffsetKey]) -> bool:
    """Whether commits in flight keep the target of a tombstone of `key`; for a group's record topic is None.

    From 0.10.1 to 3.9 (Profile.knows_commits_in_flight) such a commit keeps the offset of its own key, and the group,
    whatever else of it expires (removeExpiredOffsets; hasOffsets).
    """
    group_id, topic, _ = key
    return key in in_flight if topic is not None else any(flying[0] == group_id for flying in in_flight)


def sweep_unblocked(
    loaded: Loaded, *, retention_ms: int, now_ms: int, in_flight: Collection[OffsetKey] = ()
) -> list[Tombstone]:
    """`sweep` without the groups that make it fail."""
    profile = loaded.profile
    flying = frozenset(in_flight if profile.knows_commits_in_flight else ())
    offsets_of = _offsets_by_group(loaded)
    pending = loaded.state.pending_keys()
    held_groups = loaded.state.open_groups()
    planned: list[Tombstone] = []
    for group_id, group in loaded.groups.by_id.items():
        offsets = offsets_of.get(group_id, {})
        verdicts = _verdicts(offsets, group, pending, flying, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
        expired = [key for key, judged in verdicts.items() if judged.decision == "expire"]
        planned += [
            offset_tombstone(key, offsets[key], cause=BROKER_RETENTION, key_type=profile.offset_key_type)
            for key in expired
        ]
        is_bare = len(expired) == len(offsets) and not _is_held(group_id, offsets, held_groups, profile)
        is_bare = is_bare and not is_kept_in_flight((group_id, None, None), flying)
        if is_bare and _is_deleted(group, profile) and not group.left_targets:
            planned += group_tombstones(group)
    return in_plan_order(planned)


def sweep_block(loaded: Loaded, *, retention_ms: int, now_ms: int) -> SweepBlock | None:
    """The first group for which the sweep of this log partition fails, and from when on; None where none does.

    The sweep appends the tombstones of all groups at once. Replaying the tombstone of a target assignment throws while
    any member has a target left (GroupMetadataManager.replay), which fails the batch (CoordinatorRuntime.append). This
    happens as soon as an Empty group with such a target has no offset to keep. A share group with offsets throws in
    ShareGroup.offsetExpirationCondition, whatever their age. NOT_LOADED where the load leaves nothing in memory that
    could be swept.
    """
    if loaded.holds_nothing:
        return NOT_LOADED
    profile, offsets_of = loaded.profile, _offsets_by_group(loaded)
    pending, held_groups = loaded.state.pending_keys(), loaded.state.open_groups()
    found = []
    for group_id, group in loaded.groups.by_id.items():
        offsets = offsets_of.get(group_id, {})
        if isinstance(group, ShareGroup) and offsets and profile.sweeps_share_groups:
            found.append(SweepBlock(group_id=group_id, from_ms=None))
            continue
        is_held = _is_held(group_id, offsets, held_groups, profile)
        if group.left_targets and _is_deleted(group, profile) and not is_held:
            verdicts = _verdicts(offsets, group, pending, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
            if all(one.decision == "expire" or one.expires_at_ms is not None for one in verdicts.values()):
                instants = [one.expires_at_ms for one in verdicts.values() if one.expires_at_ms is not None]
                found.append(SweepBlock(group_id=group_id, from_ms=max(instants, default=None)))
    return first_block(found)


def first_block(blocks: Iterable[SweepBlock]) -> SweepBlock | None:
    """The block that begins first; of several, the one with the lowest group id."""
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


def _offsets_by_group(loaded: Loaded) -> dict[str, dict[OffsetKey, StoredOffset]]:
    found: dict[str, dict[OffsetKey, StoredOffset]] = {}
    for key, offset in loaded.offsets.items():
        found.setdefault(key[0], {})[key] = offset
    return found


def _is_held(group_id: str, offsets: Collection[OffsetKey], held_groups: Set[str], profile: Profile) -> bool:
    """Whether a transaction keeps the sweep from deleting a group without offsets."""
    return group_id in held_groups and not (profile.leaks_open_transactions and not offsets)


def _is_deleted(group: Group, profile: Profile) -> bool:
    """Whether the sweep deletes a group without offsets."""
    if not profile.deletes_groups:
        return False
    if isinstance(group, ShareGroup) and not profile.deletes_share_groups:
        return False
    return is_deletable(group, profile)


def is_deletable(group: Group, profile: Profile) -> bool:
    """Whether a group without offsets gets a tombstone when it is deleted."""
    return group.is_empty and (
        profile.deletes_generation_0 or (isinstance(group, ClassicGroup) and group.generation > 0)
    )


def _verdicts(
    offsets: Mapping[OffsetKey, StoredOffset],
    group: Group,
    pending: Set[OffsetKey],
    flying: Set[OffsetKey] = frozenset(),
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
) -> dict[OffsetKey, Verdict]:
    """The verdicts on a group's offsets where no sweep fails."""
    return {
        key: verdict(
            offset,
            key[1],
            group,
            is_pending=key in pending,
            is_in_flight=key in flying,
            retention_ms=retention_ms,
            now_ms=now_ms,
            profile=profile,
        )
        for key, offset in offsets.items()
    }


def _base_timestamp_ms(offset: StoredOffset, group: Group, profile: Profile) -> int:
    """When the offset's retention begins: for an Empty classic group when it became empty, else at the commit."""
    since_ms = _empty_since_ms(group, profile)
    return offset.commit_timestamp_ms if since_ms is None else since_ms


def _kept_by(group: Group, topic: str, profile: Profile) -> str | None:
    """Why the group keeps its offsets of `topic` at any age; None when it does not."""
    if profile.expiry is Expiry.OWN_STAMP:
        return None
    if isinstance(group, ShareGroup):
        return "share_group"  # they are left from a removed group with that id
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and not group.is_empty:
        is_known = group.protocol_type == CONSUMER and group.subscribed_topics is not None
        if not is_known or profile.expiry is Expiry.EMPTY_GROUPS:
            return "group_active"
    return "subscribed" if group.is_subscribed(topic) else None


def _due(
    offset: StoredOffset, base_ms: int | None, *, retention_ms: int, now_ms: int, profile: Profile
) -> tuple[bool, int | None]:
    """Whether the offset is due, and from which instant; in Java's signed 64 bits.

    For timestamps so far out that the sum overflows there is no instant, since the answer never changes. Before KIP-211
    the coordinator adds the retention when it stores an offset, and waits until the sum is in the past.
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
