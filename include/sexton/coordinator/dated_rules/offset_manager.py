"""The dated rules of the profile `offset_manager`: Kafka 0.8.2 to 0.10.0, without transactions.

Each entry of DATED_RULES has the changes of a release, as fields of Profile. Sources: OffsetManager (0.8.2),
GroupMetadataManager (0.9, 0.10.0).
"""

from sexton.coordinator.profile import AfterFailure, DatedRules, Expiry, PendingRule, Subscriptions
from sexton.log.entry import LZ4

NAME = "offset_manager"
DEFAULT_RELEASE = (0, 9)
LAST_RELEASE = (0, 10, 0)
RECORDED = ((0, 9, 0, 1),)
"""Releases that were recorded for the tests."""

DATED_RULES: DatedRules = (
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
            "has_offset_delete": False,
            "has_delete_groups": False,
            "drops_deleted_topics": False,
            "drops_topics_by_id": False,
            "sweeps_all_that_is_due": False,
            "has_group_errors": False,
            "supports_stable_fetch": False,
            "checks_group_ids": False,
            "fences_static_members": False,
            "validates_transactional_members": False,
            "hides_loading": False,
            "validates_commits_alike": False,
            "accepts_older_epochs": False,
            "accepts_older_task_epochs": False,
            "maps_size_errors": False,
            "maps_replica_errors": False,
            "has_storage_errors": False,
            "requires_member_ids": False,
            "delays_first_rebalance": False,
            "converts_streams_groups": False,
            "offsets_excuse_unload": False,
            "logs_partition_in_brackets": True,
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
            "maps_size_errors": True,
            "unloads_every_group": True,
        },
    ),
    ((0, 9, 0, 1), {"unloads_every_group": False}),
    ((0, 10), {"newest_format": 1, "record_format": 1}),
)
LAST_RULES = {field: value for _, new in DATED_RULES for field, value in new.items()}
"""The rules of the last release, which `group_metadata_manager` continues from."""
