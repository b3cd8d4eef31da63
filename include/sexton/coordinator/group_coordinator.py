"""The profile group_coordinator: the coordinator of Kafka 4.0 and later, in Java (KIP-848).

Its fold is what offsets.py and groups.py say, its expiry what expiry.py says; here is what changed from release to
release. Sources: OffsetMetadataManager, GroupMetadataManager, GroupCoordinatorRecordSerde; spec 3 and 5.
"""

from collections.abc import Mapping
from typing import Any

from sexton.coordinator.offsets import OffsetKey, Offsets
from sexton.coordinator.profile import Subscriptions
from sexton.records import RECORD_TYPES

NAME = "group_coordinator"
DEFAULT_RELEASE = (4, 3, 1)
LAST_RELEASE = (4, 4)
_OFFSETS_AND_CLASSIC = {0: 0, 1: 4, 2: 4}


def _versions(release: tuple[int, ...]) -> Mapping[int, int]:
    """The record types of a release, all new ones of one version."""
    new = {number: 0 for number, declared in RECORD_TYPES.items() if number > 2 and declared.is_read_by(release)}
    return {**_OFFSETS_AND_CLASSIC, **new}


class LeakingOffsets(Offsets):
    """Offsets as 4.0.0 keeps them: which transactions are open is told by group, and not always forgotten.

    A marker closes the transaction only for the groups of what its producer has pending still. Where tombstones have
    cancelled all of a group's, the transaction stays open for that group, until its producer has something pending for
    it at a later marker (KAFKA-19164, mended in 4.0.1).
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, set[int]] = {}

    def put(self, key: OffsetKey, value: Mapping[str, Any], *, producer_id: int, waits: bool, **place: Any) -> None:
        super().put(key, value, producer_id=producer_id, waits=waits, **place)
        if waits:
            self._open.setdefault(key[0], set()).add(producer_id)

    def end_transaction(self, producer_id: int, marker: str, *, log_offset: int) -> None:
        for group_id, _, _ in self.pending.get(producer_id, {}):
            self._open[group_id].discard(producer_id)
        super().end_transaction(producer_id, marker, log_offset=log_offset)

    def open_groups(self) -> set[str]:
        return {group_id for group_id, producers in self._open.items() if producers}


CHANGES: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] = (
    ((4, 0), {"value_versions": {**_versions((4, 0)), 0: 4}, "leaks_open_transactions": True, "is_proven": True}),
    ((4, 0, 1), {"leaks_open_transactions": False}),
    ((4, 1), {"value_versions": _versions((4, 1)), "streams_replace_simple": False, "is_proven": False}),
    ((4, 2), {"streams_replace_simple": True}),
    ((4, 2, 2), {"subscriptions": Subscriptions.UNKNOWN}),
    ((4, 3), {"subscriptions": Subscriptions.FAIL, "is_proven": True}),
    ((4, 3, 2), {"subscriptions": Subscriptions.UNKNOWN, "is_proven": False}),
)
"""Release and what is new in it, in the words of Profile; a release has all that came before it."""
