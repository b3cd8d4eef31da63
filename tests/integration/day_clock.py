"""The broker of a scripted day (day.py), the hand that plays the script to the clock, and who writes down its answers.

Clients work in the first half of an hour; what becomes due a minute later does so in the first half of an hour, too, so
that the log is quiet when an hour ends. Then the broker is asked for everything that it knows, and `sexton snapshot`
copies the log while the next hour begins. When the day is over, the broker is made to compact.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyarrow import fs as pafs

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.client import client_config
from sexton.kafka.collect_metadata import log_ends
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.settings import Settings, environment, settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import TIMEOUT_S
from tests.airflow_database import project_home
from tests.archived import list_archived
from tests.integration.day_script import LOG_PARTITIONS, SESSION_TIMEOUT_MS, DayScript, Step
from tests.integration.random_work import Answers, told_by_broker
from tests.waiting import until

SETTLE_MS = 500
CLEAN_TIMEOUT_S = 120
SNAPSHOT_TIMEOUT_S = 300
INFLATED_BYTES = 1 << 24
LULL_S = 1.0
"""How long before the end of an hour the log has to be at rest."""
Say = Callable[[str], None]
LogOffsets = dict[int, set[int]]
"""By log partition."""


class TooSlow(Exception):
    """The machine did not keep up with the script's clock, so that nothing can be told of that day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The end of an hour, and what the broker answered while its log stood still around that instant."""

    at_ms: int
    answers: Answers


class Day:
    """Starts with `dawn`, then `live` and `compact`; `close` ends all that was started."""

    def __init__(self, home: Path, *, hour_s: int, say: Say) -> None:
        assert 60 % hour_s == 0, "else offsets become due in the wrong half of an hour"
        project_home(home)
        self.config = Settings(
            home=home, bootstrap_servers=f"127.0.0.1:{free_port()}", airflow_port=free_port(), settle_ms=SETTLE_MS
        )
        self._hour_s = hour_s
        self._say = say
        self._clients = client_config({}, bootstrap_servers=self.config.bootstrap_servers)
        self.broker = EmbeddedBroker(
            self.config.var / "kafka",
            port=int(self.config.bootstrap_servers.rpartition(":")[2]),
            java=find_java(settings().cache, variable("JAVA_HOME"), variable("PATH")),
            jars=jars.ensure(settings().cache, "kafka"),
            settings=_broker_settings(hour_s),
        )
        self._snapshot: subprocess.Popen[str] | None = None
        self._before_restart: dict[int, int] = {}
        """Where the log ended when nothing was done but a restart, which on a slow machine outlasts its hour."""
        self._closing = ExitStack()
        self.boundaries: list[Boundary] = []

    def dawn(self) -> DayScript:
        """Start the broker, make what is there before the day, take the first snapshot."""
        self._closing.callback(self.broker.stop)
        self.broker.start()
        self.script = DayScript(self._clients, ClusterSession(self._clients))
        self._closing.callback(self.script.close)
        self.script.make_topics()
        self._await_working_hours()
        self.script.night()
        self._take_snapshot()
        self._finish_snapshot()
        return self.script

    def live(self, begin_s: int, intervals: int) -> list[Boundary]:
        """Play all hours; the log is quiet at every boundary, or TooSlow."""
        waiting: list[Step] = []
        self._cross(begin_s)
        for hour in range(1, intervals + 1):
            waiting += [self._restart] if hour == max(2, intervals // 2) else []
            waiting += self.script.steps(hour)
            end_s = begin_s + hour * self._hour_s
            while waiting and time.time() < end_s - self._hour_s / 2:
                self._before_restart = {}
                waiting.pop(0)()
            self._cross(end_s)
            self._say(f"hour {hour}: {self.boundaries[-1].answers.count} answers, {len(waiting)} steps late")
        if waiting:
            raise TooSlow("steps are left when the day is over")
        self._finish_snapshot()
        return self.boundaries

    def compact(self) -> LogOffsets:
        """Make the broker clean its log; the log_offsets left on its disk once nothing archived and replaced is.

        What replaces the values of the last hour is archived first: else nobody here would know that they are replaced.
        """
        self.script.evening()
        self._take_snapshot()
        self._finish_snapshot()
        changes = {"min.compaction.lag.ms": "0", "segment.ms": "500"}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
        self.script.admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        _, replaced = archived_offsets(self.config.archive_uri)

        def cleaned() -> LogOffsets:
            self.script.evening()  # the newest segment is never cleaned
            left = _offsets_on_disk(self.broker.data)
            return {} if any(left[part] & gone for part, gone in replaced.items()) else left

        return until(cleaned, "the broker does not clean its log", within_s=CLEAN_TIMEOUT_S, every_s=1)

    def close(self) -> None:
        if self._snapshot:
            self._snapshot.kill()
            self._snapshot.wait()
        self._closing.close()

    def begin_s(self, intervals: int) -> int:
        """When a day can begin that ends with the last hour of a minute: a cron has no tick behind it then."""
        begin_s = (int(time.time()) // self._hour_s + 1) * self._hour_s
        while (begin_s + (intervals + 1) * self._hour_s) % 60:
            begin_s += self._hour_s
        return begin_s

    def _await_working_hours(self) -> None:
        while not 0 < time.time() % self._hour_s < self._hour_s / 3:
            time.sleep(0.1)

    def _cross(self, at_s: int) -> None:
        """Wait for the end of an hour, write down what the broker answers there, and begin to copy its log."""
        self._finish_snapshot()
        time.sleep(max(0.0, at_s - LULL_S - time.time()))
        before = self._ends()
        if time.time() >= at_s:
            before = self._before_restart
            if not before:
                raise TooSlow("an hour's work took longer than the hour")
        time.sleep(max(0.0, at_s + 0.05 - time.time()))
        answers = told_by_broker(
            self.script.session, [group.group_id for group in list_groups(self.script.session).groups]
        )
        after = self._ends()
        if before != after:
            raise TooSlow(f"the log is not quiet at the end of an hour: {before}, then {after}")
        self.boundaries.append(Boundary(at_ms=at_s * 1000, answers=answers))
        self._take_snapshot("--as-of", str(at_s * 1000))

    def _ends(self) -> dict[int, int]:
        session = self.script.session
        return {
            end.log_partition: end.high_watermark for end in log_ends(session, describe_topic(session, OFFSETS_TOPIC))
        }

    def _take_snapshot(self, *options: str) -> None:
        variables = {
            "SEXTON_HOME": str(self.config.home),
            "SEXTON_BOOTSTRAP_SERVERS": self.config.bootstrap_servers,
            "SEXTON_SETTLE_MS": str(SETTLE_MS),
        }
        command = [str(Path(sys.executable).parent / "sexton"), "snapshot", "--json", *options]
        self._snapshot = subprocess.Popen(
            command, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _finish_snapshot(self) -> None:
        if self._snapshot is None:
            return
        told, errors = self._snapshot.communicate(timeout=SNAPSHOT_TIMEOUT_S)
        assert self._snapshot.returncode == 0, errors
        assert json.loads(told)["warnings"] == []
        self._snapshot = None

    def _restart(self) -> None:
        """Stop the broker and start it again; each coordinator has loaded when it answers."""
        self._finish_snapshot()
        self._before_restart = self._ends()
        self.script.session.close()
        self.broker.stop()
        self.broker.start()
        self.script.session = ClusterSession(self._clients)
        for group in self.boundaries[-1].answers.groups:
            committed_offsets(self.script.session, group)
        self._say("the broker was restarted")


def _broker_settings(hour_s: int) -> dict[str, str]:
    """Offsets stay for a minute; segments are small, and cleaned once two snapshots have copied them."""
    return {
        "offsets.topic.num.partitions": str(LOG_PARTITIONS), "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "3000", "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS), "log.roll.ms": "5000",
        "log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.min.compaction.lag.ms": str(2 * hour_s * 1000),
    }  # fmt: skip


def archived_offsets(archive: str) -> tuple[LogOffsets, LogOffsets]:
    """The log_offsets of all archived records of data, and of those that a newer one has replaced.

    What replaces stands in no transaction: the cleaner does not count what was aborted.
    """
    held, replaced = {}, {}
    for part, segments in list_archived(pafs.LocalFileSystem(), archive).items():
        found = list(_records([Path(segment.path) for segment in segments]))
        newest = {record.key: record.log_offset for batch, record in found if not batch.is_transactional}
        held[part] = {record.log_offset for _, record in found}
        replaced[part] = {record.log_offset for _, record in found if record.log_offset < newest.get(record.key, 0)}
    return held, replaced


def _offsets_on_disk(data: Path) -> LogOffsets:
    folders = {int(path.name.rpartition("-")[2]): path for path in data.glob(f"{OFFSETS_TOPIC}-*") if path.is_dir()}
    return {
        part: {record.log_offset for _, record in _records(sorted(folder.glob("*.log")))}
        for part, folder in folders.items()
    }


def _records(files: Iterable[Path]) -> Iterator[tuple[Batch, Record]]:
    """The records of data in segments, with their batches; a segment that is just being deleted has none."""
    for file in files:
        if not file.exists():
            continue
        for batch in read_batches(file.read_bytes()):
            if isinstance(batch, Batch) and not batch.is_control:
                for record in read_records(batch, cap_bytes=INFLATED_BYTES):
                    assert isinstance(record, Record), record
                    yield batch, record
