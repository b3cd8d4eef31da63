"""The profile group_metadata_manager: the coordinator of Kafka 0.10.1 to 3.9, in Scala.

Its own are the fold of offsets and the existence of groups; expiry is in expiry.py, and here is what changed from
release to release. Sources: GroupMetadataManager.doLoadGroupsAndOffsets, GroupMetadata.
"""

from collections.abc import Collection

from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.offsets import OffsetKey, Offsets, Read
from sexton.coordinator.profile import AfterFailure, Changes, Expiry, PendingRule, Subscriptions
from sexton.log.entry import LZ4, ZSTD

NAME = "group_metadata_manager"
DEFAULT_RELEASE = (3, 9)
LAST_RELEASE = (3, 9)
RECORDED = (
    *((0, 10, 2, 2), (0, 11, 0, 3), (1, 1, 1), (2, 0, 1), (2, 1, 1), (2, 3, 1), (2, 4, 1), (2, 8, 2)),
    *((3, 5, 2), (3, 6, 2), (3, 9, 1)),
)
"""Releases of which a recording is part of the tests."""


class ScalaOffsets(Offsets):
    """Offsets where a tombstone spares what is pending: a COMMIT after it brings an older value back."""

    def remove(self, key: OffsetKey, *, log_offset: int, only_of: int | None) -> None:
        """A tombstone: of a transaction, it cancels what that has pending for the key, else it takes what is stored."""
        if only_of is None:
            self.committed.pop(key, None)
            self._last_tombstones[key] = log_offset
            return
        self.pending.get(only_of, {}).pop(key, None)
        self._holders.get(key, set()).discard(only_of)
        for read in reversed(self._unmarked.get(only_of, {}).get(key, [])):
            if read.is_cancelled:  # and so are those before it
                break
            read.is_cancelled = True

    def _fate(self, key: OffsetKey, read: Read, unreachable: set[OffsetKey]) -> str:
        if read.marker == "ABORT":
            return "aborted"
        if read.is_cancelled:
            return "cancelled" if read.marker is None else "tombstoned"
        if read.settled_at is None:
            return self._pending_fate(key, read)
        if self._last_tombstones.get(key, -1) > read.settled_at:
            return "tombstoned"
        return self._stored_fate(key, read, unreachable)


class ScalaGroups(Groups):
    """Groups that are there when all has been read: those with a record of their own, and those that hold offsets."""

    def touch(self, group_id: str) -> None:
        """Offsets make no group while the log is read."""

    def complete(self, holders: Collection[str]) -> None:
        for group_id in holders:
            if group_id not in self.by_id:
                self.by_id[group_id] = ClassicGroup(group_id, self.profile)


CHANGES: Changes = (
    (
        (0, 10, 1),
        {
            "value_versions": {0: 1, 1: 1, 2: 1},
            "skips_unknown_types": False,
            "newest_format": 1,
            "grows_load_buffer": False,
            "reads_topic_ids": False,
            "forgets_protocol_type": True,
            "members_may_repeat": True,
            "instances_may_repeat": True,
            "says_schema": True,
            "subscriptions": Subscriptions.UNREAD,
            "after_failure": AfterFailure.EMPTY,
            "pending_rule": PendingRule.NEVER,
            "tombstones_cancel_pending": False,
            "offsets_hold_groups": True,
            "one_cache": True,
            "default_retention_minutes": 1_440,
            "expiry": Expiry.OWN_STAMP,
            "pending_blocks_expiry": False,
            "deletes_generation_0": False,
            "record_format": 1,
            "newest_codec": LZ4,
            "batch_per_group": True,
            "stores_after_append": True,
            "offset_value_version": 1,
            "group_value_version": 1,
            "expires_by_own_stamp": True,
            "resolves_topic_ids": False,
            "base_sequence": -1,
        },
    ),
    (
        (0, 11),
        {
            "newest_format": 2,
            "pending_rule": PendingRule.IF_TRANSACTIONAL,
            "empty_control_batch_fails": True,
            "record_format": 2,
        },
    ),
    ((1, 0, 1), {"forgets_protocol_type": False}),
    ((2, 0), {"default_retention_minutes": 10_080}),
    ((2, 0, 1), {"grows_load_buffer": True, "empty_control_batch_fails": False}),
    (
        (2, 1),
        {
            "value_versions": {0: 3, 1: 3, 2: 2},
            "keeps_expire_of_minus_1": True,
            "newest_codec": ZSTD,
            "members_may_repeat": False,
            "expiry": Expiry.EMPTY_GROUPS,
            "offset_value_version": 3,
            "group_value_version": 2,
            "expires_by_own_stamp": False,
        },
    ),
    ((2, 2), {"keeps_expire_of_minus_1": False}),
    (
        (2, 3),
        {"value_versions": {0: 3, 1: 3, 2: 3}, "forgets_state_timestamp": True, "group_value_version": 3},
    ),
    ((2, 4), {"subscriptions": Subscriptions.UNKNOWN, "expiry": Expiry.UNSUBSCRIBED}),
    ((2, 6, 1), {"forgets_state_timestamp": False}),
    ((2, 7), {"subscriptions": Subscriptions.FAIL}),
    ((2, 8), {"says_schema": False}),
    ((3, 0), {"instances_may_repeat": False}),
    ((3, 4, 1), {"skips_unknown_types": True, "value_versions": {0: 4, 1: 4, 2: 4}}),
)
"""One thing is left out: 0.11.0.0 installs groups while it reads, 5 MiB at a time, and does not replace what it has, so
that it serves old offsets of larger logs (KAFKA-5600, mended in 0.11.0.1).
"""
