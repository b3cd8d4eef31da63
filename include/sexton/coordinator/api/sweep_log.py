"""A broker's log lines about its sweep, and its state where the append of the tombstones fails.

No client waits for tombstones: the log line is the only answer. Follows OffsetManager.compact (0.8.2),
GroupMetadataManager.deleteExpiredOffsets and removeGroup (0.9, 0.10.0), cleanupGroupMetadata (0.10.1 to 3.9), and
CoordinatorRuntime with GroupCoordinatorShard.cleanupGroupMetadata (4.x).

Up to 3.9 the broker first removes the offsets and the group from its cache, and then appends the tombstones with acks
0, without waiting for replicas. An exception of the append is logged and ignored: the broker answers as if the offsets
were gone and does not retry, but the log still has them, and after the next load they are there until the next sweep. A
4.x coordinator reverts its state to the log's, and retries at the next interval.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sexton.coordinator.profile import Profile, Release
from sexton.coordinator.releases import reaches
from sexton.coordinator.tombstones import OFFSET_TYPE
from sexton.topics import OFFSETS_TOPIC

_BY_GROUP = (0, 10, 1, 1)
"""From this release on the tombstones of a group, of its offsets and its own, are one append, with one log line."""
_QUIET_IF_NONE = (2, 7)
_WITHOUT_PLACE = (4, 3)
"""From this release on the event does not name the log partition."""
_UNEXPECTED, _UNEXPECTED_AGAIN = (4, 2, 2), (4, 3, 1)
"""From these releases on the error has another text; 4.3.0 was released before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTombstones:
    """The result where the sweep's appends to one log partition fail."""

    lines: tuple[str, ...]
    """The broker's log lines, each with its level; `...` is the error of the append."""
    leaves_cache: bool
    """Whether the offsets and groups of these tombstones are gone from the broker's cache; the log, and the next load,
    has them."""


def failed_tombstones(log_partition: int, tombstones: Iterable[tuple[str, int]], profile: Profile) -> FailedTombstones:
    """The result where every append of these tombstones fails: (group_id, record type) of each, by group."""
    if profile.is_java:
        place, timer = f"{OFFSETS_TOPIC}-{log_partition}", "expire-group-metadata"
        is_short = _is_since(profile, _WITHOUT_PLACE)
        timeout = f"key={timer}" if is_short else f"tp={place}, key={timer}"
        error = f"Writing records to {place} failed due to: ..."
        if _is_since(profile, _UNEXPECTED_AGAIN if is_short else _UNEXPECTED):
            error = f"Failed to write records to {place} due to an unexpected error: ..."
        again = f"The write event Timeout({timeout}) for the timer {timer} failed due to ... Rescheduling it."
        return FailedTombstones(lines=(f"ERROR {error}", f"INFO {again}"), leaves_cache=False)
    return FailedTombstones(lines=tuple(_scala_lines(log_partition, [*tombstones], profile)), leaves_cache=True)


def _scala_lines(log_partition: int, tombstones: list[tuple[str, int]], profile: Profile) -> Iterator[str]:
    is_old = profile.logs_partition_in_brackets
    place = f"[{OFFSETS_TOPIC},{log_partition}]" if is_old else f"{OFFSETS_TOPIC}-{log_partition}"
    what = ("expired" if is_old else "expired/deleted") if profile.reads(2) else "stale"
    # up to 0.10.0 a sweep removes no groups, and all offsets are one append
    by_group = groupby(tombstones, itemgetter(0)) if profile.deletes_groups else [("", iter(tombstones))]
    for group_id, own in by_group:
        types = [record_type for _, record_type in own]
        if _is_since(profile, _BY_GROUP):
            end = f"for {what} offsets and/or metadata for group {group_id}."
            yield f"ERROR Failed to append {len(types)} tombstones to {place} {end}"
            continue
        if offsets := sum(record_type <= OFFSET_TYPE for record_type in types):
            yield f"ERROR Failed to mark {offsets} {what} offsets for deletion in {place}."
        if offsets < len(types):
            yield f"ERROR Failed to mark group {group_id} as deleted in {place}."


def _is_since(profile: Profile, release: Release) -> bool:
    return reaches(profile.release, release, last=profile.release)


def removed_lines(offsets: int, records: Mapping[int, int], profile: Profile) -> list[str]:
    """The log lines of one broker's sweep. `offsets` is the number of offsets removed from all log partitions that the
    broker leads, `records` the number of tombstones by log partition.

    M stands for the duration, which cannot be derived from records.
    """
    if profile.is_java:  # one sweep, and one line, for each log partition
        text = "INFO Generated {} tombstone records while cleaning up group metadata in M milliseconds."
        return [text.format(count) for _, count in sorted(records.items())]
    if not profile.reads(2):
        return [f"DEBUG Removed {offsets} stale offsets in M milliseconds."]
    if not offsets and profile.release >= _QUIET_IF_NONE:
        return []
    return [f"INFO Removed {offsets} expired offsets in M milliseconds."]
