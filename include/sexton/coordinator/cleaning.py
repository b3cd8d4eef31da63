"""The records that Kafka's log cleaner removes from a log partition, by log_offset.

Below the active segment and the first open transaction it removes records of aborted transactions, and all but the
newest record of each key. A later cleaning removes a tombstone, delete.retention.ms after the cleaning that first
reached it. Follows Cleaner and CleanedTransactionMetadata. Markers are kept here: a marker without records of its
transaction changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sexton.log.batch import Batch, Record, read_batches, read_records

_ABORT = bytes(4)
"""The key of an ABORT marker: version 0, type 0."""


@dataclass(slots=True)
class CleanableLog:
    """The records of a log partition, in order; `first_open` is the start of the first open transaction, if any."""

    records: list[Record] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    """Log offsets of records of aborted transactions."""
    first_open: int | None = None
    end: int = 0

    def gone(self, below: int, *, without_tombstones: int) -> frozenset[int]:
        """The log offsets of records that are removed when the log is cleaned below a log offset.

        Tombstones below `without_tombstones` are removed, too: 0 for the first cleaning that reaches them, `below` for
        a cleaning after delete.retention.ms.
        """
        below = below if self.first_open is None else min(below, self.first_open)
        newest = {one.key: one.log_offset for one in self.records if self._is_kept(one, below)}
        return frozenset(
            one.log_offset
            for one in self.records
            if one.log_offset < below
            and (
                not self._is_kept(one, below)
                or newest[one.key] != one.log_offset
                or (one.value is None and one.log_offset < without_tombstones)
            )
        )

    def _is_kept(self, record: Record, below: int) -> bool:
        """Whether a cleaning below that log offset may keep the record: it has a key, and its transaction was not
        aborted."""
        return record.log_offset < below and record.key is not None and record.log_offset not in self.aborted


def read_cleanable(chunks: Iterable[bytes], *, cap_bytes: int, end: int) -> CleanableLog:
    """The records of segments, up to the log offset `end`, and the fate of their transactions."""
    log, going = CleanableLog(end=end), dict[int, list[int]]()
    for batch in (found for chunk in chunks for found in read_batches(chunk)):
        if not isinstance(batch, Batch) or batch.base_offset >= end:
            continue
        records = [one for one in read_records(batch, cap_bytes=cap_bytes) if isinstance(one, Record)]
        if not batch.is_control:
            log.records += records
        if batch.is_transactional and not batch.is_control:
            going.setdefault(batch.producer_id, []).extend(one.log_offset for one in records)
        elif batch.is_control and records:
            ended = going.pop(batch.producer_id, [])
            if records[0].key == _ABORT:
                log.aborted.update(ended)
    log.first_open = min((offsets[0] for offsets in going.values() if offsets), default=None)
    return log
