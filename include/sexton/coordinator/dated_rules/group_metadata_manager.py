"""The dated rules of the profile `group_metadata_manager`: Kafka 0.10.1 to 3.9, in Scala.

Each entry of DATED_RULES has the changes of a release, as fields of Profile; the first entry contains the last rules of
`offset_manager`. Sources: GroupMetadataManager.doLoadGroupsAndOffsets, GroupMetadata, GroupCoordinator.
"""

from sexton.coordinator.dated_rules import offset_manager
from sexton.coordinator.profile import AfterFailure, DatedRules, Expiry, PendingRule, Subscriptions
from sexton.log.entry import ZSTD

NAME = "group_metadata_manager"
DEFAULT_RELEASE = (3, 9)
LAST_RELEASE = (3, 9)
RECORDED = (
    *((0, 10, 2, 2), (0, 11, 0, 3), (1, 1, 1), (2, 0, 1), (2, 1, 1), (2, 3, 1), (2, 4, 1), (2, 8, 2)),
    *((3, 5, 2), (3, 6, 2), (3, 9, 1)),
)
"""Releases that were recorded for the tests."""


DATED_RULES: DatedRules = (
    (
        (0, 10, 1),
        {
            **offset_manager.LAST_RULES,
            "value_versions": {0: 1, 1: 1, 2: 1},
            "refuses_null_protocol": False,
            "forgets_protocol_type": True,
            "after_failure": AfterFailure.EMPTY,
            "loads_groups_stable": False,
            "lists_simple_groups": True,
            "deletes_groups": True,
            "deletes_generation_0": False,
            "batch_per_group": True,
            "group_value_version": 1,
            "maps_replica_errors": True,
        },
    ),
    (
        (0, 10, 2),
        {
            "logs_partition_in_brackets": False,
            "drops_deleted_topics": True,
            "offsets_excuse_unload": True,
            "has_group_errors": True,
        },
    ),
    (
        (0, 11),
        {
            "newest_format": 2,
            "pending_rule": PendingRule.IF_TRANSACTIONAL,
            "empty_control_batch_fails": True,
            "record_format": 2,
            "delays_first_rebalance": True,
        },
    ),
    ((1, 0), {"has_storage_errors": True}),
    ((1, 0, 1), {"forgets_protocol_type": False}),
    ((1, 1), {"has_delete_groups": True}),
    ((2, 0), {"checks_group_ids": True, "default_retention_minutes": 10_080}),
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
    ((2, 2), {"keeps_expire_of_minus_1": False, "requires_member_ids": True}),
    (
        (2, 3),
        {
            "value_versions": {0: 3, 1: 3, 2: 3},
            "forgets_state_timestamp": True,
            "fences_static_members": True,
            "group_value_version": 3,
        },
    ),
    (
        (2, 4),
        {
            "subscriptions": Subscriptions.UNKNOWN,
            "expiry": Expiry.UNSUBSCRIBED,
            "has_offset_delete": True,
            "says_key_schema": True,
        },
    ),
    ((2, 5), {"supports_stable_fetch": True, "validates_transactional_members": True}),
    ((2, 6), {"hides_loading": True}),
    ((2, 6, 1), {"forgets_state_timestamp": False}),
    ((2, 7), {"subscriptions": Subscriptions.FAIL_UNLESS_SHORT}),
    ((2, 8), {"says_schema": False}),
    ((2, 8, 2), {"subscriptions": Subscriptions.FAIL}),
    (
        (3, 0),
        {
            "subscriptions": Subscriptions.FAIL_UNLESS_SHORT,
            "instances_may_repeat": False,
            "validates_commits_alike": True,
            "checks_members_of_empty_groups": True,
        },
    ),
    ((3, 0, 2), {"subscriptions": Subscriptions.FAIL}),
    ((3, 1), {"subscriptions": Subscriptions.FAIL_UNLESS_SHORT}),
    ((3, 1, 2), {"subscriptions": Subscriptions.FAIL}),
    ((3, 2), {"subscriptions": Subscriptions.FAIL_UNLESS_SHORT}),
    ((3, 2, 2), {"subscriptions": Subscriptions.FAIL}),
    ((3, 3), {"checks_members_of_empty_groups": False}),
    ((3, 4, 1), {"skips_unknown_types": True, "value_versions": {0: 4, 1: 4, 2: 4}}),
    ((3, 7, 1), {"sweeps_all_that_is_due": True}),
)
"""Not modelled:

- an empty newest segment whose base offset is beyond the last record: up to 0.10.2 it ends the load, up to 2.4.0 the
  load never ends (KAFKA-9065)
- up to 0.10.1.0 a retention of more than 35,791,394 minutes overflows (KAFKA-4472)
- 0.11.0.0 installs groups every 5 MiB while it reads and does not replace them later, so that it serves old offsets of
  larger logs (KAFKA-5600, fixed in 0.11.0.1)
- from 2.4 on a sweep while members join a group that was Empty expires by the age of the commits (KAFKA-13636, fixed in
  2.8.2, 3.0.1, 3.1.1)
"""
