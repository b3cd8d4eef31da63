"""The profile offset_manager: Kafka 0.8.2 to 0.10.0, where the last record of a key wins and nothing is transactional.

Here is what changed from release to release; the fold is that of group_metadata_manager without transactions, expiry is
in expiry.py. Sources: OffsetManager (0.8.2), GroupMetadataManager (0.9, 0.10.0).
"""

from sexton.coordinator.profile import AfterFailure, Changes, Expiry, PendingRule, Subscriptions
from sexton.log.entry import LZ4

NAME = "offset_manager"
DEFAULT_RELEASE = (0, 9)
LAST_RELEASE = (0, 10, 0)
RECORDED = ((0, 9, 0, 1),)
"""Releases of which a recording is part of the tests."""

CHANGES: Changes = (
    (
        (0, 8, 2),
        {
            "value_versions": {0: 0},
            "skips_unknown_types": False,
            "newest_format": 0,
            "grows_load_buffer": False,
            "reads_topic_ids": False,
            "refuses_null_protocol": True,
            "members_may_repeat": True,
            "instances_may_repeat": True,
            "says_schema": True,
            "subscriptions": Subscriptions.UNREAD,
            "after_failure": AfterFailure.PREFIX,
            "pending_rule": PendingRule.NEVER,
            "tombstones_cancel_pending": False,
            "offsets_hold_groups": True,
            "loads_groups_stable": True,
            "lists_simple_groups": False,
            "one_cache": True,
            "default_retention_minutes": 1_440,
            "expiry": Expiry.OWN_STAMP,
            "pending_blocks_expiry": False,
            "deletes_groups": False,
            "offset_key_type": 0,
            "record_format": 0,
            "newest_codec": LZ4,
            "stores_after_append": True,
            "offset_value_version": 0,
            "group_value_version": None,
            "resolves_topic_ids": False,
            "base_sequence": -1,
        },
    ),
    (
        (0, 9),
        {
            "value_versions": {0: 1, 1: 1, 2: 0},
            "offset_key_type": 1,
            "offset_value_version": 1,
            "group_value_version": 0,
            "expires_by_own_stamp": True,
        },
    ),
    ((0, 10), {"newest_format": 1, "record_format": 1}),
)
