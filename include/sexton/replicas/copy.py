"""Copies the replicas of `__consumer_offsets` from their brokers into folders in the layout of a broker's disk.

    <folder>/broker-<id>/meta.properties                                   cluster.id and node.id
                        /replication-offset-checkpoint                     the broker's own high watermarks
                        /log-start-offset-checkpoint                       and log starts
                        /__consumer_offsets-<N>/<first log_offset>.log     batches up to that high watermark, unchanged
                                               /leader-epoch-checkpoint
                                               /partition.metadata
    <folder>/replicas.json                                                 the state of every replica, written last

Any reader of a broker's disk can read such a folder. Segments end at other offsets than the broker's, and
leader-epoch-checkpoint lacks leader epochs whose batches were all cleaned away: these are the files that a new replica
would write if it fetched these bytes.

A replica that cannot be read completely has no folder: an incomplete copy would look like a log that lost records. Log
partitions of a broker are read one after the other, brokers in parallel.
"""

import json
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import BinaryIO

from sexton.errors import BrokerError, UsageError
from sexton.kafka.broker_settings import DELETE_RETENTION, TOPIC, described
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import NotAllowed
from sexton.kafka.fetch import FetchedBatches, Pace
from sexton.kafka.replicas import (
    FIXES,
    Fault,
    LogMovedError,
    PassingFault,
    Replica,
    ReplicaProbe,
    ReplicaReader,
    Replicas,
    describe_replicas,
    fault_of,
)
from sexton.kafka.session import ClusterSession, Connect
from sexton.log.crc import as_u8
from sexton.log.framing import GOOD, KIND, frames
from sexton.log.headers import headers_of
from sexton.topics import OFFSETS_TOPIC

SEGMENT_BYTES = 100 * 1024 * 1024
"""Kafka's offsets.topic.segment.bytes."""
BROKERS_AT_ONCE = 8
ATTEMPTS = 4
"""How often a replica is read from its start, if elections or a moving log start interrupt the reading."""
STATES_FILE = "replicas.json"
_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedReplica(Replica):
    """The result of copying one replica; `folder` is None if there is no copy.

    Offsets are the broker's own. `fault`, `error` and `fix` describe a fault (kafka.replicas.FIXES). If there is a
    folder despite a fault, it has all bytes, including those that are damaged on the broker. `seconds` is the reading
    time.
    """

    folder: str | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    size_bytes: int = 0
    seconds: float = 0.0
    fault: Fault | None = None
    error: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCopy:
    """The copies of all replicas, in order of brokers and log partitions. `warnings` say which records may be missing
    even from good copies."""

    cluster_id: str
    topic_id: str | None
    taken_at_ms: int
    replicas: Sequence[CopiedReplica]
    warnings: Sequence[str] = ()


def copy_replicas(
    config: ClientConfig,
    folder: Path,
    log_partitions: Collection[int] | None = None,
    *,
    taken_at_ms: int,
    connect: Connect = ClusterSession,
    bytes_per_second: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReplicaCopy:
    """Copy every replica of all or the given log partitions into `folder`, which must be empty or new.

    A replica's fault is in its CopiedReplica. `taken_at_ms` is now. `bytes_per_second` limits the total rate of
    reading. `progress` is called with the numbers of replicas done and of all replicas. Raises UsageError when the
    folder is not empty, when the topic does not exist, and without the right to read it; BrokerError when the cluster
    cannot be reached.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("there is something already", where=folder, fix="give a new folder: copies are not mixed")
    retention_ms = None
    with connect(config) as session:
        replicas = describe_replicas(session, OFFSETS_TOPIC, log_partitions)
        with suppress(BrokerError):  # also if this principal may not see the setting
            (found,) = described(session, (TOPIC, OFFSETS_TOPIC))
            retention_ms = int(found.settings[DELETE_RETENTION]) if DELETE_RETENTION in found.settings else None
    brokers = sorted({one.broker for one in replicas.replicas})
    workers = min(len(brokers), BROKERS_AT_ONCE)
    rate = bytes_per_second and max(1, bytes_per_second // workers)
    done, stop = count(1), Event()

    def is_done() -> None:
        if progress:
            progress(next(done), len(replicas.replicas))

    def copy_of(broker: int) -> list[CopiedReplica]:
        target = folder / f"broker-{broker}"
        pace = Pace(rate) if rate else None
        return _BrokerCopier(config, connect, replicas, broker, target, stop, pace).copy(is_done)

    with ThreadPoolExecutor(workers) as pool:
        try:
            states = [state for found in pool.map(copy_of, brokers) for state in found]
        except BaseException:
            stop.set()
            raise
    copied = ReplicaCopy(
        cluster_id=replicas.cluster_id,
        topic_id=replicas.topic_id,
        taken_at_ms=taken_at_ms,
        replicas=states,
        warnings=_warnings(states, retention_ms),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATES_FILE).write_text(json.dumps(asdict(copied), indent=2) + "\n", encoding="utf-8")
    return copied


@dataclass(slots=True)
class _BrokerCopier:
    """Copies the replicas of one broker over its own connection; ends early if `stop` is set."""

    _config: ClientConfig
    _connect: Connect
    _replicas: Replicas
    _broker: int
    _folder: Path
    _stop: Event
    _pace: Pace | None
    _is_patient: bool = True
    """Whether to retry after transient faults; False after the first that did not pass, otherwise every further log
    partition would wait as long."""

    def copy(self, is_done: Callable[[], None]) -> list[CopiedReplica]:
        states: list[CopiedReplica] = []
        asked = self._replicas.of_broker(self._broker)
        try:
            with self._connect(self._config) as session:
                for replica in asked:
                    states.append(self._copy_replica(session, replica))
                    is_done()
        except NotAllowed:
            raise
        except BrokerError as error:  # the broker does not answer: do not wait for it once per log partition
            states += [_failed(replica, error) for replica in asked[len(states) :]]
        self._write_checkpoints([state for state in states if state.folder])
        return states

    def _copy_replica(self, session: ClusterSession, replica: Replica) -> CopiedReplica:
        """Read a replica from its start, and again from its start if the log has changed. An unreachable broker raises
        the error; other faults are returned."""
        name, replicas = f"{self._replicas.topic}-{replica.log_partition}", self._replicas
        for attempts_left in reversed(range(ATTEMPTS)):
            target = self._folder / f"{name}.part"
            try:
                state = self._attempt(session, replicas, replica, target)
            except BrokerError as error:
                shutil.rmtree(target, ignore_errors=True)
                if fault_of(error) == "unreachable":
                    raise
                self._is_patient = self._is_patient and not isinstance(error, PassingFault)
                if not isinstance(error, LogMovedError) or not attempts_left:
                    return _failed(replica, error)
                time.sleep(_PAUSE_S)
                replicas = describe_replicas(session, replicas.topic, [replica.log_partition])
                replica = next(iter(replicas.of_broker(self._broker)), replica)
            else:
                target.rename(self._folder / name)
                return replace(state, folder=str(self._folder / name))
        raise AssertionError("the last attempt returns")

    def _attempt(self, session: ClusterSession, replicas: Replicas, replica: Replica, target: Path) -> CopiedReplica:
        reader = ReplicaReader(session, replicas, replica, is_patient=self._is_patient, pace=self._pace)
        begun, begun_s = reader.begin(), time.monotonic()
        target.mkdir(parents=True)
        with closing(_LogWriter(target, begun.log_start_offset or 0)) as log:
            for batches in reader.read(begun):
                if self._stop.is_set():
                    raise BrokerError("the command was stopped")
                log.write(batches)
        state = replace(_state(replica, begun), size_bytes=log.size_bytes, seconds=time.monotonic() - begun_s)
        epochs = [f"{epoch} {log_offset}" for epoch, log_offset in log.epochs]
        _write_lines(target / "leader-epoch-checkpoint", ["0", str(len(epochs)), *epochs])
        if replicas.topic_id:
            _write_lines(target / "partition.metadata", ["version: 0", f"topic_id: {replicas.topic_id}"])
        if log.first_bad is None:
            return state
        error = f"a damaged batch in the bytes from {log.first_bad} on"
        return replace(state, fault="corrupt", error=error, fix=FIXES["corrupt"])

    def _write_checkpoints(self, states: Sequence[CopiedReplica]) -> None:
        if not states:
            return
        meta = [f"node.id={self._broker}", "version=1", f"cluster.id={self._replicas.cluster_id}"]
        _write_lines(self._folder / "meta.properties", meta)
        for name, field in (
            ("replication-offset-checkpoint", "high_watermark"),
            ("log-start-offset-checkpoint", "log_start_offset"),
        ):
            lines = [f"{self._replicas.topic} {state.log_partition} {getattr(state, field)}" for state in states]
            _write_lines(self._folder / name, ["0", str(len(lines)), *lines])


class _LogWriter:
    """Writes the batches of one log into segments, and notes leader epochs and the first bad batch."""

    def __init__(self, folder: Path, log_start_offset: int) -> None:
        self._folder = folder
        self._file: BinaryIO = (folder / f"{log_start_offset:020d}.log").open("xb")
        self._segment_bytes = self.size_bytes = 0
        self.first_bad: int | None = None
        self.epochs: list[tuple[int, int]] = []

    def close(self) -> None:
        self._file.close()

    def write(self, batches: FetchedBatches) -> None:
        if self._segment_bytes and self._segment_bytes + len(batches.data) > SEGMENT_BYTES:
            self._file.close()
            self._file = (self._folder / f"{batches.base_offset:020d}.log").open("xb")
            self._segment_bytes = 0
        self._segment_bytes += self._file.write(batches.data)
        self.size_bytes += len(batches.data)
        data = as_u8(batches.data)
        if self.first_bad is None and any((rows[:, KIND] != GOOD).any() for rows in frames(data)):
            self.first_bad = batches.base_offset
        for headers in headers_of(data):
            for epoch, base_offset in zip(headers.leader_epoch.tolist(), headers.base_offset.tolist(), strict=True):
                if epoch > (self.epochs[-1][0] if self.epochs else -1):
                    self.epochs.append((epoch, base_offset))


def _state(replica: Replica, begun: ReplicaProbe | None = None) -> CopiedReplica:
    offsets = ("log_start_offset", "high_watermark", "last_stable_offset")
    return CopiedReplica(**asdict(replica), **{name: getattr(begun, name) for name in offsets if begun})


def _failed(replica: Replica, error: BrokerError) -> CopiedReplica:
    fault = fault_of(error)
    return replace(
        _state(replica),
        fault=fault,
        error=error.message,
        fix=(error.fix if fault == "failed" else None) or FIXES[fault],
    )


def _warnings(states: Sequence[CopiedReplica], retention_ms: int | None) -> list[str]:
    """Warnings about copies that took longer than delete.retention.ms: such a copy may have a value and lack its
    tombstone, which was cleaned away in between."""
    slow = [state.seconds for state in states if state.folder and state.seconds * 1000 > (retention_ms or 0)]
    if not slow or retention_ms is None:
        return []
    took = f"{len(slow)} of {len(states)} replicas took up to {max(slow):.1f} s to read"
    limit = f"longer than {DELETE_RETENTION}, {retention_ms / 1000:.1f} s"
    return [f"{took}, {limit}: a tombstone or marker may be missing whose value was read before"]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
