"""What forecast and what-if say of a real broker is what it does: it is started again with the retention in question.

The broker keeps offsets for a week while clients commit, some of them a minute before the others; that state is asked
about. Then it comes back with a retention of one minute, and what its sweeps write is held against the answers: the
first sweep against what-if, all of them against the forecast. Nobody's clock is moved, but the log is aged while the
broker is down: once for what is old, and once more for what would be due in a minute.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.as_text import now_ms
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S, TRANSACTION_TIMEOUT_MS, group_metadata
from tests.aged import age
from tests.clients import admin_of, joined
from tests.commands import sexton as ask
from tests.integration.stages import snapshot
from tests.integration.test_admin import wait_for_coordinators
from tests.integration.test_changes import Script
from tests.record_fields import decode_key

pytestmark = pytest.mark.thorough

RETENTION_MS = 60_000
SWEEP_MS = 1_000
GRACE_MS = 4_000
"""A sweep comes this much after its interval at most, also on a machine that has other things to do."""
OLDER_MS = 20_000
"""So much sooner than it was told the young is due: what is left has to be enough for the broker to come back."""
DAY_MS = 86_400_000
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
WHOLE = None

Item = tuple[str, str | None, int | None]
"""A group, and one of its offsets or the group itself."""


class Clients(Script):
    """Groups of two ages: what is old at the instant of the question was committed more than a minute before it."""

    def __init__(self, config: ClientConfig, session: ClusterSession, stack: ExitStack) -> None:
        super().__init__(config, session)
        self._config = config
        self._stack = stack
        self._leaves: list[Consumer] = []

    def connect_anew(self, session: ClusterSession) -> None:
        """After a restart of the broker, which librdkafka's client for administrators notices late."""
        self.session, self.admin = session, admin_of(self._config)

    def old(self) -> None:
        self.commit("old", A0, B0)
        self.commit("mixed", A0)
        self.commit("pinned", A0, A1)
        self.commit("asks-for-long", A0)
        self.commit_for(DAY_MS, "asks-for-long", A0)
        self._pin("pinned", A0)
        for protocol in ("classic", "consumer"):
            live = self._member(f"live-{protocol}", protocol)
            live.commit(offsets=[_at(A0), _at(B0)], asynchronous=False)
            left = self._member(f"left-{protocol}", protocol)
            left.commit(offsets=[_at(A1)], asynchronous=False)
            self._leaves.append(left)

    def young(self) -> None:
        for consumer in self._leaves:
            consumer.committed([_at(A1)], TIMEOUT_S)  # it has found the broker that came back: it says that it leaves
            consumer.close()
        self.commit("mixed", A1, B0)
        self.commit("young", A0)
        self.commit_due("asks-for-short", A0)

    def _member(self, group_id: str, protocol: str) -> Any:
        """A member of its own group that is subscribed to topic a, and has its partitions."""
        own = {"session_timeout_ms": 300_000} if protocol == "classic" else {}
        consumer = joined(self._config, group_id, "a", protocol=protocol, max_poll_interval_ms=600_000, **own)
        self._stack.callback(consumer.close)
        return consumer

    def _pin(self, group_id: str, where: tuple[str, int]) -> None:
        own = {"transactional.id": "open", "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        settings = {**self._config.for_confluent(), **QUIET}
        producer = Producer({**settings, **own})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([_at(where, 99)], group_metadata(settings, group_id), TIMEOUT_S)
        self._producer = producer  # it must not be collected, which would end the transaction


def _at(where: tuple[str, int], offset: int = 5) -> TopicPartition:
    return TopicPartition(*where, offset)


@dataclass
class Played:
    """What was answered about the state, what the broker held then, and what it has deleted since and when."""

    as_of_ms: int
    held: set[Item]
    what_if: dict[str, Any]
    before: dict[str, Any]
    forecast: dict[str, Any]
    of_group: dict[str, Any]
    swept_ms: dict[Item, int]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("forecast")
    archive, directory, port = folder / "archive", folder / "broker", free_port()
    clients = client_config({}, bootstrap_servers=f"127.0.0.1:{port}")
    with ExitStack() as stack:
        broker = EmbeddedBroker(directory, port=port, java=java, jars=kafka_jars)
        stack.callback(lambda: broker.stop())
        broker.start()
        with ClusterSession(clients) as session:
            script = Clients(clients, session, stack)
            script.make_topics()
            script.old()
            old_ms = now_ms() - RETENTION_MS - 1_000
        broker.stop()
        age(broker.data, RETENTION_MS + 1_000)
        broker.start()
        with ClusterSession(clients) as session:
            wait_for_coordinators(session)
            script.connect_anew(session)
            script.young()
            held = answers(session)
            snapshot(clients, archive)
        broker.stop()
        age(broker.data, OLDER_MS)
        quick = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": str(SWEEP_MS)}
        broker = EmbeddedBroker(directory, port=port, java=java, jars=kafka_jars, settings=quick)
        broker.start()
        asked = ("--archive", str(archive))
        short = ("--retention-minutes", "1")
        told = {
            "what_if": ask("what-if", *short, *asked),
            "before": ask("what-if", *short, *asked, "--as-of", str(old_ms)),
            "forecast": ask("forecast", *short, *asked),
            "of_group": {
                group: ask("forecast", group, *short, *asked)["offsets"] for group in {item[0] for item in held}
            },
        }
        last_ms = max(one["expires_at_ms"] or 0 for own in told["of_group"].values() for one in own if is_soon(one))
        time.sleep(max(0, last_ms - OLDER_MS + GRACE_MS + 5 * SWEEP_MS - now_ms()) / 1000)
        swept_ms = tombstones(broker.data)
        yield Played(as_of_ms=told["what_if"]["as_of_ms"], held=held, swept_ms=swept_ms, **told)


def is_soon(one: dict[str, Any]) -> bool:
    return one["expires_at_ms"] is not None and one["expires_at_ms"] < now_ms() + DAY_MS / 2


def answers(session: ClusterSession) -> set[Item]:
    """Every offset that the broker answers, and every group that it lists."""
    groups = [group.group_id for group in list_groups(session).groups]
    offsets = {(group, *place) for group in groups for place in committed_offsets(session, group)}
    return offsets | {(group, WHOLE, None) for group in groups}


def tombstones(data: Path) -> dict[Item, int]:
    """When the broker deleted each offset and each group."""
    found: dict[Item, int] = {}
    for file in sorted(data.glob("__consumer_offsets-*/*.log")):
        for batch in read_batches(file.read_bytes()):
            if not isinstance(batch, Batch) or batch.is_control:
                continue
            for record in read_records(batch, cap_bytes=1 << 24):
                assert isinstance(record, Record)
                record_type, fields = decode_key(record.key or b"")
                if record.value is None and record_type in (1, 2, 3):
                    item = (fields["group_id"], fields.get("topic"), fields.get("partition"))
                    found[item] = batch.max_timestamp_ms
    return found


def offsets_of(found: dict[str, Any], side: str) -> set[Item]:
    return {(one["group_id"], one["topic"], one["partition"]) for one in found["offsets"] if one[side]}


def whole_of(found: dict[str, Any], side: str) -> set[Item]:
    return {(one["group_id"], WHOLE, None) for one in found["groups"] if one[f"whole_{side}"]}


def test_what_if_is_the_first_sweep(played: Played) -> None:
    """Nothing that is young at the instant of the question is due yet when the first sweep comes."""
    young_ms = played.as_of_ms + RETENTION_MS - OLDER_MS - GRACE_MS
    first = {item for item, at_ms in played.swept_ms.items() if played.as_of_ms <= at_ms < young_ms}
    assert first, "the broker took too long to come back: its first sweep came with the second"
    assert first == offsets_of(played.what_if, "proposed") | whole_of(played.what_if, "proposed")
    assert {item[0] for item in first if item[1] is WHOLE} == {"old", "asks-for-short", "left-consumer"}


def test_what_protects_is_known(played: Played) -> None:
    lost = offsets_of(played.what_if, "proposed")
    assert ("live-classic", "b", 0) in lost
    assert ("live-consumer", "b", 0) in lost
    assert lost.isdisjoint(
        {
            ("live-classic", *A0),  # subscribed
            ("live-consumer", *A0),
            ("left-classic", *A1),  # counts from when the last member left
            ("pinned", *A0),  # an open transaction has written it anew
            ("asks-for-long", *A0),  # its client asked for a day
            ("mixed", *A1),
            ("young", *A0),
        }
    )
    assert ("left-consumer", *A1) in lost, "a KIP-848 group counts from the commit"
    assert offsets_of(played.what_if, "in_force") == {("asks-for-short", *A0)}


def test_at_a_past_instant_nothing_was_due(played: Played) -> None:
    assert played.before["counts"]["offsets_lost_proposed"] == 0


def test_the_forecast_is_what_all_sweeps_took(played: Played) -> None:
    swept = {item for item, at_ms in played.swept_ms.items() if at_ms >= played.as_of_ms}
    counted: dict[str, int] = {}
    for group, topic, _ in swept:
        if topic is not WHOLE:
            counted[group] = counted.get(group, 0) + 1
    lasting = {"asks-for-long"}  # due in a day, which the horizon holds and this test does not wait for
    groups = {own["group_id"]: own for own in played.forecast["groups"]}
    assert {name: own["within_1_days"] for name, own in groups.items() if name not in lasting} == counted
    assert {name for name, own in groups.items() if own["whole_within_days"] == 1} - lasting == {
        group for group, topic, _ in swept if topic is WHOLE
    }
    assert {own["by"][0] for own in groups.values()} == {"broker"}


def test_each_offset_goes_at_its_instant(played: Played) -> None:
    """Not before it is due, and with the next sweep."""
    back_ms = min(at_ms for at_ms in played.swept_ms.values() if at_ms >= played.as_of_ms)
    soon = {
        (group, one["topic"], one["partition"]): one["expires_at_ms"] - OLDER_MS
        for group, own in played.of_group.items()
        for one in own
        if is_soon(one)
    }
    assert soon.keys() == {item for item in played.swept_ms if item[1] is not WHOLE and item in played.held}
    for item, due_ms in soon.items():
        late_ms = played.swept_ms[item] - max(due_ms, back_ms)
        assert 0 <= late_ms <= SWEEP_MS + GRACE_MS, item
    kept = {
        (group, one["topic"], one["partition"]) for group, own in played.of_group.items() for one in own
    } - soon.keys()
    assert kept == {item for item in played.held if item[1] is not WHOLE} - soon.keys()
