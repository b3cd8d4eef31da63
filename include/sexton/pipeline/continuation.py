"""Whether a log continues its archived bytes, and the alert when it does not.

It does not if the log begins above the archived end (deleted or compacted before it was archived: a gap), if it ends
below the archived end (a truncation), or if its last archived leader epoch does (an unclean election: KIP-320). The
continuation also breaks if the log was not read for so long that tombstones may have been compacted away, if the
topic's partition count has changed (groups then hash to other log partitions), or if the topic was recreated with
another id. Each of these begins a lineage whose origin has the reason (archive.lineages), and raises one alert.

Not here: requests to the brokers, and a log that changes while it is read (pipeline.snapshot_log, kafka.fetch).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.archive.lineages import (
    BREAKS,
    EPOCH_DIVERGED,
    FIRST,
    GAP,
    PARTITION_COUNT,
    RECREATED,
    TRUNCATED,
    UNOBSERVED,
    Origin,
)
from sexton.archive.manifest import Lineage
from sexton.archive.writer import ArchiveEnd
from sexton.as_text import DAY_MS
from sexton.kafka.collect_metadata import LogEnds

KAFKAS_DELETE_RETENTION_MS = DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHistory:
    """The cluster now (`found_at_ms`, `partition_count`) and at its last finished snapshot.

    If the topic had the same id, the snapshot gives `before_ms` (its time) and `counted_before` (partition count);
    else `previous_topic_id`. `delete_retention_ms` is the lower of the current and the previous setting.
    """

    found_at_ms: int
    partition_count: int
    delete_retention_ms: int = KAFKAS_DELETE_RETENTION_MS
    before_ms: int | None = None
    counted_before: int | None = None
    previous_topic_id: str | None = None


def continuation(
    log: LogEnds,
    archived: ArchiveEnd | None,
    left_epoch: tuple[int, int] | None,
    known: ClusterHistory,
    *,
    is_late: bool = False,
) -> tuple[Lineage, int, Origin | None]:
    """(lineage, first log_offset to fetch, origin if the lineage is new) of a log partition.

    `left_epoch` is the broker's answer for the leader epoch of the last archived batch (topics.end_of_epoch), None if
    that batch has none or nothing is archived. `is_late`: its new bytes were read too late to continue the archive.
    """
    if archived is None:
        first = Origin(
            reason=RECREATED if known.previous_topic_id else FIRST,
            found_at_ms=known.found_at_ms,
            partition_count=known.partition_count,
            previous_topic_id=known.previous_topic_id,
        )
        return Lineage(ordinal=0, start_log_offset=log.log_start_offset), log.log_start_offset, first
    reached = archived.next_log_offset
    counted = archived.origin.partition_count if archived.origin else None
    if counted is None:  # an import without topics
        counted = known.counted_before
    missing = (reached, log.log_start_offset) if log.log_start_offset > reached else None
    diverged_at: int | None = None
    if counted is not None and counted != known.partition_count:
        reason = PARTITION_COUNT
    elif missing:
        reason = GAP
    elif log.high_watermark < reached:
        reason, diverged_at = TRUNCATED, log.high_watermark
    elif left_epoch is not None and (left_epoch[0] != archived.leader_epoch or left_epoch[1] < reached):
        reason, diverged_at = EPOCH_DIVERGED, left_epoch[1] if 0 <= left_epoch[1] < reached else None
    elif is_late or (log.high_watermark > reached and is_unobserved(archived, known)):
        reason = UNOBSERVED
    else:
        return archived.lineage, reached, None
    lineage = Lineage(ordinal=archived.lineage.ordinal + 1, start_log_offset=log.log_start_offset)
    origin = Origin(
        reason=reason,
        found_at_ms=known.found_at_ms,
        partition_count=known.partition_count,
        previous=archived.lineage.name,
        previous_end=reached,
        missing=missing,
        diverged_at=diverged_at,
    )
    return lineage, log.log_start_offset, origin


def is_unobserved(archived: ArchiveEnd, known: ClusterHistory) -> bool:
    """Whether the archived end was last checked so long ago that the log cleaner may have removed later tombstones."""
    checked_ms = max(
        (ms for ms in (archived.taken_at_ms, known.before_ms) if ms is not None), default=known.found_at_ms
    )
    return known.found_at_ms - checked_ms > known.delete_retention_ms


def breaks_since(
    before: ClusterMetadata | None, topic_id: str, lineages: Mapping[int, tuple[Lineage, Origin | None]]
) -> list[str]:
    """An alert for each break that no finished snapshot has reported: a lineage that is not in `before`, the last
    finished snapshot.

    Breaks are derived from the archive, so the next snapshot reports breaks found by a snapshot that died.
    """
    reported = before.log_partitions if before and before.topic_id == topic_id else None
    new = {
        log_partition: origin
        for log_partition, (lineage, origin) in sorted(lineages.items())
        if origin is not None
        and origin.reason in BREAKS
        and not (reported and log_partition in reported and reported[log_partition].lineage == lineage.name)
    }
    lines = {}  # a break of all log partitions is reported once
    for log_partition, origin in new.items():
        if origin.reason == RECREATED:
            lines[RECREATED] = (
                f"the topic was deleted and created again: its id was {origin.previous_topic_id} and is {topic_id}; "
                "its archive begins again"
            )
        elif origin.reason == UNOBSERVED:
            lines[UNOBSERVED] = (
                "the log was not read for longer than the topic's delete.retention.ms: tombstones may have come and "
                "gone, and log partitions with new records start new lineages"
            )
        elif origin.reason == PARTITION_COUNT:
            lines[PARTITION_COUNT] = (
                f"the topic has {origin.partition_count} log partitions now: groups hash elsewhere, "
                "and every log partition starts a new lineage"
            )
        else:
            lines[str(log_partition)] = f"log partition {log_partition}: {_why(origin)}; a new lineage starts"
    return list(lines.values())


def _why(origin: Origin) -> str:
    if origin.reason == GAP and origin.missing:
        a, b = origin.missing
        return f"log_offsets [{a}, {b}) were deleted before they were archived"
    if origin.reason == TRUNCATED:
        return f"the log ends at {origin.diverged_at}, below the archived end {origin.previous_end}"
    at = f"at {origin.diverged_at}, " if origin.diverged_at is not None else ""
    return f"the log diverged from the archived leader epoch {at}below the archived end {origin.previous_end}"
