"""The groups of one log partition, replayed record by record (Kafka 4.3: GroupMetadataManager.replay).

Offsets create groups too, but are kept in coordinator.offsets: removing a group leaves its offsets, unreachable until
the group is created again.
"""

from collections.abc import Collection
from typing import TypeVar

from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.consumer import ConsumerGroup, EarlyConsumerGroup
from sexton.coordinator.groups.group import Group, ModernGroup
from sexton.coordinator.groups.share import EarlyShareGroup, ShareGroup
from sexton.coordinator.groups.streams import StreamsGroup
from sexton.coordinator.profile import Profile
from sexton.errors import TransitionError
from sexton.records import GroupMetadataValue, Key, Value

CLASSIC_TYPE = 2
_KINDS: dict[int, type[ModernGroup]] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), ConsumerGroup),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), ShareGroup),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), StreamsGroup),
}
_EARLY_KINDS: dict[int, type[ModernGroup]] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), ConsumerGroup),
    **dict.fromkeys((9, 10, 11, 12, 13, 14), EarlyShareGroup),
}
_PREVIEW_KINDS: dict[int, type[ModernGroup]] = dict.fromkeys((3, 4, 5, 6, 7, 8), EarlyConsumerGroup)
GROUP_RECORD_TYPES = frozenset({CLASSIC_TYPE, *_KINDS, *_EARLY_KINDS})
"""The record types that `Groups.replay` knows; the profile says which of them are read."""

Modern = TypeVar("Modern", bound=ModernGroup)


class Groups:
    """Groups by id; takes the records of one log partition in log order."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.by_id: dict[str, Group] = {}
        early = _EARLY_KINDS if profile.early_share_groups else _KINDS
        self._kinds = _PREVIEW_KINDS if profile.early_consumer_groups else early

    def ensure_simple_group(self, group_id: str) -> None:
        """Create the group if it is missing: an offset value of it was read, whether committed, pending or aborted."""
        if group_id not in self.by_id:
            self.by_id[group_id] = ClassicGroup(group_id, self.profile)

    def complete(self, holders: Collection[str]) -> None:
        """End of the load; `holders` are the groups with a committed or a pending offset."""

    def loading_failures(self) -> list[str]:
        """Why the load fails after the last record, by group (GroupMetadataManager.onLoaded)."""
        found = (group.loading_failure() for _, group in sorted(self.by_id.items()))
        return [f"after the last record: {reason}" for reason in found if reason is not None]

    def replay(self, record_type: int, key: Key, value: Value | None, *, log_offset: int | None = None) -> None:
        """Apply a group record; a `value` of None is a tombstone.

        Raises TransitionError, with Kafka's message, where the coordinator's replay throws, and MalformedRecord for a
        subscription that it cannot parse. The groups are then unchanged.
        """
        group_id = key.group_id
        if record_type == CLASSIC_TYPE:
            # type 2 replaces or removes whatever group has that id, of any type
            if value is None:
                self.by_id.pop(group_id, None)
                return
            assert isinstance(value, GroupMetadataValue), "the value of a classic group"
            classic = ClassicGroup.from_value(group_id, value, self.profile)
            classic.log_offset = log_offset
            self.by_id[group_id] = classic
            return
        kind = self._kinds.get(record_type)
        if kind is None:  # type 15 in 4.0, which decodes it and has no replay for it
            raise TransitionError(f"Received an unknown record type {record_type}")
        group = self._find(kind, group_id, None if value is None else record_type)
        if group is None:  # a tombstone of a group that is not there
            return
        if value is None:
            group.replay_tombstone(record_type, key)
        else:
            group.replay_value(key, value)
        if value is None and record_type == kind.metadata_type:
            self.by_id.pop(group_id, None)
            return
        group.log_offset = log_offset
        self.by_id[group_id] = group

    def _find(self, kind: type[Modern], group_id: str, value_type: int | None) -> Modern | None:
        """getOrMaybeCreatePersisted...Group: even a tombstone replaces a simple classic group.

        `value_type` is the type of a record with a value, which may create the group.
        """
        found = self.by_id.get(group_id)
        if found is None:
            if value_type is not None and (kind.creating_types is None or value_type in kind.creating_types):
                return kind(group_id, self.profile)
            if kind.missing_message is not None:
                raise TransitionError(kind.missing_message.format(group_id))
            return None
        if isinstance(found, kind):
            return found
        replaces_simple = kind.replaces_simple and (kind is not StreamsGroup or self.profile.streams_replace_simple)
        if isinstance(found, ClassicGroup) and found.is_simple and replaces_simple:
            return kind(group_id, self.profile)
        raise TransitionError(kind.wrong_type_message.format(group_id))


class ScalaGroups(Groups):
    """Groups up to 3.9: groups with a record, and, after everything has been read, groups with offsets."""

    def ensure_simple_group(self, group_id: str) -> None:
        """Offsets create no group while the log is read."""

    def complete(self, holders: Collection[str]) -> None:
        for group_id in holders:
            if group_id not in self.by_id:
                self.by_id[group_id] = ClassicGroup(group_id, self.profile)
