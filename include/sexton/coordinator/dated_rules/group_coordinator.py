"""The dated rules of the profile `group_coordinator`: Kafka 4.0 and later, in Java (KIP-848).

Brokers of 3.8 and 3.9 run it if `group.coordinator.new.enable` is set; else `group_metadata_manager`. The early access
of 3.7 is not modelled: its records have another layout, and its tombstones keep pending offsets.

Each entry of DATED_RULES has the changes of a release, as fields of Profile. Sources: OffsetMetadataManager,
GroupMetadataManager, GroupCoordinatorRecordSerde.
"""

from collections.abc import Mapping

from sexton.coordinator.profile import DatedRules, Subscriptions
from sexton.records import RECORD_TYPES

NAME = "group_coordinator"
DEFAULT_RELEASE = (4, 3, 1)
FIRST_RELEASE, FIRST_BY_DEFAULT = (3, 8), (4, 0)
"""From FIRST_BY_DEFAULT on brokers run this coordinator by default; earlier releases have a preview of it."""
LAST_RELEASE = (4, 4)
RECORDED = ((4, 0, 0), (4, 1, 2), (4, 2, 2), (4, 3, 1), (4, 4, 0))
"""Releases that were recorded for the tests."""
_OFFSETS_AND_CLASSIC = {0: 0, 1: 4, 2: 4}
PREVIEW_TYPES = frozenset(range(3, 9))
"""The types of consumer groups in the preview."""


def _versions(release: tuple[int, ...]) -> Mapping[int, int]:
    """The highest value version of each record type of a release: 0 for all types since KIP-848."""
    new = {number: 0 for number, declared in RECORD_TYPES.items() if number > 2 and declared.is_read_by(release)}
    return {**_OFFSETS_AND_CLASSIC, **new}


DATED_RULES: DatedRules = (
    (
        FIRST_RELEASE,
        {
            "value_versions": {0: 4, 1: 4, 2: 4, **dict.fromkeys(PREVIEW_TYPES, 0)},
            "early_consumer_groups": True,
            "reads_topic_ids": False,
            "leaks_open_transactions": True,
            "streams_replace_simple": False,
            "keeps_topic_metadata": True,
            "newer_owners_win": False,
            "refuses_repeats": frozenset({8, 22}),
            "checks_target_epochs": False,
            "initial_epoch": 0,
            "validated_topology_epoch": None,
            "offset_value_version": 3,
            "resolves_topic_ids": False,
            "describes_revoking": False,
            "drops_topics_by_id": False,
            "accepts_older_epochs": False,
            "accepts_older_task_epochs": False,
            "converts_streams_groups": False,
            "has_new_transaction_errors": False,
        },
    ),
    (
        FIRST_BY_DEFAULT,
        {
            "value_versions": {**_versions((4, 0)), 0: 4},
            "early_consumer_groups": False,
            "early_share_groups": True,
            "deletes_share_groups": True,
        },
    ),
    ((4, 0, 1), {"leaks_open_transactions": False}),
    ((4, 0, 2), {"newer_owners_win": True}),
    (
        (4, 1),
        {
            "value_versions": _versions((4, 1)),
            "reads_topic_ids": True,
            "early_share_groups": False,
            "deletes_share_groups": False,
            "sweeps_share_groups": False,
            "keeps_topic_metadata": False,
            "newer_owners_win": False,  # 4.1.0 was released before 4.0.2
            "offset_value_version": 4,
        },
    ),
    ((4, 1, 2), {"newer_owners_win": True}),
    (
        (4, 2),
        {
            "refuses_repeats": frozenset({8}),
            "checks_task_epochs": True,
            "accepts_older_task_epochs": True,
            "validated_topology_epoch": 0,
            "converts_streams_groups": True,
        },
    ),
    ((4, 2, 1), {"streams_replace_simple": True}),
    ((4, 2, 2), {"subscriptions": Subscriptions.UNKNOWN}),
    (
        (4, 3),
        {
            "refuses_repeats": frozenset(),
            "checks_task_epochs": False,
            "checks_target_epochs": True,
            "initial_epoch": 1,
            "resolves_topic_ids": True,
            "describes_revoking": True,
            "drops_topics_by_id": True,
            "accepts_older_epochs": True,
            "subscriptions": Subscriptions.FAIL,
        },
    ),
    ((4, 3, 2), {"subscriptions": Subscriptions.UNKNOWN}),
    ((4, 4), {"validated_topology_epoch": -1, "sweeps_share_groups": True, "has_new_transaction_errors": True}),
)
