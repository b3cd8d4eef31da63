"""Records that the compiled loop did not accept, read by `log.batch` and decoded by `coordinator.decoding`.

The loop stops before the first record that it cannot read with certainty. The rest of that batch is read here: good
records go back to the loop, each as a batch of one record, and the others become rows of undecodable_records with the
plain reader's reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sexton.coordinator import decoding
from sexton.coordinator.decoding import Undecodable, UnknownType
from sexton.coordinator.profile import PendingRule, Profile
from sexton.errors import LogError
from sexton.kernels import layout as L
from sexton.kernels.layout import Bytes, Int64s
from sexton.log.batch import BadRecord, Batch, Record, marker_of, read_records
from sexton.log.entry import CONTROL_BIT, MAX_BAD_RECORDS
from sexton.log.varint import write_varint

_MARKER_KEYS = {"ABORT": bytes(4), "COMMIT": bytes(3) + b"\x01"}


MAX_RECORDS = 4096
"""Good records that are handed back at a time: a small batch may inflate to millions of them."""
UNKNOWN_ORDER = -1
NOWHERE = -1
UndecodableRows = list[tuple[int, Undecodable]]
"""Records that could not be decoded, each with its `log_order`."""


def keep_undecodable(found: UndecodableRows, where: int, row: Undecodable) -> bool:
    """Append a row; False beyond the limit, where the caller only counts the row.

    The row is ordered after the earlier ones, even if a batch with more records than its header says has log_offsets
    of the next batch.
    """
    if not decoding.is_kept(row, (other for _, other in found), count=len(found)):
        return False
    found.append((max(where, found[-1][0]) if found else where, decoding.shortened(row, len(found))))
    return True


def log_order(log_offset: int) -> int:
    """Sort order of a record among the undecodable records and damaged bytes of the log."""
    return 2 * log_offset


def log_order_before(log_offset: int) -> int:
    """Sort order of damage before `log_offset`; for a negative offset UNKNOWN_ORDER, which is lower than any other."""
    return UNKNOWN_ORDER if log_offset < 0 else 2 * log_offset - 1


@dataclass(slots=True)
class SlowPart:
    """The plain reader's result for the rest of a batch, or for a slice of it."""

    profile: Profile
    undecodable: UndecodableRows = field(default_factory=list)
    unknown_types: list[int] = field(default_factory=list)
    unfolded_records: int = 0
    """Records that count as read and do not go back to the loop."""
    reached: int = NOWHERE
    """The log_offset after the last record."""
    batches: list[list[int]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    def rows(self) -> tuple[Int64s, Bytes]:
        """The good records as batches for the loop, and the arena that holds them."""
        shape = (len(self.batches), L.BATCH_COLUMNS)
        arena = np.frombuffer(bytes(self.body), np.uint8)
        return np.array(self.batches, np.int64).reshape(shape), arena

    def take(self, batch: Batch, record: Record, key: bytes) -> None:
        """Give a good record back to the loop."""
        body = b"\0\0\0" + write_varint(len(key)) + key
        body += write_varint(-1) if record.value is None else write_varint(len(record.value)) + record.value
        body += b"\0"
        row = [0] * L.BATCH_COLUMNS
        row[L.B_SOURCE] = L.IN_ARENA
        row[L.B_BODY] = len(self.body)
        self.body += write_varint(len(body)) + body
        row[L.B_BODY_END] = len(self.body)
        row[L.B_BASE_OFFSET] = record.log_offset
        row[L.B_ATTRIBUTES] = CONTROL_BIT if batch.is_control else 0
        row[L.B_ATTRIBUTES] |= L.TRANSACTIONAL if batch.is_transactional else 0
        row[L.B_BASE_MS] = row[L.B_MAX_MS] = record.timestamp_ms
        row[L.B_PRODUCER] = batch.producer_id
        row[L.B_EPOCH] = batch.producer_epoch
        row[L.B_COUNT] = 1
        row[L.B_ORIGIN_OFFSET] = batch.base_offset
        self.batches.append(row)


def read_slowly(batch: Batch, *, folded: int, cap_bytes: int, profile: Profile) -> Iterator[SlowPart]:
    """Read `batch` again, skipping the `folded` records that the loop has folded; yields one part or more, in order."""
    found = SlowPart(profile)
    after = batch.base_offset
    if batch.is_control and batch.record_count == 0 and profile.empty_control_batch_fails:
        found.undecodable.append((log_order_before(after), decoding.empty_control_batch(batch)))
    bad = 0
    for index, record in enumerate(read_records(batch, cap_bytes=cap_bytes)):
        if bad == MAX_BAD_RECORDS:
            rest = decoding.rest_of_batch(batch, index=index, profile=profile)
            found.undecodable.append((log_order_before(after), rest))
            break
        place = log_order_before(after) if record.log_offset is None else log_order(record.log_offset)
        after = found.reached = after if record.log_offset is None else record.log_offset + 1
        if isinstance(record, BadRecord):
            row = decoding.bad_record(batch, record, index=index, profile=profile)
            found.undecodable.append((place, row))
            bad += 1
        elif folded > 0:
            folded -= 1
        elif batch.is_control:
            bad += _replay_marker(found, batch, record, is_first=index == 0)
        else:
            bad += _replay_record(found, batch, record)
        if len(found.batches) == MAX_RECORDS:
            yield found
            found = SlowPart(profile)
    yield found


def _replay_marker(found: SlowPart, batch: Batch, record: Record, *, is_first: bool) -> bool:
    """Accept a control record or report it; returns whether it is bad."""
    if not (is_first or found.profile.pending_rule is PendingRule.WITH_PRODUCER_ID):
        found.unfolded_records += 1
        return False
    try:
        marker = marker_of(record)
    except LogError as error:
        row = decoding.undecodable(record, error.reason, error.detail, base_offset=batch.base_offset)
        found.undecodable.append((log_order(record.log_offset), row))
        found.unfolded_records += 1
        return True
    if marker is None and found.profile.pending_rule is PendingRule.IF_TRANSACTIONAL:
        marker = "ABORT"
    if marker is None:
        found.unfolded_records += 1
    else:
        found.take(batch, record, _MARKER_KEYS[marker])
    return False


def _replay_record(found: SlowPart, batch: Batch, record: Record) -> bool:
    """Accept a record or report it; returns whether it counts as a bad record (MAX_BAD_RECORDS)."""
    judged = decoding.decode(record, base_offset=batch.base_offset, profile=found.profile)
    if isinstance(judged, Undecodable):
        found.undecodable.append((log_order(record.log_offset), judged))
        found.unfolded_records += 1
        return decoding.counts_in_batch(judged, found.profile)
    if isinstance(judged, UnknownType):
        found.unknown_types.append(judged.record_type)
        found.unfolded_records += 1
    else:
        assert record.key is not None, "a decoded record has a key"
        found.take(batch, record, record.key)
    return False
