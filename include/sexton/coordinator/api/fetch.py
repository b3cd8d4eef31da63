"""OffsetFetch: the answer to a client about a group's offsets.

Follows OffsetMetadataManager.fetchOffsets and fetchAllOffsets of Kafka 4.3, GroupMetadataManager.getOffsets (Scala) and
OffsetManager.getOffsets (0.8.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import LoadedMember, PartitionView, TopicPartition
from sexton.coordinator.commits_in_flight import Outcome, commits_after
from sexton.coordinator.offsets import StoredOffset

NO_OFFSET = -1
NOTHING_IN_FLIGHT: Mapping[TopicPartition, StoredOffset] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPartition:
    """A partition to fetch. With a `topic_id`, an offset that was committed for another topic id is not returned.

    For an unknown topic id `topic` is empty.
    """

    topic: str
    partition: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """The answer for one partition: committed_offset -1 and metadata "" where there is no offset."""

    topic: str
    partition: int
    committed_offset: int = NO_OFFSET
    leader_epoch: int | None = None
    metadata: str = ""
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The answer for a group; with an `error` of the whole group there are no offsets. Up to 0.10.1 only partitions
    have errors, so a fetch of all offsets gets an empty answer instead of an error.

    `waits`: a 4.x coordinator answers only once the commits in flight are replicated; `offsets` do not contain these
    commits.
    """

    group_id: str
    error: Error
    offsets: tuple[FetchedOffset, ...] = ()
    waits: bool = False


def fetch(
    coordinator: Coordinator,
    group_id: str,
    *,
    partitions: Iterable[AskedPartition] | None = None,
    require_stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
    in_flight: Mapping[TopicPartition, StoredOffset] = NOTHING_IN_FLIGHT,
    outcome: Outcome = Outcome.WAITING,
    producer_id: int | None = None,
    is_dead: bool = False,
) -> FetchAnswer:
    """Fetch the offsets of `partitions`; without `partitions`, all committed offsets in order of topic and partition.

    A missing group has no offsets, which is no error. With `require_stable` a partition that an open transaction holds
    is answered UNSTABLE_OFFSET_COMMIT, even if the group was removed. `member_id` and `member_epoch` matter to groups
    of the new types only. `in_flight` are commits after the end of the loaded log, `outcome` is their outcome
    (commits_in_flight.py), `producer_id` the producer of their transaction; `is_dead` says that the group was removed
    before the append completed. Until it completes, commits in flight are unstable in releases up to 3.9, and a 4.x
    coordinator delays the whole answer; commits of a transaction are unstable until its marker.
    """
    error = coordinator.error_of(group_id)
    if error is Error.NONE:
        view = coordinator.view_of(group_id)
        error = _member_error(view, group_id, member_id, member_epoch)
    if error is not Error.NONE and not coordinator.profile.has_group_errors:
        asked = (FetchedOffset(topic=one.topic, partition=one.partition, error=error) for one in partitions or ())
        return FetchAnswer(group_id=group_id, error=Error.NONE, offsets=tuple(asked))
    if error is not Error.NONE:
        return FetchAnswer(group_id=group_id, error=error)
    group = view.group(group_id)
    # 4.x finds offsets through their group; earlier releases find them without it.
    is_found = not coordinator.profile.is_java or (group is not None and group.group_type != "Share")
    offsets = view.offsets(group_id) if is_found else {}
    is_stable_only = require_stable and coordinator.profile.supports_stable_fetch
    # Only commits in flight need the values of open transactions; otherwise the keys suffice and are cheaper to find.
    pending = view.pending(group_id) if is_stable_only and not in_flight else frozenset()
    commits = commits_after(
        offsets,
        in_flight,
        outcome,
        transactional=_held(view, group_id) if in_flight else {},
        profile=coordinator.profile,
        producer_id=producer_id,
        is_dead=is_dead,
    )
    offsets = commits.fetchable
    if partitions is None:
        partitions = [AskedPartition(topic=topic, partition=partition) for topic, partition in sorted(offsets)]
    return FetchAnswer(
        group_id=group_id,
        error=Error.NONE,
        offsets=tuple(
            _answer(
                asked,
                offsets.get(key),
                is_unstable=is_stable_only and (key in pending or commits.is_unstable(key)),
            )
            for asked in partitions
            for key in ((asked.topic, asked.partition),)
        ),
        waits=is_stable_only and commits.waits,
    )


def _held(view: PartitionView, group_id: str) -> dict[int, dict[TopicPartition, StoredOffset]]:
    """The group's pending offsets in open transactions, by producer."""
    return {
        producer_id: {key[1:]: offset for key, offset in values.items() if key[0] == group_id}
        for producer_id, values in view.transactions().items()
    }


def _answer(asked: AskedPartition, stored: StoredOffset | None, *, is_unstable: bool) -> FetchedOffset:
    if not asked.topic and asked.topic_id is not None:
        return FetchedOffset(topic="", partition=asked.partition, error=Error.UNKNOWN_TOPIC_ID)
    if is_unstable:
        return FetchedOffset(topic=asked.topic, partition=asked.partition, error=Error.UNSTABLE_OFFSET_COMMIT)
    if stored is None or (asked.topic_id and stored.topic_id and asked.topic_id != stored.topic_id):
        return FetchedOffset(topic=asked.topic, partition=asked.partition)
    return FetchedOffset(
        topic=asked.topic,
        partition=asked.partition,
        committed_offset=stored.committed_offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _member_error(view: PartitionView, group_id: str, member_id: str | None, member_epoch: int) -> Error:
    """ConsumerGroup.validateOffsetFetch, StreamsGroup.validateOffsetFetch.

    Both throw on a null member id with an epoch, the latter also on a member without an epoch.
    """
    group = view.group(group_id)
    if group is None or group.group_type not in ("Consumer", "Streams") or (member_id is None and member_epoch < 0):
        return Error.NONE
    if member_id is None:
        return Error.UNKNOWN_SERVER_ERROR
    member = next((member for member in view.members(group_id) if member.member_id == member_id), None)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if member.member_epoch is None:
        return Error.UNKNOWN_SERVER_ERROR
    return Error.NONE if member.member_epoch == member_epoch else stale_error(member)


def stale_error(member: LoadedMember) -> Error:
    """The answer to a member with a wrong epoch; classic members of a consumer group use generations.

    Only classic members have a session timeout in their record.
    """
    return Error.STALE_MEMBER_EPOCH if member.session_timeout_ms is None else Error.ILLEGAL_GENERATION
