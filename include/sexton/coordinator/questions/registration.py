"""The record by which a classic group is known to the log: type 2, written when the group is new, has rebalanced or
lost its last member.

Follows GroupCoordinatorRecordHelpers.newGroupMetadataRecord and newEmptyGroupMetadataRecord of Kafka 4.3, and
GroupMetadataManager.storeGroup with groupMetadataValue (Scala).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sexton.coordinator.profile import Profile, Release
from sexton.coordinator.questions.dating import is_since
from sexton.coordinator.questions.held import HeldGroup
from sexton.records import encode_key, encode_value

RECORD_TYPE = 2
_VERSIONS_SINCE: tuple[tuple[Release, int], ...] = (((2, 3), 3), ((2, 1), 2), ((0, 10, 1), 1), ((0, 9), 0))
_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the record says. The defaults are those of a group that has just been made (newEmptyGroupMetadataRecord).

    `members` have the fields of `records.classic.MEMBER`, with subscription and assignment as bytes.
    """

    group_id: str
    protocol_type: str | None = None
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp_ms: int | None = None
    members: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of_group(cls, group: HeldGroup) -> "Registration":
        """What a coordinator writes of an empty classic group.

        Raises ValueError for other groups: the bytes of members' subscriptions are not kept.
        """
        if group.group_type != "Classic" or group.member_count:
            raise ValueError(f"group {group.group_id!r} is {group.group_type} with {group.member_count} members")
        return cls(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            generation=group.generation or 0,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp_ms=group.current_state_timestamp_ms,
        )

    def encode(self, profile: Profile) -> tuple[bytes, bytes]:
        """Key and value as a broker of the profile's release writes them whose inter-broker protocol is its own.

        Raises ValueError for 0.8.2, which knows no groups. What the version has no field for is left out.
        """
        stamp = self.current_state_timestamp_ms
        value = {
            "protocol_type": self.protocol_type or "",
            "generation": self.generation,
            "protocol": self.protocol,
            "leader": self.leader,
            "current_state_timestamp_ms": _NO_TIMESTAMP if stamp is None else stamp,
            "members": list(self.members),
        }
        key = encode_key(RECORD_TYPE, {"group_id": self.group_id})
        return key, encode_value(RECORD_TYPE, value_version(profile), value)


def value_version(profile: Profile) -> int:
    """The version of the value that brokers of the profile's release write."""
    for since, version in _VERSIONS_SINCE:
        if is_since(profile, since):
            return version
    raise ValueError(f"{profile.text} writes no groups: 0.9 was the first")
