"""Lag from an archive without a broker: what a row says besides the interval, and whose settings it goes by."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.archive.time_points import Key, TimePoint, write_lookup
from sexton.lag.measure_lag import Instant, measure
from tests.archived import CLUSTER, Archive
from tests.lag_tables import instant_of
from tests.plain_lag import Committed, LogRange

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


def instant(archive: Archive, *committed: Committed, as_of_ms: int = START_MS, sees_all_topics: bool = True) -> Instant:
    return instant_of(
        archive.root,
        committed,
        {KEY: LogRange(topic_id="id", log_start_offset=10, log_end_offset=100)},
        cluster_id=CLUSTER,
        as_of_ms=as_of_ms,
        sees_all_topics=sees_all_topics,
    )


def measured(instant: Instant) -> list[Any]:
    return [SimpleNamespace(**row) for row in measure(instant).to_pylist()]


def offset(committed_offset: int, **rest: object) -> Committed:
    one = Committed(group_id="g", topic="orders", partition=0, committed_offset=committed_offset)
    return replace(one, **rest)  # type: ignore[arg-type]


def look_up(
    archive: Archive, *points: TimePoint, as_of_ms: int = START_MS, settings: dict[str, str] | None = None
) -> None:
    write_lookup(
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
        offset=at, timestamp_ms=START_MS - ago_ms, source="list_offsets", asked_ms=START_MS - ago_ms,
        log_start_offset=10,
    )  # fmt: skip


def left(leader_epoch: int, at: int, *, hours: int = 0) -> TimePoint:
    at_ms = START_MS + hours * HOUR_MS
    return TimePoint(offset=at, timestamp_ms=at_ms, source="epoch_end", leader_epoch=leader_epoch)


def only(archive: Archive, one: Committed, *, as_of_ms: int = START_MS) -> Any:
    (row,) = measured(instant(archive, one, as_of_ms=as_of_ms))
    return row


def test_refined(archive: Archive) -> None:
    look_up(archive, answer(40, 9_000))
    row = only(archive, offset(40))
    assert (row.lag, row.lag_min_ms, row.lag_max_ms, row.basis) == (60, 9_000, 9_000, "timestamps")
    assert (row.timestamp_type, row.would_reset) == ("CreateTime", None)


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
        (50, {"topic_id": "another"}, "topic_recreated"),
        (50, {"topic_id": "id"}, None),
        (50, {"topic": "gone"}, "topic_gone"),
        (50, {"partition": 1}, "topic_gone"),
    ],
)
def test_would_reset(archive: Archive, committed_offset: int, rest: dict[str, object], reason: str | None) -> None:
    assert only(archive, offset(committed_offset, **rest)).would_reset == reason


@pytest.mark.parametrize(
    ("leader_epoch", "committed_offset", "reason", "diverged_at"),
    [
        (3, 41, "truncated", 40), (3, 40, None, None), (4, 41, "truncated", None), (5, 41, None, None),
        (None, 41, None, None), (3, 9, "behind_log_start", None), (3, 101, "beyond_log_end", None),
    ],
)  # fmt: skip
def test_truncated(archive, leader_epoch, committed_offset, reason, diverged_at):
    """The log leaves epoch 3 at 40, has no epoch 4, and nobody asked for epoch 5."""
    look_up(archive, left(3, 40), left(4, -1))
    row = only(archive, offset(committed_offset, leader_epoch=leader_epoch))
    assert (row.would_reset, row.diverged_at, row.leader_epoch) == (reason, diverged_at, leader_epoch)


def test_a_truncation_is_known_from_the_snapshot_on_that_saw_it(archive: Archive) -> None:
    look_up(archive, left(3, 100))
    look_up(archive, left(3, 40, hours=2), as_of_ms=START_MS + 2 * HOUR_MS)
    asked = {
        hours: only(archive, offset(50, leader_epoch=3), as_of_ms=START_MS + hours * HOUR_MS) for hours in range(4)
    }
    assert [row.would_reset for row in asked.values()] == [None, None, "truncated", "truncated"]


def test_of_another_topic_of_that_name_nothing_is_known(archive: Archive) -> None:
    look_up(archive, answer(40, 9_000), TimePoint(offset=40, timestamp_ms=START_MS, source="last_stable"))
    mine, other = measured(instant(archive, offset(40), offset(40, topic_id="another")))
    assert (mine.lag, mine.lag_min_ms, mine.held_at) == (60, 9_000, 40)
    assert (other.lag, other.log_end_offset, other.lag_min_ms, other.lag_max_ms, other.held_at) == (None,) * 5
    assert other.would_reset == "topic_recreated"


def test_the_log_start_of_the_newest_snapshot_counts(archive: Archive) -> None:
    started = TimePoint(offset=50, timestamp_ms=START_MS, source="log_start")
    look_up(archive, replace(started, timestamp_ms=START_MS + 1), as_of_ms=START_MS + 1)
    assert only(archive, offset(40)).would_reset is None
    assert only(archive, offset(40), as_of_ms=START_MS + 1).would_reset == "behind_log_start"


def test_hidden_topics_are_not_gone(archive: Archive) -> None:
    (row,) = measured(instant(archive, offset(50, topic="hidden"), sees_all_topics=False))
    assert (row.would_reset, row.lag, row.lag_min_ms) == (None, None, None)


def test_held_by_an_open_transaction(archive: Archive) -> None:
    """At the instant of a lookup, and between two that saw the same; a lookup says nothing of later instants."""

    def held(hours: int) -> int | None:
        return only(archive, offset(40), as_of_ms=START_MS + hours * HOUR_MS).held_at

    def see(hours: int) -> None:
        at_ms = START_MS + hours * HOUR_MS
        look_up(archive, TimePoint(offset=40, timestamp_ms=at_ms, source="last_stable"), as_of_ms=at_ms)

    see(0)
    assert [only(archive, offset(at)).held_at for at in (39, 40, 41)] == [None, 40, None]
    assert [held(-1), held(0), held(1)] == [None, 40, None]
    see(2)
    assert [held(-1), held(0), held(1), held(2), held(3)] == [None, 40, 40, 40, None]


def test_retention_takes_it_no_earlier(archive: Archive) -> None:
    look_up(archive, answer(40, 9_000))
    assert only(archive, offset(40)).loses_at_min_ms == START_MS - 9_000 + HOUR_MS
    assert only(archive, offset(5)).loses_at_min_ms is None


def test_at_the_end_there_is_nothing_to_lose(archive: Archive) -> None:
    look_up(archive, answer(40, 9_000), TimePoint(offset=100, timestamp_ms=START_MS + 5, source="log_end"))
    row = only(archive, offset(100))
    assert (row.basis, row.loses_at_min_ms) == ("log_end", None)


@pytest.mark.parametrize("settings", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}])
def test_what_no_retention_takes(archive: Archive, settings: dict[str, str]) -> None:
    look_up(archive, answer(40, 9_000), settings=settings)
    assert only(archive, offset(40)).loses_at_min_ms is None


def test_settings_are_those_of_the_newest_snapshot_so_far(archive: Archive) -> None:
    look_up(archive, as_of_ms=START_MS - HOUR_MS, settings={"message.timestamp.type": "LogAppendTime"})
    look_up(archive, as_of_ms=START_MS + HOUR_MS)
    types = [only(archive, offset(40), as_of_ms=START_MS + ago * HOUR_MS).timestamp_type for ago in (-2, -1, 0, 1)]
    assert types == ["LogAppendTime", "LogAppendTime", "LogAppendTime", "CreateTime"]
