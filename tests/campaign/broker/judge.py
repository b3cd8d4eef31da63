"""A broker as the judge of histories: it loads them from its log directory, is asked, and sweeps."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.metadata import MetadataRequest

from sexton.coordinator.api.coordinator import Coordinator, Shard, Status, shard_after_load
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.java import JavaHome
from sexton.kafka.broker import EmbeddedBroker, free_port
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.kernels.results import finish
from tests.campaign.broker.answers import Answers, Inquiry, told_by_sexton
from tests.campaign.broker.logs import FIRST_INSTANT_AGO_MS, Logs, Place
from tests.campaign.broker.sweeps import CHECK_INTERVAL_MS, Keys, Sweep, first_sweep, instants, planned, unlike
from tests.campaign.checks import Tables
from tests.integration.sweep_instants import make_offsets_topic
from tests.kernels.compare import fold_bytes
from tests.strategies import TOPICS
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
NO_SWEEP = {"offsets.retention.check.interval.ms": "86400000"}
SWEEP = {"offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS)}
_LOADED = re.compile(r"Finished loading [a-z ]+ from __consumer_offsets-(\d+)")
_FAILED = re.compile(r"(?:Failed to load metadata|Error loading offsets) from __consumer_offsets-(\d+)(.*)")
_UNLOADED = re.compile(
    r"Error loading offsets from __consumer_offsets-(\d+)\n\S+: Unexpected unload of active group (.*) while loading"
)
_FAILED_AT = re.compile(r"\(offset=(\d+),|from __consumer_offsets-\d+ at offset (\d+) with")
_OWN_FAILED_AT = re.compile(r"log_offset (\d+):")
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
    """What was compared in one load and one sweep of a broker."""

    histories: int = 0
    answers: int = 0
    failed_loads: int = 0
    tombstones: int = 0
    differences: list[Difference] = field(default_factory=list)
    told: Answers = field(default_factory=dict)
    """What the broker answered; that of a sum is empty."""

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(
            self.histories + other.histories,
            self.answers + other.answers,
            self.failed_loads + other.failed_loads,
            self.tombstones + other.tombstones,
            self.differences + other.differences,
        )

    def __str__(self) -> str:
        return (
            f"{self.histories} histories: {self.answers} answers, {self.failed_loads} failed loads, "
            f"{self.tombstones} tombstones, {len(self.differences)} differences"
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
        self._port = free_port()
        self._topic_ids: Mapping[str, UUID] = {}

    def prepare(self) -> None:
        """Let it make its topics."""
        with self.running(NO_SWEEP) as broker, self._session(broker) as session:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in TOPICS]).values():
                made.result(PATIENCE_S)
            make_offsets_topic(broker)
            topics = session.call(MetadataRequest(topics=None)).topics
            self._topic_ids = {topic.name: topic.topic_id for topic in topics}
            until(lambda: len(list(broker.data.glob("__consumer_offsets-*"))) == self.partition_count)

    @property
    def place(self) -> Place:
        """Where histories that are laid out now have to go."""
        return Place(self.partition_count, self._topic_ids, now_ms() - FIRST_INSTANT_AGO_MS)

    def judge(self, logs: Logs, *, sweeps: bool = True) -> Verdict:
        """Hold the load, the answers and, if asked for, the first sweep of `logs` against Sexton."""
        known = {number: _Known(number, one.log, self) for number, one in logs.packs.items()}
        verdict = Verdict(histories=logs.history_count)
        with self._loaded(logs, NO_SWEEP) as (broker, loads):
            self._compare_loads(logs, known, loads, verdict)
            self._compare_answers(broker, logs, known, verdict)
        for number, own in known.items():
            if appended := self._appended(number, own.log):
                verdict.differences.append(_of_log(logs, number, "appended by itself", b"", appended))
        if sweeps:
            with self._loaded(logs, SWEEP):
                self._wait_for_sweep(known)
            self._compare_sweeps(logs, known, verdict)
        return verdict

    # --- comparing

    def _compare_loads(self, logs: Logs, known: Mapping[int, "_Known"], loads: Loads, verdict: Verdict) -> None:
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

    def _compare_answers(
        self, broker: EmbeddedBroker, logs: Logs, known: Mapping[int, "_Known"], verdict: Verdict
    ) -> None:
        empty = Shard(status=Status.ACTIVE, view=EmptyView())
        shards = {number: known[number].shard if number in known else empty for number in range(self.partition_count)}
        coordinator = Coordinator(profile=self.profile, partition_count=self.partition_count, shards=shards)
        homes = logs.group_ids()
        told, asking = told_by_sexton(coordinator, homes)
        with self._session(broker) as session:
            answers = Inquiry(session, self._jars).ask(list(homes), asking)
        verdict.answers += len(answers)
        verdict.told = answers
        verdict.differences += [
            Difference(
                _index_of(group_id), homes[group_id], f"{question} of {group_id}", told[group_id, question], answer
            )
            for (group_id, question), answer in answers.items()
            if told[group_id, question] != answer
        ]

    def _compare_sweeps(self, logs: Logs, known: Mapping[int, "_Known"], verdict: Verdict) -> None:
        for number, own in known.items():
            sweep = first_sweep(self._appended(number, own.log)) or Sweep(now_ms(), {})
            verdict.tombstones += sum(map(len, sweep.keys.values()))
            plans = [own.planned(at_ms) for at_ms in instants(sweep.stamp_ms, logs.place.base_ms)]
            for group_id, written, plan in unlike(sweep, plans):
                verdict.differences.append(
                    Difference(_index_of(group_id), number, f"sweep of {group_id} at {sweep.stamp_ms}", plan, written)
                )

    def _wait_for_sweep(self, known: Mapping[int, "_Known"]) -> None:
        """Until every log has grown for which something is planned by now; others may have nothing due."""
        waiting = {number for number, own in known.items() if own.planned(now_ms())}
        until(lambda: all(self._appended(number, known[number].log) for number in waiting), fails=False)
        time.sleep(1)  # what else a sweep writes comes at once

    # --- the broker

    @contextmanager
    def _loaded(self, logs: Logs, settings: Mapping[str, str]) -> Iterator[tuple[EmbeddedBroker, Loads]]:
        """The broker when it has loaded `logs`, and how that ended."""
        self.write({number: {0: one.log} for number, one in logs.packs.items()})
        for number in logs.packs:
            # With an index, after a clean shutdown, a broker takes the log as it is, whatever is in it.
            (self.log_folder(number) / f"{0:020d}.index").touch()
        with self.running(settings) as broker:
            loads = Loads()
            until(
                lambda: (
                    loads.read(broker.log_file.read_text(encoding="utf-8", errors="replace")) == self.partition_count
                )
            )
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
            self.folder, port=self._port, java=self._java, jars=self._jars, settings={**SETTINGS, **own, **settings}
        ) as broker:
            yield broker

    def _session(self, broker: EmbeddedBroker) -> ClusterSession:
        return ClusterSession(client_config({}, bootstrap_servers=broker.bootstrap_servers))

    def _appended(self, log_partition: int, log: bytes) -> bytes:
        """What the broker has written at the end of `log`."""
        now = self.log_of(log_partition)
        assert now.startswith(log), f"the broker has changed log partition {log_partition}"
        return now[len(log) :]


class _Known:
    """What Sexton makes of one log partition."""

    def __init__(self, log_partition: int, log: bytes, judge: Judge) -> None:
        self.log = log
        self._profile = judge.profile
        fold = fold_bytes(log, profile=judge.profile)
        self.tables: Tables = finish(fold, log_partition=log_partition, partition_count=judge.partition_count)
        (profile,) = self.tables["load_profile"].to_pylist()
        self.fails: bool = profile["load_would_fail"]
        self.failure: str | None = profile["load_failure"]
        self.unexpected_unloads: list[str] = self.tables["unexpected_unloads"]["group_id"].to_pylist()
        found = _OWN_FAILED_AT.match(self.failure or "")
        self.failed_at = found and int(found[1])
        self._plans: dict[int, Keys] = {}

    @property
    def shard(self) -> Shard:
        return shard_after_load(TablesView(self.tables), profile=self._profile, load_failed=self.fails)

    def planned(self, now_ms: int) -> Keys:
        if self.fails:
            return {}
        if now_ms not in self._plans:
            self._plans[now_ms] = planned(self.tables, now_ms, self._profile)
        return self._plans[now_ms]


def _of_log(
    logs: Logs, number: int, what: str, by_sexton: object, by_kafka: object, log_offset: int | None = None
) -> Difference:
    """Of the history that the record at `log_offset` belongs to, else of the first in that log partition."""
    placed = logs.packs[number].placed
    owner = next((one for one in placed if log_offset is not None and log_offset in one.at), placed[0])
    return Difference(owner.history.index, number, what, by_sexton, by_kafka)


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
