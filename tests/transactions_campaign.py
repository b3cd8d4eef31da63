"""Transactions at random on a broker of a release, looked at while they run.

    python -m tests.transactions_campaign --release 4.2.2 --jars FOLDER --transactions 10000

starts a broker (docs/development.md says which jars), runs transactions on it and plants hanging ones. Compared are the
state of every id with ListTransactions and DescribeTransactions; every verdict with what was planted, at many instants,
with and without asking the broker: none that runs or completes may be called hanging. At last the printed commands are
run, which must end what hangs, and nothing else.
"""

import argparse
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sexton.coordinator.loading import load
from sexton.java import find_java
from sexton.kafka import jars as pinned
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.pipeline.archive_transactions import open_producers
from sexton.settings import settings, variable
from sexton.transactions.states import load_states, rules_of
from sexton.transactions.verdicts import KnownStates, OffsetsTransaction, TransactionClocks, judge_all
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.transactions_broker import (
    PARTITIONS,
    UNVERIFIED,
    Planted,
    RawProducer,
    described,
    make_topic,
    plant,
    replayed,
    run_printed,
)

LOG_PARTITIONS = 4
"""Of both topics."""
CAP_BYTES = 1 << 24
PAUSE_S = 1


@dataclass
class Campaign:
    """Transactions at random by several producers, looked at while they run."""

    config: ClientConfig
    data: Path
    release: tuple[int, ...]
    seed: int
    planted: Planted = field(default_factory=Planted)
    done: int = 0
    legal: set[int] = field(default_factory=set)
    """Producer ids of transactions that keep to the protocol."""
    seen: Counter[str] = field(default_factory=Counter)

    def work(self, name: str, transactions: int) -> None:
        """So many transactions of three ids, some of them open at a time."""
        rng = random.Random(f"{self.seed}{name}")
        versions = (1, 2) if self.release >= (4, 0) else (1,)
        with ClusterSession(self.config) as session:
            open_ones: dict[str, RawProducer] = {}
            for number in range(transactions):
                transactional_id = f"{name}-{rng.randrange(3)}"
                if producer := open_ones.pop(transactional_id, None):
                    producer.end(committed=rng.random() < 0.7)
                producer = RawProducer.begin(session, transactional_id, version=rng.choice(versions))
                self.legal.add(producer.producer_id)
                for _ in range(rng.randrange(1, 3)):
                    producer.commit_offsets(f"g-{rng.randrange(50)}", {rng.randrange(PARTITIONS): number})
                open_ones[transactional_id] = producer
                self.done += 1
            for producer in open_ones.values():
                producer.end(committed=True)

    def look(self, *, asks: bool) -> None:
        """Every verdict now; one that runs must not hang, and what was planted must once brokers are asked."""
        offsets = [found for part in range(LOG_PARTITIONS) for found in self.open_in(part)]
        until_ms = time.time_ns() // 1_000_000
        states = self.states()
        with ClusterSession(self.config) as session:
            producers = open_producers(session) if asks else None
        found = judge_all(
            offsets, states, TransactionClocks(read_until_ms=until_ms, slack_ms=60_000), producers=producers
        )
        for one in found.judged:
            producer_id = one.transaction.producer_id
            assert one.verdict != "hanging" or producer_id not in self.legal, one
            self.seen[one.verdict] += 1
        if asks:
            verdicts = {one.transaction.producer_id: one.verdict for one in found.judged}
            wrong = {
                id_: verdicts.get(id_) for id_, verdict in self.planted.verdicts.items() if verdicts.get(id_) != verdict
            }
            assert not wrong, wrong

    def open_in(self, log_partition: int) -> list[OffsetsTransaction]:
        loaded = load(self._segments("__consumer_offsets", log_partition), cap_bytes=CAP_BYTES)
        return [
            OffsetsTransaction(
                log_partition=log_partition,
                producer_id=producer_id,
                producer_epoch=one.producer_epoch,
                first_log_offset=one.first_log_offset,
                last_log_offset=one.last_log_offset,
                since_ms=one.first_timestamp_ms,
                group_ids=sorted({group_id for group_id, _, _ in loaded.pending.get(producer_id, {})}),
            )
            for producer_id, one in loaded.open_transactions.items()
        ]

    def states(self) -> KnownStates:
        partitions = [
            load_states(
                self._segments("__transaction_state", part), log_partition=part, cap_bytes=CAP_BYTES,
                rules=rules_of(self.release),
            )
            for part in range(LOG_PARTITIONS)
        ]  # fmt: skip
        return KnownStates(
            partitions=partitions, partition_count=LOG_PARTITIONS, read_at_ms=time.time_ns() // 1_000_000
        )

    def _segments(self, topic: str, partition: int) -> Iterator[bytes]:
        return (file.read_bytes() for file in sorted((self.data / f"{topic}-{partition}").glob("*.log")))

    def compare(self) -> int:
        """How many ids there are, every one of them as its coordinator describes it."""
        with ClusterSession(self.config) as session:
            theirs, ours = described(session), replayed(self.states().ids)
        assert ours == theirs, {
            name: (ours.get(name), theirs.get(name)) for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)
        }
        return len(theirs)


def campaign(release: str, jars: Sequence[Path], transactions: int, seed: int) -> None:
    """Raises AssertionError where something differs."""
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    number = tuple(map(int, release.split(".")))
    with (
        tempfile.TemporaryDirectory(prefix="sexton-transactions-") as folder,
        EmbeddedBroker(Path(folder), port=free_port(), java=java, jars=jars, settings=UNVERIFIED) as broker,
    ):
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topic(config)
        run = Campaign(config, broker.data, number, seed)
        with ClusterSession(config) as session:
            for version in (1, 2) if number >= (4, 0) else (1,):
                plant(session, run.planted, name=f"planted-v{version}-", version=version)
        workers = [threading.Thread(target=run.work, args=(name, transactions // 3)) for name in "abc"]
        for worker in workers:
            worker.start()
        looks = 0
        while any(worker.is_alive() for worker in workers):
            run.look(asks=looks % 2 == 0)
            looks += 1
            time.sleep(PAUSE_S)
        for worker in workers:
            worker.join()
        run.look(asks=True)
        ids = run.compare()
        tools = pinned.ensure(settings().cache, "kafka")
        with ClusterSession(config) as session:
            offsets = [found for part in range(LOG_PARTITIONS) for found in run.open_in(part)]
            clocks = TransactionClocks(read_until_ms=time.time_ns() // 1_000_000, slack_ms=0)
            hanging = judge_all(offsets, run.states(), clocks, producers=open_producers(session)).of("hanging")
            for one in hanging:
                arguments = one.abort_arguments(number)
                command = f"kafka-transactions.sh --bootstrap-server {broker.bootstrap_servers} {arguments}"
                run_printed(command, java=java, jars=tools)
        left = {found.producer_id for part in range(LOG_PARTITIONS) for found in run.open_in(part)}
        assert left == {key for key, verdict in run.planted.verdicts.items() if verdict == "running"}, left
        print(
            f"Kafka {release}: {run.done} transactions, {looks} looks, {dict(run.seen)}, {ids} ids as described, "
            f"{len(hanging)} hanging ones ended by the printed command",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="4.3.1")
    parser.add_argument("--jars", type=Path, metavar="FOLDER", help="the jars of another release, with slf4j-simple")
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = sorted(asked.jars.glob("*.jar")) if asked.jars else pinned.ensure(settings().cache, "kafka")
    campaign(asked.release, found, asked.transactions, asked.seed)
