"""A log in which an offset falls due in every millisecond, and what a broker's sweeps leave of it.

One simple group a log partition, one topic, and partition N of it is due N milliseconds after the first. A sweep takes
what is due at its own instant, so that the newest offset that goes and the oldest that stays are neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.coordinator.partitioner import partition_of
from sexton.log.batch import Batch, TornTail, encode_batch, read_batches, read_records
from tests.log_builder import offset_key, offset_value
from tests.record_fields import decode_key

RETENTION_MS = 60_000
TOPIC = "t"
EXPIRE, COMMIT = "expire", "commit"
"""What makes an offset due: its own expire timestamp (value version 1), or its commit timestamp and the retention."""
_OFFSET_TYPE = 1
_VERSIONS = {EXPIRE: 1, COMMIT: 3}
_BATCH_RECORDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The log of one log partition: `count` offsets, the first of which is due at `first_due_ms`."""

    log_partition: int
    group_id: str
    kind: str
    first_due_ms: int
    count: int

    @property
    def last_due_ms(self) -> int:
        return self.first_due_ms + self.count - 1

    def segment(self) -> bytes:
        """The bytes of the log partition."""
        records = [self._record(number) for number in range(self.count)]
        stamp_ms = self.first_due_ms - RETENTION_MS
        return b"".join(
            encode_batch(records[at : at + _BATCH_RECORDS], base_offset=at, timestamp_ms=stamp_ms)
            for at in range(0, self.count, _BATCH_RECORDS)
        )

    def _record(self, number: int) -> tuple[bytes, bytes]:
        due_ms = self.first_due_ms + number
        key, value = offset_key(self.group_id, TOPIC, number), {"commit_timestamp_ms": due_ms - RETENTION_MS}
        if self.kind == EXPIRE:
            value = {"commit_timestamp_ms": self.first_due_ms, "expire_timestamp_ms": due_ms}
        return key, offset_value(number, version=_VERSIONS[self.kind], **value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one sweep appended: when its tombstones are stamped, and when the first and the last of them were due."""

    stamp_ms: int
    oldest_due_ms: int
    newest_due_ms: int


def ladders(*, kinds: Sequence[str], partition_count: int, first_due_ms: int, count: int) -> list[Ladder]:
    """One for each of `kinds`, from log partition 0 on."""
    names = [f"g{number}" for number in range(100 * partition_count)]
    return [
        Ladder(
            log_partition=log_partition,
            group_id=next(name for name in names if partition_of(name, partition_count) == log_partition),
            kind=kind,
            first_due_ms=first_due_ms,
            count=count,
        )
        for log_partition, kind in enumerate(kinds)
    ]


def sweeps_of(log: bytes, ladder: Ladder) -> list[Sweep]:
    """The sweeps in what a broker left of the log, in order.

    Raises AssertionError unless each takes the offsets that follow those of the sweep before, without a gap.
    """
    taken = batches_by_stamp(log, ladder)
    found, next_due_ms = [], ladder.first_due_ms
    for stamp_ms, due_ms in taken.items():
        assert sorted(due_ms) == [*range(next_due_ms, next_due_ms + len(due_ms))], (stamp_ms, next_due_ms)
        found.append(Sweep(stamp_ms=stamp_ms, oldest_due_ms=next_due_ms, newest_due_ms=max(due_ms)))
        next_due_ms += len(due_ms)
    return found


def batches_by_stamp(log: bytes, ladder: Ladder) -> dict[int, list[int]]:
    """By the stamp of the tombstones in a log, when the offsets that they take were due, in the order of the log."""
    taken: dict[int, list[int]] = {}
    for batch in read_batches(log):
        if isinstance(batch, TornTail):  # a live log, read while it is written
            break
        assert isinstance(batch, Batch), batch
        if batch.base_offset < ladder.count:
            continue
        for record in read_records(batch, cap_bytes=1 << 26):
            record_type, key = decode_key(record.key)
            assert record.value is None
            if record_type == _OFFSET_TYPE:
                taken.setdefault(record.timestamp_ms, []).append(ladder.first_due_ms + key["partition"])
    return taken
