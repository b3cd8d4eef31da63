"""Real clients that fill `__consumer_offsets` with records of every kind, for the demo and for tests.

Groups: classic members (one static), KIP-848 members (one subscribed by regex), a share group (KIP-932), and simple
groups that only commit, some with names in other scripts or with malicious names. Commits with metadata and leader
epochs; transactions committed, aborted, overlapping and left open; offsets and groups deleted; a topic deleted, another
created again. Random choices come from `seed`; ids and timestamps are the broker's.

Not here: a streams group (KIP-1071). No Python client can create one: librdkafka has no Streams, and kafka-python has
no schema for StreamsGroupHeartbeat.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sexton.errors import BrokerError
from sexton.kafka.admin import GroupError, delete_offsets
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession

TOPICS = {"orders": 3, "payments": 4, "clicks": 6, "inventory": 2, "doomed": 4, "reborn": 4}
REBORN_PARTITIONS = 2
LASTING_TOPICS = ("orders", "payments", "clicks", "inventory")
MESSAGES_A_PARTITION = 20
SIMPLE_GROUPS = (
    "nightly-export",
    "ledger",
    "audit-trail",
    "fraud-scores",
    "search-index",
    "mail-merge",
    "склад-учёт",
    "在庫-集計",
    "rockets-🚀",
    '<b onmouseover="alert(1)">bold</b>',
    'o\'reilly "quoted", and; commas',
    "=cmd()|' /C calc'!A0",
    "{{ config }} ${HOME}",
    "tab\tand\nnewline",
)
# The Python client hands a group to a transaction as text that must be printable ASCII.
TRANSACTIONAL_GROUPS = tuple(name for name in SIMPLE_GROUPS if name.isascii() and name.isprintable())
PINNED_GROUP = "pinned-by-transaction"
LEFT_BEHIND = {"orphaned-by-deletion": "doomed", "stale-topic-id": "reborn"}
"""Group -> the topic that it commits to, which is deleted later."""
METADATA = ("", "", "", "node-7", "реплика-é中😀", '{"offset": 1, "note": "</script>"}')
TIMEOUT_S = 30
ANSWER_S = 3
TRANSACTION_TIMEOUT_MS = 900_000
QUIET = {"log_level": 0}
PASSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was created; `groups` are ids by kind: simple, classic, classic_open, consumer, consumer_open, share, ...

    `left_out` names what this environment cannot create, with the reason.
    """

    groups: dict[str, tuple[str, ...]]
    counts: dict[str, int]
    left_out: tuple[str, ...]


@contextmanager
def drive(config: ClientConfig, *, seed: int = 1, rounds: int = 80, say: Say = lambda _: None) -> Iterator[Workload]:
    """Run the whole workload, and keep the open members and the open transaction during the block.

    `rounds` is the number of random commits, transactions and deletions. BrokerError if the cluster refuses.
    """
    with ExitStack() as stack:
        try:
            clients = _Workload(config, random.Random(seed), stack)
            clients.make_topics()
            say(f"{len(TOPICS)} topics with {sum(TOPICS.values())} partitions")
            members = clients.run_members()
            say(f"members: {', '.join(group for groups in members.values() for group in groups)}")
            clients.commit_and_delete(rounds)
            say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in sorted(clients.counts.items())))
            clients.leave_transaction_open()
            clients.remove_topics()
            say(f"one transaction open over {PINNED_GROUP}; topic doomed deleted, topic reborn created again")
        except KafkaException as error:
            raise BrokerError(f"the workload stopped: {error.args[0].str()}", where=config.bootstrap_servers) from None
        groups = {
            "simple": SIMPLE_GROUPS,
            "orphaned": ("orphaned-by-deletion",),
            "stale": ("stale-topic-id",),
            "pinned": (PINNED_GROUP,),
            **members,
        }
        yield Workload(groups=groups, counts=dict(clients.counts), left_out=tuple(clients.left_out))


class Clients:
    """Clients of one cluster; what must be closed is on `stack`."""

    def __init__(self, config: ClientConfig, stack: ExitStack) -> None:
        self.settings: dict[str, Any] = {**config.for_confluent(), **QUIET}
        self.admin = AdminClient(self.settings)
        self.session = stack.enter_context(ClusterSession(config))
        self.stack = stack

    def member(self, group_id: str, topics: Sequence[str], **more: str | int) -> Consumer:
        """A subscribed member without automatic commits."""
        own = {"group.id": group_id, "enable.auto.commit": False, "auto.offset.reset": "earliest", **more}
        consumer = Consumer({**self.settings, **own})
        self.stack.callback(consumer.close)
        consumer.subscribe(list(topics))
        return consumer

    def transactional(self, transactional_id: str) -> Producer:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        producer = Producer({**self.settings, **own})
        producer.init_transactions(TIMEOUT_S)
        return producer

    def delete_offsets(self, group_id: str, topic: str, partitions: Sequence[int]) -> int:
        """Delete offsets of a group, if it exists; returns how many were accepted."""
        try:
            deleted = delete_offsets(self.session, group_id, {topic: partitions})
        except GroupError as error:
            if error.error_name != "GROUP_ID_NOT_FOUND":
                raise
            return 0
        return sum(error is None for error in deleted.values())


class _Workload(Clients):
    """The clients of one run of the workload."""

    def __init__(self, config: ClientConfig, rng: random.Random, stack: ExitStack) -> None:
        super().__init__(config, stack)
        self._rng = rng
        self._group_metadata: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()
        self.left_out: list[str] = []

    def make_topics(self) -> None:
        """Create topics with messages in every partition, and commit to the two topics that are deleted later."""
        self._create(TOPICS)
        producer = Producer({**self.settings, "linger.ms": 5})
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                for number in range(MESSAGES_A_PARTITION):
                    producer.produce(topic, value=f"message {number}", partition=partition)
        producer.flush(TIMEOUT_S)
        # The first request for a coordinator waits for the offsets topic, and librdkafka may miss its creation.
        committed_offsets(self.session, PINNED_GROUP)
        for group, topic in LEFT_BEHIND.items():
            self._alter(group, [TopicPartition(topic, partition, 5) for partition in range(TOPICS[topic])])
        self._alter(PINNED_GROUP, [TopicPartition("clicks", partition, 11) for partition in range(6)])

    def run_members(self) -> dict[str, tuple[str, ...]]:
        """Run members of every kind at the same time (joining takes seconds); some leave, some stay until the end."""
        consumers = {
            "orders-service": self._member("orders-service", "classic", ["orders"]),
            "billing-service": self._member(
                "billing-service", "classic", ["payments", "orders"], **{"group.instance.id": "billing-1"}
            ),
            "clicks-next": self._member("clicks-next", "consumer", ["clicks"]),
            "inventory-next": self._member("inventory-next", "consumer", ["^inv.*"]),
        }
        share = self._share_member("orders-shared", "orders")
        waiting = set(consumers)
        deadline = time.monotonic() + TIMEOUT_S
        while waiting and time.monotonic() < deadline:
            for group_id in sorted(waiting):
                messages = consumers[group_id].consume(MESSAGES_A_PARTITION * 6, timeout=0.1)
                if any(message.error() is None for message in messages):
                    consumers[group_id].commit(asynchronous=False)
                    waiting.discard(group_id)
            if share:
                share.poll(0.05)
        if waiting:
            raise BrokerError(f"members got no messages within {TIMEOUT_S} s: {', '.join(sorted(waiting))}")
        for group_id in ("orders-service", "clicks-next"):
            consumers[group_id].close()
        if share:
            share.close()
        return {
            "classic": ("orders-service",),
            "classic_open": ("billing-service",),
            "consumer": ("clicks-next",),
            "consumer_open": ("inventory-next",),
            "share": ("orders-shared",) if share else (),
        }

    def commit_and_delete(self, rounds: int) -> None:
        """Random commits, transactions (two producers, often overlapping) and deletions over the simple groups."""
        producers = [self.transactional(f"workload-{number}") for number in range(2)]
        open_ones: list[Producer] = []
        for group_id in SIMPLE_GROUPS:
            self._alter(group_id, self._offsets())
        for _ in range(rounds):
            draw = self._rng.random()
            group_id = self._rng.choice(SIMPLE_GROUPS)
            if draw < 0.45:
                self._alter(group_id, self._offsets())
            elif draw < 0.65:
                producer = self._rng.choice(producers)
                if producer not in open_ones:
                    producer.begin_transaction()
                    open_ones.append(producer)
                self._send(producer, self._rng.choice(TRANSACTIONAL_GROUPS))
            elif draw < 0.8 and open_ones:
                self._end(open_ones.pop(self._rng.randrange(len(open_ones))))
            elif draw < 0.93:
                self._delete_offsets(group_id)
            else:
                self._delete_group(group_id)
        for producer in open_ones:
            self._end(producer)

    def leave_transaction_open(self) -> None:
        """Leave offsets pending for partitions that have committed ones. Closing the stack aborts the transaction."""
        producer = self.transactional("workload-open")
        producer.begin_transaction()
        pending = [TopicPartition("clicks", partition, 100 + partition) for partition in range(4)]
        producer.send_offsets_to_transaction(pending, self._metadata_of(PINNED_GROUP), TIMEOUT_S)
        self._send(producer, TRANSACTIONAL_GROUPS[1])
        self.stack.callback(_abort, producer)
        self.counts["open_transactions"] += 1

    def remove_topics(self) -> None:
        for topic in LEFT_BEHIND.values():
            wait(self.admin.delete_topics([topic], operation_timeout=TIMEOUT_S))
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._create({"reborn": REBORN_PARTITIONS})
                break
            except KafkaException as error:
                # The deletion continues for a moment after it was confirmed.
                is_still_there = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not is_still_there or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        # The coordinator learns of the deletion even later, and then writes the tombstones of the offsets.
        while any(committed_offsets(self.session, group) for group in LEFT_BEHIND) and time.monotonic() < deadline:
            time.sleep(0.1)

    def _member(self, group_id: str, protocol: str, topics: Sequence[str], **more: str) -> Consumer:
        unpolled = {"max.poll.interval.ms": 86_400_000}  # stays a member without being polled
        own = {"group.protocol": protocol, "client.id": f"{group_id}-client", **unpolled, **more}
        return self.member(group_id, topics, **own)

    def _share_member(self, group_id: str, topic: str) -> Any:
        try:
            share = confluent_kafka.ShareConsumer({**self.settings, "group.id": group_id})
            share.subscribe([topic])
        except (AttributeError, KafkaException) as error:
            self.left_out.append(f"share group: {error}")
            return None
        return share

    def _send(self, producer: Producer, group_id: str) -> None:
        producer.send_offsets_to_transaction(self._offsets(), self._metadata_of(group_id), TIMEOUT_S)
        self.counts["transactional_commits"] += 1

    def _end(self, producer: Producer) -> None:
        if self._rng.random() < 0.6:
            producer.commit_transaction(TIMEOUT_S)
            self.counts["committed_transactions"] += 1
        else:
            producer.abort_transaction(TIMEOUT_S)
            self.counts["aborted_transactions"] += 1

    def _metadata_of(self, group_id: str) -> Any:
        if group_id not in self._group_metadata:
            self._group_metadata[group_id] = group_metadata(self.settings, group_id)
        return self._group_metadata[group_id]

    def _offsets(self) -> list[TopicPartition]:
        """Offsets of some partitions of one topic, some with metadata or a leader epoch."""
        topic = self._rng.choice(LASTING_TOPICS)
        partitions = self._rng.sample(range(TOPICS[topic]), self._rng.randint(1, TOPICS[topic]))
        return [
            TopicPartition(
                topic,
                partition,
                self._rng.randrange(100_000),
                self._rng.choice(METADATA),
                self._rng.choice([-1, 0, 3]),
            )
            for partition in sorted(partitions)
        ]

    def _alter(self, group_id: str, offsets: list[TopicPartition]) -> None:
        commit_offsets(self.admin, group_id, offsets)
        self.counts["commits"] += 1

    def _delete_offsets(self, group_id: str) -> None:
        topic = self._rng.choice(LASTING_TOPICS)
        some = self._rng.sample(range(TOPICS[topic]), self._rng.randint(1, TOPICS[topic]))
        # The group does not exist if it was deleted before and nothing was committed since.
        self.counts["deleted_offsets"] += self.delete_offsets(group_id, topic, some)

    def _delete_group(self, group_id: str) -> None:
        try:
            wait(self.admin.delete_consumer_groups([group_id], request_timeout=TIMEOUT_S))
            self.counts["deleted_groups"] += 1
        except KafkaException as error:
            # The group was deleted before, and nothing was committed since.
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise

    def _create(self, topics: dict[str, int]) -> None:
        wait(self.admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]))


def group_metadata(client: Mapping[str, Any], group_id: str) -> Any:
    """The group metadata that a transaction needs; librdkafka takes it only from a consumer."""
    consumer = Consumer({**client, "group.id": group_id, "enable.auto.commit": False})
    found = consumer.consumer_group_metadata()
    consumer.close()
    return found


def commit_offsets(admin: AdminClient, group_id: str, offsets: list[TopicPartition]) -> None:
    """Commit as an administrator; KafkaException when a partition is refused.

    A broker refuses commits for a moment after its start, and after the creation of a topic.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while error := _refusal(admin, group_id, offsets):
        if error.code() not in PASSING or time.monotonic() > deadline:
            raise KafkaException(error)
        time.sleep(0.05)


def _refusal(admin: AdminClient, group_id: str, offsets: list[TopicPartition]) -> KafkaError | None:
    """Why a commit failed; None if it succeeded.

    While a broker creates its offsets topic, librdkafka sometimes gets no answer until its timeout, which is therefore
    short here; the commit is repeated.
    """
    asked = [ConsumerGroupTopicPartitions(group_id, offsets)]
    try:
        (answer,) = wait(admin.alter_consumer_group_offsets(asked, request_timeout=ANSWER_S))
    except KafkaException as error:
        refused: KafkaError = error.args[0]
        return refused
    return next((partition.error for partition in answer.topic_partitions if partition.error), None)


def _abort(producer: Producer) -> None:
    """Abort an open transaction, unless the broker has done so after the timeout, which fences the producer."""
    try:
        producer.abort_transaction(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._FENCED:
            raise


def wait(futures: dict[Any, "Future[Any]"]) -> list[Any]:
    """The results of an admin call; KafkaException if it is refused."""
    return [future.result(TIMEOUT_S) for future in futures.values()]
