"""What an archive can answer for: continuous snapshots, late ones, compaction between them, and every kind of break."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.archive.coverage import COMPLETE, NONE, ON_TIME_MS, PARTIAL, Coverage, spans, worst
from sexton.archive.cuts import SettledCuts, settled_cuts
from sexton.errors import NoCoverage
from sexton.log.batch import encode_batch
from tests.archived import Archive
from tests.log.samples import pairs

HOUR_MS, SETTLE_MS = 3_600_000, 60_000
T0 = 1_790_000_000_000
ON_TIME = SETTLE_MS + 1_000
LATE = SETTLE_MS + ON_TIME_MS + 1


def log_of(first: int, *stamps_ms: int, holes: int = 0, epoch: int = 0) -> bytes:
    """Batches of one record; `holes` log_offsets are missing before each."""
    data = b""
    for stamp_ms in stamps_ms:
        first += holes
        data += encode_batch(pairs(1), base_offset=first, timestamp_ms=stamp_ms, leader_epoch=epoch)
        first += 1
    return data


def settled(archive: Archive, as_of_ms: int) -> SettledCuts:
    return settled_cuts(archive.fs, archive.root, cluster_id="cluster", as_of_ms=as_of_ms, settle_ms=SETTLE_MS)


def coverage_of(archive: Archive, as_of_ms: int) -> tuple[str, str]:
    """(coverage, reason); none is what settled_cuts raises."""
    try:
        found = settled(archive, as_of_ms).coverage
    except NoCoverage as error:
        return NONE, str(error)
    return found.value, found.reason


def continuous(archive: Archive, *, start: int = 0, holes: int = 0, newer: bool = True, delay_ms: int = ON_TIME) -> int:
    """Two snapshots an hour apart, the second `delay_ms` after the instant that it settles; the instant."""
    archive.begin(0, start, taken_at_ms=T0)
    archive.snapshot(T0, {0: log_of(start, T0 - 5_000, T0 - 4_000)})
    as_of_ms = T0 + HOUR_MS
    stamps = [as_of_ms - 2_000, as_of_ms - 1_000, *([as_of_ms + 500] if newer else [])]
    archive.snapshot(as_of_ms + delay_ms, {0: log_of(start + 2, *stamps, holes=holes)})
    return as_of_ms


LINEAGES = {
    "on time": ({}, COMPLETE),
    "began above 0": ({"start": 7}, PARTIAL),
    "late, nothing missing": ({"delay_ms": LATE}, COMPLETE),
    "late, nothing newer": ({"delay_ms": LATE, "holes": 1, "newer": False}, COMPLETE),
    "on time, compacted": ({"delay_ms": ON_TIME, "holes": 1}, COMPLETE),
    "late, compacted": ({"delay_ms": LATE, "holes": 1}, NONE),
    "late, began above 0": ({"delay_ms": LATE, "start": 7}, PARTIAL),
    "just on time, compacted": ({"delay_ms": LATE - 1, "holes": 1}, COMPLETE),
}


@pytest.mark.parametrize("options, expected", LINEAGES.values(), ids=LINEAGES)
def test_one_lineage(archive: Archive, options: dict[str, int], expected: str) -> None:
    as_of_ms = continuous(archive, **options)
    value, reason = coverage_of(archive, as_of_ms)
    assert value == expected, reason
    assert bool(reason) == (expected != COMPLETE)


def test_what_was_compacted_before_the_snapshot_before_does_not_matter(archive: Archive) -> None:
    archive.snapshot(T0, {0: log_of(0, T0 - 9_000, T0 - 8_000, holes=3)})
    as_of_ms = T0 + HOUR_MS
    archive.snapshot(as_of_ms + LATE, {0: log_of(8, as_of_ms - 1, as_of_ms + 1)})
    assert coverage_of(archive, as_of_ms)[0] == COMPLETE


@pytest.mark.parametrize("holes, expected", [(0, COMPLETE), (1, NONE)], ids=["whole", "compacted"])
def test_before_the_first_snapshot_only_a_whole_log_answers(archive: Archive, holes: int, expected: str) -> None:
    archive.snapshot(T0, {0: log_of(0, *(T0 - step * HOUR_MS for step in (5, 4, 3, 2, 1)), holes=holes)})
    value, reason = coverage_of(archive, T0 - 3 * HOUR_MS)
    assert value == expected, reason
    if expected == COMPLETE:
        assert settled(archive, T0 - 3 * HOUR_MS).cuts[0].cut == 2


def test_before_the_first_snapshot_a_log_that_begins_above_0_may_have_lost_what_stood(archive: Archive) -> None:
    archive.begin(0, 50, taken_at_ms=T0)
    archive.snapshot(T0, {0: log_of(50, T0 - 5 * HOUR_MS, T0 - HOUR_MS)})
    assert coverage_of(archive, T0 - 3 * HOUR_MS)[0] == PARTIAL
    assert coverage_of(archive, T0 - SETTLE_MS)[0] == PARTIAL


def broken(
    archive: Archive, reason: str, *, start: int, first: bytes, more: bytes = b"", delay_ms: int, **told: object
) -> int:
    """Two hours of one lineage, then a break before the third hour's snapshot; the third hour's instant."""
    archive.snapshot(T0, {0: log_of(0, T0 - 5_000, T0 - 4_000)})
    archive.snapshot(T0 + HOUR_MS + ON_TIME, {0: log_of(2, T0 + HOUR_MS - 1_000)})
    as_of_ms = T0 + 2 * HOUR_MS
    archive.begin(0, start, reason, taken_at_ms=as_of_ms + delay_ms, **told)
    archive.snapshot(as_of_ms + delay_ms, {0: first})
    archive.snapshot(as_of_ms + HOUR_MS + delay_ms, {0: more} if more else None)
    return as_of_ms


IN_BETWEEN = T0 + HOUR_MS + 10 * 60_000
BREAKS: dict[str, Callable[[Archive, int], int]] = {
    "gap": lambda archive, delay_ms: broken(
        archive, "gap", start=9, first=log_of(9, IN_BETWEEN), missing=(3, 9), delay_ms=delay_ms
    ),
    "truncated, proven": lambda archive, delay_ms: broken(
        archive, "truncated", start=0, first=log_of(0, T0 - 5_000, IN_BETWEEN), diverged_at=1, delay_ms=delay_ms
    ),
    "truncated, nothing after": lambda archive, delay_ms: broken(
        archive, "truncated", start=0, first=log_of(0, T0 - 5_000), diverged_at=1, delay_ms=delay_ms
    ),
    "epoch left, proven": lambda archive, delay_ms: broken(
        archive, "epoch_diverged", start=0, first=log_of(0, T0 - 5_000, T0 - 4_000, IN_BETWEEN, epoch=3),
        diverged_at=2, delay_ms=delay_ms,
    ),
    "epoch left, unknown": lambda archive, delay_ms: broken(
        archive, "epoch_diverged", start=0, first=log_of(0, T0 - 5_000, IN_BETWEEN), delay_ms=delay_ms
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name, late", [("gap", NONE), ("truncated, proven", COMPLETE), ("truncated, nothing after", NONE),
                   ("epoch left, proven", COMPLETE), ("epoch left, unknown", NONE)]
)  # fmt: skip
def test_a_break(tmp_path: Path, name: str, late: str) -> None:
    """Before it the older lineage answers, behind it the newer, and in between nothing is joined."""
    on_time, slow = (Archive(tmp_path / delay) for delay in ("on-time", "late"))
    as_of_ms = BREAKS[name](on_time, ON_TIME)
    BREAKS[name](slow, LATE)
    for archive in (on_time, slow):
        before = settled(archive, T0 + HOUR_MS)
        assert before.cuts[0].lineage.startswith("000000-")
        assert before.cuts[0].cut == 3
        assert before.coverage.value == COMPLETE
        after = settled(archive, as_of_ms + HOUR_MS)
        assert after.cuts[0].lineage.startswith("000001-")
        assert after.coverage.value == (PARTIAL if name == "gap" else COMPLETE)
    assert coverage_of(slow, as_of_ms)[0] == late
    value, reason = coverage_of(on_time, as_of_ms)
    assert value == (COMPLETE if late == COMPLETE else PARTIAL), reason
    assert settled(on_time, as_of_ms).cuts[0].lineage.startswith("000001-")


@pytest.mark.parametrize("delay_ms", [ON_TIME, LATE])
def test_an_instant_just_before_the_break_was_found_is_not_the_older_lineages(archive: Archive, delay_ms: int) -> None:
    """Only a snapshot after the instant and its settling time can say that the older lineage still stood."""
    BREAKS["truncated, nothing after"](archive, delay_ms)
    value, reason = coverage_of(archive, T0 + HOUR_MS + ON_TIME)
    assert value == NONE
    assert "truncated" in reason


def test_a_topic_that_was_made_anew(archive: Archive) -> None:
    archive.snapshot(T0, {0: log_of(0, T0 - 5_000)})
    archive.snapshot(T0 + HOUR_MS + ON_TIME, {0: log_of(1, T0 + 5_000)})
    archive.remake("other")
    archive.begin(0, 0, "recreated", taken_at_ms=T0 + 3 * HOUR_MS, previous_topic_id="topic")
    archive.begin(1, 0, "recreated", taken_at_ms=T0 + 3 * HOUR_MS, previous_topic_id="topic")
    archive.snapshot(T0 + 3 * HOUR_MS, {0: log_of(0, T0 + 2 * HOUR_MS)})
    assert settled(archive, T0 + HOUR_MS).topic_id == "topic"
    assert coverage_of(archive, T0 + 2 * HOUR_MS)[0] == NONE  # nothing shows that it was there by then
    found = settled(archive, T0 + 2 * HOUR_MS + 1)
    assert (found.topic_id, found.cuts[0].cut, found.coverage.value) == ("other", 1, COMPLETE)


def test_another_number_of_log_partitions(tmp_path: Path) -> None:
    archive = Archive(tmp_path, partitions=1)
    archive.snapshot(T0, {0: log_of(0, T0 - 5_000)})
    archive.partitions = 2
    archive.begin(0, 0, "partition_count", taken_at_ms=T0 + 3 * HOUR_MS)
    archive.begin(1, 0, "partition_count", taken_at_ms=T0 + 3 * HOUR_MS)
    archive.snapshot(T0 + 3 * HOUR_MS, {0: log_of(0, T0 - 5_000, T0 + 9_000), 1: log_of(0, T0 + HOUR_MS)})
    assert settled(archive, T0 - SETTLE_MS).partition_count == 1
    assert coverage_of(archive, T0 + HOUR_MS)[0] == NONE  # only the old log partition has anything by then
    found = settled(archive, T0 + HOUR_MS + 1)
    assert (found.partition_count, found.coverage.value) == (2, COMPLETE)


def test_a_log_partition_that_had_nothing_before_is_no_break(tmp_path: Path) -> None:
    archive = Archive(tmp_path, partitions=2)
    archive.snapshot(T0, {0: log_of(0, T0 - 5_000)})
    archive.snapshot(T0 + HOUR_MS + LATE, {1: log_of(0, T0 + 5_000)})
    found = settled(archive, T0 + HOUR_MS)
    assert found.coverage.value == COMPLETE
    assert {part: place.cut for part, place in found.cuts.items()} == {0: 1, 1: 1}


def test_reasons_name_the_log_partition_and_do_not_run_on() -> None:
    parts = [(number, Coverage(value=PARTIAL, reason="why")) for number in range(5)]
    assert worst(parts).reason == "log partition 0: why; log partition 1: why; log partition 2: why; and 2 more: 3, 4"
    assert worst([*parts, (9, Coverage(value=NONE, reason="gone"))]) == Coverage(
        value=NONE, reason="log partition 9: gone"
    )
    assert worst([(1, Coverage(value=COMPLETE))]) == Coverage(value=COMPLETE)


def test_spans(archive: Archive, tmp_path: Path) -> None:
    as_of_ms = BREAKS["gap"](archive, ON_TIME)
    found = spans(archive.fs, archive.root, cluster_id="cluster", settle_ms=SETTLE_MS)
    told = [(span.from_ms, span.to_ms, span.coverage.value) for span in found]
    last_ms = T0 + HOUR_MS + ON_TIME - SETTLE_MS
    assert told == [
        (None, T0, NONE),
        (T0, last_ms + 1, COMPLETE),
        (last_ms + 1, as_of_ms + ON_TIME, NONE),
        (as_of_ms + ON_TIME, as_of_ms + HOUR_MS + ON_TIME - SETTLE_MS + 1, PARTIAL),
        (as_of_ms + HOUR_MS + ON_TIME - SETTLE_MS + 1, None, NONE),
    ]
    assert all(span.coverage.reason for span in found if span.coverage.value != COMPLETE)
    assert spans(archive.fs, str(tmp_path / "none"), cluster_id="cluster", settle_ms=0) == []
