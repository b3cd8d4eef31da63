"""Real clients that run on the broker of `make up`, so that there is something to see.

Services consume with two classic groups, one with a static member, and with a KIP-848 group. Jobs commit every other
round. Each build commits once, so that its offsets expire. Two jobs sometimes commit offsets of another topic, which
expire while the jobs continue. An administrator deletes each preview group. An offset of a job is deleted and committed
again. Transactions are committed, aborted, and left open for some rounds. `BROKER_SETTINGS` keep offsets for one
minute, so that the broker's sweeps are visible within minutes.

Topics and groups may exist already: the broker keeps its data between starts. The clients end at SIGTERM.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from sexton.errors import BrokerError
from sexton.kafka.client import ClientConfig
from sexton_dev.workload import Clients, commit_offsets, group_metadata, wait

BROKER_SETTINGS = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "30000"}
TOPICS = {"orders": 3, "payments": 4, "clicks": 6}
SERVICES = {
    "orders-service": ("orders", {"group.protocol": "classic"}),
    "billing-service": ("payments", {"group.protocol": "classic", "group.instance.id": "billing-1"}),
    "clicks-dashboard": ("clicks", {"group.protocol": "consumer"}),
}
JOBS = {"nightly-export": "orders", "search-index": "clicks", "fraud-scores": "payments", "mail-merge": "orders"}
IMPORTS = {"fraud-scores": "orders", "mail-merge": "payments"}
"""Job -> its other topic. The groups of both jobs are in one log partition, so that one sweep deletes offsets of both.
No request of an administrator can do that, so the cause is certain."""
PAYOUTS, SETTLEMENT = "payouts", "settlement"
"""Groups with transactional commits: many short ones, and one that stays open for OPEN_ROUNDS."""
ROUND_S = 10.0
OPEN_ROUNDS = IMPORT_ROUNDS = 9
PREVIEW_ROUNDS = 4
TIMEOUT_S = 30

Wait = Callable[[float], None]


def run(config: ClientConfig, *, rounds: int | None = None, pause: Wait = time.sleep) -> None:
    """Run `rounds` rounds (None: until the process ends); BrokerError if the cluster refuses."""
    try:
        with ExitStack() as stack:  # members leave at the end of the block
            clients = _Examples(config, stack)
            number = 0
            while rounds is None or number < rounds:
                clients.work(number)
                number += 1
                pause(ROUND_S)
    except KafkaException as error:
        raise BrokerError(f"the clients stopped: {error.args[0].str()}", where=config.bootstrap_servers) from None


class _Examples(Clients):
    def __init__(self, config: ClientConfig, stack: ExitStack) -> None:
        super().__init__(config, stack)
        self._make_topics()
        self._messages = Producer(self.settings)
        self._members = [
            self.member(group_id, [topic], **{"client.id": group_id, **protocol})
            for group_id, (topic, protocol) in SERVICES.items()
        ]
        self._short, self._long = (self.transactional(f"living-{name}") for name in ("short", "long"))
        self._previews: list[tuple[int, str]] = []

    def work(self, number: int) -> None:
        """Run one round of all services and jobs."""
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                self._messages.produce(topic, value=f"round {number}", partition=partition)
        self._messages.flush(TIMEOUT_S)
        for member in self._members:
            _read_and_commit(member)
        if number % 2 == 0:
            for group_id, topic in JOBS.items():
                self._commit(group_id, topic)
            self._pay(commits=number % 6 < 4)
        else:
            self._commit(f"build-{_now()}", "orders")
        if number % IMPORT_ROUNDS == 0:
            for group_id, topic in IMPORTS.items():
                self._commit(group_id, topic)
        self._preview(number)
        if number % 6 == 5:
            self.delete_offsets("search-index", JOBS["search-index"], [0])  # may be expired, after a suspend
        self._settle(number % (OPEN_ROUNDS + 1))

    def _preview(self, number: int) -> None:
        if number % PREVIEW_ROUNDS == 0:
            group_id = f"preview-{_now()}"
            self._commit(group_id, "clicks")
            self._previews.append((number + PREVIEW_ROUNDS - 1, group_id))
        for _, group_id in [each for each in self._previews if each[0] <= number]:
            wait(self.admin.delete_consumer_groups([group_id], request_timeout=TIMEOUT_S))
        self._previews = [each for each in self._previews if each[0] > number]

    def _pay(self, *, commits: bool) -> None:
        self._short.begin_transaction()
        self._send(self._short, PAYOUTS)
        (self._short.commit_transaction if commits else self._short.abort_transaction)(TIMEOUT_S)

    def _settle(self, turn: int) -> None:
        """Keep one transaction open from the first turn to the last."""
        if turn == 0:
            self._long.begin_transaction()
            self._send(self._long, SETTLEMENT)
        elif turn == OPEN_ROUNDS:
            self._long.commit_transaction(TIMEOUT_S)

    def _send(self, producer: Producer, group_id: str) -> None:
        whose = group_metadata(self.settings, group_id)
        producer.send_offsets_to_transaction(self._offsets("payments"), whose, TIMEOUT_S)

    def _commit(self, group_id: str, topic: str) -> None:
        commit_offsets(self.admin, group_id, self._offsets(topic))

    def _offsets(self, topic: str) -> list[TopicPartition]:
        """Offsets near the end of each partition, with a lag that grows with the partition's number."""
        ends = [
            self._members[0].get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[1]
            for partition in range(TOPICS[topic])
        ]
        return [TopicPartition(topic, partition, max(0, end - partition)) for partition, end in enumerate(ends)]

    def _make_topics(self) -> None:
        for future in self.admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
            try:
                future.result(TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise


def _read_and_commit(member: Consumer) -> None:
    """Consume and commit what a member has received, if it has joined."""
    messages = [each for each in member.consume(100, timeout=0.5) if each.error() is None]
    if messages:
        member.commit(asynchronous=False)


def _now() -> str:
    return f"{datetime.now(UTC):%H%M%S}"
