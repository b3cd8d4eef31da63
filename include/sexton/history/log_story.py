"""The history of a group, from a log or an archive: its states, what it lost and why, and what will expire.

The log partition is read twice: once for all its changes, because a cause depends on everything that was written
together, and once for the records of the group. Then the rules of expiry evaluate the remaining offsets.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from sexton.coordinator import decoding
from sexton.coordinator.changes.model import ChangeEvidence
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.decoding import Decoded, Undecodable
from sexton.coordinator.groups.group import Group
from sexton.coordinator.loading import load
from sexton.coordinator.profile import Profile
from sexton.errors import LogError
from sexton.history.events import Event, EventBuilder
from sexton.history.group_batches import batches_about, stop_offset_of, whole_log
from sexton.log.batch import Batch, Record, read_records
from sexton.log.entry import NO_PRODUCER_ID
from sexton.log.segment import Segment
from sexton.records import decode_key
from sexton.settings import settings
from sexton.tables.change_causes import DISAPPEARANCES

PLAIN_BYTES = 8 << 20
"""Log partitions up to this size are replayed without the kernels, which are faster but take longer to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStory:
    """The history of a group; `group` is None if it does not exist at the end."""

    events: list[Event]
    group: Group | None
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryReader:
    """Reads the history of one group from one log partition."""

    fs: pafs.FileSystem
    segments: Sequence[Segment]
    group_id: str
    profile: Profile
    as_of_ms: int | None
    taken_at_ms: int
    asked: tuple[str | None, int | None] = (None, None)
    """Topic and partition; None for all."""
    known: ChangeEvidence = field(default_factory=ChangeEvidence)

    def read(self) -> LogStory:
        """Read the log partition. For an archive `as_of_ms` is None: its segments already end at the right cut."""
        stop_offset = stop_offset_of(self.fs, self.segments, as_of_ms=self.as_of_ms, taken_at_ms=self.taken_at_ms)
        gone = [row for row in self._changes(stop_offset) if row["kind"] in DISAPPEARANCES]
        gone.sort(key=lambda row: row["log_offset"])
        reader = EventBuilder(self.group_id, self.profile, gone, self.is_requested, self.known.restored)
        for data, span in whole_log(self.fs, self.segments):
            for batch in batches_about(data, span, self.group_id, stop_offset=stop_offset):
                records = [*self._own_records(batch)]
                if records:
                    reader.take(records, is_pending=batch.producer_id != NO_PRODUCER_ID)
        group = reader.finish()
        return LogStory(events=reader.events, group=group, last_timestamp_ms=reader.last_timestamp_ms)

    def records_at(self, log_offsets: Set[int]) -> Iterator[Record]:
        """The group's records at these log_offsets, in log order: the evidence for the story."""
        for data, span in whole_log(self.fs, self.segments):
            for batch in batches_about(data, span, self.group_id):
                if any(batch.base_offset <= each < batch.next_offset for each in log_offsets):
                    yield from (record for record, _ in self._own_records(batch) if record.log_offset in log_offsets)

    def _own_records(self, batch: Batch) -> Iterator[tuple[Record, Decoded | Undecodable]]:
        """The group's records in a batch."""
        if batch.is_control:
            return
        for record in read_records(batch, cap_bytes=settings().inflated_cap_bytes):
            if isinstance(record, Record):
                found = decoding.decode(record, base_offset=batch.base_offset, profile=self.profile)
                if isinstance(found, Decoded | Undecodable) and _group_of(record, found) == self.group_id:
                    yield record, found

    def is_requested(self, topic: object, partition: object) -> bool:
        """Whether a topic partition was requested."""
        return self.asked[0] in (None, topic) and self.asked[1] in (None, partition)

    def _changes(self, stop_offset: int | None) -> list[dict[str, Any]]:
        """The group's rows of offset_changes, from the start of the log."""
        if sum(segment.stop_byte - segment.start_byte for segment in self.segments) <= PLAIN_BYTES:
            chunks = (
                data[span.start_byte : span.end_byte].tobytes() for data, span in whole_log(self.fs, self.segments)
            )
            found = changes(
                load([], cap_bytes=settings().inflated_cap_bytes, profile=self.profile),
                chunks,
                known=self.known,
                cap_bytes=settings().inflated_cap_bytes,
                as_of_ms=self.as_of_ms,
                taken_at_ms=self.taken_at_ms,
            )
            return [row.to_row() for row in found if row.key[0] == self.group_id]
        # Imported here: importing the kernels takes longer than reading a small log.
        from sexton.history.offset_changes import changes_of

        part = self.segments[0].log_partition
        table: pa.Table = changes_of(
            self.fs, self.segments, log_partition=part, cut=stop_offset, known=self.known, profile=self.profile
        )
        own = table.filter(pc.equal(table["group_id"], self.group_id)).drop_columns(["log_partition"])
        rows: list[dict[str, object]] = own.to_pylist()
        return rows


def _group_of(record: Record, found: Decoded | Undecodable) -> str | None:
    """The group of a record, also if only the value cannot be decoded."""
    if not isinstance(found, Undecodable):
        return found.key.group_id
    try:
        return decode_key(record.key or b"")[1].group_id
    except LogError:
        return None
