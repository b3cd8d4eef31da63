"""The diff of a restore: for each offset the earlier value, the current value, and the action. Nothing is changed.

Whether the coordinator would accept the commit is decided by the rules in coordinator/api/commit.py (ClassicGroup,
ConsumerGroup and StreamsGroup.validateOffsetCommit), applied to the current state of the cluster. This module decides
cases that those rules do not cover: another topic with the same name, a newer value.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import EmptyView, LoadedGroup, LoadedMember, TopicPartition
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import of_broker
from sexton.errors import Refused
from sexton.execution.compare_and_set import NO_LOG
from sexton.execution.engine import error_text, ticks_now_ms
from sexton.execution.kafka_admin import ClusterIdentity, KafkaAdmin, TopicView
from sexton.execution.restore.restore_plan import (
    WRITTEN,
    OffsetValue,
    RestorePlan,
    RestoreRow,
    Then,
    What,
    in_order,
)
from sexton.execution.restore.sources import Source
from sexton.kafka.admin import GroupError
from sexton.kafka.failures import NotAllowed
from sexton.kafka.membership import PROTOCOLS

SHARE = "Share"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The current state of a group. `offsets` are its committed offsets; an open transaction may still change those in
    `unstable`.

    `group_type` and `state` are in Kafka's words (Classic, Consumer, Streams, Share; Empty, Stable, ...). An unknown
    number of members counts as 1 unless the group is Empty. A group that does not exist has neither members nor
    offsets. `subscribed_topics` are those of its members, None where they are not known. `error` is Kafka's name for
    why nothing is known. `checked_ms` is when the offsets were requested (ticks): later changes are not seen.
    """

    group_id: str
    exists: bool = False
    group_type: str = "Classic"
    state: str = "Empty"
    protocol_type: str = ""
    member_count: int = 0
    subscribed_topics: frozenset[str] | None = None
    offsets: Mapping[TopicPartition, OffsetValue]
    unstable: frozenset[TopicPartition] = frozenset()
    error: str | None = None
    checked_ms: float


def make_restore(
    source: Source,
    client: KafkaAdmin,
    *,
    overwrites: bool = False,
    clamps: bool = False,
    keeps: bool = False,
    is_done: Callable[[RestorePlan], bool] = lambda _: False,
) -> RestorePlan:
    """The restore of a source, judged by the current state of the cluster.

    `overwrites` also restores offsets that clients have committed since. `clamps` moves values into the log of their
    partition. `keeps` keeps alive the offsets that still have the value in the source, and puts back swept offsets.
    `is_done` returns whether a restore has been carried out completely: if so, a restore of the same rows gets another
    restore_id. Refused when the values are from another cluster.
    """
    identity = client.identity(may_hide_log=not source.basis.needs_log)
    if identity.cluster_id != source.cluster_id:
        raise Refused(
            f"the values are from cluster {source.cluster_id}, this is {identity.cluster_id}", where=source.name
        )
    judge = Judge(
        identity=identity,
        overwrites=overwrites,
        clamps=clamps,
        keeps=keeps,
        swept=source.swept,
        plain_because=None if source.basis.needs_log else NO_LOG,
    )
    if keeps and judge.profile.expiry is Expiry.OWN_STAMP:
        raise Refused("keeping offsets alive is untested on brokers before 2.1", fix="see docs/keep.md")
    topics = client.topics(sorted({topic for _, topic, _ in source.values}))
    by_group: dict[str, dict[TopicPartition, Then]] = {}
    for (group_id, topic, partition), then in source.values.items():
        by_group.setdefault(group_id, {})[topic, partition] = then
    rows = [
        row
        for group_id, wanted in sorted(by_group.items(), key=lambda pair: pair[0].encode())
        for row in judge.rows(group_view(client, group_id, wanted, keeps=keeps), wanted, topics)
    ]
    plan = RestorePlan(
        cluster_id=source.cluster_id,
        source=source.name,
        overwrites=overwrites,
        clamps=clamps,
        keeps=keeps,
        warnings=tuple(source.warnings),
        basis=source.basis,
        rows=tuple(in_order(rows)),
    )
    while plan.items and is_done(plan):
        plan = replace(plan, occurrence=plan.occurrence + 1)
    return plan


def group_view(
    client: KafkaAdmin,
    group_id: str,
    wanted: Collection[TopicPartition],
    *,
    keeps: bool = False,
    ticks_ms: Callable[[], float] = ticks_now_ms,
) -> GroupView:
    """A group as the cluster answers now, and which wanted offsets are unstable; with `keeps`, also the topics to which
    its members subscribe. Offsets are requested last."""
    subscribed = None
    try:
        now = client.group_now(group_id)
        if keeps and now.group_type and now.state != "Empty":
            subscribed = client.subscribed_topics(group_id, now.group_type)
        # By name: no other answer contains a pending offset without a committed value.
        unstable = client.committed(group_id, require_stable=True, only=wanted) if wanted else {}
        checked_ms = ticks_ms()
        offsets = client.committed(group_id, require_stable=False)
    except (GroupError, NotAllowed) as error:
        return GroupView(group_id=group_id, offsets={}, error=error_text(error), checked_ms=ticks_ms())
    state = now.state or "Empty"
    return GroupView(
        group_id=group_id,
        exists=now.exists,
        group_type=(now.group_type or "classic").capitalize(),
        state=state,
        protocol_type=now.protocol_type or "",
        member_count=int(state != "Empty") if now.member_count is None else now.member_count,
        subscribed_topics=subscribed,
        offsets={key: OffsetValue(*found.as_committed) for key, found in offsets.items() if found.error_code == 0},
        unstable=frozenset(key for key, found in unstable.items() if found.error_code == Error.UNSTABLE_OFFSET_COMMIT),
        checked_ms=checked_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges offsets by the rules of the release that the brokers of `identity` run.

    `overwrites` replaces newer commits. `clamps` moves a value outside of the partition's log to the log's start or
    end. `keeps` keeps offsets alive, except those in `swept`, which are put back. `plain_because` is why a commit would
    not be compared with the current value: then no existing value is replaced. None: it is compared.
    """

    identity: ClusterIdentity
    overwrites: bool
    clamps: bool
    keeps: bool
    swept: Collection[OffsetKey]
    plain_because: str | None

    @property
    def profile(self) -> Profile:
        return of_broker(self.identity.broker_version)

    def rows(
        self, group: GroupView, wanted: Mapping[TopicPartition, Then], topics: Mapping[str, TopicView]
    ) -> Iterator[RestoreRow]:
        """A row for each wanted offset of a group. `topics` has the topic of every wanted offset."""
        errors = self._coordinator_errors(group, wanted, topics)
        for (topic, partition), then in wanted.items():
            answer = errors[topic, partition]
            is_swept = (group.group_id, topic, partition) in self.swept
            is_unsubscribed = group.subscribed_topics is not None and topic not in group.subscribed_topics
            if self.keeps and answer is Error.UNKNOWN_MEMBER_ID and is_unsubscribed and not is_swept:
                answer = Error.NONE  # the answer to a transactional commit without a member
            yield self._row(group, (topic, partition), then, topics[topic], answer)

    def _row(self, group: GroupView, key: TopicPartition, then: Then, topic: TopicView, answer: Error) -> RestoreRow:
        count = self.identity.partition_count  # 0 where the topic is hidden: all rows then have log partition 0
        now = group.offsets.get(key)
        within, moved = _within_log(then.value, topic.ranges.get(key[1]))
        what, error = _obstacle(group, key, then, topic, answer)
        if self.keeps and what is What.GROUP_HAS_MEMBERS:
            is_known = group.subscribed_topics is not None
            error = "its members subscribe to the topic" if is_known else "what its members subscribe to is not known"
        elif self.keeps:
            what, error = (what, error) if what else self._keep(group, key, then, now, moved)
        elif now is not None and now in (then.value, within if self.clamps else then.value):
            what, error = What.SAME, None
        elif what is None and now is not None and not self.overwrites:
            what = What.NEWER_NOW
        elif what is None and now is not None and self.plain_because is not None:
            what, error = What.REFUSED, f"a value could only be replaced unchecked: {self.plain_because}"
        put = within if self.clamps else then.value
        span = topic.ranges.get(key[1]) if what is None and moved is not None else None
        return RestoreRow(
            group_id=group.group_id,
            topic=key[0],
            partition=key[1],
            log_partition=partition_of(group.group_id, count) if count else 0,
            what=what or (What.CLAMPED if self.clamps and moved else moved or What.RESTORE),
            then=then,
            now=now,
            put=put if what is None or what in WRITTEN else None,
            error=error,
            now_topic_id=topic.topic_id,
            log_start_offset=None if span is None else span[0],
            log_end_offset=None if span is None else span[1],
        )

    def _keep(
        self, group: GroupView, key: TopicPartition, then: Then, now: OffsetValue | None, moved: What | None
    ) -> tuple[What, str | None]:
        """How to keep alive an offset that may be committed (docs/keep.md), or why it is left alone."""
        is_swept = (group.group_id, *key) in self.swept
        if now is None and not is_swept:
            return What.REFUSED, "the offset no longer exists: `sexton restore` puts it back"
        if now is not None and (is_swept or now != then.value):
            return What.NEWER_NOW, None
        if then.expire_timestamp_ms is not None:
            return What.REFUSED, "a client chose when it expires"
        if moved is not None:
            return What.REFUSED, "it lies outside of the partition's log: there is nothing to read at it"
        if group.group_type == "Classic" and group.protocol_type and not is_swept and not group.member_count:
            if group.protocol_type not in PROTOCOLS:
                return What.REFUSED, f"groups of protocol type {group.protocol_type} are not kept: see docs/keep.md"
            return What.JOIN, None
        if self.plain_because is not None:
            return What.REFUSED, f"a newer commit might be overwritten: {self.plain_because}"
        return What.RESTORE if is_swept else What.KEEP, None

    def _coordinator_errors(
        self, group: GroupView, wanted: Mapping[TopicPartition, Then], topics: Mapping[str, TopicView]
    ) -> dict[TopicPartition, Error]:
        """The coordinator's answer for each partition if all were committed without a member."""
        shard = CoordinatorShard(status=Status.ACTIVE, view=_LiveGroup(group))
        coordinator = Coordinator(profile=self.profile, partition_count=1, shards={0: shard})
        commit = Commit(
            group_id=group.group_id,
            partitions=tuple(
                CommitPartition(topic=topic, partition=partition, metadata=then.value.metadata)
                for (topic, partition), then in wanted.items()
            ),
        )
        counts = {name: max(topic.ranges, default=-1) + 1 for name, topic in topics.items() if topic.error is None}
        return validate_commit(coordinator, commit, partition_counts=counts)


def _within_log(value: OffsetValue, span: tuple[int, int] | None) -> tuple[OffsetValue, What | None]:
    """The value moved into the partition's log, and on which side it was outside; None if it was inside.

    A moved value has no leader epoch: the original epoch is that of the record before the original offset.
    """
    if span is None or span[0] <= value.committed_offset <= span[1]:
        return value, None
    is_below = value.committed_offset < span[0]
    nearest = span[0] if is_below else span[1]
    moved = OffsetValue(committed_offset=nearest, leader_epoch=None, metadata=value.metadata)
    return moved, What.BELOW_LOG_START if is_below else What.BEYOND_LOG_END


def _obstacle(
    group: GroupView, key: TopicPartition, then: Then, topic: TopicView, answer: Error
) -> tuple[What | None, str | None]:
    """Why an offset must be left unchanged, whatever its current value; None where it may be written."""
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION.name
    if group.error is not None:
        return What.REFUSED, group.error
    if topic.error is not None:
        return (What.TOPIC_GONE if topic.error == unknown else What.REFUSED), topic.error
    if None not in (then.topic_id, topic.topic_id) and then.topic_id != topic.topic_id:
        return What.TOPIC_RECREATED, None
    if key[1] not in topic.ranges:
        return What.PARTITION_GONE, unknown
    if answer is Error.OFFSET_METADATA_TOO_LARGE:
        return What.METADATA_TOO_LARGE, answer.name
    if answer is not Error.NONE:
        is_share = group.group_type == SHARE
        return (What.SHARE_GROUP if is_share else What.GROUP_HAS_MEMBERS), answer.name
    if key in group.unstable:
        return What.PENDING_TRANSACTION, Error.UNSTABLE_OFFSET_COMMIT.name
    return None, None


class _LiveGroup(EmptyView):
    """A group of the cluster in the form that the coordinator's rules read.

    Of the members only their number is known; a commit without a member depends on nothing else.
    """

    def __init__(self, view: GroupView) -> None:
        self._view = view

    def group(self, group_id: str) -> LoadedGroup | None:
        view = self._view
        if not view.exists or view.group_id != group_id:
            return None
        return LoadedGroup(
            group_id=group_id,
            group_type=view.group_type,
            state=view.state,
            member_count=view.member_count,
            generation=None,
            log_offset=0,
        )

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:
        count = self._view.member_count if self._view.group_id == group_id else 0
        return tuple(LoadedMember(member_id=f"member {number}") for number in range(count))
