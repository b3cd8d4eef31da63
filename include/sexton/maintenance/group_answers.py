"""Both sides of a reconciliation: what the live brokers answer about a group, and what the archived log implies.

The cluster changes meanwhile. So each log partition is read in three steps: its groups, the end of its log, its groups
again. If both answers about a group are the same, they are valid at that end; the log is then folded up to there.

Facts that are only in a coordinator's memory are not compared: the state of a classic group while it rebalances,
whether a streams group has found its topics, and up to Kafka 3.x everything except committed offsets.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import listed_group
from sexton.coordinator.dated_rules import group_coordinator
from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError, UsageError
from sexton.kafka.group_state import CommittedValue, committed_offsets, list_groups
from sexton.kafka.rights import seen_topics
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import describe_topic, high_watermark

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})
NOT_READY = "NotReady"

Key = tuple[str, int]
Kind = tuple[str, str, str]
"""(type in lower case, state, protocol type or "")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The compared values of one group. `kind` is None if the group does not exist."""

    kind: Kind | None
    offsets: Mapping[Key, CommittedValue]


@dataclass(slots=True, kw_only=True)
class LiveAnswers:
    """The brokers' answers that were the same both times (`settled`, by group), and the log end of each log partition.

    Groups in `moved` changed between the two answers. Groups in `refused` may not be described by the principal.
    Brokers in `failed` listed no groups; if there are any, an unlisted group counts as moved. `seen_topics` are the
    topics that the principal may see, None for all: brokers silently omit offsets of hidden topics.
    """

    settled: dict[str, GroupAnswer] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seen_topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDifference:
    """A difference between the log up to `log_offset` and the brokers. If `topic` is None it is about the group."""

    group_id: str
    log_partition: int
    log_offset: int
    topic: str | None
    partition: int | None
    by_log: CommittedValue | Kind | None
    by_broker: CommittedValue | Kind | None


def ask(session: ClusterSession, offsets_topic: str, group_ids: Collection[str]) -> LiveAnswers:
    """Ask the brokers about these groups, one log partition after the other, each with the end of its log."""
    found = LiveAnswers(seen_topics=seen_topics(session))
    count = len(session.retrying(lambda: describe_topic(session, offsets_topic)).leaders)
    before, _ = kinds(session)
    offsets: dict[str, dict[Key, CommittedValue]] = {}
    by_log_partition: dict[int, list[str]] = {}
    for group_id in sorted(group_ids):
        by_log_partition.setdefault(partition_of(group_id, count), []).append(group_id)
    for log_partition, groups in sorted(by_log_partition.items()):
        first = _offsets(session, groups, found)
        # The coordinator of a log partition answers from records below its high watermark.
        end = partial(high_watermark, session, offsets_topic, log_partition)
        found.ends[log_partition] = session.retrying(end)
        second = _offsets(session, [group_id for group_id in groups if group_id in first], found)
        offsets |= {group_id: same for group_id, same in second.items() if same == first[group_id]}
    after, found.failed = kinds(session)
    for group_id in group_ids:
        is_listed = group_id in after or not found.failed  # otherwise a broker that failed may have it
        if is_listed and group_id in offsets and before.get(group_id) == after.get(group_id):
            found.settled[group_id] = GroupAnswer(kind=after.get(group_id), offsets=offsets[group_id])
        elif group_id not in found.refused:
            found.moved.add(group_id)
    return found


def kinds(session: ClusterSession) -> tuple[dict[str, Kind], dict[int, str]]:
    """Return the kinds of all groups that the brokers list to this principal, and the errors of brokers that failed."""
    found = list_groups(session)
    return {one.group_id: (one.group_type, one.state, one.protocol_type) for one in found.groups}, found.failed


def by_log(coordinator: Coordinator, group_id: str) -> GroupAnswer | None:
    """Return what the brokers should answer about a group; None if they cannot load its log partition."""
    answer = fetch(coordinator, group_id)
    if answer.error is not Error.NONE:
        return None
    group = listed_group(coordinator, group_id)
    return GroupAnswer(
        kind=None if group is None else (group.group_type.lower(), group.state, group.protocol_type or ""),
        offsets={
            (one.topic, one.partition): (one.committed_offset, one.leader_epoch, one.metadata) for one in answer.offsets
        },
    )


def differences(
    coordinator: Coordinator,
    group_id: str,
    *,
    live: GroupAnswer,
    folded: GroupAnswer,
    log_offset: int,
    seen_topics: Collection[str] | None = None,
) -> Iterator[AnswerDifference]:
    """Yield the difference of the group itself, then the differences of its offsets in `seen_topics` (None: all
    topics)."""
    log_partition = coordinator.log_partition_of(group_id)
    assert log_partition is not None, "an archive knows the number of its log partitions"
    whole = AnswerDifference(
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


def _offsets(
    session: ClusterSession, group_ids: Iterable[str], found: LiveAnswers
) -> dict[str, dict[Key, CommittedValue]]:
    """Return the committed offsets of each group; add refused groups to `found`. TransientError if a broker does not
    answer."""
    answers: dict[str, dict[Key, CommittedValue]] = {}
    for group_id in group_ids:
        try:
            offsets = committed_offsets(session, group_id)
        except TransientError:
            raise
        except (UsageError, BrokerError):
            found.refused.add(group_id)
            continue
        answers[group_id] = {key: one.as_committed for key, one in offsets.items()}
    return answers
