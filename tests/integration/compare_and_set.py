"""Restores while somebody else commits to the same offset in the same milliseconds, on a broker of a release.

    python -m tests.integration.compare_and_set --release 2.8.2 --jars FOLDER --rounds 2000

FOLDER has the jars of org.apache.kafka:kafka_2.13 of that release and of slf4j-simple. Each round has a group of its
own, a restore that replaces its value, and a rival that starts at a random instant around it. The log then shows which
values took effect, by Kafka's rules written down here once more: a rival's that ours replaced is lost.
"""

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.coordinator.partitioner import partition_of
from sexton.execution.engine import Clocks
from sexton.execution.group_records import GroupRecord, group_record
from sexton.execution.kafka_admin import KafkaAdmin, connected
from sexton.execution.restore.apply_restore import apply_restore
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import OffsetValue, Then
from sexton.execution.restore.sources import Source
from sexton.java import JavaHome, find_java
from sexton.kafka import jars as pinned
from sexton.kafka import offset_transactions
from sexton.kafka.admin import commit_offsets, delete_offsets
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.ledger.entries import Intent
from sexton.ledger.ledger import Ledger
from sexton.settings import settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.clients import commit_when_ready, make_topics
from tests.waiting import until
from tests.zookeeper_broker import broker_class

LOG_PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
TOPIC = "t"
KEY = (TOPIC, 0)
FIRST, OURS = (10, 0, "first"), (5, 3, "wanted \0 \u043c")
WINDOW_S = 0.05
"""About how long a restore takes from its preflight check to its end, on a quiet machine."""
RIVALS = ("commit", "same", "rewind", "transaction", "aborted", "long transaction", "delete")


def broker_of(release: str, folder: Path, *, java: JavaHome, jars: Sequence[Path]) -> EmbeddedBroker:
    return broker_class(release)(folder, port=free_port(), java=java, jars=jars, settings=SETTINGS)


@dataclass
class Rival:
    """Somebody else, with a connection of his own."""

    config: ClientConfig
    rng: Random
    transactional_id: str = "rival"

    def __post_init__(self) -> None:
        self.session = ClusterSession(self.config)
        self._producer = offset_transactions.begin(self.session, self.transactional_id)

    def act(self, kind: str, group_id: str, offset: int) -> None:
        value = {"rewind": (1, None, "back"), "same": FIRST}.get(kind, (offset, 1, "rival"))
        if kind == "delete":
            delete_offsets(self.session, group_id, {TOPIC: [0]})
        elif "transaction" in kind or kind == "aborted":
            offset_transactions.pend(self.session, self._producer, group_id, {KEY: value})
            time.sleep(self.rng.random() * (3 * WINDOW_S if kind == "long transaction" else WINDOW_S / 5))
            offset_transactions.end(self.session, self._producer, committed=kind != "aborted")
        else:
            commit_offsets(self.session, group_id, {KEY: value})


@dataclass
class Rounds:
    """Rounds on a broker, what came of them, and what was lost."""

    config: ClientConfig
    root: Path
    seed: int
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    between: int = 0
    """Rounds in which a rival's record lies between our pended one and the end of our transaction."""
    lost: list[str] = field(default_factory=list)
    took_s: float = 2 * WINDOW_S
    """How long a restore takes here, by those before: rivals come within it."""

    def run(self, count: int) -> None:
        rng = Random(self.seed)
        with connected(self.config) as client:
            rival = Rival(self.config, Random(self.seed + 1))
            for number in range(count):
                self._round(client, rival, rng.choice(RIVALS), f"g-{self.seed}-{number}", rng, number)
            rival.session.close()

    def _round(self, client: KafkaAdmin, rival: Rival, kind: str, group_id: str, rng: Random, number: int) -> None:
        assert set(commit_offsets(client.reading, group_id, {KEY: FIRST}).values()) == {None}
        values = {(group_id, *KEY): Then(value=OffsetValue(*OURS))}
        source = Source(name=f"round {number}", cluster_id=client.identity().cluster_id, values=values)
        plan = make_restore(source, client, overwrites=True)
        part = partition_of(group_id, LOG_PARTITIONS)
        since = client.log_end(part) - 1
        failures: list[BaseException] = []

        def act() -> None:
            time.sleep(rng.random() * self.took_s)
            try:
                rival.act(kind, group_id, 1_000 + number)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=act)
        began = time.perf_counter()
        thread.start()
        ledger = Ledger(pafs.LocalFileSystem(), str(self.root), plan.cluster_id, plan.restore_id)
        try:
            summary = apply_restore(
                client, plan, ledger, approved_by="ann", lease_ms=60_000, clocks=Clocks(now_ms=now_ms)
            )
        finally:
            self.took_s += (time.perf_counter() - began - self.took_s) / 10
            thread.join()
        assert not failures, failures
        ((_, result),) = summary.results
        self.outcomes[kind, result.outcome] += 1
        assert summary.warnings == []
        # The value of the diff, committed once more before the preflight check, is no other value to it.
        looked = [each.body.checks["log_offset"] for each in ledger.entries() if isinstance(each.body, Intent)]
        shown = int(looked[0]) if kind == "same" else 0
        self._check(client, group_id, self._log(client, group_id, part, since), result.outcome, shown=shown)

    def _check(self, client: KafkaAdmin, group_id: str, log: "GroupLog", outcome: str, *, shown: int) -> None:
        effective = log.effective
        ours = [record.log_offset for record in effective if record.value and record.value.as_committed == OURS]
        theirs = [record.log_offset for record in effective if record.log_offset > log.first]
        theirs = [log_offset for log_offset in theirs if log_offset not in ours and log_offset >= shown]
        self.between += any(ours and ours[-1] < log_offset < log.ends[ours[-1]] for log_offset in theirs)
        if ours and any(log_offset < ours[-1] for log_offset in theirs):
            self.lost.append(f"{group_id}: {theirs} was replaced by {ours}")
        if bool(ours) != (outcome in ("done", "raced")):
            self.lost.append(f"{group_id}: {outcome}, and the log has {ours}")
        expected = log.served()

        def is_served() -> bool:
            found = client.committed(group_id, require_stable=True, only=[KEY])[KEY]
            return (None if found.committed_offset == -1 else found.as_committed) == expected

        until(is_served, f"{group_id}: {expected} is not served")

    def _log(self, client: KafkaAdmin, group_id: str, part: int, since: int) -> "GroupLog":
        """The log of a group, once every transaction in it has its end."""

        def read() -> GroupLog | None:
            found = GroupLog()
            for record in TailReader(client.reading, OFFSETS_TOPIC, part, from_log_offset=since).records():
                if record.is_control:
                    found.end(record.producer_id, record.log_offset, is_committed=record.key == b"\0\0\0\1")
                elif (one := group_record(record, (group_id,))) is not None and one.is_offset:
                    found.add(one)
            return None if found.open else found

        log = until(read, f"{group_id}: a transaction does not end")
        assert log is not None
        return log


@dataclass
class GroupLog:
    """The offset records of one offset."""

    records: list[GroupRecord] = field(default_factory=list)
    open: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    """Where the transaction of a committed record ends, by its log_offset."""
    aborted: set[int] = field(default_factory=set)

    def add(self, record: GroupRecord) -> None:
        self.records.append(record)
        if record.producer_id >= 0:
            self.open.setdefault(record.producer_id, []).append(record.log_offset)

    def end(self, producer_id: int, at: int, *, is_committed: bool) -> None:
        for log_offset in self.open.pop(producer_id, []):
            if is_committed:
                self.ends[log_offset] = at
            else:
                self.aborted.add(log_offset)

    @property
    def first(self) -> int:
        return self.records[0].log_offset

    @property
    def effective(self) -> list[GroupRecord]:
        return [record for record in self.records if record.log_offset not in self.aborted]

    def served(self) -> tuple[int, int | None, str] | None:
        """What a client fetches of the coordinator that wrote this log, by replaying it event by event: a deletion
        cancels what is pending (until 3.9 a load of the same log brings it back)."""
        events = [(self.ends.get(record.log_offset, record.log_offset), record) for record in self.effective]
        stored: GroupRecord | None = None
        for at, record in sorted(events, key=lambda event: event[0]):
            deleted = any(other.is_tombstone and record.log_offset < other.log_offset < at for other in self.records)
            if at == record.log_offset:
                stored = None if record.is_tombstone else record
            elif not deleted and (stored is None or record.log_offset > stored.log_offset):
                stored = record
        return None if stored is None or stored.value is None else stored.value.as_committed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="4.3.1")
    parser.add_argument("--jars", type=Path, metavar="FOLDER", help="the jars of another release, with slf4j-simple")
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    jars = sorted(asked.jars.glob("*.jar")) if asked.jars else pinned.ensure(settings().cache, "kafka")
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    with (
        tempfile.TemporaryDirectory(prefix="sexton-compare-") as folder,
        broker_of(asked.release, Path(folder, "broker"), java=java, jars=jars) as broker,
    ):
        rounds = rounds_on(broker, Path(folder, "archive"), asked.seed)
        rounds.run(asked.rounds)
    print(f"Kafka {asked.release}: {asked.rounds} rounds, {rounds.between} between, lost {len(rounds.lost)}")
    for (kind, outcome), count in sorted(rounds.outcomes.items()):
        print(f"  {kind}: {count} {outcome}")
    assert not rounds.lost, rounds.lost


def rounds_on(broker: EmbeddedBroker, root: Path, seed: int) -> Rounds:
    """Rounds on a broker that is there, with its topic and its coordinators."""
    config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
    make_topics(config, {TOPIC: 2})
    with ClusterSession(config) as session:
        commit_when_ready(session, "first", {KEY: FIRST})
        # The records of a topic's first groups make the coordinators of all log partitions.
        for number in range(20):
            commit_when_ready(session, f"first-{number}", {KEY: FIRST})
    return Rounds(config, root, seed)


if __name__ == "__main__":
    main()
