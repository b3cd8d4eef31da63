"""Which instants an archive can answer for, judged from its snapshots and lineages: complete, partial or none.

The state at an instant comes from the first snapshot taken at least the settle time after the instant. It is exact
unless records that existed at the instant were gone when the snapshot was taken:

- Compaction removes a record only after a newer one with the same key. If no log_offset is missing between the end of
  the archive at the instant and the cut, nothing was removed. If the snapshot archived nothing beyond the cut, no newer
  record can have removed anything.
- The log broke at an unknown time between the last snapshot of one lineage and the first snapshot of the next. If a
  record that only the new lineage has is stamped before the instant, the log broke before the instant.

Without such a proof, a snapshot on time is trusted (a segment would have to be rolled and cleaned within minutes). A
late one is not: that instant has no coverage. Partial means that the state is exact but the history before it is not
complete.

Not here: the search for the cut (cuts), and records missing since the beginning of the log (a run counts them).
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import snapshot_instants
from sexton.archive.lineages import (
    BREAKS,
    EPOCH_DIVERGED,
    FIRST,
    GAP,
    IMPORTED,
    PARTITION_COUNT,
    RECREATED,
    TRUNCATED,
    UNOBSERVED,
    ArchivedLineage,
    every_lineage,
)
from sexton.archive.snapshots import Snapshot
from sexton.numbers import ranges_text

COMPLETE, PARTIAL, NONE = "complete", "partial", "none"
ON_TIME_MS = 600_000
"""A snapshot is on time if it is taken at most this long after the instant has settled."""
_SHOWN_REASONS = 3
_BREAK_TEXTS = {
    GAP: "log_offsets were deleted before they were archived",
    TRUNCATED: "the log was truncated",
    EPOCH_DIVERGED: "its leader epoch ended earlier in the log (an unclean election)",
    PARTITION_COUNT: "the number of log partitions changed",
    RECREATED: "the topic was deleted and created again",
    UNOBSERVED: "no snapshot was taken for so long that tombstones may have come and gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Complete, partial or none, and why; the reason is empty for complete."""

    value: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageEvidence:
    """Evidence for the coverage of one log partition at an instant.

    `before` is the newest snapshot at or before the instant, `settling` the snapshot that settles it. `end_before` is
    where the archive of the lineage ended at `before` (the lineage's start, if nothing was archived). `is_whole`: no
    log_offset in [end_before, cut) lacks its record; None when that was not checked.
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
        """Whether the snapshot came too late to be trusted without a proof."""
        return self.settling.taken_at_ms - self.as_of_ms > self.settle_ms + ON_TIME_MS

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
        """Whether the answer depends on `is_whole`: the snapshot is late, and archived records beyond the cut."""
        return self.is_late and self.settling.ends[self.lineage.log_partition].end > self.cut


def judge(evidence: Sequence[CoverageEvidence]) -> dict[int, Coverage]:
    """The coverage of each log partition. Complete means only that no evidence contradicts it."""
    proven = {one.lineage.origin.reason for one in evidence if one.lineage.origin and _proves_break(one)}
    return {one.lineage.log_partition: _judge(one, proven) for one in evidence}


def _proves_break(evidence: CoverageEvidence) -> bool:
    """Whether records before the cut show, for all log partitions, that the newer log existed before the instant."""
    origin, lineage = evidence.lineage.origin, evidence.lineage
    if origin is None or evidence.before is None or evidence.cut <= lineage.lineage.start_log_offset:
        return False
    if origin.reason == PARTITION_COUNT:  # log partitions that existed before have older records
        return lineage.log_partition >= (evidence.before.partition_count or 0)
    return origin.reason == RECREATED


def _judge(evidence: CoverageEvidence, proven: Set[str]) -> Coverage:
    if evidence.has_broken and not _broke_before(evidence, proven):
        origin = evidence.lineage.origin
        text = _BREAK_TEXTS.get(origin.reason, origin.reason) if origin else "the log broke"
        assert evidence.before is not None
        span = f"between the snapshots at {evidence.before.taken_at_ms} and {evidence.settling.taken_at_ms} ms"
        if evidence.is_late:
            return Coverage(value=NONE, reason=f"{text} {span}: which log was valid at the instant is not known")
        return Coverage(value=PARTIAL, reason=f"{text} {span}, assumed to be before the instant")
    if evidence.depends_on_holes and not evidence.is_whole:
        return Coverage(
            value=NONE,
            reason=f"the snapshot that settles it was taken at {evidence.settling.taken_at_ms} ms, and by then records "
            f"of [{evidence.end_before}, {evidence.cut}) had been compacted away",
        )
    return of_start(evidence.lineage)


def of_start(lineage: ArchivedLineage) -> Coverage:
    """Complete when a lineage begins at log_offset 0, else partial."""
    start = lineage.lineage.start_log_offset
    return Coverage(value=PARTIAL, reason=f"its lineage begins at log_offset {start}") if start else _COMPLETE


_COMPLETE = Coverage(value=COMPLETE)


def _broke_before(evidence: CoverageEvidence, proven: Set[str]) -> bool:
    """Whether records that only the new lineage has were stamped before the instant."""
    origin = evidence.lineage.origin
    if origin is None:
        return False
    if origin.reason == UNOBSERVED:  # the log itself continued: missing records decide
        return True
    if origin.reason in (TRUNCATED, EPOCH_DIVERGED):
        return origin.diverged_at is not None and evidence.cut > origin.diverged_at
    if origin.reason in (FIRST, IMPORTED):  # a log partition that did not exist before
        return not proven.isdisjoint((PARTITION_COUNT, RECREATED))
    return origin.reason in proven


def worst(found: Iterable[tuple[int, Coverage]]) -> Coverage:
    """The coverage of a run: the worst of its log partitions."""
    parts = list(found)
    for value in (NONE, PARTIAL):
        found_so = [(part, one.reason) for part, one in parts if one.value == value]
        if found_so:
            reasons = [f"log partition {part}: {reason}" for part, reason in found_so[:_SHOWN_REASONS]]
            if rest := [part for part, _ in found_so[_SHOWN_REASONS:]]:
                reasons.append(f"and {len(rest)} more: {ranges_text(rest)}")
            return Coverage(value=value, reason="; ".join(reasons))
    return _COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """Instants [from_ms, to_ms) with the same coverage, as far as snapshots and lineages show; None is an open end."""

    from_ms: int | None
    to_ms: int | None
    coverage: Coverage


def spans(fs: pafs.FileSystem, root: str, *, cluster_id: str, settle_ms: int) -> list[LogSpan]:
    """Coverage of all instants of an archive, oldest first, judged from snapshot names and lineages alone.

    A run may find less: it reads the log where a snapshot was late.
    """
    instants = snapshot_instants(fs, root, cluster_id)
    if not instants:
        return []
    found = list(every_lineage(fs, root, cluster_id))
    noticed = {one.origin.found_at_ms for one in found if one.origin and one.origin.reason in BREAKS}
    # A snapshot that noticed a break and died is not finished: the break counts from the next finished snapshot on.
    breaks = sorted({min(later) for ms in noticed if (later := [at for at in instants[1:] if at >= ms])})
    spans = [_none(None, instants[0], "before the first snapshot: answered only where nothing was compacted by then")]
    starts = [instants[0], *breaks]
    for at, end in zip(starts, [*breaks, None], strict=True):
        last = max(instant for instant in instants if end is None or instant < end) - settle_ms
        if last >= at:
            spans.append(LogSpan(from_ms=at, to_ms=last + 1, coverage=_of(found, at)))
        if end is not None:
            spans.append(_none(max(last + 1, at), end, "the log broke in between: answered only where it is proven"))
    return [*spans, _none(spans[-1].to_ms, None, "not settled yet")]


def _none(from_ms: int | None, to_ms: int | None, reason: str) -> LogSpan:
    return LogSpan(from_ms=from_ms, to_ms=to_ms, coverage=Coverage(value=NONE, reason=reason))


def _of(found: Sequence[ArchivedLineage], at_ms: int) -> Coverage:
    """The worst coverage of the newest lineages that were found at or before an instant."""
    newest: dict[int, tuple[int, ArchivedLineage]] = {}
    for one in found:
        since = one.origin.found_at_ms if one.origin else 0
        known = newest.get(one.log_partition)
        if since <= at_ms and (known is None or (since, one.lineage) >= (known[0], known[1].lineage)):
            newest[one.log_partition] = since, one
    return worst((part, of_start(one)) for part, (_, one) in sorted(newest.items()))
