"""Where a log goes on from its archive, and what is said where it does not."""

from typing import Any

import pytest

from sexton.archive.cluster_metadata import ClusterMetadata, LogPartitionMetadata
from sexton.archive.lineages import Origin
from sexton.archive.manifest import Lineage
from sexton.archive.writer import ArchiveEnd
from sexton.kafka.collect_metadata import LogEnds
from sexton.pipeline.continuation import ClusterHistory, breaks_since, continuation

FIRST = Lineage(ordinal=0, start_log_offset=0)
BEGAN = Origin(reason="first", found_at_ms=1, partition_count=4)
UNCOUNTED = Origin(reason="imported", found_at_ms=1)
KNOWN = ClusterHistory(found_at_ms=100, partition_count=4, delete_retention_ms=50, before_ms=90, counted_before=4)


def log(start: int, end: int) -> LogEnds:
    return LogEnds(
        log_partition=3, leader=1, leader_epoch=9, log_start_offset=start, high_watermark=end, last_stable_offset=end
    )


def archived(reached: int, **changes: Any) -> ArchiveEnd:
    fields = {"log_partition": 3, "lineage": FIRST, "next_log_offset": reached, "leader_epoch": 5, "taken_at_ms": 80}
    return ArchiveEnd(**{**fields, "origin": BEGAN, **changes})


@pytest.mark.parametrize(
    "now, archive, left_epoch, start",
    [
        (log(0, 10), archived(7), (5, 7), 7),
        (log(0, 10), archived(7), (5, 9), 7),
        (log(0, 10), archived(7, leader_epoch=-1), None, 7),
        (log(7, 10), archived(7), (5, 7), 7),
        (log(0, 7), archived(7), (5, 7), 7),
        (log(0, 10), archived(0, taken_at_ms=None, leader_epoch=-1), None, 0),
        (log(0, 10), archived(7, origin=None), (5, 9), 7),
    ],
    ids=["same-epoch", "epoch-later", "no-epochs", "start-at-end", "nothing-new", "no-segment-yet", "early-release"],
)
def test_it_goes_on(now: LogEnds, archive: ArchiveEnd, left_epoch: tuple[int, int] | None, start: int) -> None:
    assert continuation(now, archive, left_epoch, KNOWN) == (FIRST, start, None)


@pytest.mark.parametrize(
    "now, archive, left_epoch, origin, said",
    [
        (log(8, 10), archived(7), (5, 8), {"reason": "gap", "missing": (7, 8)}, r"\[7, 8\) were deleted before"),
        (
            log(0, 6),
            archived(7),
            (5, 6),
            {"reason": "truncated", "diverged_at": 6},
            "at 6, below the archived end 7",
        ),
        (
            log(2, 10),
            archived(7),
            (5, 6),
            {"reason": "epoch_diverged", "diverged_at": 6},
            "epoch at 6, below the archived end 7",
        ),
        (
            log(2, 10),
            archived(7),
            (3, 8),
            {"reason": "epoch_diverged"},
            "from the archived leader epoch below",
        ),
        (
            log(2, 10),
            archived(7),
            (-1, -1),
            {"reason": "epoch_diverged"},
            "from the archived leader epoch below",
        ),
    ],
    ids=["gap", "truncated", "diverged", "epoch-unknown-to-the-log", "epoch-above-the-log"],
)
def test_it_does_not_go_on(now, archive, left_epoch, origin, said):
    lineage, start, found = continuation(now, archive, left_epoch, KNOWN)
    assert (lineage, start) == (Lineage(ordinal=1, start_log_offset=now.log_start_offset), now.log_start_offset)
    before = {"previous": FIRST.name, "previous_end": 7, "partition_count": 4, "found_at_ms": 100}
    assert found == Origin(**{**before, **origin})
    (line,) = breaks_since(None, "t", {3: (lineage, found)})
    with pytest.raises(ValueError, match=f"^log partition 3: .*{said}.*; a new lineage starts"):
        raise ValueError(line)


@pytest.mark.parametrize("start", [0, 4])
def test_the_first_of_all(start: int) -> None:
    lineage, first, origin = continuation(log(start, 10), None, None, KNOWN)
    assert (lineage, first) == (Lineage(ordinal=0, start_log_offset=start), start)
    assert origin == Origin(reason="first", found_at_ms=100, partition_count=4)
    assert breaks_since(None, "t", {3: (lineage, origin)}) == []


@pytest.mark.parametrize(
    "archive, known, end, unobserved",
    [
        (archived(7, taken_at_ms=20), {"before_ms": None}, 10, True),
        (archived(7, taken_at_ms=20), {"before_ms": 49}, 10, True),
        (archived(7, taken_at_ms=20), {"before_ms": 50}, 10, False),
        (archived(7, taken_at_ms=50), {"before_ms": None}, 10, False),
        (archived(7, taken_at_ms=20), {"before_ms": None}, 7, False),
        (archived(7, taken_at_ms=20), {"before_ms": None, "delete_retention_ms": 80}, 10, False),
    ],
    ids=["dead-snapshots-only", "long-ago", "just-in-time", "by-a-dead-snapshot", "nothing-new", "long-retention"],
)
def test_who_sleeps_misses_tombstones(archive: ArchiveEnd, known: dict[str, Any], end: int, unobserved: bool) -> None:
    fields = {"found_at_ms": 100, "partition_count": 4, "delete_retention_ms": 50, **known}
    lineage, _, origin = continuation(log(0, end), archive, (5, 10), ClusterHistory(**fields))
    assert (lineage.ordinal, origin is not None) == (unobserved, unobserved)
    if origin:
        assert origin.reason == "unobserved"


@pytest.mark.parametrize(
    "archive, counted_before, changed",
    [
        (archived(7), 9, False),
        (archived(7, origin=None), 9, True),
        (archived(7, origin=None), None, False),
        (archived(7, origin=UNCOUNTED), 9, True),
        (archived(7, origin=UNCOUNTED), 4, False),
        (archived(7, origin=UNCOUNTED), None, False),
    ],
    ids=[
        *("the-origin-tells", "else-the-facts", "nobody-knows"),
        *("import-without-topics-and-more", "import-without-topics", "import-and-no-facts"),
    ],
)
def test_the_number_of_log_partitions(archive: ArchiveEnd, counted_before: int | None, changed: bool) -> None:
    known = ClusterHistory(found_at_ms=100, partition_count=4, counted_before=counted_before)
    _, _, origin = continuation(log(0, 10), archive, (5, 10), known)
    assert (origin is not None and origin.reason == "partition_count") == changed
    more = ClusterHistory(found_at_ms=100, partition_count=5, counted_before=4)
    lineage, start, origin = continuation(log(0, 10), archived(7), (5, 10), more)
    assert (lineage.ordinal, start, origin and origin.partition_count) == (1, 0, 5)


def facts(topic_id: str, lineage: Lineage) -> ClusterMetadata:
    told = LogPartitionMetadata(
        lineage=lineage.name, log_start_offset=0, high_watermark=9, last_stable_offset=9, leader=1, leader_epoch=5
    )
    return ClusterMetadata(
        taken_at_ms=1, cluster_id="c", broker_version=None, settings={}, topic_id=topic_id, partition_count=4,
        topics=[], log_partitions={3: told},
    )  # fmt: skip


def test_a_break_is_told_until_a_snapshot_has_finished() -> None:
    second = Lineage(ordinal=1, start_log_offset=8)
    gap = Origin(reason="gap", found_at_ms=100, previous=FIRST.name, previous_end=7, missing=(7, 8))
    for before in (None, facts("t", FIRST), facts("other", second)):
        assert len(breaks_since(before, "t", {3: (second, gap)})) == 1
    assert breaks_since(facts("t", second), "t", {3: (second, gap)}) == []


def test_what_is_true_of_the_topic_is_told_once() -> None:
    anew = Origin(reason="recreated", found_at_ms=100, previous_topic_id="old")
    more = Origin(reason="partition_count", found_at_ms=100, partition_count=60)
    unobserved = Origin(reason="unobserved", found_at_ms=100)
    lines = breaks_since(None, "new", {part: (FIRST, (anew, more, unobserved)[part % 3]) for part in range(9)})
    assert len(lines) == 3
    assert "its id was old and is new" in lines[0]
    assert "60 log partitions" in lines[1]
