"""Lag from an archive without a broker: what a row says besides the interval, and whose settings it goes by."""

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.archive.time_points import Key, TimePoint, write_look
from sexton.pipeline.measure_lag import Committed, Instant, LogRange, OffsetLag, measure
from tests.archived import CLUSTER, Archive

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
KEY: Key = ("orders", 0)
SETTINGS = {"message.timestamp.type": "CreateTime", "retention.ms": str(HOUR_MS), "cleanup.policy": "delete"}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path)
    made.topics = [{"topic": "orders", "id": "id", "partitions": [[10, 100]]}]
    made.snapshot(START_MS)
    return made


def instant(archive: Archive, *committed: Committed, as_of_ms: int = START_MS) -> Instant:
    return Instant(
        archive=archive.root,
        cluster_id=CLUSTER,
        as_of_ms=as_of_ms,
        committed=committed,
        partitions={KEY: LogRange(topic_id="id", log_start_offset=10, log_end_offset=100)},
        sees_all_topics=True,
        slack_ms=0,
    )


def offset(committed_offset: int, **rest: object) -> Committed:
    one = Committed(group_id="g", topic="orders", partition=0, committed_offset=committed_offset)
    return replace(one, **rest)  # type: ignore[arg-type]


def look(
    archive: Archive, *points: TimePoint, as_of_ms: int = START_MS, settings: dict[str, str] | None = None
) -> None:
    write_look(
        archive.fs,
        archive.root,
        cluster_id=CLUSTER,
        as_of_ms=as_of_ms,
        asked_at_ms=as_of_ms + 5,
        rounds=1,
        topic_ids={"orders": "id"},
        points={KEY: [TimePoint(offset=10, timestamp_ms=as_of_ms, source="log_start"), *points]},
        topics={"orders": SETTINGS | (settings or {})},
    )


def answer(at: int, ago_ms: int) -> TimePoint:
    return TimePoint(
        offset=at,
        timestamp_ms=START_MS - ago_ms,
        source="list_offsets",
        asked_ms=START_MS - ago_ms,
        log_start_offset=10,
    )


def only(archive: Archive, one: Committed, *, as_of_ms: int = START_MS) -> OffsetLag:
    (row,) = measure(instant(archive, one, as_of_ms=as_of_ms))
    return row


def test_refined(archive: Archive) -> None:
    look(archive, answer(40, 9_000))
    row = only(archive, offset(40))
    assert (row.lag, row.lag_min_ms, row.lag_max_ms, row.basis) == (60, 9_000, 9_000, "timestamps")
    assert (row.timestamp_type, row.is_exact, row.would_reset) == ("CreateTime", True, None)


def test_nothing_but_a_snapshot(archive: Archive) -> None:
    row = only(archive, offset(40))
    assert (row.lag, row.lag_min_ms, row.lag_max_ms, row.basis, row.timestamp_type) == (60, None, None, None, None)


@pytest.mark.parametrize(
    ("committed_offset", "rest", "reason"),
    [
        (9, {}, "behind_log_start"),
        (10, {}, None),
        (100, {}, None),
        (101, {}, "beyond_log_end"),
        (50, {"topic_id": "another"}, "topic_made_anew"),
        (50, {"topic_id": "id"}, None),
        (50, {"topic": "gone"}, "topic_gone"),
        (50, {"partition": 1}, "topic_gone"),
    ],
)
def test_would_reset(archive: Archive, committed_offset: int, rest: dict[str, object], reason: str | None) -> None:
    assert only(archive, offset(committed_offset, **rest)).would_reset == reason


def test_the_log_start_of_the_newest_look_counts(archive: Archive) -> None:
    started = TimePoint(offset=50, timestamp_ms=START_MS, source="log_start")
    look(archive, replace(started, timestamp_ms=START_MS + 1), as_of_ms=START_MS + 1)
    assert only(archive, offset(40)).would_reset is None
    assert only(archive, offset(40), as_of_ms=START_MS + 1).would_reset == "behind_log_start"


def test_hidden_topics_are_not_gone(archive: Archive) -> None:
    (row,) = measure(replace(instant(archive, offset(50, topic="hidden")), sees_all_topics=False))
    assert (row.would_reset, row.lag, row.lag_min_ms) == (None, None, None)


def test_held_by_an_open_transaction(archive: Archive) -> None:
    look(archive, TimePoint(offset=40, timestamp_ms=START_MS, source="last_stable"))
    assert [only(archive, offset(at)).held_at for at in (39, 40, 41)] == [None, 40, None]
    look(archive, as_of_ms=START_MS + HOUR_MS)
    assert only(archive, offset(40), as_of_ms=START_MS + HOUR_MS).held_at is None


def test_retention_takes_it_no_earlier(archive: Archive) -> None:
    look(archive, answer(40, 9_000))
    assert only(archive, offset(40)).loses_at_min_ms == START_MS - 9_000 + HOUR_MS
    assert only(archive, offset(5)).loses_at_min_ms is None


@pytest.mark.parametrize("settings", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}])
def test_what_no_retention_takes(archive: Archive, settings: dict[str, str]) -> None:
    look(archive, answer(40, 9_000), settings=settings)
    assert only(archive, offset(40)).loses_at_min_ms is None


def test_settings_are_those_of_the_newest_look_so_far(archive: Archive) -> None:
    look(archive, as_of_ms=START_MS - HOUR_MS, settings={"message.timestamp.type": "LogAppendTime"})
    look(archive, as_of_ms=START_MS + HOUR_MS)
    types = [only(archive, offset(40), as_of_ms=START_MS + ago * HOUR_MS).timestamp_type for ago in (-2, -1, 0, 1)]
    assert types == ["LogAppendTime", "LogAppendTime", "LogAppendTime", "CreateTime"]
