"""Transactions of every kind on a broker, and what its coordinators answer about them.

The requests are raw, so that a client's order can be broken: offsets of a transaction that never were announced by
AddOffsetsToTxn, or come after its end, as lost and late requests of clients before KIP-890 do. The broker must not
verify partitions (UNVERIFIED).
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import TransientError, error_name
from sexton.kafka.session import ClusterSession
from sexton.transactions.states import TransactionalId, TransactionState
from sexton_dev.broker import run_tool

UNVERIFIED = {
    "transaction.partition.verification.enable": "false",
    "transactional.id.expiration.ms": "3600000",
    "transaction.max.timeout.ms": "7200000",
}
TOPIC, PARTITIONS = "t", 4
TIMEOUT_MS = 7_200_000
TRANSACTION = 1
"""Of FindCoordinator."""
PASSING = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"}
Offsets = Mapping[int, int]
"""Of TOPIC, by partition."""


@dataclass(frozen=True)
class RawProducer:
    """A transactional producer without a client, which may break the protocol; `version` 2 is that of KIP-890."""

    session: ClusterSession
    transactional_id: str
    producer_id: int
    epoch: int
    version: int = 1

    @classmethod
    def begin(
        cls, session: ClusterSession, transactional_id: str, *, version: int = 1, timeout_ms: int = TIMEOUT_MS
    ) -> "RawProducer":
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, max_version=4
        )
        answer = settled(session, request)
        return cls(session, transactional_id, answer.producer_id, answer.producer_epoch, version)

    @property
    def _own(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_partition(self, partition: int) -> None:
        """AddPartitionsToTxn: the transaction writes to a partition of TOPIC (which nobody looks at)."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])
        own = {f"v3_and_below_{name}": value for name, value in self._own.items()}
        settled(self.session, AddPartitionsToTxnRequest(**own, v3_and_below_topics=[topic], max_version=3))

    def announce(self, group: str) -> None:
        """AddOffsetsToTxn."""
        settled(self.session, AddOffsetsToTxnRequest(**self._own, group_id=group, max_version=3))

    def commit_offsets(self, group: str, offsets: Offsets, *, is_announced: bool = True) -> None:
        """TxnOffsetCommit; `is_announced` sends AddOffsetsToTxn before, where the broker does not do that itself."""
        if is_announced and self.version == 1:
            self.announce(group)
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partitions = [
            Topic.TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=offset, committed_metadata="")
            for n, offset in offsets.items()
        ]
        last = 5 if is_announced and self.version == 2 else 3
        topics = [Topic(name=TOPIC, partitions=partitions)]
        settled(self.session, TxnOffsetCommitRequest(**self._own, group_id=group, topics=topics, max_version=last))

    def end(self, *, committed: bool) -> None:
        settled(
            self.session, EndTxnRequest(**self._own, committed=committed, max_version=5 if self.version == 2 else 3)
        )


def settled(session: ClusterSession, request: Any, *, coordinator: tuple[int, str] | None = None) -> Any:
    """The answer, once errors that pass have passed; AssertionError for another error.

    `coordinator` is the kind of the broker that is asked (GROUP_COORDINATOR, TRANSACTION) and the key that it
    coordinates; without it the first one is.
    """

    def ask() -> Any:
        node_id = session.broker_ids[0]
        if coordinator is not None:
            kind, key = coordinator
            (found,) = session.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators
            if found.error_code:
                raise TransientError(error_name(found.error_code))
            node_id = found.node_id
        answer = session.call(request, node_id=node_id)
        codes = {getattr(answer, "error_code", 0) or 0} | {
            partition.error_code if hasattr(partition, "error_code") else partition.partition_error_code
            for topic in (
                getattr(answer, "topics", None) or getattr(answer, "results_by_topic_v3_and_below", None) or ()
            )
            for partition in (getattr(topic, "partitions", None) or getattr(topic, "results_by_partition", None) or ())
        }
        names = {error_name(code) for code in codes - {0}}
        if names & PASSING:
            raise TransientError(f"{names}")
        assert not names, (type(request).__name__, names)
        return answer

    return session.retrying(ask)


@dataclass
class Planted:
    """What was done on the broker: producer id -> the verdict it must get, and the groups it holds."""

    verdicts: dict[int, str] = field(default_factory=dict)
    groups: dict[int, set[str]] = field(default_factory=dict)
    producers: list[RawProducer] = field(default_factory=list)

    def add(self, verdict: str, producer: RawProducer, group: str) -> None:
        self.verdicts[producer.producer_id] = verdict
        self.groups.setdefault(producer.producer_id, set()).add(group)
        self.producers.append(producer)


def make_topic(config: ClientConfig) -> None:
    """TOPIC, and the coordinators."""
    admin = AdminClient({**config.for_confluent(), "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result()
    with ClusterSession(config) as session:
        for kind, key in ((0, "any"), (TRANSACTION, "any")):
            request = FindCoordinatorRequest(key=key, key_type=kind, max_version=3)

            def ask(request: Any = request) -> None:
                code = session.call(request).error_code
                if code:
                    raise TransientError(error_name(code))

            session.retrying(ask)


def plant(session: ClusterSession, planted: Planted, *, name: str = "", version: int = 1) -> None:
    """One transaction of each kind: running, ended, and hanging for each reason that a client can make."""
    begin = RawProducer.begin
    running = begin(session, f"{name}running", version=version)
    running.commit_offsets(f"{name}held-by-running", {0: 1, 1: 2})
    planted.add("running", running, f"{name}held-by-running")
    for committed in (True, False):
        done = begin(session, f"{name}done-{committed}", version=version)
        done.commit_offsets(f"{name}free", {0: 3})
        done.end(committed=committed)
    begin(session, f"{name}empty")
    nobody = RawProducer(session, f"{name}nobody", 900_000 + len(planted.producers), 0)  # of an id that expired
    nobody.commit_offsets(f"{name}held-by-nobody", {0: 4}, is_announced=False)
    planted.add("hanging", nobody, f"{name}held-by-nobody")
    late = begin(session, f"{name}late")  # its offsets come after its end
    late.add_partition(0)
    late.end(committed=True)
    late.commit_offsets(f"{name}held-by-late", {2: 5}, is_announced=False)
    planted.add("hanging", late, f"{name}held-by-late")
    forgetful = begin(session, f"{name}forgetful")  # its AddOffsetsToTxn got lost
    forgetful.add_partition(1)
    forgetful.commit_offsets(f"{name}held-by-forgetful", {3: 6}, is_announced=False)
    planted.add("hanging", forgetful, f"{name}held-by-forgetful")


@dataclass(frozen=True)
class Described:
    """A transactional id as its coordinator describes it."""

    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    started_at_ms: int
    partitions: frozenset[tuple[str, int]]


def described(session: ClusterSession) -> dict[str, Described]:
    """Every id of the broker by ListTransactions and DescribeTransactions, which must agree."""
    node = session.broker_ids[0]
    listed = session.call(ListTransactionsRequest(max_version=0), node_id=node)
    assert not listed.error_code, error_name(listed.error_code)
    states = {one.transactional_id: (one.producer_id, one.transaction_state) for one in listed.transaction_states}
    answer = session.call(DescribeTransactionsRequest(transactional_ids=[*states]), node_id=node)
    found = {}
    for one in answer.transaction_states:
        assert not one.error_code, (one.transactional_id, error_name(one.error_code))
        found[one.transactional_id] = Described(
            producer_id=one.producer_id,
            epoch=one.producer_epoch,
            state=one.transaction_state,
            timeout_ms=one.transaction_timeout_ms,
            started_at_ms=one.transaction_start_time_ms,
            partitions=frozenset((topic.topic, n) for topic in one.topics for n in topic.partitions),
        )
    return found


def replayed(ids: Iterable[TransactionalId]) -> dict[str, Described]:
    """The same of our replay."""
    return {
        one.transactional_id: Described(
            producer_id=one.producer_id,
            epoch=one.producer_epoch,
            state=str(one.state),
            timeout_ms=one.timeout_ms,
            started_at_ms=-1 if one.started_at_ms is None else one.started_at_ms,
            partitions=frozenset((topic, n) for topic, some in one.partitions.items() for n in some),
        )
        for one in ids
        if one.state != TransactionState.DEAD
    }


def run_printed(command: str, *, java: JavaHome, jars: Sequence[Path]) -> str:
    """Run a printed `kafka-transactions.sh ...` by the class that this script starts."""
    script, *arguments = shlex.split(command)
    assert script == "kafka-transactions.sh"
    return run_tool(java, jars, "org.apache.kafka.tools.TransactionsCommand", *arguments)
