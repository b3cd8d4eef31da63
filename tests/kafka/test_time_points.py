"""The bisection of ListOffsets, without a broker: what it asks, how often, and what it does about errors."""

from collections.abc import Mapping
from itertools import accumulate
from types import SimpleNamespace as Answer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.archive.time_bounds import Bounds
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import TransientError
from sexton.kafka.time_points import ROUNDS, refine
from sexton.kafka.topics import EARLIEST, LATEST
from tests.plain_lag import TimeBounds

BASE_MS = 1_790_000_000_000
SPAN_MS = 7 * 86_400_000
AS_OF_MS = BASE_MS + SPAN_MS
NO_LEADER, DENIED, NOT_LEADER = 5, 29, 6


class Logs:
    """Logs by partition of one topic: the timestamps of their records from `start` on. Stands behind a session."""

    config = ClientConfig(bootstrap_servers="fake:1")

    def __init__(self, *logs: list[int], start: int = 0, stable: int | None = None) -> None:
        self.logs, self.start, self.stable = logs, start, stable
        self.errors: dict[int, list[int]] = {}
        self.requests: list[Any] = []
        self.breaks = 0

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        if type(request).__name__ == "MetadataRequest":
            partitions = [
                Answer(partition_index=n, leader_id=1, leader_epoch=0, error_code=0) for n in range(len(self.logs))
            ]
            topic = Answer(name="t", topic_id=None, error_code=0, partitions=partitions)
            return Answer(cluster_id="c", topics=[topic])
        assert node_id == 1
        (asked,) = request.topics
        numbers = [each.partition_index for each in asked.partitions]
        assert len(numbers) == len(set(numbers)), "a broker refuses a partition that is twice in a request"
        if asked.partitions[0].timestamp >= 0:
            self.requests.append(request)
            if self.breaks:
                self.breaks -= 1
                raise TransientError("gone")
        found = [
            self._answer(each.partition_index, each.timestamp, request.isolation_level) for each in asked.partitions
        ]
        return Answer(topics=[Answer(name="t", partitions=found)])

    def _answer(self, number: int, timestamp: int, isolation: int) -> Any:
        log = self.logs[number]
        error = self.errors[number].pop(0) if timestamp >= 0 and self.errors.get(number) else 0
        offset, at_ms = -1, -1
        if timestamp == LATEST:
            offset = self.stable if isolation and self.stable is not None else len(log)
        elif timestamp == EARLIEST:
            offset = self.start
        else:
            offset, at_ms = next(((n, ms) for n, ms in enumerate(log) if n >= self.start and ms >= timestamp), (-1, -1))
        return Answer(partition_index=number, error_code=error, offset=offset, timestamp=at_ms)

    def named(self, name: str, call: str, *, topic: str) -> str:
        return f"{name} (DESCRIBE on topic {topic})" if name == "TOPIC_AUTHORIZATION_FAILED" else name


def look_up(logs: Logs, offsets: Mapping[int, set[int]], known: Mapping[Any, TimeBounds] | None = None) -> Any:
    nothing = Bounds(low_ms=None, high_ms=None)
    wanted = {
        ("t", number): {at: known["t", number].newest(at) if known else nothing for at in some}
        for number, some in offsets.items()
    }
    return refine(logs, wanted, as_of_ms=AS_OF_MS, now_ms=lambda: AS_OF_MS)  # type: ignore[arg-type]


def bounds(found: Any, number: int, start: int = 0) -> TimeBounds:
    return TimeBounds(found.points["t", number], log_start_offset=start, is_append_time=False, slack_ms=0)


def exactly(at_ms: int) -> Bounds:
    return Bounds(low_ms=at_ms, high_ms=at_ms)


stamps = st.one_of(
    st.integers(BASE_MS, AS_OF_MS),
    st.integers(0, 5).map(lambda ms: BASE_MS + ms),  # ties
    st.integers(AS_OF_MS - 3, AS_OF_MS + SPAN_MS),  # from the future
)


@given(st.lists(stamps, min_size=1, max_size=60), st.data())
def test_every_offset_to_the_millisecond(log: list[int], data: st.DataObject) -> None:
    """Whatever producers claim; and a look at what is known asks nothing."""
    start = data.draw(st.integers(0, len(log) - 1))
    offsets = data.draw(st.sets(st.integers(start, len(log)), min_size=1, max_size=3))
    logs = Logs(log, start=start)
    found = look_up(logs, {0: offsets})
    assert found.rounds <= 1 + ROUNDS
    assert not found.unanswered
    newest = [*accumulate(log[start:], max)]
    for offset in offsets - {len(log)}:
        seen = bounds(found, 0, start).newest(offset)
        if newest[offset - start] >= AS_OF_MS:
            assert seen.low_ms is not None
            assert seen.low_ms >= AS_OF_MS
        else:
            assert seen.low_ms == seen.high_ms == newest[offset - start]
    again = look_up(logs, {0: offsets}, {("t", 0): bounds(found, 0, start)})
    assert (again.rounds, again.questions) == (0, 0)


def test_steady_traffic_needs_few_rounds() -> None:
    logs = Logs(*([BASE_MS + n * 60_000 for n in range(5_000)] for _ in range(20)))
    found = look_up(logs, {n: {17 + n * 200} for n in range(20)})
    assert found.rounds <= 4
    assert len(logs.requests) <= 8


def test_many_offsets_of_a_partition_go_in_several_requests() -> None:
    logs = Logs([BASE_MS + n * n * 1_000 for n in range(500)])
    found = look_up(logs, {0: {3, 50, 333, 499}})
    for offset in (3, 50, 333, 499):
        assert bounds(found, 0).newest(offset) == exactly(BASE_MS + offset * offset * 1_000)


def test_at_its_end_nothing_is_asked() -> None:
    logs = Logs([BASE_MS])
    assert look_up(logs, {0: {1, 2}}).questions == 0


def test_before_the_log_start_only_its_first_record_is_asked() -> None:
    logs = Logs([BASE_MS, BASE_MS + 1, BASE_MS + 2], start=2)
    found = look_up(logs, {0: {0}})
    assert found.questions == 1
    assert bounds(found, 0, 2).newest(2).low_ms == BASE_MS + 2


def test_an_open_transaction() -> None:
    found = look_up(Logs([BASE_MS] * 3, [BASE_MS], stable=1), {0: {0}, 1: {0}})
    of_source = {key: [p.offset for p in points if p.source == "last_stable"] for key, points in found.points.items()}
    assert of_source == {("t", 0): [1], ("t", 1): []}


def test_what_may_pass_is_asked_again() -> None:
    logs = Logs([BASE_MS], [BASE_MS])
    logs.errors = {0: [NOT_LEADER, NOT_LEADER], 1: [NO_LEADER]}
    found = look_up(logs, {0: {0}, 1: {0}})
    assert not found.unanswered
    assert bounds(found, 0).newest(0) == exactly(BASE_MS)


@pytest.mark.parametrize(
    ("error", "why"),
    [(DENIED, "TOPIC_AUTHORIZATION_FAILED (DESCRIBE on topic t)"), (NOT_LEADER, "NOT_LEADER_OR_FOLLOWER")],
)
def test_a_partition_that_keeps_failing_is_left_out(error: int, why: str) -> None:
    """And the others are not."""
    logs = Logs([BASE_MS], [BASE_MS])
    logs.errors = {0: [error] * 9}
    found = look_up(logs, {0: {0}, 1: {0}})
    assert found.unanswered == {("t", 0): why}
    assert bounds(found, 1).newest(0) == exactly(BASE_MS)


def test_a_broker_that_goes_away() -> None:
    logs = Logs([BASE_MS])
    logs.breaks = 2
    assert not look_up(logs, {0: {0}}).unanswered
    logs.breaks = 9
    assert look_up(logs, {0: {0}}).unanswered == {("t", 0): "gone"}


def test_a_partition_that_is_not_there() -> None:
    assert look_up(Logs([BASE_MS]), {7: {0}}).unanswered == {("t", 7): "the cluster shows no such partition"}
