"""Random work of real clients, a restart of the broker, and Sexton's fold of the same bytes against its answers.

    python -m tests.integration.differential --seeds 200

runs as many workloads on one broker, each followed by a restart, and says how many answers were compared.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import fs

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.admin import GroupError, delete_offsets
from sexton.kafka.broker import EmbeddedBroker, free_port
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.kernels.fold import fold_task, merge_all
from sexton.kernels.results import finish
from sexton.local.workload import QUIET, TIMEOUT_S, TRANSACTION_TIMEOUT_MS, commit_offsets
from sexton.log.segment import list_segments, plan_fold_tasks
from sexton.settings import settings, variable
from tests.clients import make_topics

TOPICS = {"t0": 3, "t1": 2, "t2": 1}
CHUNK_BYTES = 20_000
"""Small, so that every log partition is folded in pieces."""
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


def settled_answers(broker: EmbeddedBroker, session: ClusterSession, groups: Iterable[str]) -> Answers:
    """The broker's answers of a moment when its log stood still.

    A transaction is confirmed to its client before its markers are written: these may come after the restart.
    """
    for _ in range(100):
        before = _log_sizes(broker)
        found = told_by_broker(session, groups)
        time.sleep(0.1)
        if _log_sizes(broker) == before:
            return found
    raise AssertionError("the log does not come to rest")


def _log_sizes(broker: EmbeddedBroker) -> dict[Path, int]:
    return {path: path.stat().st_size for path in broker.data.glob("__consumer_offsets-*/*.log")}


def _told(offset: Any) -> Any:
    if offset.error_code == UNSTABLE_CODE:
        return UNSTABLE
    assert offset.error_code == 0, offset
    return offset.as_committed


def told_by_log(data: Path, groups: Iterable[str]) -> Answers:
    """What the log says that the broker should answer."""
    found = Answers()
    wanted = set(groups)
    held = {group_id: set[Key]() for group_id in wanted}
    for group_id in wanted:
        found.offsets[group_id] = {}
    for part, segments in list_segments(fs.LocalFileSystem(), str(data)).items():
        folds = (
            fold_task(
                (np.fromfile(span.path, dtype=np.uint8) for span in task.slices),
                task=task,
                cap_bytes=1 << 26,
                as_of_ms=None,
                taken_at_ms=None,
            )
            for task in plan_fold_tasks(segments, target_bytes=CHUNK_BYTES)
        )
        tables = finish(merge_all(folds), log_partition=part, partition_count=None)
        assert not tables["load_profile"]["load_would_fail"][0].as_py(), tables["load_profile"].to_pylist()
        for row in tables["committed_offsets"].to_pylist():
            if row["group_id"] in wanted:
                told = (row["committed_offset"], row["leader_epoch"], row["metadata"])
                found.offsets[row["group_id"]][row["topic"], row["partition"]] = told
        for row in tables["pending_offsets"].to_pylist():
            if row["group_id"] in wanted:
                held[row["group_id"]].add((row["topic"], row["partition"]))
        for row in tables["groups"].to_pylist():
            if row["group_id"] in wanted:
                kind = (row["group_type"].lower(), row["state"], row["protocol_type"] or "")
                found.groups[row["group_id"]] = kind
    found.stable = {
        group_id: {key: UNSTABLE if key in held[group_id] else told for key, told in offsets.items()}
        for group_id, offsets in found.offsets.items()
    }
    return found


def compare(broker: EmbeddedBroker, seeds: Iterable[int], say: Callable[[str], None] = lambda _: None) -> int:
    """Run every seed's work on the running broker, restart it, compare; how many answers were equal.

    AssertionError names the seed that differs.
    """
    config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
    make_topics_once(config)
    equal = 0
    for seed in seeds:
        with ClusterSession(config) as session:
            work = RandomWork(config, session, seed)
            work.run()
        groups = work.groups
        del work  # its producers end here, open transactions do not
        broker.stop()
        broker.start()
        with ClusterSession(config) as session:
            by_broker = settled_answers(broker, session, groups)
        by_log = told_by_log(broker.data, groups)
        for name in ("offsets", "stable", "groups"):
            log, answered = getattr(by_log, name), getattr(by_broker, name)
            differing = [(group, log.get(group), answered.get(group)) for group in groups]
            differing = [(group, *both) for group, *both in differing if both[0] != both[1]]
            assert not differing, f"seed {seed}, {name}: (group, by the log, by the broker) {differing}"
        equal += by_broker.count
        say(f"seed {seed}: {by_broker.count} answers equal, {equal} so far")
    return equal


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.integration.differential", description=__doc__)
    options.add_argument("--seeds", type=int, default=200, help="how many workloads (default: %(default)s)")
    options.add_argument("--first", type=int, default=1, help="the first seed (default: %(default)s)")
    told = options.parse_args()
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    root = Path(tempfile.mkdtemp(prefix="sexton-differential-"))
    broker = EmbeddedBroker(root, port=free_port(), java=java, jars=jars.ensure(settings().cache, "kafka"))
    try:
        with broker:
            equal = compare(broker, range(told.first, told.first + told.seeds), say=_say)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    sys.stdout.write(f"{told.seeds} workloads, each followed by a restart: {equal} answers, all equal\n")


if __name__ == "__main__":
    main()
