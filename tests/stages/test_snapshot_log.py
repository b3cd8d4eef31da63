"""How a snapshot cuts its work, and how long it waits."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig
from sexton.stages import snapshot_log
from sexton.stages.snapshot_log import SnapshotRequest, ranges
from sexton.stages.spark import Engine


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
