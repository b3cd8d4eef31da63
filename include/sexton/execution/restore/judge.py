"""The diff of a restore: for each offset what it was, what it is, and what would happen to it.

Whether the coordinator would take the commit is asked of the same rules that answer questions about a log
(coordinator/api/commit.py; ClassicGroup, ConsumerGroup and StreamsGroup.validateOffsetCommit), with what the
cluster says right now. What they cannot know is decided here: another topic of the same name, a value that came after.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sexton.coordinator.api.commit import MAX_METADATA_LENGTH, Commit, CommitPartition, validate_commit
from sexton.coordinator.api.coordinator import Coordinator, Shard, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import EmptyView, LoadedGroup, LoadedMember, TopicPartition
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile
from sexton.execution.restore.port import GroupView, TopicView
from sexton.execution.restore.rows import OffsetValue, RestoreRow, Then, What

SHARE = "Share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges offsets by a profile's rules. `overwrites` takes the place of what was committed since; `clamps` moves a
    value to where the partition's log begins or ends, when it lies outside."""

    profile: Profile
    log_partition_count: int
    overwrites: bool = False
    clamps: bool = False
    max_metadata_length: int = MAX_METADATA_LENGTH

    def rows(
        self, group: GroupView, wanted: Mapping[TopicPartition, Then], topics: Mapping[str, TopicView]
    ) -> Iterator[RestoreRow]:
        """A row for each wanted offset of a group. `topics` has every topic that is wanted."""
        errors = self._coordinator_errors(group, wanted, topics)
        for (topic, partition), then in wanted.items():
            yield self._row(group, (topic, partition), then, topics[topic], errors[topic, partition])

    def _row(self, group: GroupView, key: TopicPartition, then: Then, topic: TopicView, answered: Error) -> RestoreRow:
        now = group.offsets.get(key)
        within, moved = self._placed(then.value, topic.ranges.get(key[1]))
        what, error = _kept(group, key, then, topic, answered)
        if now is not None and now in (then.value, within if self.clamps else then.value):
            what, error = What.SAME, None
        elif what is None and now is not None and not self.overwrites:
            what = What.NEWER_NOW
        put = within if self.clamps else then.value
        span = topic.ranges.get(key[1]) if what is None and moved is not None else None
        told = moved or What.RESTORE
        return RestoreRow(
            group_id=group.group_id,
            topic=key[0],
            partition=key[1],
            log_partition=partition_of(group.group_id, self.log_partition_count),
            what=what or (What.CLAMPED if self.clamps and moved else told),
            then=then,
            now=now,
            put=put if what is None else None,
            error=error,
            now_topic_id=topic.topic_id,
            log_start_offset=None if span is None else span[0],
            log_end_offset=None if span is None else span[1],
        )

    def _placed(self, value: OffsetValue, span: tuple[int, int] | None) -> tuple[OffsetValue, What | None]:
        """The value moved into the partition's log, and on which side it lay outside.

        The leader epoch is that of the record before the offset, so that a moved value has none.
        """
        if span is None or span[0] <= value.committed_offset <= span[1]:
            return value, None
        is_below = value.committed_offset < span[0]
        nearest = span[0] if is_below else span[1]
        moved = OffsetValue(committed_offset=nearest, leader_epoch=None, metadata=value.metadata)
        return moved, What.BELOW_LOG_START if is_below else What.BEYOND_LOG_END

    def _coordinator_errors(
        self, group: GroupView, wanted: Mapping[TopicPartition, Then], topics: Mapping[str, TopicView]
    ) -> dict[TopicPartition, Error]:
        """What the coordinator would answer for each partition, were they all committed without a member."""
        shard = Shard(status=Status.ACTIVE, view=_Live(group))
        coordinator = Coordinator(profile=self.profile, partition_count=1, shards={0: shard})
        commit = Commit(
            group_id=group.group_id,
            partitions=tuple(
                CommitPartition(topic=topic, partition=partition, metadata=then.value.metadata)
                for (topic, partition), then in wanted.items()
            ),
        )
        counts = {name: max(topic.ranges, default=-1) + 1 for name, topic in topics.items() if topic.error is None}
        return validate_commit(
            coordinator, commit, max_metadata_length=self.max_metadata_length, partition_counts=counts
        )


def _kept(
    group: GroupView, key: TopicPartition, then: Then, topic: TopicView, answered: Error
) -> tuple[What | None, str | None]:
    """Why an offset is left as it is, whatever it is now: None where nothing speaks against it."""
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION.name
    if group.error is not None:
        return What.REFUSED, group.error
    if topic.error is not None:
        return (What.TOPIC_GONE if topic.error == unknown else What.REFUSED), topic.error
    if None not in (then.topic_id, topic.topic_id) and then.topic_id != topic.topic_id:
        return What.TOPIC_RECREATED, None
    if key[1] not in topic.ranges:
        return What.PARTITION_GONE, unknown
    if answered is Error.OFFSET_METADATA_TOO_LARGE:
        return What.METADATA_TOO_LARGE, answered.name
    if answered is not Error.NONE:
        is_share = group.group_type == SHARE
        return (What.SHARE_GROUP if is_share else What.GROUP_HAS_MEMBERS), answered.name
    if key in group.unstable:
        return What.PENDING_TRANSACTION, Error.UNSTABLE_OFFSET_COMMIT.name
    return None, None


class _Live(EmptyView):
    """A group as the cluster tells of it, in the shape in which the coordinator's rules ask.

    Of its members only the number is known, which is all that a commit without a member is judged by.
    """

    def __init__(self, view: GroupView) -> None:
        self._view = view

    def group(self, group_id: str) -> LoadedGroup | None:  # noqa: ARG002
        view = self._view
        if not view.exists:
            return None
        return LoadedGroup(
            group_id=view.group_id,
            group_type=view.group_type,
            state=view.state,
            protocol_type=None,
            protocol=None,
            generation=None,
            leader=None,
            current_state_timestamp_ms=None,
            member_count=view.member_count,
            log_offset=0,
        )

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:  # noqa: ARG002
        return tuple(_member(number) for number in range(self._view.member_count))


def _member(number: int) -> LoadedMember:
    return LoadedMember(
        member_id=f"member {number}",
        group_instance_id=None,
        client_id=None,
        client_host=None,
        session_timeout_ms=None,
        member_epoch=None,
        assignment=None,
    )


def by_group(values: Iterable[tuple[OffsetKey, Then]]) -> dict[str, dict[TopicPartition, Then]]:
    """Offsets of each group, by the UTF-8 bytes of its id."""
    found: dict[str, dict[TopicPartition, Then]] = {}
    for (group_id, topic, partition), then in values:
        found.setdefault(group_id, {})[topic, partition] = then
    return dict(sorted(found.items(), key=lambda pair: pair[0].encode()))
