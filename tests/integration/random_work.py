"""Random work of real clients, and what a broker answers of its groups."""

import random
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.kafka.admin import GroupError, delete_offsets
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton_dev.workload import QUIET, TIMEOUT_S, TRANSACTION_TIMEOUT_MS, commit_offsets
from tests.clients import make_topics

TOPICS = {"t0": 3, "t1": 2, "t2": 1}
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
UNSTABLE_CODE = 88

Key = tuple[str, int]


@dataclass(slots=True)
class Answers:
    """What a coordinator answers of some groups, and what was compared."""

    offsets: dict[str, dict[Key, Any]] = field(default_factory=dict)
    stable: dict[str, dict[Key, Any]] = field(default_factory=dict)
    groups: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.offsets.values())) + sum(map(len, self.stable.values())) + len(self.groups)


class RandomWork:
    """The clients of one seed; its groups and transactional ids carry the seed."""

    def __init__(self, config: ClientConfig, session: ClusterSession, seed: int) -> None:
        self._settings: dict[str, Any] = {**config.for_confluent(), **QUIET}
        self._admin = AdminClient(self._settings)
        self._session = session
        self._rng = random.Random(seed)
        self._seed = seed
        self.groups = [f"s{seed}-g{number}" for number in range(5)]
        self._metadata: dict[str, Any] = {}

    def run(self) -> None:
        """Some dozens of steps; a transaction may be left open for ever."""
        with ExitStack() as stack:
            producers = [self._producer(number) for number in range(3)]
            is_open = [False] * len(producers)
            for _ in range(self._rng.randint(25, 50)):
                self._step(producers, is_open)
            if self._rng.random() < 0.4:
                self._join(stack)
            for number, producer in enumerate(producers):
                if is_open[number] and self._rng.random() < 0.7:
                    self._end(producer)

    def _step(self, producers: list[Producer], is_open: list[bool]) -> None:
        group_id, number = self._rng.choice(self.groups), self._rng.randrange(len(producers))
        draw = self._rng.random()
        if draw < 0.3:
            commit_offsets(self._admin, group_id, self._offsets())
        elif draw < 0.6:
            if not is_open[number]:
                producers[number].begin_transaction()
                is_open[number] = True
            producers[number].send_offsets_to_transaction(self._offsets(), self._metadata_of(group_id), TIMEOUT_S)
        elif draw < 0.75:
            if is_open[number]:
                self._end(producers[number])
                is_open[number] = False
        elif draw < 0.93:
            topic = self._rng.choice(list(TOPICS))
            with suppress(GroupError):  # not there, or not any more
                delete_offsets(self._session, group_id, {topic: range(TOPICS[topic])})
        else:
            with suppress(KafkaException):  # not there, or not any more
                self._admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)

    def _end(self, producer: Producer) -> None:
        (producer.commit_transaction if self._rng.random() < 0.6 else producer.abort_transaction)(TIMEOUT_S)

    def _join(self, stack: ExitStack) -> None:
        """A member that joins, commits and leaves."""
        protocol = self._rng.choice(["classic", "consumer"])
        group_id = f"s{self._seed}-{protocol}"
        more = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.protocol": protocol}
        consumer = Consumer({**self._settings, "group.id": group_id, **more})
        stack.callback(consumer.close)
        consumer.subscribe(["t0"])
        if any(consumer.poll(0.5) for _ in range(20)):
            consumer.commit(asynchronous=False)
        self.groups.append(group_id)

    def _producer(self, number: int) -> Producer:
        own = {"transactional.id": f"s{self._seed}-p{number}", "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        producer = Producer({**self._settings, **own})
        producer.init_transactions(TIMEOUT_S)
        return producer

    def _metadata_of(self, group_id: str) -> Any:
        if group_id not in self._metadata:
            consumer = Consumer({**self._settings, "group.id": group_id, "enable.auto.commit": False})
            self._metadata[group_id] = consumer.consumer_group_metadata()
            consumer.close()
        return self._metadata[group_id]

    def _offsets(self) -> list[TopicPartition]:
        topic = self._rng.choice(list(TOPICS))
        some = self._rng.sample(range(TOPICS[topic]), self._rng.randint(1, TOPICS[topic]))
        note = self._rng.choice(["", "m", "é中😀"])
        return [TopicPartition(topic, part, self._rng.randrange(9_999), note, 0) for part in sorted(some)]


def make_topics_once(config: ClientConfig) -> None:
    """The topics that offsets are committed for, with something to read; they may be there already."""
    try:
        make_topics(config, TOPICS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    producer = Producer({**config.for_confluent(), **QUIET})
    producer.produce("t0", value="x", partition=0)
    producer.flush(TIMEOUT_S)


def told_by_broker(session: ClusterSession, groups: Iterable[str]) -> Answers:
    """What the broker answers."""
    found, groups = Answers(), list(groups)
    for group_id in groups:
        plain = committed_offsets(session, group_id)
        stable = committed_offsets(session, group_id, require_stable=True)
        found.offsets[group_id] = {key: _told(offset) for key, offset in plain.items()}
        found.stable[group_id] = {key: _told(offset) for key, offset in stable.items()}
    # Listed last: the broker leaves out what it is still loading, and a fetch has waited for that.
    kinds = {
        group.group_id: (group.group_type, group.state, group.protocol_type) for group in list_groups(session).groups
    }
    found.groups = {group_id: kinds[group_id] for group_id in groups if group_id in kinds}
    return found


def _told(offset: Any) -> Any:
    if offset.error_code == UNSTABLE_CODE:
        return UNSTABLE
    assert offset.error_code == 0, offset
    return offset.as_committed
