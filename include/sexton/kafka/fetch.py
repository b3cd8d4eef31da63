"""Raw record batches of a partition, byte for byte as the broker keeps them (Fetch, read_uncommitted, codec kept).

Nothing is decoded here but each batch's frame: where it begins, its base offset and its last one. Consumers and Spark's
Kafka source hide batch headers, producer ids and control batches, without which the coordinator's replay is not exact.

Not here: what to fetch and where to put it (stages/snapshot_log.py), and what is inside a batch (log/).
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from sexton.errors import BrokerError
from sexton.kafka.session import ClusterSession, TransientError, check
from sexton.kafka.topics import NO_LEADER, READ_UNCOMMITTED, describe_topic

LAST_VERSION_BY_NAME = 12
"""From version 13 on Fetch names topics by id only; 12 has all that is needed here."""
RESPONSE_BYTES = 8 * 1024 * 1024
MAX_WAIT_MS = 500

_OFFSET_AND_SIZE = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_MAGIC_AT = 16
_LAST_OFFSET_DELTA_AT = 23
_LEGACY_HEADER_BYTES = 17


class OutOfRangeError(BrokerError):
    """The log begins above the offset that was asked for, or ends below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Whole batches in log order, and what the broker said of the partition with them.

    `next_offset` is the one behind the last batch of `data`.
    """

    data: bytes
    base_offset: int
    next_offset: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The batches of one answer that begin in a range: bytes [start_byte, end_byte), none when these are equal.

    `next_offset` is the one behind the last whole batch, also behind batches that belong to an earlier range; None when
    the answer holds no whole batch below the range's end. `is_last` when a batch at or above the range's end follows.
    """

    start_byte: int
    end_byte: int
    base_offset: int
    next_offset: int | None
    is_last: bool


def fetch_range(
    session: ClusterSession,
    topic: str,
    partition: int,
    *,
    start: int,
    end: int,
    response_bytes: int = RESPONSE_BYTES,
) -> Iterator[Batches]:
    """The batches whose base offset is in [start, end), in order, one answer of the leader at a time.

    `response_bytes` bounds the memory of one step; a single larger batch still comes whole. Raises OutOfRangeError when
    the log does not hold `start` any more, UsageError when the topic is absent or may not be read, BrokerError when the
    leader cannot be reached for a minute.
    """
    leader = _Leader(session, topic, partition, response_bytes=response_bytes)
    position, empty_answers = start, 0
    while position < end and empty_answers < 2:
        answer = leader.fetch(position)
        data = answer.records or b""
        frames = frame(data, start=start, end=end)
        if frames.end_byte > frames.start_byte:
            yield Batches(
                data=data[frames.start_byte : frames.end_byte],
                base_offset=frames.base_offset,
                next_offset=frames.next_offset or 0,
                log_start_offset=answer.log_start_offset,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
            )
        if frames.is_last:
            return
        if frames.next_offset is not None:
            position, empty_answers = frames.next_offset, 0
        elif data:
            raise BrokerError(f"got {len(data)} bytes that hold no whole batch at {position}", place=leader.place)
        else:
            # Compaction can have taken all that was left below `end`; but a throttled answer is empty too: ask twice.
            empty_answers += 1


def frame(data: bytes, *, start: int, end: int) -> Frames:
    """Find the whole batches in `data` whose base offset is in [start, end); a batch cut off at the end is left.

    A batch belongs to the range that holds its base offset. An entry of magic 0 or 1 carries the offset of its last
    record there, which serves as well: it is one number for every reader.
    """
    at = start_byte = 0
    first: int | None = None
    next_offset: int | None = None
    while at + _LEGACY_HEADER_BYTES <= len(data):
        base_offset, size = _OFFSET_AND_SIZE.unpack_from(data, at)
        stop = at + _OFFSET_AND_SIZE.size + size
        if size <= 0 or stop > len(data):
            break
        if base_offset >= end:
            return Frames(
                start_byte=start_byte, end_byte=at, base_offset=first or 0, next_offset=next_offset, is_last=True
            )
        if base_offset < start:
            start_byte = stop
        elif first is None:
            first = base_offset
        delta = _LAST_OFFSET_DELTA.unpack_from(data, at + _LAST_OFFSET_DELTA_AT)[0] if data[at + _MAGIC_AT] >= 2 else 0
        next_offset = base_offset + delta + 1
        at = stop
    return Frames(start_byte=start_byte, end_byte=at, base_offset=first or 0, next_offset=next_offset, is_last=False)


class _Leader:
    """Fetches from whoever leads the partition, finding the new leader when it has moved."""

    def __init__(self, session: ClusterSession, topic: str, partition: int, *, response_bytes: int) -> None:
        self.place = f"{topic}-{partition} on {session.config.bootstrap_servers}"
        self._session, self._topic, self._partition = session, topic, partition
        self._response_bytes = response_bytes
        self._node_id: int | None = None

    def fetch(self, position: int) -> Any:
        """The partition's part of one Fetch answer from `position` on; waits and asks anew while the leader moves."""
        return self._session.retrying(lambda: self._fetch(position))

    def _fetch(self, position: int) -> Any:
        node_id = self._node_id if self._node_id is not None else self._find()
        self._node_id = None  # until this has worked
        answer = self._session.call(self._request(position), node_id=node_id)
        if answer.throttle_time_ms:
            time.sleep(answer.throttle_time_ms / 1000)  # the connection refuses requests until then
        check(answer.error_code, place=self.place, topic=self._topic)
        found = answer.responses[0].partitions[0]
        if found.error_code == kafka_errors.OffsetOutOfRangeError.errno:
            raise OutOfRangeError(f"the log does not hold offset {position}", place=self.place)
        if found.error_code == kafka_errors.UnknownTopicOrPartitionError.errno:
            # Also what a broker says that has just lost or not yet learned it; Metadata tells whether it is gone.
            raise TransientError("the broker does not know the partition", place=self.place)
        check(found.error_code, place=self.place, topic=self._topic)
        self._node_id = node_id
        return found

    def _find(self) -> int:
        leaders = describe_topic(self._session, self._topic).leaders
        if self._partition not in leaders:
            raise BrokerError(f"there is no such partition: the topic has {len(leaders)}", place=self.place)
        if leaders[self._partition].node_id == NO_LEADER:
            raise TransientError("the partition has no leader", place=self.place)
        return leaders[self._partition].node_id

    def _request(self, position: int) -> FetchRequest:
        wanted = FetchRequest.FetchTopic.FetchPartition(
            partition=self._partition,
            fetch_offset=position,
            partition_max_bytes=self._response_bytes,
        )
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._response_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=0,
            session_epoch=-1,  # no fetch session: every request is complete
            topics=[FetchRequest.FetchTopic(topic=self._topic, partitions=[wanted])],
            max_version=LAST_VERSION_BY_NAME,
        )
