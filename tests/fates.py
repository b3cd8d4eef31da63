"""The fate of every offset value that the plain replay reads: what the counts of load_profile are held against.

`load` is coordinator.loading.load with offsets that keep the history of their values.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest.mock import patch

from sexton.coordinator import loading, profiles
from sexton.coordinator.groups.share import ShareGroup
from sexton.coordinator.loading import GROUP_REMOVED, MISPLACED, SHARE_GROUP, Loaded
from sexton.coordinator.offsets import LeakingOffsets, OffsetKey, Offsets, ScalaOffsets, StoredOffset
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile


@dataclass(slots=True)
class Read:
    """An offset value that was read, with the data that determine its fate.

    `number` counts values, tombstones and markers in log order; `settled_at` is that of where the value was stored,
    directly or by a COMMIT. For a pending value, `marker` is its producer's first marker after it; `is_cancelled`: a
    tombstone of the same transaction came after it.
    """

    key: OffsetKey
    number: int
    log_offset: int
    producer_id: int
    settled_at: int | None
    marker: str | None = None
    is_cancelled: bool = False


class _History(Offsets):
    """Offsets that keep every value that was read, by key; those since the last marker also by producer."""

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[OffsetKey, list[Read]] = {}
        self.unmarked: dict[int, dict[OffsetKey, list[Read]]] = {}
        self.last_tombstones: dict[OffsetKey, int] = {}
        self.numbers = count()

    def put(
        self, key: OffsetKey, stored: StoredOffset, *, producer_epoch: int, timestamp_ms: int, is_pending: bool
    ) -> None:
        number = next(self.numbers)
        read = Read(key, number, stored.log_offset, stored.producer_id, None if is_pending else number)
        self.history.setdefault(key, []).append(read)
        if is_pending:
            self.unmarked.setdefault(stored.producer_id, {}).setdefault(key, []).append(read)
        super().put(key, stored, producer_epoch=producer_epoch, timestamp_ms=timestamp_ms, is_pending=is_pending)

    def remove(self, key: OffsetKey, *, only_of: int | None) -> None:
        if only_of is None or not isinstance(self, ScalaOffsets):
            self.last_tombstones[key] = next(self.numbers)
        else:
            for read in reversed(self.unmarked.get(only_of, {}).get(key, [])):
                if read.is_cancelled:  # and so are those before it
                    break
                read.is_cancelled = True
        super().remove(key, only_of=only_of)

    def end_transaction(self, producer_id: int, marker: str) -> None:
        number = next(self.numbers)
        for reads in self.unmarked.pop(producer_id, {}).values():
            for read in reads:
                read.marker = marker
                read.settled_at = number if marker == "COMMIT" else None
        super().end_transaction(producer_id, marker)

    def fate(self, read: Read, unreachable: Iterable[OffsetKey]) -> str:
        last_tombstone = self.last_tombstones.get(read.key, -1)
        if read.marker == "ABORT":
            return "aborted"
        if read.is_cancelled:
            return "cancelled" if read.marker is None else "tombstoned"
        if isinstance(self, ScalaOffsets):
            is_tombstoned = read.settled_at is not None and last_tombstone > read.settled_at
        else:
            is_tombstoned = last_tombstone > read.number
        if is_tombstoned:
            return "cancelled" if read.settled_at is None else "tombstoned"
        if read.settled_at is None:
            is_newest = self.pending[read.producer_id][read.key].log_offset == read.log_offset
            return "pending" if is_newest else "superseded"
        if self.committed[read.key].log_offset != read.log_offset:
            return "superseded"
        return "unreachable" if read.key in unreachable else "live"


class _LeakingHistory(_History, LeakingOffsets):
    pass


class _ScalaHistory(_History, ScalaOffsets):
    pass


_KINDS = {Offsets: _History, LeakingOffsets: _LeakingHistory, ScalaOffsets: _ScalaHistory}
_new_offsets = profiles.new_offsets


def _with_history(profile: Profile) -> Offsets:
    return _KINDS[type(_new_offsets(profile))]()


def load(chunks: Iterable[bytes], **options: Any) -> Loaded:
    """`coordinator.loading.load`, with the history that `fates_of` needs."""
    with patch.object(profiles, "new_offsets", _with_history):
        return loading.load(chunks, **options)


def unreachable_offsets(
    loaded: Loaded, *, log_partition: int | None = None, partition_count: int | None = None
) -> dict[OffsetKey, str]:
    """Committed offsets that no client can fetch, with the reason.

    Their group is gone, is a share group (ShareGroup.validateOffsetFetch: there is no such group), or is led elsewhere.

    Without `partition_count` no group counts as misplaced. Where one cache holds the groups of all log partitions
    (Profile.one_cache) a misplaced group is served.
    """
    is_routed = partition_count is not None and not loaded.profile.one_cache
    reasons: dict[OffsetKey, str] = {}
    for key in loaded.offsets:
        group = loaded.groups.by_id.get(key[0])
        if group is None:
            reasons[key] = GROUP_REMOVED
        elif isinstance(group, ShareGroup):
            reasons[key] = SHARE_GROUP
        elif is_routed and partition_of(key[0], partition_count) != log_partition:
            reasons[key] = MISPLACED
    return reasons


def fates_of(loaded: Loaded, *, log_partition: int | None = None, partition_count: int | None = None) -> Counter[str]:
    """Number of offset values by fate (tables.FATES); they add up to counters["read_values"]."""
    state = loaded.state
    assert isinstance(state, _History), "loaded without a history"
    unreachable = unreachable_offsets(loaded, log_partition=log_partition, partition_count=partition_count)
    fates = Counter(state.fate(read, unreachable) for reads in state.history.values() for read in reads)
    fates["undecodable"] += loaded.counters["undecodable_values"]
    return fates
