"""Which runs are kept: by tables of instants, and by laws that hold for any."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.as_text import DAY_MS, HOUR_MS
from sexton.maintenance.run_retention import MONTH_MS, RunRetention, kept, needed_bases

RETENTION = RunRetention(all_hours=2, hourly_days=1, daily_months=1)
NOW_MS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000)


def at(text: str) -> int:
    """The instant of `2026-11-21T12:00`."""
    return int(datetime.fromisoformat(f"{text}Z").timestamp() * 1000)


@pytest.mark.parametrize(
    "runs, stays",
    [
        (["2026-11-21T10:01", "2026-11-21T10:02", "2026-11-21T10:03"], "all"),
        (["2026-11-21T08:10", "2026-11-21T08:50", "2026-11-21T09:59"], ["2026-11-21T08:50", "2026-11-21T09:59"]),
        (["2026-11-21T09:50", "2026-11-21T10:00"], ["2026-11-21T09:50", "2026-11-21T10:00"]),
        (["2026-11-10T08:00", "2026-11-10T23:59", "2026-11-11T00:00"], ["2026-11-10T23:59", "2026-11-11T00:00"]),
        (["2025-02-01T00:00", "2025-02-28T23:00", "2025-03-01T00:00"], ["2025-02-28T23:00", "2025-03-01T00:00"]),
        (["2026-11-22T00:00", "2026-11-22T00:01"], "all"),
        ([], []),
    ],
    ids=["all", "of each hour", "hours across the border", "of each day", "of each month", "to come", "none"],
)
def test_what_stays(runs: list[str], stays: list[str] | str) -> None:
    wanted = runs if stays == "all" else stays
    assert kept({at(run) for run in runs}, now_ms=NOW_MS, retention=RETENTION) == {at(run) for run in wanted}


instants = st.sets(
    st.one_of(
        st.integers(NOW_MS - 4 * HOUR_MS, NOW_MS + HOUR_MS),
        st.integers(NOW_MS - 3 * DAY_MS, NOW_MS),
        st.integers(NOW_MS - 4 * MONTH_MS, NOW_MS),
        st.integers(0, 1 << 62),
    ),
    max_size=30,
)
retentions = st.builds(
    RunRetention, all_hours=st.integers(0, 5), hourly_days=st.integers(0, 3), daily_months=st.integers(0, 3)
)


@given(runs=instants, retention=retentions, later_ms=st.integers(0, 2 * MONTH_MS), held=instants)
def test_laws(runs: set[int], retention: RunRetention, later_ms: int, held: set[int]) -> None:
    held = held | set(sorted(runs)[::3])
    now = kept(runs, now_ms=NOW_MS, retention=retention, held=held)
    later = kept(runs, now_ms=NOW_MS + later_ms, retention=retention, held=held)
    assert now <= runs
    assert runs & held <= now
    assert not runs or max(runs) in now
    assert {run for run in runs if run > NOW_MS} <= now
    assert kept(now, now_ms=NOW_MS, retention=retention, held=held) == now
    assert later <= now, "nothing comes back with time"
    assert kept(now, now_ms=NOW_MS + later_ms, retention=retention, held=held) == later, "by steps or at once"


@given(runs=instants, retention=retentions)
def test_a_more_generous_retention_keeps_more(runs: set[int], retention: RunRetention) -> None:
    generous = RunRetention(
        all_hours=retention.all_hours + 1,
        hourly_days=retention.hourly_days + 1,
        daily_months=retention.daily_months + 1,
    )
    assert kept(runs, now_ms=NOW_MS, retention=retention) <= kept(runs, now_ms=NOW_MS, retention=generous)


@pytest.mark.parametrize(
    "checkpoints, wanted, needed",
    [
        ([], [5], []), ([1, 2, 3], [], [3]), ([1, 2, 3], [2], [2, 3]), ([1, 2, 4], [3, 9], [2, 4]),
        ([5, 7], [1], [7]),
    ],
)  # fmt: skip
def test_bases_of_what_is_kept(checkpoints: list[int], wanted: list[int], needed: list[int]) -> None:
    assert needed_bases(checkpoints, wanted) == set(needed)
