"""Which classic groups can become consumer groups of KIP-848 with a release, and which field prevents it.

Follows GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup and ConsumerGroup.fromClassicGroup of 4.3. An
Empty group always converts when its first consumer-protocol member joins: its record is deleted, its offsets stay.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.groups.classic import CONSUMER, ClassicGroup
from sexton.coordinator.profile import Profile
from sexton.records import MalformedRecord, decode_subscription
from sexton.rehearsal.logs import LogOf

MIGRATION_POLICY, MAX_SIZE = "group.consumer.migration.policy", "group.consumer.max.size"
_UPGRADES = ("bidirectional", "upgrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a classic group converts, and the field or setting that prevents it; `members` are those concerned."""

    group_id: str
    log_partition: int
    state: str
    converts: bool
    field: str | None
    reason: str
    members: tuple[str, ...] = ()


def readiness(logs: list[LogOf], profile: Profile, settings: Mapping[str, str]) -> list[Readiness]:
    """Each classic group's readiness; empty for a release without consumer groups. `settings` are the broker's."""
    if not profile.reads(3):
        return []
    found = []
    for log in logs:
        loaded = log.load(profile)
        groups = {} if loaded.holds_nothing else loaded.groups.by_id
        for group_id, group in sorted(groups.items()):
            if isinstance(group, ClassicGroup):
                field, reason, members = _obstacle(group, profile, settings)
                found.append(
                    Readiness(
                        group_id=group_id, log_partition=log.number, state=group.state, converts=field is None,
                        field=field, reason=reason, members=members,
                    )
                )  # fmt: skip
    return found


def _obstacle(
    group: ClassicGroup, profile: Profile, settings: Mapping[str, str]
) -> tuple[str | None, str, tuple[str, ...]]:
    """(the field or setting that prevents a group's conversion, or None; the reason; the members concerned)."""
    if group.is_empty:
        return None, "Empty: converts with its first member, its offsets stay", ()
    policy = settings.get(MIGRATION_POLICY, "disabled" if profile.early_consumer_groups else _UPGRADES[0]).lower()
    if policy not in _UPGRADES:
        return MIGRATION_POLICY, f"online upgrade is disabled: {MIGRATION_POLICY} is {policy}", ()
    if group.protocol_type != CONSUMER:
        return "protocol_type", f"not a group of consumers: protocol type {group.protocol_type!r}", ()
    size = settings.get(MAX_SIZE, "")
    if size.isdecimal() and group.member_count > int(size):
        return MAX_SIZE, f"{group.member_count} members, and {MAX_SIZE} is {size}", ()
    bad: dict[str, list[str]] = {}
    for member in group.members.values():
        for field, is_bad in (
            ("assignment.userData", has_user_data(member.assignment)),
            ("assignment", has_user_data(member.assignment) is None),
            ("subscription", not _can_parse(member.subscription)),
        ):
            if is_bad:
                bad.setdefault(field, []).append(member.member_id)
    for field, members in bad.items():
        return field, _REASONS[field], tuple(sorted(members))
    return None, "converts when a member with group.protocol=consumer joins", ()


_REASONS = {
    "assignment.userData": "a custom assignor wrote userData into the assignment, which would be lost",
    "assignment": "the assignment cannot be parsed: the embedded consumer protocol is malformed",
    "subscription": "the subscription cannot be parsed: the embedded consumer protocol is malformed",
}


def _can_parse(subscription: bytes) -> bool:
    try:
        return decode_subscription(subscription) is not None
    except MalformedRecord:
        return False


def has_user_data(assignment: bytes) -> bool | None:
    """Whether a ConsumerProtocolAssignment has userData; None if it cannot be parsed.

    A member that has never synced has an empty assignment, which has no userData.
    """
    if not assignment:
        return False
    try:
        version, count = struct.unpack_from(">hi", assignment)
        pos = 6
        for _ in range(count):
            (size,) = struct.unpack_from(">h", assignment, pos)
            (partitions,) = struct.unpack_from(">i", assignment, pos + 2 + size)
            pos += 6 + size + 4 * partitions
            if size < 0 or partitions < 0 or pos > len(assignment):
                return None
        (size,) = struct.unpack_from(">i", assignment, pos)
    except struct.error:
        return None
    is_whole = version >= 0 and count >= 0 and pos + 4 + max(size, 0) <= len(assignment)
    return size > 0 if is_whole else None
