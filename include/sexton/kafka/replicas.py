"""Queries the replicas of a topic one by one: start and end of each log, its open transactions, and its bytes.

A consumer's Fetch from version 11 on (KIP-392) is answered by every broker that has a replica, leader or not, from its
own log up to its own high watermark, with its own offsets. DescribeProducers is answered from the broker's own producer
state. Only leaders answer other requests (ListOffsets, OffsetForLeaderEpoch).

A broker without an answer is a finding about its replica: ReplicaFault has the reason, and the other replicas are still
read.

Not here: storage of copied bytes (replicas/copy.py), and the meaning of differences.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from kafka.protocol.admin import DescribeProducersRequest, ListPartitionReassignmentsRequest
from kafka.protocol.metadata import MetadataRequest

from sexton.errors import BrokerError, UsageError
from sexton.kafka.failures import NotAllowed, TransientError, error_name
from sexton.kafka.fetch import MAX_WAIT_MS, RESPONSE_BYTES, BatchReader, FetchedBatches, Pace, fetch_partitions
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import EARLIEST, LATEST, NO_LEADER, PartitionLeader, Topic, list_offsets
from sexton.records import kafka_uuid
from sexton.topics import OFFSETS_TOPIC

FIRST_FOLLOWER_VERSION = 11
NOT_OPEN = -1
CATCH_UP_S = 5.0
"""How long a probe waits for a lagging follower: a healthy one catches up within replica.fetch.wait.max.ms (0.5 s),
even under load."""
_PAUSE_S = 0.2
_PROBES = 3

Fault = Literal["unreachable", "no_replica", "other_epoch", "out_of_range", "corrupt", "failed"]
FIXES: Mapping[Fault, str] = {
    "unreachable": "start the broker, or read its disk",
    "no_replica": "wait until the reassignment has ended, or try again: the broker has no replica now",
    "other_epoch": "try again: this broker and the cluster do not agree on the leader epoch yet",
    "out_of_range": "read the broker's disk: its log begins or ends where the leader's does not",
    "corrupt": "check the broker's disk; remove its replica of the log partition and let it replicate again",
    "failed": "see the broker's log",
}
"""Fault of a replica -> what to do."""
_FAULT_OF: Mapping[str, Fault] = {
    "NOT_LEADER_OR_FOLLOWER": "no_replica",
    "REPLICA_NOT_AVAILABLE": "no_replica",
    "UNKNOWN_TOPIC_OR_PARTITION": "no_replica",
    "UNKNOWN_TOPIC_ID": "no_replica",
    "FENCED_LEADER_EPOCH": "other_epoch",
    "UNKNOWN_LEADER_EPOCH": "other_epoch",
    "OFFSET_OUT_OF_RANGE": "out_of_range",
    "CORRUPT_MESSAGE": "corrupt",
}
_MAY_PASS = ("no_replica", "other_epoch")


class ReplicaFault(BrokerError):
    """A replica could not be read: `fault` is a key of FIXES."""

    def __init__(self, message: str, *, fault: Fault, where: object = None) -> None:
        self.fault = fault
        super().__init__(message, where=where, fix=FIXES[fault])


class PassingFault(ReplicaFault, TransientError):
    """A transient fault: the broker has not learned the cluster's current state yet."""


class LogMovedError(ReplicaFault):
    """Records read so far may no longer be part of this replica's log: read it again from its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica of a log partition in the cluster's Metadata; `leader_epoch` is the partition's, -1 when unknown.

    `reassignment` is `adding` or `removing` while the replica is being moved; None otherwise, and without the right to
    ask (DESCRIBE on the cluster).
    """

    broker: int
    log_partition: int
    is_leader: bool
    in_isr: bool
    leader_epoch: int
    reassignment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replicas of a topic, by log partition and broker. `topic_id` is None before Kafka 2.8.

    `starts` and `ends` are the leaders' log starts and high watermarks, where they answered.
    """

    cluster_id: str
    topic: str
    topic_id: str | None
    partition_count: int
    replicas: Sequence[Replica]
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def of_broker(self, broker: int) -> list[Replica]:
        return [one for one in self.replicas if one.broker == broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTransaction:
    """A transaction that is open in the log of one replica, since log_offset `start_offset`."""

    producer_id: int
    producer_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProbe:
    """A broker's answer about its replica; offsets are None where it gave none.

    `open_transactions` is None where they are not known (brokers before Kafka 2.8). `suspicion` describes a
    contradiction to another replica. `fault`, `error` and `fix` are set where the broker did not answer.
    """

    broker: int
    log_partition: int
    is_leader: bool
    in_isr: bool
    reassignment: str | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    open_transactions: tuple[ReplicaTransaction, ...] | None = None
    suspicion: str | None = None
    fault: Fault | None = None
    error: str | None = None
    fix: str | None = None


def describe_replicas(
    session: ClusterSession, topic: str = OFFSETS_TOPIC, log_partitions: Collection[int] | None = None
) -> Replicas:
    """The replicas of all log partitions, or of the given ones; UsageError for a log partition that does not exist."""
    answer, answering = _metadata(session, topic)
    (found,) = answer.topics
    session.check(found.error_code, "Metadata", topic=topic)
    partitions = {one.partition_index: one for one in sorted(found.partitions, key=lambda one: one.partition_index)}
    asked = sorted(partitions if log_partitions is None else set(log_partitions))
    if unknown := [number for number in asked if number not in partitions]:
        raise UsageError(f"{topic} has {len(partitions)} partitions, no {unknown[0]}", where="log partition")
    moves = _reassignments(session, topic, asked, answering)
    leaders = {n: PartitionLeader(node_id=partitions[n].leader_id, epoch=partitions[n].leader_epoch) for n in asked}
    topic_id = kafka_uuid(found.topic_id) if found.topic_id else None
    starts, ends = _leaders_offsets(session, Topic(name=topic, topic_id=topic_id, leaders=leaders))
    return Replicas(
        cluster_id=answer.cluster_id or "unknown",
        topic=topic,
        topic_id=topic_id,
        partition_count=len(partitions),
        replicas=[
            Replica(
                broker=broker,
                log_partition=number,
                is_leader=broker == partitions[number].leader_id,
                in_isr=broker in partitions[number].isr_nodes,
                leader_epoch=partitions[number].leader_epoch,
                reassignment=moves.get((number, broker)),
            )
            for number in asked
            for broker in sorted(partitions[number].replica_nodes)
        ],
        starts=starts,
        ends=ends,
    )


def probe_replicas(
    session: ClusterSession, log_partitions: Collection[int] | None = None, *, catch_up_s: float = CATCH_UP_S
) -> list[ReplicaProbe]:
    """Every replica as its own broker describes it now, in order of log partitions and brokers: two small requests per
    broker.

    Only differences that lag cannot explain are suspicious. A follower is compared with its leader's earlier answer,
    once the follower's high watermark has reached the high watermark in that answer; a leader is compared with its
    followers' earlier answers. If two logs are equal so far, their last stable offsets can differ only if one log lacks
    the marker that ended a transaction. Deleted offsets that are back on a replica do not show here: compare the bytes.

    Raises BrokerError when no broker of the cluster answers, UsageError without the topic or the right to read it.
    """
    for probes_left in reversed(range(_PROBES)):
        replicas = describe_replicas(session, OFFSETS_TOPIC, log_partitions)
        rows = _probe(session, replicas, catch_up_s)
        if not probes_left or all(row.fault != "other_epoch" for row in rows):
            break
        time.sleep(_PAUSE_S)  # an election: try again
    return rows


class ReplicaReader(BatchReader):
    """Reads the log of one replica from its broker, up to the high watermark that this broker has at the beginning.

    Every request carries the leader epoch of `replica`. An election since then raises LogMovedError, as does a log
    start above the reader's position. Other faults raise ReplicaFault; with `is_patient` the session retries transient
    ones first. A broker that does not answer raises TransientError.
    """

    def __init__(
        self,
        session: ClusterSession,
        replicas: Replicas,
        replica: Replica,
        *,
        is_patient: bool = True,
        response_bytes: int = RESPONSE_BYTES,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(f"{replicas.topic}-{replica.log_partition} on broker {replica.broker}", response_bytes, pace)
        self._session, self._replicas, self._replica = session, replicas, replica
        self._retrying: Callable[[Callable[[], Any]], Any] = session.retrying if is_patient else lambda ask: ask()

    def begin(self) -> ReplicaProbe:
        """Where the log of this replica begins and ends now."""
        replica = self._replica

        def ask() -> ReplicaProbe:
            (row,) = _offsets_of(self._session, self._replicas, [replica])
            if row.fault is not None:
                self._raise(row.fault, row.error or "")
            return row

        found: ReplicaProbe = self._retrying(ask)
        return found

    def read(self, begun: ReplicaProbe) -> Iterator[FetchedBatches]:
        """The batches from log start to high watermark of `begun`, in order, one answer of the broker at a time."""

        def ask(position: int) -> Any:
            return self._retrying(partial(self._fetch, position))

        return self._read_range(ask, begun.log_start_offset or 0, begun.high_watermark or 0)

    def _fetch(self, position: int) -> Any:
        replica = self._replica
        answers = _fetch(
            self._session, self._replicas, {replica: position}, max_bytes=self._response_bytes, max_wait_ms=MAX_WAIT_MS
        )
        if answers is None:
            return None
        answer = answers[replica.log_partition]
        if answer.error_code:
            name = error_name(answer.error_code)
            self._raise(_FAULT_OF.get(name, "failed"), name)
        if not answer.records and answer.preferred_read_replica not in (None, -1):
            redirected = (
                f"the leader sends consumers to broker {answer.preferred_read_replica} (replica.selector.class)"
            )
            raise ReplicaFault(redirected, fault="failed", where=self.where)
        return answer

    def _damaged(self, size_bytes: int, position: int) -> ReplicaFault:
        return ReplicaFault(f"{size_bytes} bytes at {position} hold no whole batch", fault="corrupt", where=self.where)

    def _raise(self, fault: Fault, name: str) -> None:
        if name == "FENCED_LEADER_EPOCH" or fault == "out_of_range":
            raise LogMovedError(name, fault=fault, where=self.where)
        kind = PassingFault if fault in _MAY_PASS else ReplicaFault
        raise kind(name, fault=fault, where=self.where)


def fault_of(error: BrokerError) -> Fault:
    """The fault of a replica for an error; other transient errors count as `unreachable`."""
    if isinstance(error, ReplicaFault):
        return error.fault
    return "unreachable" if isinstance(error, TransientError) else "failed"


def _probe(session: ClusterSession, replicas: Replicas, catch_up_s: float) -> list[ReplicaProbe]:
    leading = [one for one in replicas.replicas if one.is_leader]
    following = [one for one in replicas.replicas if not one.is_leader]
    before = _rows_of(session, replicas, leading)
    leaders = {row.log_partition: row for row in before.values() if row.fault is None}
    rows = _rows_of(session, replicas, following)
    deadline = time.monotonic() + catch_up_s
    while time.monotonic() < deadline:
        behind = [one for one in following if _is_behind(rows[one], leaders.get(one.log_partition))]
        if not behind:
            break
        time.sleep(_PAUSE_S)
        rows |= _rows_of(session, replicas, behind)
    answering = [one for one in leading if before[one].fault != "unreachable"]
    after = before | _rows_of(session, replicas, answering)
    judged = [_judged_follower(row, leaders.get(row.log_partition)) for row in rows.values()]
    for row in after.values():
        judged.append(_judged_leader(row, [one for one in rows.values() if one.log_partition == row.log_partition]))
    return sorted(judged, key=lambda row: (row.log_partition, row.broker))


def _is_behind(row: ReplicaProbe, leader: ReplicaProbe | None) -> bool:
    return leader is not None and row.fault is None and (row.high_watermark or 0) < (leader.high_watermark or 0)


def _judged_follower(row: ReplicaProbe, leader: ReplicaProbe | None) -> ReplicaProbe:
    if leader is None or row.fault is not None or _is_behind(row, leader):
        return row
    return _judged(row, leader.last_stable_offset or 0, f"leader {leader.broker}")


def _judged_leader(leader: ReplicaProbe, followers: Iterable[ReplicaProbe]) -> ReplicaProbe:
    """The leader's row with a suspicion if a follower has ended transactions beyond the leader's: a leader has all of
    its followers' records, so that follower saw a marker that the leader never got."""
    ahead = max(
        (row for row in followers if row.fault is None), key=lambda row: row.last_stable_offset or 0, default=None
    )
    if ahead is None or leader.fault is not None:
        return leader
    return _judged(leader, ahead.last_stable_offset or 0, f"follower {ahead.broker}")


def _judged(row: ReplicaProbe, stable: int, other: str) -> ReplicaProbe:
    """`row` with a suspicion if it has open transactions that began below `stable`, the last stable offset of the
    replica `other`, where they have ended."""
    still_open = [one for one in row.open_transactions or () if one.start_offset < stable]
    if not still_open and (row.last_stable_offset or 0) >= stable:
        return row
    producers = ", ".join(
        f"{one.producer_id} (epoch {one.producer_epoch}) since {one.start_offset}" for one in still_open
    )
    what = f"open here and ended on {other}, whose last stable offset is {stable}"
    return replace(
        row, suspicion=f"transactions of producers {producers}: {what}" if producers else f"transactions {what}"
    )


def _rows_of(session: ClusterSession, replicas: Replicas, some: Iterable[Replica]) -> dict[Replica, ReplicaProbe]:
    """Each broker's answers about the given replicas."""
    by_broker: dict[int, list[Replica]] = {}
    for replica in some:
        by_broker.setdefault(replica.broker, []).append(replica)
    rows: dict[Replica, ReplicaProbe] = {}
    for broker, asked in by_broker.items():
        try:
            found = _with_transactions(session, replicas, broker, _offsets_of(session, replicas, asked))
        except NotAllowed:
            raise
        except BrokerError as error:
            fault = fault_of(error)
            found = [replace(_row(one), fault=fault, error=error.message, fix=FIXES[fault]) for one in asked]
        rows |= zip(asked, found, strict=True)
    return rows


def _offsets_of(session: ClusterSession, replicas: Replicas, some: Sequence[Replica]) -> list[ReplicaProbe]:
    """One broker's offsets of its replicas, from a fetch at the leaders' log starts that returns one batch.

    Where the broker's log does not have its leader's log start, a second fetch is at the leader's high watermark.
    """
    found: dict[int, ReplicaProbe] = {}
    left = list(some)
    for places in (replicas.starts, replicas.ends):
        if not left:
            break
        positions = {one: places.get(one.log_partition, 0) for one in left}
        while (answers := _fetch(session, replicas, positions, max_bytes=1)) is None:
            pass  # over its quota; _fetch has waited
        found |= {one.log_partition: _answered(one, answers[one.log_partition]) for one in left}
        left = [one for one in left if found[one.log_partition].fault == "out_of_range"]
    return [found[one.log_partition] for one in some]


def _row(replica: Replica) -> ReplicaProbe:
    """The probe of a replica without an answer."""
    return ReplicaProbe(**{name: value for name, value in asdict(replica).items() if name != "leader_epoch"})


def _answered(replica: Replica, answer: Any) -> ReplicaProbe:
    if answer.error_code:
        name = error_name(answer.error_code)
        fault = _FAULT_OF.get(name, "failed")
        return replace(_row(replica), fault=fault, error=name, fix=FIXES[fault])
    return replace(
        _row(replica),
        log_start_offset=answer.log_start_offset,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
    )


def _with_transactions(
    session: ClusterSession, replicas: Replicas, broker: int, rows: Sequence[ReplicaProbe]
) -> list[ReplicaProbe]:
    """`rows` of one broker with the open transactions in its own logs (DescribeProducers)."""
    asked = [row.log_partition for row in rows if row.fault is None]
    if not asked:
        return list(rows)
    topics = [DescribeProducersRequest.TopicRequest(name=replicas.topic, partition_indexes=asked)]
    try:
        answer = session.call(DescribeProducersRequest(topics=topics), node_id=broker)
    except TransientError:
        raise
    except BrokerError:
        return list(rows)  # before Kafka 2.8
    found = {
        one.partition_index: tuple(
            ReplicaTransaction(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                start_offset=producer.current_txn_start_offset,
            )
            for producer in sorted(one.active_producers, key=lambda producer: producer.current_txn_start_offset)
            if producer.current_txn_start_offset != NOT_OPEN
        )
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code
    }
    return [replace(row, open_transactions=found.get(row.log_partition)) for row in rows]


def _fetch(
    session: ClusterSession,
    replicas: Replicas,
    positions: Mapping[Replica, int],
    *,
    max_bytes: int,
    max_wait_ms: int = 0,
) -> dict[int, Any] | None:
    """One broker's answer to Fetch, by log partition; None over a quota. All given replicas are that broker's."""
    (broker,) = {replica.broker for replica in positions}
    if broker not in session.broker_ids:
        raise ReplicaFault("the cluster has no such broker now", fault="unreachable", where=f"broker {broker}")
    where = f"{replicas.topic} on broker {broker}"
    found = fetch_partitions(
        session,
        broker,
        replicas.topic,
        {replica.log_partition: (position, replica.leader_epoch) for replica, position in positions.items()},
        topic_id=replicas.topic_id,
        max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        min_version=FIRST_FOLLOWER_VERSION,
        where=where,
    )
    for one in (found or {}).values():
        if error_name(one.error_code).endswith("AUTHORIZATION_FAILED"):
            session.check(one.error_code, "Fetch", where=where, topic=replicas.topic)
    return found


def _metadata(session: ClusterSession, topic: str) -> tuple[Any, int]:
    """Metadata of the topic from the first broker that answers: a stalled broker must not delay the others."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    *first, last = session.broker_ids
    for broker in first:
        with suppress(TransientError):
            return session.call(request, node_id=broker), broker
    return session.call(request, node_id=last), last


def _leaders_offsets(session: ClusterSession, topic: Topic) -> tuple[dict[int, int], dict[int, int]]:
    """Log start and high watermark of each log partition whose leader answers; errors of leaders are ignored here."""
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for node_id in sorted({leader.node_id for leader in topic.leaders.values()} - {NO_LEADER}):
        led = replace(topic, leaders={n: leader for n, leader in topic.leaders.items() if leader.node_id == node_id})
        with suppress(BrokerError):
            for timestamp, found in ((EARLIEST, starts), (LATEST, ends)):
                answers = list_offsets(session, [led], timestamp=timestamp)
                found |= {number: offset for (_, number), offset in answers.items()}
    return starts, ends


def _reassignments(
    session: ClusterSession, topic: str, partitions: Sequence[int], answering: int
) -> dict[tuple[int, int], str]:
    """(log partition, broker) -> `adding` or `removing`; empty where this principal may not ask, or brokers cannot."""
    wanted = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
        name=topic, partition_indexes=list(partitions)
    )
    try:
        answer = session.call(ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=[wanted]), node_id=answering)
    except BrokerError:
        return {}
    moves: dict[tuple[int, int], str] = {}
    for found in answer.topics or ():
        for one in found.partitions:
            moves |= {(one.partition_index, broker): "removing" for broker in one.removing_replicas}
            moves |= {(one.partition_index, broker): "adding" for broker in one.adding_replicas}
    return moves
