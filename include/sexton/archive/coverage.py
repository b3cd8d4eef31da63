"""Which instants an archive can answer for, from what its snapshots and lineages tell: complete, partial or none.

The state at an instant is read from what the first snapshot found that was taken at or after it and its settling time.
That answer is exact unless something that stood at the instant was gone when the snapshot came:

- compaction takes a value once a newer one is there. Where nothing is missing between what was archived before the
  instant and the cut, nothing was taken; where nothing newer was archived than the cut, nothing newer took it;
- between the last snapshot of one lineage and the first of the next one the log broke, nobody knows when. Records that
  the new one alone has, stamped before the instant, prove that it broke before.

Where neither is proven, a snapshot on time is believed (a segment would have to be rolled and cleaned within minutes),
and a late one is not: that instant has no coverage. Partial says that the state is exact and its history is not whole.

Not here: where the cut lies (cuts), and whether the log is whole from its beginning, which a run counts.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.lineages import (
    EPOCH_DIVERGED,
    FIRST,
    GAP,
    IMPORTED,
    PARTITION_COUNT,
    RECREATED,
    TRUNCATED,
    UNOBSERVED,
    ArchivedLineage,
    list_lineages,
    topics_of,
)
from sexton.archive.snapshots import Snapshot, snapshot_instants

COMPLETE, PARTIAL, NONE = "complete", "partial", "none"
ON_TIME_MS = 600_000
"""A snapshot within this time after its instant has settled is on time."""
_TOLD_REASONS = 3
_BREAKS = {
    GAP: "log_offsets were deleted before they were archived",
    TRUNCATED: "the log was truncated",
    EPOCH_DIVERGED: "the log left its leader epoch (an unclean election)",
    PARTITION_COUNT: "the number of log partitions changed",
    RECREATED: "the topic was made anew",
    UNOBSERVED: "no snapshot was taken for so long that tombstones may have come and gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Complete, partial or none, and why; an empty reason where there is nothing to say."""

    value: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What there is to judge the answer of one log partition for an instant by.

    `before` is the newest snapshot at or before the instant that saw this log partition, `settling` the one that
    settles it. `end_before` is where the archive of the lineage ended at `before` (its start, where it had none).
    `is_whole` says that no log_offset in [end_before, cut) is without its record; None when nobody has looked.
    """

    as_of_ms: int
    settle_ms: int
    before: Snapshot | None
    settling: Snapshot
    lineage: ArchivedLineage
    cut: int
    end_before: int
    is_whole: bool | None = None

    @property
    def is_late(self) -> bool:
        """Whether the snapshot came too late to be believed without a proof."""
        return self.settling.taken_at_ms - self.as_of_ms > self.settle_ms + ON_TIME_MS

    @property
    def has_newer(self) -> bool:
        """Whether the snapshot archived something that could have replaced what stood at the instant."""
        return self.settling.ends[self.lineage.log_partition].end > self.cut

    @property
    def has_broken(self) -> bool:
        """Whether the log broke between the two snapshots."""
        if self.before is None:
            return False
        known = self.before.ends.get(self.lineage.log_partition)
        is_same = self.before.topic_id == self.settling.topic_id
        if known is None:
            return not is_same or self.before.partition_count != self.settling.partition_count
        return not is_same or known.lineage != self.lineage.lineage.name

    @property
    def depends_on_holes(self) -> bool:
        """Whether it has to be known if log_offsets before the cut are without their records."""
        return self.is_late and self.has_newer


def judge(found: Sequence[Evidence]) -> dict[int, Coverage]:
    """What each log partition can answer. Complete says only that nothing here speaks against it."""
    proven = {evidence.lineage.origin.reason for evidence in found if evidence.lineage.origin and _is_alone(evidence)}
    return {evidence.lineage.log_partition: _judge(evidence, proven) for evidence in found}


def _is_alone(evidence: Evidence) -> bool:
    """Whether records before the cut show that the newer log was there before the instant, for all log partitions."""
    origin, lineage = evidence.lineage.origin, evidence.lineage
    if origin is None or evidence.before is None or evidence.cut <= lineage.lineage.start_log_offset:
        return False
    if origin.reason == PARTITION_COUNT:  # an old log partition held the same records before
        return lineage.log_partition >= (evidence.before.partition_count or 0)
    return origin.reason == RECREATED


def _judge(evidence: Evidence, proven: Set[str]) -> Coverage:
    lineage = evidence.lineage
    if evidence.has_broken and not _broke_before(evidence, proven):
        origin = lineage.origin
        told = _BREAKS.get(origin.reason, origin.reason) if origin else "the log broke"
        assert evidence.before is not None
        span = f"between the snapshots at {evidence.before.taken_at_ms} and {evidence.settling.taken_at_ms} ms"
        if evidence.is_late:
            return Coverage(value=NONE, reason=f"{told} {span}: which log stood at the instant is not known")
        return Coverage(value=PARTIAL, reason=f"{told} {span}, taken to have been before the instant")
    if evidence.depends_on_holes and not evidence.is_whole:
        return Coverage(
            value=NONE,
            reason=f"the snapshot that settles it was taken at {evidence.settling.taken_at_ms} ms, and by then records "
            f"of [{evidence.end_before}, {evidence.cut}) had been compacted away",
        )
    if lineage.lineage.start_log_offset > 0:
        return Coverage(value=PARTIAL, reason=f"its lineage begins at log_offset {lineage.lineage.start_log_offset}")
    return Coverage(value=COMPLETE)


def _broke_before(evidence: Evidence, proven: Set[str]) -> bool:
    """Whether records that the new lineage alone has were stamped before the instant."""
    origin = evidence.lineage.origin
    if origin is None:
        return False
    if origin.reason == UNOBSERVED:  # it is one log: what is missing of it tells the rest
        return True
    if origin.reason in (TRUNCATED, EPOCH_DIVERGED):
        return origin.diverged_at is not None and evidence.cut > origin.diverged_at
    if origin.reason in (FIRST, IMPORTED):  # a log partition that was not there before
        return not proven.isdisjoint((PARTITION_COUNT, RECREATED))
    return origin.reason in proven


def worst(found: Iterable[tuple[int, Coverage]]) -> Coverage:
    """The coverage of a run, from those of its log partitions."""
    parts = list(found)
    for value in (NONE, PARTIAL):
        reasons = [f"log partition {part}: {one.reason}" for part, one in parts if one.value == value]
        if reasons:
            more = f"; and {len(reasons) - _TOLD_REASONS} more" if len(reasons) > _TOLD_REASONS else ""
            return Coverage(value=value, reason="; ".join(reasons[:_TOLD_REASONS]) + more)
    return Coverage(value=COMPLETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Instants [from_ms, to_ms) that are covered alike, as far as snapshots and lineages tell; None: no bound."""

    from_ms: int | None
    to_ms: int | None
    coverage: Coverage


def spans(fs: pafs.FileSystem, root: str, *, cluster_id: str, settle_ms: int) -> list[Span]:
    """Every instant of an archive, oldest first, from the names of its snapshots and its lineages alone.

    A run may find less: it looks into the log where a snapshot came late.
    """
    instants = snapshot_instants(fs, root, cluster_id)
    if not instants:
        return []
    found = [
        history
        for topic_id in topics_of(fs, root, cluster_id)
        for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).values()
        for history in histories
    ]
    noticed = {history.origin.found_at_ms for history in found if history.origin and history.origin.reason in _BREAKS}
    # A snapshot that noticed a break and died is no snapshot: the break counts from the next one on.
    breaks = sorted({min(later) for ms in noticed if (later := [at for at in instants[1:] if at >= ms])})
    spans = [_until(instants[0], None, "before the first snapshot: answered only where nothing was compacted by then")]
    starts = [instants[0], *breaks]
    for at, end in zip(starts, [*breaks, None], strict=True):
        last = max(instant for instant in instants if end is None or instant < end) - settle_ms
        if last >= at:
            spans.append(Span(from_ms=at, to_ms=last + 1, coverage=_of(found, at)))
        if end is not None:
            spans.append(_until(end, max(last + 1, at), "the log broke in between: answered only where it is proven"))
    behind = spans[-1].to_ms
    return [*spans, Span(from_ms=behind, to_ms=None, coverage=Coverage(value=NONE, reason="not settled yet"))]


def _until(to_ms: int, from_ms: int | None, reason: str) -> Span:
    return Span(from_ms=from_ms, to_ms=to_ms, coverage=Coverage(value=NONE, reason=reason))


def _of(found: Sequence[ArchivedLineage], at_ms: int) -> Coverage:
    """The coverage by the lineages that were in force right behind an instant."""
    newest: dict[int, ArchivedLineage] = {}
    for history in found:
        known = newest.get(history.log_partition)
        since, known_since = (one.origin.found_at_ms if one and one.origin else 0 for one in (history, known))
        if since <= at_ms and (known is None or (since, history.lineage) >= (known_since, known.lineage)):
            newest[history.log_partition] = history
    late = [
        (part, Coverage(value=PARTIAL, reason=f"its lineage begins at log_offset {one.lineage.start_log_offset}"))
        for part, one in sorted(newest.items())
        if one.lineage.start_log_offset > 0
    ]
    return worst(late)
