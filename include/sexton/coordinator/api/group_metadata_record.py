"""The record of a classic group in the log: type 2, written when the group is new, has rebalanced or lost its last
member.

Follows GroupCoordinatorRecordHelpers.newGroupMetadataRecord and newEmptyGroupMetadataRecord of Kafka 4.3, and
GroupMetadataManager.storeGroup with groupMetadataValue (Scala).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.coordinator.api.java_map import iteration_order
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.profile import Profile
from sexton.records import GroupMetadataKey, GroupMetadataMember, GroupMetadataValue, encode_key, encode_value

RECORD_TYPE = 2
_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """The content of the record. The defaults are those of a new group (newEmptyGroupMetadataRecord).

    `members` are in the order of the record.
    """

    group_id: str
    protocol_type: str | None = None
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp_ms: int | None = None
    members: tuple[GroupMetadataMember, ...] = ()

    @classmethod
    def of_group(
        cls, group: LoadedGroup, members: Sequence[LoadedMember] = (), *, profile: Profile
    ) -> "GroupMetadataRecord":
        """The record that a coordinator of `profile` writes for a classic group with its `members`.

        A 4.x coordinator writes the members in the order of its hash map; in Scala coordinators the order depends on
        the release of Scala, and is assumed to be by id. Raises ValueError for groups of other types.
        """
        if group.group_type != "Classic":
            raise ValueError(f"group {group.group_id!r} is {group.group_type}")
        by_id = {member.member_id: member for member in members}
        ids = iteration_order(by_id) if profile.is_java else sorted(by_id)
        return cls(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            generation=group.generation or 0,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp_ms=group.current_state_timestamp_ms,
            members=tuple(_member_of(by_id[member_id]) for member_id in ids),
        )

    @classmethod
    def of_new_group(cls, group_id: str, *, now_ms: int, profile: Profile) -> "GroupMetadataRecord":
        """The record of a new group: Empty since `now_ms`, with generation 0.

        A 4.x coordinator writes it with the first JoinGroup. Scala coordinators keep the group only in memory until its
        first generation; this is what storeGroup would write before that. Up to 0.10.0 a group has no such record:
        ValueError.
        """
        if profile.refuses_null_protocol:
            raise ValueError(f"{profile.text} stores a group with its first generation, not before")
        return cls(group_id=group_id, current_state_timestamp_ms=now_ms)

    def encode(self, profile: Profile) -> tuple[bytes, bytes]:
        """Key and value as written by a broker whose inter-broker protocol is that of the profile's release.

        Raises ValueError for 0.8.2, which has no groups. Fields that the version lacks are left out.
        """
        stamp = self.current_state_timestamp_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp_ms=_NO_TIMESTAMP if stamp is None else stamp,
            members=self.members,
        )
        key = encode_key(RECORD_TYPE, GroupMetadataKey(group_id=self.group_id))
        return key, encode_value(RECORD_TYPE, value_version(profile), value)


def value_version(profile: Profile) -> int:
    """The version of the value that brokers of the profile's release write."""
    if profile.group_value_version is None:
        raise ValueError(f"{profile.text} writes no groups: 0.9 was the first")
    return profile.group_value_version


def _member_of(member: LoadedMember) -> GroupMetadataMember:
    """A member in the form of the record; members of classic groups have all of its fields."""
    session_ms, rebalance_ms = member.session_timeout_ms, member.rebalance_timeout_ms
    subscription, assignment = member.member_metadata, member.member_assignment
    if session_ms is None or rebalance_ms is None or subscription is None or assignment is None:
        raise ValueError(f"member {member.member_id!r} is not a member of a classic group")
    return GroupMetadataMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id or "",
        client_host=member.client_host or "",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=session_ms,
        subscription=subscription,
        assignment=assignment,
    )
