"""The end of a log partition: records written since the last read, byte for byte and record by record.

Reads up to the high watermark, including open transactions and markers, and never across a break of the log (fetch.py).
"""

from typing import NamedTuple

from sexton.errors import BrokerError
from sexton.kafka.fetch import LogChangedError, LogReader
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import high_watermark
from sexton.log.batch import BadRecord, Batch, read_batches, read_records

INFLATED_BYTES = 256 * 1024 * 1024
"""Limit of one batch's inflated bytes: a broker accepts a megabyte by default, and a hostile batch must not fill the
memory."""


class TailRecord(NamedTuple):
    """A record of the log. A `value` of None is a tombstone; `producer_id` is -1 without a producer.

    `is_control` marks the end of a transaction: all pending records of `producer_id` are then committed or aborted
    (`log.batch.marker_of` says which), however far back in the log they are.
    """

    log_offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    producer_id: int
    is_control: bool


class TailReader:
    """Reads one log partition from `from_log_offset` on; each call returns the new records.

    `log_offset` is the reader's position: everything below it has been returned. With `topic_id`, a recreated topic
    raises LogChangedError.
    """

    def __init__(
        self,
        session: ClusterSession,
        topic: str,
        log_partition: int,
        *,
        from_log_offset: int,
        topic_id: str | None = None,
    ) -> None:
        self.log_offset = from_log_offset
        self._session, self._topic, self._log_partition = session, topic, log_partition
        self._reader = LogReader(session, topic, log_partition, topic_id=topic_id)

    def read(self) -> bytes:
        """The raw batches since the last call up to the current high watermark; b"" when there are none.

        Raises LogChangedError when the log is not what was read before (an election truncated it, the topic was
        recreated, unread records were deleted), BrokerError when its leader cannot be reached for a minute. The next
        call then begins at the same position.
        """
        end = self._session.retrying(
            lambda: high_watermark(self._session, self._topic, self._log_partition, call="Fetch")
        )
        if end < self.log_offset:
            why = f"the log was committed up to {self.log_offset}, now to {end}"
            raise LogChangedError(why, where=self._reader.where)
        data = b"".join(batches.data for batches in self._reader.read(start=self.log_offset, end=end))
        self.log_offset = end
        return data

    def records(self) -> list[TailRecord]:
        """`read`, decoded by `records_of`."""
        return records_of(self.read())


def records_of(data: bytes) -> list[TailRecord]:
    """Every record of complete raw batches, including transaction markers, in log order.

    Raises BrokerError for anything unreadable: it may be a commit.
    """
    found: list[TailRecord] = []
    for batch in read_batches(data):
        if not isinstance(batch, Batch) or not batch.crc_ok:
            raise BrokerError(f"the bytes at {batch.position} are not a whole record batch")
        for record in read_records(batch, cap_bytes=INFLATED_BYTES):
            if isinstance(record, BadRecord):
                place = f"log_offset {record.log_offset if record.log_offset is not None else batch.base_offset}"
                raise BrokerError(f"a record that cannot be read: {record.reason}: {record.detail}", where=place)
            of_record = record.log_offset, record.key, record.value, record.timestamp_ms
            found.append(TailRecord(*of_record, producer_id=batch.producer_id, is_control=batch.is_control))
    return found
