"""The story of a group, from a log or an archive: when it appeared, what it became, what it lost and why, what is next.

One log partition is read twice: for its changes as a whole (a cause is told from all that was written together), and
for the group's own records. Then the offsets that are left are judged by the rules of expiry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from sexton.coordinator import decoding
from sexton.coordinator.changes.model import ChangeEvidence, TopicPartition
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.decoding import Decoded
from sexton.coordinator.expiry import SweepBlock, verdict
from sexton.coordinator.groups.group import Group
from sexton.coordinator.loading import FUTURE_MS, load
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Profile
from sexton.history.events import Event, EventBuilder
from sexton.history.group_batches import batches_about, cut_of
from sexton.log.batch import Batch, Record, read_records
from sexton.log.entry import NO_PRODUCER_ID
from sexton.log.segment import Segment, SegmentSlice, plan_fold_tasks, slice_bytes
from sexton.settings import settings
from sexton.tables.change_kinds import DISAPPEARANCES

PLAIN_BYTES = 8 << 20
"""Log partitions up to this size are replayed plainly, as for questions: it starts at once."""
_WHOLE_LOG = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class NextVerdict:
    """What would become of an offset that is left; `expires_at_ms` is None while no instant alone makes it expire."""

    topic: str
    partition: int
    committed_offset: int
    reason: str
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStory:
    """All of it; `group` is None where there is no such group at the end."""

    events: list[Event]
    group: Group | None
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryReader:
    """Tells of one group of one log partition."""

    fs: pafs.FileSystem
    segments: Sequence[Segment]
    group_id: str
    topic: str | None
    partition: int | None
    profile: Profile
    known: ChangeEvidence
    as_of_ms: int | None
    taken_at_ms: int

    def tell(self) -> LogStory:
        """Read the log partition. An archive's segments end where reading stops: then there is no `as_of_ms`."""
        stop_offset = self._stop_offset()
        gone = [row for row in self._changes(stop_offset) if row["kind"] in DISAPPEARANCES]
        gone.sort(key=lambda row: row["log_offset"])
        reader = EventBuilder(self.group_id, self.profile, gone, self.asks_for, self.known.restored)
        for data, span in self._slices():
            for batch in batches_about(
                data, span, self.group_id, cap_bytes=settings().inflated_cap_bytes, stop_offset=stop_offset
            ):
                records = [*self._own_records(batch)]
                if records:
                    reader.take(records, is_pending=batch.producer_id != NO_PRODUCER_ID)
        group = reader.finish()
        return LogStory(events=reader.events, group=group, last_timestamp_ms=reader.last_timestamp_ms)

    def _own_records(self, batch: Batch) -> Iterator[tuple[Record, Decoded]]:
        """The group's records in a batch."""
        if batch.is_control:
            return
        for record in read_records(batch, cap_bytes=settings().inflated_cap_bytes):
            if isinstance(record, Record):
                found = decoding.decode(record, base_offset=batch.base_offset, profile=self.profile)
                if isinstance(found, Decoded) and found.key.group_id == self.group_id:
                    yield record, found

    def asks_for(self, topic: object, partition: object) -> bool:
        """Whether the story is about a topic partition."""
        return self.topic in (None, topic) and self.partition in (None, partition)

    def _slices(self) -> Iterator[tuple[npt.NDArray[np.uint8], SegmentSlice]]:
        for task in plan_fold_tasks(self.segments, target_bytes=_WHOLE_LOG):
            for span in task.slices:
                yield slice_bytes(self.fs, span), span

    def _stop_offset(self) -> int | None:
        if self.as_of_ms is None:
            return None
        future_ms = self.taken_at_ms + FUTURE_MS
        for data, span in self._slices():
            found = cut_of(data, span, as_of_ms=self.as_of_ms, future_ms=future_ms)
            if found is not None:
                return found
        return None

    def _changes(self, stop_offset: int | None) -> list[dict[str, Any]]:
        """The group's rows of offset_changes, from where the log begins."""
        if sum(segment.stop_byte - segment.start_byte for segment in self.segments) <= PLAIN_BYTES:
            chunks = (data[span.start_byte : span.end_byte].tobytes() for data, span in self._slices())
            found = changes(
                load([], cap_bytes=settings().inflated_cap_bytes, profile=self.profile),
                chunks,
                known=self.known,
                cap_bytes=settings().inflated_cap_bytes,
                as_of_ms=self.as_of_ms,
                taken_at_ms=self.taken_at_ms,
            )
            return [row.to_row() for row in found if row.key[0] == self.group_id]
        # Only here: to import the kernels takes longer than a small log takes to be read.
        from sexton.history.offset_changes import changes_of

        table: pa.Table = changes_of(
            self.fs,
            self.segments,
            log_partition=self.segments[0].log_partition,
            start=None,
            cut=stop_offset,
            known=self.known,
            profile=self.profile,
        )
        own = table.filter(pc.equal(table["group_id"], self.group_id)).drop_columns(["log_partition"])
        rows: list[dict[str, object]] = own.to_pylist()
        return rows


def next_verdicts(
    group: Group | None,
    offsets: Mapping[TopicPartition, StoredOffset],
    pending: frozenset[TopicPartition],
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
    block: SweepBlock | None = None,
) -> list[NextVerdict]:
    """What the sweep would do with the offsets that are left, by topic and partition; nothing without a group."""
    if group is None:
        return []
    found = []
    for (topic, partition), offset in sorted(offsets.items()):
        judged = verdict(
            offset,
            topic,
            group,
            is_pending=(topic, partition) in pending,
            retention_ms=retention_ms,
            now_ms=now_ms,
            profile=profile,
            block=block,
        )
        found.append(
            NextVerdict(
                topic=topic,
                partition=partition,
                committed_offset=offset.committed_offset,
                reason=judged.reason,
                expires_at_ms=judged.expires_at_ms,
            )
        )
    return found
