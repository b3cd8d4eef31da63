"""Where a snapshot goes on, and how long it waits."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig
from sexton.kafka.facts import LogEnds
from sexton.log.archive import ArchiveEnd, Lineage
from sexton.stages import snapshot_log
from sexton.stages.snapshot_log import SnapshotRequest, continuation, ranges
from sexton.stages.spark import Engine

FIRST = Lineage(ordinal=0, start_log_offset=0)


def log(start: int, end: int) -> LogEnds:
    return LogEnds(log_partition=3, leader_epoch=9, log_start_offset=start, high_watermark=end, last_stable_offset=end)


def archived(reached: int) -> ArchiveEnd:
    return ArchiveEnd(log_partition=3, lineage=FIRST, next_log_offset=reached, leader_epoch=5)


@pytest.mark.parametrize(
    "now, archive, left_epoch_at, lineage, start, said",
    [
        (log(0, 10), None, None, (0, 0), 0, None),
        (log(4, 10), None, None, (0, 4), 4, None),
        (log(0, 10), archived(7), 7, (0, 0), 7, None),
        (log(0, 10), archived(7), 9, (0, 0), 7, None),
        (log(0, 10), archived(7), None, (0, 0), 7, None),
        (log(7, 10), archived(7), None, (0, 0), 7, None),
        (log(0, 7), archived(7), 7, (0, 0), 7, None),
        (log(8, 10), archived(7), None, (1, 8), 8, r"\[7, 8\) were deleted before they were archived"),
        (log(0, 6), archived(7), 6, (1, 0), 0, "ends at 6, below the archived 7"),
        (log(2, 10), archived(7), 6, (1, 2), 2, "left leader epoch 5 at 6, below the archived 7"),
    ],
    ids=[
        "new",
        "new-later-start",
        "same-epoch",
        "epoch-later",
        "epoch-unknown",
        "start-at-end",
        "nothing-new",
        "gap",
        "truncated",
        "diverged",
    ],
)
def test_continuation(
    now: LogEnds,
    archive: ArchiveEnd | None,
    left_epoch_at: int | None,
    lineage: tuple[int, int],
    start: int,
    said: str | None,
) -> None:
    found, first, warning = continuation(now, archive, left_epoch_at)
    assert (found.ordinal, found.start_log_offset) == lineage
    assert first == start
    if said is None:
        assert warning is None
    else:
        with pytest.raises(ValueError, match=f"log partition 3: .*{said}"):
            raise ValueError(warning)


@given(start=st.integers(0, 5_000_000), size=st.integers(0, 5_000_000), later=st.integers(0, 3_000_000))
@settings(max_examples=50, deadline=None)
def test_ranges_join_and_do_not_depend_on_the_end(start: int, size: int, later: int) -> None:
    cut = list(ranges(start, start + size))
    joined = [start, *(end for _, end in cut)]
    assert list(pairwise(joined)) == cut
    assert joined[-1] == start + size
    assert {a for a, _ in cut} <= {a for a, _ in ranges(start, start + size + later)}


def test_an_instant_far_ahead_is_refused() -> None:
    config = ClientConfig(bootstrap_servers="nobody:1")
    request = SnapshotRequest(config=config, archive="unused", as_of_ms=10_000_000, settle_ms=0)
    with pytest.raises(UsageError, match="166 minutes ahead"):
        snapshot_log.run(Engine("test", iceberg=True, quiet=True), request, now_ms=lambda: 0)


def test_it_waits_until_the_instant_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [1_000], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += int(seconds * 1000) - (1 if len(slept) == 1 else 0)  # a sleep may end early

    class Connected(Exception):
        pass

    def look(*_: object, taken_at_ms: int, **__: object) -> None:
        assert taken_at_ms >= 5_500
        raise Connected

    monkeypatch.setattr(snapshot_log, "_look", look)
    config = ClientConfig(bootstrap_servers="nobody:1")
    request = SnapshotRequest(config=config, archive="unused", as_of_ms=5_000, settle_ms=500)
    with pytest.raises(Connected):
        snapshot_log.run(Engine("test", iceberg=True, quiet=True), request, now_ms=lambda: clock[0], sleep=sleep)
    assert slept == [4.5, 0.001]
