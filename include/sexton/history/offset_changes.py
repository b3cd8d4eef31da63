"""The rows of offset_changes of one log partition, from the segments of an interval and the cluster's metadata.

A step of replay_groups, which passes the interval: the fold at its start (a checkpoint, or none if the interval starts
with the log partition), its cut at the end, and the cluster metadata archived at both ends.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.as_text import MINUTE_MS
from sexton.coordinator.changes.model import ChangeEvidence, OwnAction, TopicsAt
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.profile import Profile
from sexton.kernels.changes.replay import changes_between
from sexton.kernels.partial_fold import PartialFold
from sexton.log.segment import Segment, plan_fold_tasks, slice_bytes
from sexton.settings import settings
from sexton.tables import TABLES

TABLE = "offset_changes"


def changes_of(
    fs: pafs.FileSystem,
    segments: Sequence[Segment],
    *,
    log_partition: int,
    start: PartialFold | None = None,
    cut: int | None = None,
    known: ChangeEvidence,
    profile: Profile,
) -> pa.Table:
    """The rows of offset_changes of one log partition, by key and log_offset, with the columns that a log fills, but
    without the run's columns.

    `segments` have everything from the end of `start` up to `cut` (None: to their end), and may have more on either
    side. Without `start` the interval starts at log_offset 0; if the log starts later, earlier records are lost, so few
    causes can be excluded. `start` is a fold with the same `profile`, also for profiles that do not fold in pieces.
    """
    slices = [span for task in plan_fold_tasks(segments) for span in task.slices]
    table = changes_between(
        start,
        (slice_bytes(fs, span) for span in slices),
        slices=slices,
        cut=cut,
        known=known,
        profile=profile,
        cap_bytes=settings().inflated_cap_bytes,
    )
    table = table.append_column("log_partition", pa.repeat(pa.scalar(log_partition, pa.int32()), table.num_rows))
    schema = TABLES[TABLE].arrow_schema(with_run=False, origin="log")
    return table.select(schema.names).cast(schema)


def known_of(
    before: ClusterMetadata | None,
    after: ClusterMetadata | None,
    *,
    retention_ms: int | None = None,
    removed: Mapping[OffsetKey, Sequence[OwnAction]] | None = None,
    restored: Mapping[OffsetKey, Sequence[OwnAction]] | None = None,
) -> ChangeEvidence:
    """Evidence from outside the log: the newest metadata at or before the interval, and the oldest at or after it.

    The retention is the requested retention, else the broker's retentions at both ends, else unknown.
    """
    found = {retention_ms} if retention_ms is not None else set(_retentions(before, after))
    return ChangeEvidence(
        retentions_ms=tuple(sorted(found)) or None,
        before=_topics_at(before),
        after=_topics_at(after),
        removed=removed or {},
        restored=restored or {},
    )


def _retentions(*facts: ClusterMetadata | None) -> Iterable[int]:
    for record in facts:
        minutes = None if record is None else record.retention_minutes
        if minutes is not None:
            yield minutes * MINUTE_MS


def _topics_at(facts: ClusterMetadata | None) -> TopicsAt | None:
    if facts is None or facts.topics is None:
        return None
    return TopicsAt(taken_at_ms=facts.taken_at_ms, ids=facts.topic_ids)
