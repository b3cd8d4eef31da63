"""The profile offset_manager: Kafka 0.8.2 and 0.9, where the last record of a key wins and nothing is transactional.

Here is what changed between the two; the fold is that of group_metadata_manager without transactions, expiry is in
expiry.py. Sources: OffsetManager (0.8.2), GroupMetadataManager (0.9); spec 4.2 and 5.6.
"""

from collections.abc import Mapping
from typing import Any

from sexton.coordinator.profile import AfterFailure, Expiry, Subscriptions, Waits

NAME = "offset_manager"
DEFAULT_RELEASE = (0, 9)
LAST_RELEASE = (0, 9)

CHANGES: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] = (
    (
        (0, 8, 2),
        {
            "value_versions": {0: 0},
            "skips_unknown_types": False,
            "newest_format": 0,
            "subscriptions": Subscriptions.UNREAD,
            "after_failure": AfterFailure.PREFIX,
            "waits": Waits.NEVER,
            "tombstones_cancel_pending": False,
            "offsets_hold_groups": True,
            "one_cache": True,
            "expiry": Expiry.OWN_STAMP,
            "pending_blocks_expiry": False,
            "deletes_groups": False,
            "default_retention_minutes": 1_440,
            "offset_key_type": 0,
            "record_format": 0,
        },
    ),
    ((0, 9), {"value_versions": {0: 1, 1: 1, 2: 0}, "offset_key_type": 1, "is_proven": True}),
)
"""Release and what is new in it, in the words of Profile; a release has all that came before it."""
