"""A broker as the judge of histories: it loads them from its log directory, is asked, and sweeps."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.metadata import MetadataRequest

from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.campaign.broker.answers import Answers, Asker, Inquiry, told_by_sexton
from tests.campaign.broker.known import Known, KnownByKernels, KnownByRules
from tests.campaign.broker.logs import RETENTION_MS, Logs, Place
from tests.campaign.broker.sweeps import ROUNDS, Clock, Sweep, instants, rounds, unlike
from tests.campaign.packs import Pack
from tests.integration.sweep_instants import make_offsets_topic
from tests.log_builder import TOPICS
from tests.zookeeper_broker import broker_class

PATIENCE_S = 180
"""On a machine that is busy with other things."""
_LONG_MS = "2000000000"
SETTINGS = {
    "offsets.retention.minutes": "1",
    "log.cleaner.enable": "false",
    "log.index.size.max.bytes": "65536",
    "group.max.session.timeout.ms": _LONG_MS,
    **{f"group.{kind}.session.timeout.ms": _LONG_MS for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.max.session.timeout.ms": _LONG_MS for kind in ("consumer", "share", "streams")},
}
"""With sessions that outlast every test, so that what is asked is what was loaded."""
NEVER_S = 86_400
SWEEP_EVERY_S, LOADS_A_SECOND = 6, 150
"""How often it sweeps, and so many log partitions a second are loaded and asked about besides: all has to be answered
before the first sweep. Else it is done again with twice the time."""
_STEPS_DUE = 6
"""So many of the twenty instants of a history are due when it is laid out, some more when it is swept."""
_STEPS_WAITED = 6
"""Histories that have waited longer for their turn are laid out again, or too few would be left to the last sweep."""
_LATE_S = 1
"""How long after its timer was set a broker up to 3.9 may say that it has started, on a busy machine. The first batches
of a sweep may be stamped an interval after the one, and before that after the other."""
_STARTED = re.compile(r"^(\S+ \S+) .*\[GroupCoordinator (?:id=)?1\]:? Startup complete", re.MULTILINE)
_LOAD_ENDS = (b"Finished loading ", b"Failed to load metadata from ", b"Error loading offsets from ")
_LOADED = re.compile(r"Finished loading [a-z ]+ from __consumer_offsets-(\d+)")
_FAILED = re.compile(r"(?:Failed to load metadata|Error loading offsets) from __consumer_offsets-(\d+)(.*)")
_UNLOADED = re.compile(
    r"Error loading offsets from __consumer_offsets-(\d+)\n\S+: Unexpected unload of active group (.*) while loading"
)
_FAILED_AT = re.compile(r"\(offset=(\d+),|from __consumer_offsets-\d+ at offset (\d+) with")
_INDEX = re.compile(r"[a-z]*(\d+)/")


@dataclass(frozen=True)
class Difference:
    """Something that the broker says otherwise than Sexton, of which history, and where that lay."""

    index: int
    log_partition: int
    what: str
    by_sexton: object
    by_kafka: object

    def __str__(self) -> str:
        return f"history {self.index}, {self.what}\n  Sexton {self.by_sexton}\n  Kafka  {self.by_kafka}"


@dataclass
class Loads:
    """How a broker's loads ended, by log partition."""

    loaded: set[int] = field(default_factory=set)
    failed: dict[int, int | None] = field(default_factory=dict)
    """With the log_offset of the record where it failed, if the broker says so."""
    unloaded: dict[int, str] = field(default_factory=dict)
    """Those that ended with an error about that removed group, and serve everything (up to 3.9)."""

    def read(self, said: str) -> int:
        """Take in what the broker has said so far; how many loads have ended."""
        self.loaded.update(int(number) for number in _LOADED.findall(said))
        self.unloaded.update({int(number): group_id for number, group_id in _UNLOADED.findall(said)})
        failed = {int(number): _failed_at(why) for number, why in _FAILED.findall(said)}
        self.failed.update({number: at for number, at in failed.items() if number not in self.unloaded})
        return len(self.loaded | self.failed.keys() | self.unloaded.keys())


@dataclass
class Verdict:
    """What was compared in one load and the first sweeps of a broker."""

    histories: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Histories that were not laid out, by reason."""
    unplaced: list[int] = field(default_factory=list)
    """Those for which there was no log partition; that of a sum is empty."""
    answers: int = 0
    failed_loads: int = 0
    tombstones: Counter[int] = field(default_factory=Counter)
    """By the number of the sweep."""
    differences: list[Difference] = field(default_factory=list)
    told: Answers = field(default_factory=dict)
    """What the broker answered; that of a sum is empty."""

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(
            histories=self.histories + other.histories,
            left_out=self.left_out + other.left_out,
            answers=self.answers + other.answers,
            failed_loads=self.failed_loads + other.failed_loads,
            tombstones=self.tombstones + other.tombstones,
            differences=self.differences + other.differences,
        )

    def without_answers(self) -> "Verdict":
        return replace(self, told={})

    def __str__(self) -> str:
        tombstones = " and ".join(str(self.tombstones[number]) for number in range(1, ROUNDS + 1))
        return (
            f"{self.histories} histories: {self.answers} answers, {self.failed_loads} failed loads, "
            f"{tombstones} tombstones of {ROUNDS} sweeps, {len(self.differences)} differences"
        )


class Judge:
    """A broker of `release` in `folder`, which is new; it runs only while a method does."""

    def __init__(
        self, folder: Path, *, release: str, java: JavaHome, jars: Sequence[Path], partition_count: int
    ) -> None:
        self.profile: Profile = of_broker(release)
        self._broker_class = broker_class(release)
        self.partition_count = partition_count
        self.folder, self._java, self._jars = folder, java, jars
        self.turn: AbstractContextManager[Any] = nullcontext()
        """Held while the broker starts, loads and is asked: until its first sweep nothing else is to be in the way."""
        self._topic_ids: Mapping[str, UUID] = {}
        self._interval_s = SWEEP_EVERY_S + partition_count // LOADS_A_SECOND

    def prepare(self) -> None:
        """Let it make its topics."""
        with self.running(_sweeping(NEVER_S)) as broker, self._session(broker) as session:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in TOPICS]).values():
                made.result(PATIENCE_S)
            make_offsets_topic(broker)
            topics = session.call(MetadataRequest(topics=None)).topics
            self._topic_ids = {topic.name: topic.topic_id for topic in topics}
            until(lambda: len(list(broker.data.glob("__consumer_offsets-*"))) == self.partition_count)

    @property
    def place(self) -> Place:
        """Where histories that are laid out now have to go: in every sweep something falls due."""
        step_ms = self._interval_s * 1_000
        base_ms = now_ms() - RETENTION_MS - _STEPS_DUE * step_ms
        return Place(self.partition_count, self._topic_ids, base_ms, step_ms)

    def judge(self, lay_out: Callable[[Place], Logs], *, sweeps: bool = True) -> Verdict:
        """Hold the load, the answers and, if asked for, the first sweeps of what is laid out against Sexton."""
        logs = lay_out(self.place)
        expected = self._expected(logs)
        while True:
            with ExitStack() as turn:
                turn.enter_context(self.turn)
                if sweeps and self._is_late(logs.place):
                    logs = lay_out(self.place)
                    expected = self._expected(logs)
                known, homes, told, asking = expected
                verdict = Verdict(logs.history_count, logs.left_out, logs.unplaced)
                with self._loaded(logs, self._interval_s if sweeps else NEVER_S) as (broker, loads):
                    started_s = _started_at(broker) - _LATE_S * self.profile.one_cache
                    clock, loaded_s = Clock(started_s, self._interval_s), time.time()
                    self._compare_loads(logs, known, loads, verdict)
                    self._compare_answers(broker, homes, told, asking, verdict)
                    for number, own in known.items():
                        if appended := self._appended(number, own.log):
                            verdict.differences.append(_of_log(logs, number, "appended by itself", b"", appended))
                    is_in_time = not sweeps or now_ms() < clock.begins_ms(1)
                    turn.close()
                    if sweeps and is_in_time:
                        self._wait_for_sweeps(known, clock, loaded_s)
            if is_in_time:
                break
            self._interval_s *= 2
        if sweeps:
            self._compare_sweeps(logs, known, clock, verdict)
        return verdict

    def _expected(
        self, logs: Logs
    ) -> tuple[Mapping[int, Known], Mapping[str, int], Answers, Mapping[str, Sequence[Asker]]]:
        known = {number: self._known(number, one) for number, one in logs.packs.items()}
        homes = logs.group_ids()
        return known, homes, *told_by_sexton(self._coordinator(known), homes)

    def _is_late(self, place: Place) -> bool:
        now = self.place
        return (now.base_ms - place.base_ms) > _STEPS_WAITED * now.step_ms or now.step_ms != place.step_ms

    def _known(self, log_partition: int, whole: Pack) -> Known:
        kind = KnownByRules if len(whole.by_history()) == 1 else KnownByKernels
        return kind(log_partition, whole.log, self.profile, self.partition_count)

    # --- comparing

    def _compare_loads(self, logs: Logs, known: Mapping[int, Known], loads: Loads, verdict: Verdict) -> None:
        failed = loads.failed
        for number, own in known.items():
            verdict.failed_loads += number in failed
            if number in loads.unloaded or own.unexpected_unloads:
                group_id, groups = loads.unloaded.get(number), own.unexpected_unloads
                if group_id not in groups and not own.fails:
                    verdict.differences.append(_of_log(logs, number, "unexpected unload", groups, group_id))
            if own.fails != (number in failed):
                at = failed.get(number)
                says = f"fails at {at}" if number in failed else "loaded"
                verdict.differences.append(_of_log(logs, number, "load", own.failure or "loaded", says, at))
            elif failed.get(number) is not None and own.failed_at != failed[number]:
                verdict.differences.append(
                    _of_log(logs, number, "where the load fails", own.failure, f"at {failed[number]}", failed[number])
                )

    def _coordinator(self, known: Mapping[int, Known]) -> Coordinator:
        empty = CoordinatorShard(status=Status.ACTIVE, view=EmptyView())
        shards = {number: known[number].shard if number in known else empty for number in range(self.partition_count)}
        return Coordinator(profile=self.profile, partition_count=self.partition_count, shards=shards)

    def _compare_answers(
        self,
        broker: EmbeddedBroker,
        homes: Mapping[str, int],
        told: Answers,
        asking: Mapping[str, Sequence[Asker]],
        verdict: Verdict,
    ) -> None:
        failing = {name for name in homes if told[name, "described"] == Error.UNKNOWN_SERVER_ERROR}
        with self._session(broker) as session:
            answers = Inquiry(session, self._jars).ask(homes, asking, failing)
        verdict.answers += len(answers)
        verdict.told = answers
        verdict.differences += [
            Difference(
                _index_of(group_id), homes[group_id], f"{question} of {group_id}", told[group_id, question], answer
            )
            for (group_id, question), answer in answers.items()
            if told[group_id, question] != answer
        ]

    def _compare_sweeps(self, logs: Logs, known: Mapping[int, Known], clock: Clock, verdict: Verdict) -> None:
        """Of what the broker has appended to each log by the end, each round against the plan of what was there."""
        states = dict(known)
        appended = {number: self._appended(number, own.log) for number, own in known.items()}
        for number_of_round, sweeps in enumerate(rounds(appended, clock=clock), start=1):
            begins_ms = clock.begins_ms(number_of_round)
            for number, own in states.items():
                sweep = sweeps.get(number) or Sweep(begins_ms)
                verdict.tombstones[number_of_round] += sum(map(len, sweep.keys.values()))
                at = instants(sweeps, number, begins_ms=begins_ms, place=logs.place, profile=self.profile)
                for group_id, written, plan in unlike(sweep.keys, [own.planned(at_ms) for at_ms in at]):
                    what = f"sweep {number_of_round} of {group_id} at {sweep.stamp_ms}"
                    verdict.differences.append(Difference(_index_of(group_id), number, what, plan, written))
                states[number] = own.after(sweep.appended)

    def _wait_for_sweeps(self, known: Mapping[int, Known], clock: Clock, loaded_s: float) -> None:
        """Until each log partition has been swept in each round, surely if something was due when the round began."""
        states = dict(known)
        for number_of_round in range(1, ROUNDS + 1):
            time.sleep(max(0, loaded_s + number_of_round * self._interval_s - time.time()))
            # Not for one in which meanwhile something has fallen due that makes its sweep fail.
            instants_ms = clock.begins_ms(number_of_round), now_ms()
            waiting = {number: len(own.log) for number, own in states.items() if all(map(own.planned, instants_ms))}
            until(lambda waiting=waiting: all(self._size(at) > size for at, size in waiting.items()), fails=False)
            time.sleep(1)  # what else a sweep writes comes at once
            states = {number: own.after(self._appended(number, own.log)) for number, own in known.items()}

    # --- the broker

    @contextmanager
    def _loaded(self, logs: Logs, interval_s: int) -> Iterator[tuple[EmbeddedBroker, Loads]]:
        """The broker when it has loaded `logs`, and how that ended; it sweeps every so many seconds."""
        self.write({number: {0: one.log} for number, one in logs.packs.items()})
        for number in logs.packs:
            # With an index, after a clean shutdown, a broker takes the log as it is, whatever is in it.
            (self.log_folder(number) / f"{0:020d}.index").touch()
        with self.running(_sweeping(interval_s)) as broker:
            until(lambda: _loads_in(broker.log_file.read_bytes()) >= self.partition_count)
            loads = Loads()
            until(lambda: loads.read(_said(broker)) == self.partition_count)
            yield broker, loads

    def write(self, segments: Mapping[int, Mapping[int, bytes]]) -> None:
        """Put segments, by log partition and base offset, in place of all that the stopped broker holds."""
        for number in range(self.partition_count):
            for path in self.log_folder(number).iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for base_offset, data in segments.get(number, {}).items():
                (self.log_folder(number) / f"{base_offset:020d}.log").write_bytes(data)
        for checkpoint in self.folder.glob("data/*-checkpoint"):
            checkpoint.unlink()

    def log_folder(self, log_partition: int) -> Path:
        return self.folder / "data" / f"__consumer_offsets-{log_partition}"

    def log_of(self, log_partition: int) -> bytes:
        """What the broker holds of a log partition."""
        return b"".join(path.read_bytes() for path in sorted(self.log_folder(log_partition).glob("*.log")))

    @contextmanager
    def running(self, settings: Mapping[str, str]) -> Iterator[EmbeddedBroker]:
        own = {"offsets.topic.num.partitions": str(self.partition_count)}
        with self._broker_class(
            self.folder, port=free_port(), java=self._java, jars=self._jars, settings={**SETTINGS, **own, **settings}
        ) as broker:
            yield broker

    def _session(self, broker: EmbeddedBroker) -> ClusterSession:
        return ClusterSession(client_config({}, bootstrap_servers=broker.bootstrap_servers))

    def _size(self, log_partition: int) -> int:
        return sum(path.stat().st_size for path in self.log_folder(log_partition).glob("*.log"))

    def _appended(self, log_partition: int, log: bytes) -> bytes:
        """What the broker has written at the end of `log`."""
        now = self.log_of(log_partition)
        assert now.startswith(log), f"the broker has changed log partition {log_partition}"
        return now[len(log) :]


def _of_log(
    logs: Logs, number: int, what: str, by_sexton: object, by_kafka: object, log_offset: int | None = None
) -> Difference:
    """Of the history that the record at `log_offset` belongs to, else of the first in that log partition."""
    placed = logs.packs[number].placed
    owner = next((one for one in placed if log_offset is not None and log_offset in one.at), placed[0])
    return Difference(owner.history.index, number, what, by_sexton, by_kafka)


def _sweeping(interval_s: int) -> dict[str, str]:
    return {"offsets.retention.check.interval.ms": str(interval_s * 1_000)}


def _said(broker: EmbeddedBroker) -> str:
    return broker.log_file.read_text(encoding="utf-8", errors="replace")


def _loads_in(said: bytes) -> int:
    """How many loads have ended, at most."""
    return sum(said.count(end) for end in _LOAD_ENDS)


def _started_at(broker: EmbeddedBroker) -> float:
    """When the broker's coordinator began to load, as it says: it sweeps no earlier than an interval later."""
    found = _STARTED.search(_said(broker))
    assert found is not None
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def _failed_at(why: str) -> int | None:
    found = _FAILED_AT.search(why)
    return int(found[1] or found[2]) if found else None


def _index_of(group_id: str) -> int:
    found = _INDEX.match(group_id)
    assert found is not None, group_id
    return int(found[1])


def until(is_so: Callable[[], Any], *, fails: bool = True) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            assert not fails, f"not so after {PATIENCE_S} s"
            return
        time.sleep(0.2)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
