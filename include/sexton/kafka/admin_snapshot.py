"""Queries all groups of a cluster with the Admin API, for clusters that hide their offsets log.

Groups of all types are listed (ListGroups), their committed offsets fetched (OffsetFetch of many groups per request,
KIP-709, Kafka 3.0 on): first plainly, and again with require_stable, which shows offsets that an open transaction may
still change; then the groups are described (DescribeGroups, and one request for each newer group type). This needs
DESCRIBE on groups and topics.

Partial failure is data. A group that is refused, or whose coordinator does not answer, is a row with the error. A
coordinator that moved is looked up again; a broker is not queried any more after BROKER_ATTEMPTS consecutive failures.
The number of groups in a request is adjusted so that an answer has about OFFSETS_A_REQUEST offsets: memory is bounded
however large groups are.

`snapshot_group` queries one group in the same way, for changes of a cluster (execution).

Not here: storage (archive.admin_snapshots), and topics and settings (collect_metadata).
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sexton.archive.admin_snapshots import GROUPS
from sexton.coordinator.groups.classic import read_assignment
from sexton.coordinator.groups.group import assignment_text
from sexton.errors import BrokerError
from sexton.kafka.failures import NotAllowed, TransientError, error_name
from sexton.kafka.group_state import (
    GROUP_COORDINATOR,
    OFFSET_FETCH_BY_NAME,
    CommittedValue,
    GroupListing,
    committed_offsets,
    find_coordinator,
    list_groups,
    offsets_in,
)
from sexton.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from sexton.kafka.session import ClusterSession
from sexton.records import MalformedRecord, decode_subscription

OFFSET_FETCH_OF_MANY = 8
OFFSETS_A_REQUEST = 50_000
FIRST_GROUPS, MAX_GROUPS = 100, 1_000
"""Number of groups in the first request, and the maximum in later ones."""
ATTEMPTS, BROKER_ATTEMPTS = 4, 3
_WAIT_S = 0.25
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
CLASSIC, CONSUMER, SHARE, STREAMS = "Classic", "Consumer", "Share", "Streams"
TYPES = {kind.lower(): kind for kind in (CLASSIC, CONSUMER, SHARE, STREAMS)}
_CONSUMER_PROTOCOL = "consumer"
_DESCRIBE = {
    CONSUMER: ConsumerGroupDescribeRequest,
    SHARE: ShareGroupDescribeRequest,
    STREAMS: StreamsGroupDescribeRequest,
}
_MAY_PASS = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "REQUEST_TIMED_OUT"}
)
_GONE = frozenset({"GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID"})
DEAD = "Dead"

Row: TypeAlias = Sequence[Any]
Sink: TypeAlias = Callable[[str, Sequence[Row]], None]
"""Takes rows of a table of archive.admin_snapshots.SCHEMAS."""


@dataclass(slots=True, kw_only=True)
class GroupSnapshot:
    """A group according to its coordinator; fields as in archive.admin_snapshots.GROUPS.

    `error` says why the group is not described. A group that does not exist, or is not of the queried type, has no
    `state`. `offsets` are its committed offsets; `unstable` are the keys of offsets that an open transaction may still
    change, known if `is_unstable_known`. `hidden` has the requested offsets that this principal may not see, each with
    the missing ACL.
    """

    group_id: str
    group_type: str
    coordinator: int = 0
    state: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    group_epoch: int | None = None
    member_count: int | None = None
    subscribed_topics: list[str] | None = None
    subscription_known: bool = False
    error: str | None = None
    asked_ms: int | None = None
    answered_ms: int | None = None
    offsets_error: str | None = None
    offsets_asked_ms: int | None = None
    offsets_answered_ms: int | None = None
    members: list[Row] = field(default_factory=list)
    offsets: dict[tuple[str, int], CommittedValue] = field(default_factory=dict)
    unstable: frozenset[tuple[str, int]] = frozenset()
    is_unstable_known: bool = False
    hidden: Mapping[tuple[str, int], str] = field(default_factory=dict)
    is_gone: bool = False

    @property
    def row(self) -> Row:
        return tuple(getattr(self, name) for name in GROUPS.names)

    @property
    def offset_rows(self) -> Iterator[Row]:
        for (topic, partition), value in sorted(self.offsets.items()):
            is_unstable = (topic, partition) in self.unstable if self.is_unstable_known else None
            yield (self.group_id, topic, partition, *value, is_unstable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOutcome:
    """The outcome of an admin snapshot: number of groups, number of groups with an error, and the errors of failed
    brokers by broker id."""

    groups: int
    refused: int
    failed_brokers: Mapping[int, str]


def snapshot_groups(
    session: ClusterSession,
    sink: Sink,
    *,
    now_ms: Callable[[], int],
    groups_per_second: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> SnapshotOutcome:
    """Query every group that this principal may see. Raises like `list_groups`.

    `groups_per_second` limits the rate; None: as fast as brokers and their quotas allow.
    """
    listing = list_groups(session)
    listed = {group.group_id: group for group in listing.groups}  # a group that moves is listed twice
    snapshot = _Snapshot(session, listed, now_ms=now_ms, sleep=sleep, failed=listing.failed)
    groups = sorted(listed.values(), key=lambda one: (one.coordinator or 0, one.group_type, one.group_id))
    refused = done = 0
    began, size = time.monotonic(), FIRST_GROUPS
    while done < len(groups):
        some = [_group(one) for one in groups[done : done + size]]
        snapshot.fetch(some)  # first: a commit after the group was seen Empty must not seem older
        snapshot.describe([group for group in some if not group.is_gone])
        there = [group for group in some if not group.is_gone]  # a group that was gone when queried gets no row
        sink("groups", [group.row for group in there])
        sink("members", [row for group in there for row in group.members])
        sink("offsets", [row for group in there for row in group.offset_rows])
        refused += sum(group.error is not None or group.offsets_error is not None for group in there)
        done += len(some)
        offsets = sum(len(group.offsets) for group in some)
        size = max(1, min(MAX_GROUPS, 2 * size, OFFSETS_A_REQUEST * len(some) // max(offsets, 1)))
        if groups_per_second:
            sleep(max(0.0, done / groups_per_second - (time.monotonic() - began)))
    return SnapshotOutcome(groups=len(groups), refused=refused, failed_brokers=snapshot.failed)


def snapshot_group(
    session: ClusterSession, group_id: str, group_type: str, wanted: Collection[tuple[str, int]] = ()
) -> GroupSnapshot:
    """Query one group; its offsets are fetched last. A broker's refusal is returned in `error`, with the missing ACL if
    any, and never raised; all other fields are then meaningless.

    `wanted` offsets that are missing from the answer are requested by name, since brokers silently leave out hidden
    offsets.
    """
    try:
        node_id = session.retrying(lambda: find_coordinator(session, group_id))
        listed = GroupListing(group_id=group_id, group_type=group_type, state="", protocol_type="", coordinator=node_id)
        group = _group(listed)
        _Snapshot(session, {group_id: listed}, now_ms=lambda: 0, sleep=time.sleep).describe([group])
        if group.error is not None:
            group.error = session.named(group.error, "DescribeGroups", group_id=group_id)
            return group
        plain = committed_offsets(session, group_id)
        stable = committed_offsets(session, group_id, require_stable=True)
        group.unstable = unstable = frozenset(key for key, one in stable.items() if one.error_code)
        seen = plain | {key: one for key, one in stable.items() if key not in unstable}
        group.offsets = {key: one.as_committed for key, one in seen.items() if not one.error_code}
        missing = [key for key in wanted if key not in group.offsets and key not in unstable]
        named = committed_offsets(session, group_id, only=missing) if missing else {}
    except (BrokerError, NotAllowed) as error:
        name = error.error_name if isinstance(error, NotAllowed) else error.message
        error_text = f"{name} ({error.fix})" if error.fix else name
        return GroupSnapshot(group_id=group_id, group_type=group_type, error=error_text)
    group.offsets |= {
        key: one.as_committed for key, one in named.items() if not one.error_code and one.committed_offset >= 0
    }
    group.hidden = {
        (topic, partition): f"{error_name(one.error_code)} (allow this principal DESCRIBE on topic {topic})"
        for (topic, partition), one in named.items()
        if one.error_code
    }
    return group


class _Query(NamedTuple):
    """`request` builds a request about group ids; `take` stores the answer about one group in its GroupSnapshot.
    `prefix` is the prefix of the fields that get the error and the instants of request and answer; None for unstable
    offsets, which have no such fields: they may stay unknown."""

    request: Callable[[list[str]], Any]
    take: Callable[[GroupSnapshot, Any], None]
    prefix: str | None

    def set(self, group: GroupSnapshot, **values: Any) -> None:
        for name, value in values.items() if self.prefix is not None else ():
            setattr(group, f"{self.prefix}{name}", value)


@dataclass(slots=True)
class _Snapshot:
    session: ClusterSession
    listed: Mapping[str, GroupListing]
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    failed: dict[int, str] = field(default_factory=dict)
    _failures: Counter[int] = field(default_factory=Counter)

    def describe(self, some: Sequence[GroupSnapshot]) -> None:
        for kind, part in _by(some, lambda group: group.group_type):
            take = _described_classic if kind == CLASSIC else _described_modern
            self._ask(part, _Query(partial(_describe_request, kind), take, ""))

    def fetch(self, some: Sequence[GroupSnapshot]) -> None:
        # Share groups have no committed offsets. Unstable offsets matter only in groups with committed offsets.
        with_offsets = [group for group in some if group.group_type != SHARE]
        self._ask(with_offsets, _Query(partial(_offsets_request, require_stable=False), _take_offsets, "offsets_"))
        stable = _Query(partial(_offsets_request, require_stable=True), _take_unstable, None)
        self._ask([group for group in with_offsets if group.offsets], stable)

    def _ask(self, groups: Sequence[GroupSnapshot], query: _Query) -> None:
        """Query the coordinators of groups, then the new coordinators of groups that moved meanwhile."""
        waiting = {group.group_id: group for group in groups}
        nodes = {group.group_id: group.coordinator for group in groups}
        for attempt in range(ATTEMPTS):
            if attempt:
                self.sleep(_WAIT_S * 2**attempt)
                nodes = self._coordinators(list(waiting))
            passing: dict[str, str] = {}
            for node, ids in _by(list(nodes), nodes.__getitem__):
                passing |= self._ask_node(node, [waiting[group_id] for group_id in ids], query)
            waiting = {group_id: waiting[group_id] for group_id in passing if group_id in waiting}
            nodes = {group_id: nodes[group_id] for group_id in waiting}
            if not waiting or all(nodes[group_id] in self.failed for group_id in waiting):
                break
        for group_id, group in waiting.items():
            query.set(group, error=passing[group_id])

    def _ask_node(self, node_id: int, groups: Sequence[GroupSnapshot], query: _Query) -> dict[str, str]:
        """Send one request; return the transient errors by group id."""
        ids = [group.group_id for group in groups]
        if node_id in self.failed:
            return dict.fromkeys(ids, self.failed[node_id])
        asked_ms = self.now_ms()
        try:
            answers = self.session.call(query.request(ids), node_id=node_id).groups
        except BrokerError as error:
            # Any other error is about this request alone: the broker may not support it.
            self._failures[node_id] += isinstance(error, TransientError)
            if self._failures[node_id] >= BROKER_ATTEMPTS:
                self.failed[node_id] = error.message
            if isinstance(error, TransientError):
                return dict.fromkeys(ids, error.message)
            for group in groups:
                query.set(group, error=error.message)
            return {}
        self._failures[node_id] = 0
        answered_ms = self.now_ms()
        by_id = {answer.group_id: answer for answer in answers}
        passing = {}
        for group in groups:
            answer = by_id.get(group.group_id)
            if answer is None:
                why: str | None = "not in the answer"
            else:
                why = error_name(answer.error_code) if answer.error_code else None
            if why in _MAY_PASS:
                passing[group.group_id] = str(why)
                continue
            group.coordinator = node_id
            if why in _GONE:
                group.is_gone = True
            elif why is not None:
                query.set(group, error=why)
            else:
                query.set(group, asked_ms=asked_ms, answered_ms=answered_ms)
                query.take(group, answer)
        return passing

    def _coordinators(self, ids: Sequence[str]) -> dict[str, int]:
        """The current coordinators of groups, from one request; for a group without an answer, the broker that listed
        it."""
        found = {group_id: self.listed[group_id].coordinator or 0 for group_id in ids}
        try:
            request = FindCoordinatorRequest(key_type=GROUP_COORDINATOR, coordinator_keys=list(ids), min_version=4)
            answer = self.session.call(request)
        except BrokerError:
            return found
        return found | {one.key: one.node_id for one in answer.coordinators if not one.error_code}


def _describe_request(kind: str, ids: list[str]) -> Any:
    if kind == CLASSIC:
        return DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
    return _DESCRIBE[kind](group_ids=ids, include_authorized_operations=False)


def _offsets_request(ids: list[str], *, require_stable: bool) -> Any:
    Asked = OffsetFetchRequest.OffsetFetchRequestGroup  # noqa: N806 (a class)
    return OffsetFetchRequest(
        groups=[Asked(group_id=group_id, topics=None) for group_id in ids],
        require_stable=require_stable,
        min_version=OFFSET_FETCH_OF_MANY,
        max_version=OFFSET_FETCH_BY_NAME,
    )


def _take_offsets(group: GroupSnapshot, answer: Any) -> None:
    group.offsets = {key: one.as_committed for key, one in offsets_in(answer).items() if not one.error_code}


def _take_unstable(group: GroupSnapshot, answer: Any) -> None:
    group.is_unstable_known = True
    group.unstable = frozenset(
        key for key, one in offsets_in(answer).items() if one.error_code and error_name(one.error_code) == UNSTABLE
    )


def _group(listed: GroupListing) -> GroupSnapshot:
    # Brokers before KIP-848 have one type only, and do not name it.
    kind = TYPES.get((listed.group_type or CLASSIC).lower(), CLASSIC)
    return GroupSnapshot(group_id=listed.group_id, group_type=kind, coordinator=listed.coordinator or 0)


def _described_classic(group: GroupSnapshot, answer: Any) -> None:
    if answer.group_state == DEAD:  # how brokers before KIP-1043 say that there is no such group
        group.is_gone = True
        return
    group.state, group.protocol_type = answer.group_state, answer.protocol_type or None
    group.protocol = answer.protocol_data or None
    group.member_count = len(answer.members)
    # The answer has the members' metadata and assignment only for a Stable group.
    is_stable, is_consumer = answer.group_state == "Stable", answer.protocol_type == _CONSUMER_PROTOCOL
    is_readable = is_consumer and is_stable
    topics: set[str] | None = set() if is_consumer and (is_stable or not answer.members) else None
    for member in answer.members:
        subscription = _subscription(member.member_metadata) if is_readable else None
        topics = None if topics is None or subscription is None else topics | set(subscription)
        sent = (bytes(member.member_metadata), bytes(member.member_assignment)) if is_stable else (None, None)
        assigned = read_assignment(bytes(member.member_assignment)) if is_readable else None
        of_client = member.group_instance_id, member.client_id, member.client_host
        group.members.append((group.group_id, member.member_id, *of_client, None, None, subscription, assigned, *sent))
    group.subscribed_topics = None if topics is None else sorted(topics)
    group.subscription_known = topics is not None


def _subscription(data: Any) -> list[str] | None:
    try:
        topics = decode_subscription(bytes(data))
    except MalformedRecord:
        return None
    return None if topics is None else sorted(set(topics))


def _described_modern(group: GroupSnapshot, answer: Any) -> None:
    kind = group.group_type
    group.state, group.protocol_type, group.group_epoch = answer.group_state, kind.lower(), answer.group_epoch
    group.protocol = getattr(answer, "assignor_name", None) or None
    group.member_count = len(answer.members)
    topics = set(_streams_topics(answer)) if kind == STREAMS else set[str]()
    is_known = kind != STREAMS or answer.topology is not None or not answer.members
    for member in answer.members:
        subscription = sorted(set(getattr(member, "subscribed_topic_names", None) or ()))
        has_regex = bool(getattr(member, "subscribed_topic_regex", None))  # its matches are not in the answer
        is_known = is_known and not has_regex
        topics |= set(subscription)
        shown = None if kind == STREAMS or has_regex else subscription
        assigned = _assignment(kind, member.assignment)
        of_client = getattr(member, "instance_id", None), member.client_id, member.client_host, member.rack_id
        row = (group.group_id, member.member_id, *of_client, member.member_epoch, shown, assigned, None, None)
        group.members.append(row)
    group.subscribed_topics = sorted(topics) if is_known else None
    group.subscription_known = is_known


def _streams_topics(answer: Any) -> Iterable[str]:
    """The topics that the topology of a streams group reads."""
    for subtopology in (answer.topology.subtopologies or ()) if answer.topology is not None else ():
        yield from subtopology.source_topics
        yield from (topic.name for topic in subtopology.repartition_source_topics)


def _assignment(kind: str, assignment: Any) -> list[str]:
    if kind == STREAMS:
        return assignment_text({task.subtopology_id: list(task.partitions) for task in assignment.active_tasks})
    return assignment_text({one.topic_id: list(one.partitions) for one in assignment.topic_partitions})


def _by(items: Sequence[Any], key: Callable[[Any], Any]) -> list[tuple[Any, list[Any]]]:
    return [(value, list(some)) for value, some in groupby(sorted(items, key=key), key)]
