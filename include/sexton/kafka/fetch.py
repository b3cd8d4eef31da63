"""Raw record batches of a partition, byte for byte as the broker keeps them (Fetch, read_uncommitted, codec kept).

Only each batch's frame is decoded: where it begins, its base offset, its last offset and its leader epoch.
Consumers and Spark's Kafka source hide batch headers, producer ids and control batches, without which the coordinator's
replay is not exact.

Not here: what to fetch and where to put it (pipeline/fetch_log.py), and what is inside a batch (log/).
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from sexton.errors import BrokerError
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import (
    NO_EPOCH,
    NO_LEADER,
    READ_UNCOMMITTED,
    PartitionLeader,
    Topic,
    describe_topic,
    end_of_epoch,
)
from sexton.log.entry import LAST_DELTA_AT, LEADER_EPOCH_AT, MAGIC_AT
from sexton.records import ZERO_UUID, parse_kafka_uuid

LAST_VERSION_BY_NAME = 12
FIRST_VERSION_BY_ID = 13
"""The first version with topic ids (Kafka 3.1), which exclude bytes of a recreated topic; later versions add nothing
that is needed here."""
RESPONSE_BYTES = 8 * 1024 * 1024
MAX_WAIT_MS = 500

_OFFSET_AND_SIZE = struct.Struct(">qi")
_INT32 = struct.Struct(">i")


class LogChangedError(BrokerError):
    """The log has, or may have, changed since it was described: describe it again before reading on."""


class OutOfRangeError(LogChangedError):
    """The log begins above the requested offset, or ends below it."""


class DivergedError(LogChangedError):
    """An election truncated records that were read already: the log now has other records there (KIP-320)."""


class LeaderMovedError(LogChangedError):
    """Another leader was elected while another reader reads the earlier batches: this reader cannot validate those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Complete batches in log order, and the broker's partition data in the same answer.

    `next_offset` is the offset after the last batch of `data`; `leader_epoch` is that of this batch, -1 when unknown.
    """

    data: bytes
    base_offset: int
    next_offset: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The batches of one answer that begin in a range: bytes [start_byte, end_byte); no batch when the two are equal.

    `next_offset` is the offset after the last complete batch, even if that batch belongs to an earlier range; None if
    the answer has no complete batch below the range's end. `is_last`: a batch at or above the range's end follows.
    `leader_epoch` is that of the last batch in the range, -1 when there is none or it is unknown.
    """

    start_byte: int
    end_byte: int
    base_offset: int
    next_offset: int | None
    is_last: bool
    leader_epoch: int = NO_EPOCH


class Pace:
    """Limits readers in several threads to a number of bytes per second; an answer has at most one second's bytes."""

    def __init__(
        self,
        bytes_per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock, self._sleep = clock, sleep
        self._free_at = clock()
        self._lock = threading.Lock()
        self.is_stopped = False
        """Whether the readers have to stop."""

    def spend(self, size_bytes: int) -> None:
        """Wait until these bytes, after all earlier ones, fit into the rate."""
        with self._lock:
            self._free_at = free_at = max(self._free_at, self._clock()) + size_bytes / self.bytes_per_second
        while (left := free_at - self._clock()) > 0:
            self._sleep(left)
        if self.is_stopped:
            raise LogChangedError("the reading was given up")


class BatchReader:
    """Reads a partition's batches, one answer of a broker at a time.

    An answer has at most `response_bytes` and at most the bytes that the pace allows in a second; a single larger batch
    is still returned complete.
    """

    def __init__(self, where: str, response_bytes: int, pace: Pace | None) -> None:
        self.where, self._pace = where, pace
        self._response_bytes = min(response_bytes, pace.bytes_per_second) if pace else response_bytes

    def _read_range(self, ask: Callable[[int], Any], start: int, end: int) -> Iterator[FetchedBatches]:
        """The batches whose base offset is in [start, end), in order, one answer at a time.

        `ask` returns a partition's data in a Fetch answer at a position, None where a quota delayed it.
        """
        position, empty_answers = start, 0
        while position < end and empty_answers < 2:
            answer = ask(position)
            if answer is None:
                continue
            data = answer.records or b""
            frames = frame(data, start=start, end=end)
            if frames.end_byte > frames.start_byte:
                yield FetchedBatches(
                    data=data[frames.start_byte : frames.end_byte],
                    base_offset=frames.base_offset,
                    next_offset=frames.next_offset or 0,
                    leader_epoch=frames.leader_epoch,
                    log_start_offset=answer.log_start_offset,
                    high_watermark=answer.high_watermark,
                    last_stable_offset=answer.last_stable_offset,
                )
            if self._pace:
                self._pace.spend(len(data))
            if frames.is_last:
                return
            if frames.next_offset is not None and frames.next_offset > position:
                position, empty_answers = frames.next_offset, 0
            elif data:
                raise self._damaged(len(data), position)
            else:
                # Compaction can have removed all remaining batches below `end`; ask twice, since a fetch may end early
                # for other reasons.
                empty_answers += 1

    def _damaged(self, size_bytes: int, position: int) -> BrokerError:
        """The error for bytes without a complete batch."""
        return BrokerError(f"got {size_bytes} bytes that hold no whole batch at {position}", where=self.where)


class LogReader(BatchReader):
    """Reads one partition from its current leader, and never across a break of the log.

    Every request names the reader's leader epoch. After an election the broker refuses it, and the new leader is asked
    where the epoch of the last batch ends: if that is below the reader's position, the log was truncated, and
    DivergedError is raised. `after_epoch` is the epoch of the batch before the first one to be read, -1 when there is
    none or it is unknown; None when other readers read the earlier batches at the same time: then an election raises
    LeaderMovedError, since their batches may be invalid.

    With `topic_id`, a recreated topic raises LogChangedError.
    """

    def __init__(
        self,
        session: ClusterSession,
        topic: str,
        partition: int,
        *,
        topic_id: str | None = None,
        leader: PartitionLeader | None = None,
        after_epoch: int | None = NO_EPOCH,
        response_bytes: int = RESPONSE_BYTES,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(f"{topic}-{partition} on {session.config.bootstrap_servers}", response_bytes, pace)
        self._session, self._topic, self._partition = session, topic, partition
        self._topic_id = topic_id
        self._leader = leader
        self._is_sure = leader is not None
        self._after_epoch = after_epoch

    def read(self, *, start: int, end: int) -> Iterator[FetchedBatches]:
        """The batches whose base offset is in [start, end), in order, one answer of the leader at a time.

        Call it with ranges in log order. Raises LogChangedError as the class says, and when the log no longer has
        `start` or ends below `end`, UsageError when the topic is absent or may not be read, BrokerError when the leader
        cannot be reached for a minute.
        """

        def ask(position: int) -> Any:
            return self._session.retrying(lambda: self._fetch(position, end))

        for batches in self._read_range(ask, start, end):
            if batches.leader_epoch != NO_EPOCH and self._after_epoch is not None:
                self._after_epoch = batches.leader_epoch
            yield batches

    def _fetch(self, position: int, end: int) -> Any:
        if self._leader is None or not self._is_sure:
            self._leader = self._find(position)
        leader, self._is_sure = self._leader, False  # until this request has worked
        answers = fetch_partitions(
            self._session,
            leader.node_id,
            self._topic,
            {self._partition: (position, leader.epoch)},
            topic_id=self._topic_id,
            max_bytes=self._response_bytes,
            where=self.where,
        )
        if answers is None:
            self._is_sure = True
            return None
        found = answers[self._partition]
        if found.error_code == kafka_errors.OffsetOutOfRangeError.errno:
            raise OutOfRangeError(f"the log does not hold offset {position}", where=self.where)
        if found.error_code == kafka_errors.UnknownTopicOrPartitionError.errno:
            # A broker that just lost the partition, or has not yet learned of it, answers this too; Metadata says
            # whether the topic is gone.
            raise TransientError("the broker does not know the partition", where=self.where)
        self._session.check(found.error_code, "Fetch", where=self.where, topic=self._topic)
        if not found.records and found.high_watermark < end:
            # The missing records were truncated, or the new leader has not learned yet that they are committed. In
            # either case the range is not empty.
            why = f"the log was committed up to {end}, now to {found.high_watermark}"
            raise LogChangedError(why, where=self.where)
        self._is_sure = True
        return found

    def _find(self, position: int) -> PartitionLeader:
        """The current leader; raises when the records read below `position` are not part of its log."""
        topic = describe_topic(self._session, self._topic, call="Fetch")
        if self._topic_id not in (None, topic.topic_id):
            why = f"its id was {self._topic_id} and is {topic.topic_id}"
            raise LogChangedError(f"the topic was deleted and created again: {why}", where=self.where)
        if self._partition not in topic.leaders:
            raise BrokerError(f"there is no such partition: the topic has {len(topic.leaders)}", where=self.where)
        leader = topic.leaders[self._partition]
        if leader.node_id == NO_LEADER:
            raise TransientError("the partition has no leader", where=self.where)
        if self._leader and (leader.epoch != self._leader.epoch or leader.epoch == NO_EPOCH):
            self._vouch(topic, position)
        return leader

    def _vouch(self, topic: Topic, position: int) -> None:
        if self._after_epoch is None:
            raise LeaderMovedError("another leader was elected while its log was read in parallel", where=self.where)
        if self._after_epoch == NO_EPOCH:
            return
        epoch, end_offset = end_of_epoch(self._session, topic, {self._partition: self._after_epoch})[self._partition]
        if epoch != self._after_epoch or end_offset < position:
            why = f"leader epoch {self._after_epoch} was read up to {position} and now ends at {end_offset}"
            raise DivergedError(f"an election truncated the log: {why}", where=self.where)


def fetch_partitions(
    session: ClusterSession,
    node_id: int,
    topic: str,
    positions: Mapping[int, tuple[int, int]],
    *,
    topic_id: str | None,
    max_bytes: int,
    max_wait_ms: int = MAX_WAIT_MS,
    min_version: int | None = None,
    where: str,
) -> dict[int, Any] | None:
    """One broker's answer to Fetch, by partition; `positions` has the offset and the leader epoch of each partition.

    None where the client is over its quota: the answer then has no partition at all
    (FetchContext.getThrottledResponse), and this has waited. The caller handles error codes of partitions.
    """
    Wanted = FetchRequest.FetchTopic.FetchPartition  # noqa: N806 (a class)
    partitions = [
        Wanted(partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=max_bytes)
        for partition, (offset, epoch) in positions.items()
    ]
    wire_id = parse_kafka_uuid(topic_id) if topic_id else ZERO_UUID
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=READ_UNCOMMITTED,
        session_id=0,
        session_epoch=-1,  # no fetch session: every request is complete
        topics=[FetchRequest.FetchTopic(topic=topic, topic_id=wire_id, partitions=partitions)],
        min_version=min_version,
        max_version=LAST_VERSION_BY_NAME if wire_id == ZERO_UUID else FIRST_VERSION_BY_ID,
    )
    answer = session.call(request, node_id=node_id)
    session.check(answer.error_code, "Fetch", where=where, topic=topic)
    if not answer.responses and answer.throttle_time_ms > 0:
        return None
    return {one.partition_index: one for found in answer.responses for one in found.partitions}


def frame(data: bytes, *, start: int, end: int) -> Frames:
    """Find the complete batches in `data` whose base offset is in [start, end); an incomplete last batch is ignored.

    A batch belongs to the range that contains its base offset. An entry of magic 0 or 1 has the offset of its last
    record in that field. This works too: every reader sees the same number.
    """
    at = start_byte = 0
    first: int | None = None
    next_offset: int | None = None
    epoch, is_last = NO_EPOCH, False
    while at + MAGIC_AT < len(data):
        base_offset, size = _OFFSET_AND_SIZE.unpack_from(data, at)
        stop = at + _OFFSET_AND_SIZE.size + size
        if size <= 0 or stop > len(data):
            break
        if base_offset >= end:
            is_last = True
            break
        if base_offset < start:
            start_byte = stop
        elif first is None:
            first = base_offset
        is_modern = data[at + MAGIC_AT] >= 2
        delta = _INT32.unpack_from(data, at + LAST_DELTA_AT)[0] if is_modern else 0
        if base_offset >= start:
            epoch = _INT32.unpack_from(data, at + LEADER_EPOCH_AT)[0] if is_modern else NO_EPOCH
        next_offset = base_offset + delta + 1
        at = stop
    return Frames(
        start_byte=start_byte,
        end_byte=at,
        base_offset=first or 0,
        next_offset=next_offset,
        is_last=is_last,
        leader_epoch=epoch,
    )
