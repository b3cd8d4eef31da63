"""Whether the topic partition of an offset still exists, and whether its log still holds that offset.

A coordinator does not check this: it is notified of deletions (OffsetMetadataManager.onTopicsDeleted), and keeps the
offsets of topics whose deletion it missed. verdicts/orphans.py has the same rules for whole tables; the tests compare
the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.offsets import OffsetKey, StoredOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A recorded topic: its id in Kafka's text form (None before 2.8), and the log start and end of each partition.

    A start or end that is -1 or missing is not known.
    """

    topic_id: str | None
    log_starts: tuple[int, ...]
    log_ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The cluster's topics by name.

    Without permission to see all topics (`sees_all`), a missing topic may still exist. `recorded_at_ms` is None if it
    is not known: the topics then apply to offsets of any age.
    """

    by_name: Mapping[str, KnownTopic]
    sees_all: bool = True
    recorded_at_ms: int | None = None


def orphan_of(key: OffsetKey, offset: StoredOffset, known: KnownTopics) -> str | None:
    """topic_gone, topic_recreated or partition_gone; None where the partition exists, or where that is not known.

    A commit proves that its topic exists: commits after the topics were recorded get None.
    """
    if known.recorded_at_ms is not None and offset.commit_timestamp_ms >= known.recorded_at_ms:
        return None
    topic = known.by_name.get(key[1])
    if topic is None:
        return "topic_gone" if known.sees_all else None
    if None not in (offset.topic_id, topic.topic_id) and offset.topic_id != topic.topic_id:
        return "topic_recreated"
    return None if 0 <= key[2] < len(topic.log_starts) else "partition_gone"
