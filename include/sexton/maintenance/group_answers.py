"""What the drill compares of a group: what the live brokers answer, and what they should by the archived log.

A cluster moves on while it is asked. So the groups of a log partition are asked, then where its log ends, then the same
groups again: an answer that is the same twice is the one at that end, up to which the log is then folded.

What only a coordinator's memory knows cannot be compared: a classic group's state while it rebalances, whether a
streams group has found its topics, and up to Kafka 3.x everything but committed offsets.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import listed_group
from sexton.coordinator.dated_rules import group_coordinator
from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError, UsageError
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.rights import seen_topics
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import LATEST, describe_topic, list_offsets

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})
NOT_READY = "NotReady"

Key = tuple[str, int]
Offset = tuple[int, int | None, str]
"""(committed_offset, leader_epoch, metadata)."""
Kind = tuple[str, str, str]
"""(type in small letters, state, protocol type or "")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that is compared of one group; without a `kind` there is no such group."""

    kind: Kind | None
    offsets: Mapping[Key, Offset]


@dataclass(slots=True, kw_only=True)
class Answers:
    """What the brokers said: of each group whose answer stood still, and by log partition where that was.

    Other groups have `moved` while they were asked, or the brokers refuse this principal their answer; brokers that
    `failed` list none of theirs, so that one that is not listed counts as moved. `seen_topics`
    are those that it may see, None for all: the brokers leave offsets of other topics out without a word.
    """

    settled: dict[str, Answer] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seen_topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a group is by the log up to `log_offset`, and what by the brokers; without a `topic` the group itself."""

    group_id: str
    log_partition: int
    log_offset: int
    topic: str | None
    partition: int | None
    by_log: Offset | Kind | None
    by_broker: Offset | Kind | None


def ask(session: ClusterSession, offsets_topic: str, group_ids: Collection[str]) -> Answers:
    """Ask the brokers about some groups, one log partition after the other, each so that its end belongs to it."""
    found = Answers(seen_topics=seen_topics(session))
    count = len(session.retrying(lambda: describe_topic(session, offsets_topic)).leaders)
    before, _ = kinds(session)
    offsets: dict[str, dict[Key, Offset]] = {}
    for log_partition, groups in sorted(_by_log_partition(group_ids, count).items()):
        first = _offsets(session, groups, found)
        found.ends[log_partition] = _end(session, offsets_topic, log_partition)
        second = _offsets(session, [group_id for group_id in groups if group_id in first], found)
        offsets |= {group_id: told for group_id, told in second.items() if told == first[group_id]}
    after, found.failed = kinds(session)
    for group_id in group_ids:
        is_listed = group_id in after or not found.failed  # else a broker that failed may have it
        if is_listed and group_id in offsets and before.get(group_id) == after.get(group_id):
            found.settled[group_id] = Answer(kind=after.get(group_id), offsets=offsets[group_id])
        elif group_id not in found.refused:
            found.moved.add(group_id)
    return found


def kinds(session: ClusterSession) -> tuple[dict[str, Kind], dict[int, str]]:
    """Every group that the brokers list to this principal, and the brokers that failed, whose groups are missing."""
    found = list_groups(session)
    return {one.group_id: (one.group_type, one.state, one.protocol_type) for one in found.groups}, found.failed


def by_log(coordinator: Coordinator, group_id: str) -> Answer | None:
    """What the brokers should answer of a group; None where they could not even load its log partition."""
    told = fetch(coordinator, group_id)
    if told.error is not Error.NONE:
        return None
    group = listed_group(coordinator, group_id)
    return Answer(
        kind=None if group is None else (group.group_type.lower(), group.state, group.protocol_type or ""),
        offsets={
            (one.topic, one.partition): (one.committed_offset, one.leader_epoch, one.metadata) for one in told.offsets
        },
    )


def differences(
    coordinator: Coordinator,
    group_id: str,
    *,
    live: Answer,
    folded: Answer,
    log_offset: int,
    seen_topics: Collection[str] | None = None,
) -> Iterator[Difference]:
    """Every difference between the two, the group's own first; of the offsets those of `seen_topics`, None: of all."""
    log_partition = coordinator.log_partition_of(group_id)
    assert log_partition is not None, "an archive knows the number of its log partitions"
    whole = Difference(
        group_id=group_id,
        log_partition=log_partition,
        log_offset=log_offset,
        topic=None,
        partition=None,
        by_log=folded.kind,
        by_broker=live.kind,
    )
    if coordinator.profile.name == group_coordinator.NAME and not _is_same(live.kind, folded.kind):
        yield whole
    for topic, partition in sorted({*live.offsets, *folded.offsets}):
        if seen_topics is not None and topic not in seen_topics:
            continue
        ours, theirs = folded.offsets.get((topic, partition)), live.offsets.get((topic, partition))
        if ours != theirs:
            yield replace(whole, topic=topic, partition=partition, by_log=ours, by_broker=theirs)


def _is_same(live: Kind | None, folded: Kind | None) -> bool:
    if live is not None and live[1] in REBALANCING:
        return True
    if live is not None and folded is not None and folded[1] == NOT_READY:
        return live[0] == folded[0]
    return live == folded


def _by_log_partition(group_ids: Iterable[str], count: int) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for group_id in sorted(group_ids):
        found.setdefault(partition_of(group_id, count), []).append(group_id)
    return found


def _offsets(session: ClusterSession, group_ids: Iterable[str], found: Answers) -> dict[str, dict[Key, Offset]]:
    """The committed offsets of each group; those that are refused are noted, a broker that is away is an error."""
    told: dict[str, dict[Key, Offset]] = {}
    for group_id in group_ids:
        try:
            offsets = committed_offsets(session, group_id)
        except TransientError:
            raise
        except (UsageError, BrokerError):
            found.refused.add(group_id)
            continue
        told[group_id] = {
            key: (one.committed_offset, None if one.leader_epoch < 0 else one.leader_epoch, one.metadata)
            for key, one in offsets.items()
        }
    return told


def _end(session: ClusterSession, offsets_topic: str, log_partition: int) -> int:
    """The high watermark of a log partition: what its coordinator answers from lies below it."""

    def look() -> int:
        topic = describe_topic(session, offsets_topic)
        alone = replace(topic, leaders={log_partition: topic.leaders[log_partition]})
        ends = list_offsets(session, [alone], timestamp=LATEST)
        if (offsets_topic, log_partition) not in ends:
            raise TransientError(f"log partition {log_partition} has no leader", where=session.config.bootstrap_servers)
        return ends[offsets_topic, log_partition]

    return session.retrying(look)
