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

from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import OFFSET_TYPE
from sexton.topics import OFFSETS_TOPIC

_BY_APPEND = (0, 10, 2)
"""From this release on the tombstones of a group, of its offsets and its own, are one append, with one log line."""
_QUIET_IF_NONE = (2, 7)


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
        place = f"{OFFSETS_TOPIC}-{log_partition}"
        event = f"The write event Timeout(tp={place}, key=expire-group-metadata) for the timer expire-group-metadata"
        lines = (
            f"ERROR Writing records to {place} failed due to: ...",
            f"INFO {event} failed due to ... Rescheduling it.",
        )
        return FailedTombstones(lines=lines, leaves_cache=False)
    return FailedTombstones(lines=tuple(_scala_lines(log_partition, [*tombstones], profile)), leaves_cache=True)


def _scala_lines(log_partition: int, tombstones: list[tuple[str, int]], profile: Profile) -> Iterator[str]:
    place = f"{OFFSETS_TOPIC}-{log_partition}"
    if profile.release >= _BY_APPEND:
        for group_id, own in groupby(tombstones, itemgetter(0)):
            yield (
                f"ERROR Failed to append {len([*own])} tombstones to {place} for expired/deleted offsets and/or "
                f"metadata for group {group_id}."
            )
        return
    place = f"[{OFFSETS_TOPIC},{log_partition}]"
    what = "expired" if profile.reads(2) else "stale"
    offsets = [group_id for group_id, record_type in tombstones if record_type <= OFFSET_TYPE]
    # all offsets are one append; in 0.10.1 those of each group are
    appends = [len([*run]) for _, run in groupby(offsets)] if profile.deletes_groups else [len(offsets)]
    for count in filter(None, appends):
        yield f"ERROR Failed to mark {count} {what} offsets for deletion in {place}."
    for group_id, record_type in tombstones:
        if record_type > OFFSET_TYPE:
            yield f"ERROR Failed to mark group {group_id} as deleted in {place}."


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
