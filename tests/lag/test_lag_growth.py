"""How fast a lag grows, and when retention reaches it: of a group that stands still it is the bound."""

from dataclasses import asdict, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sexton.lag import lag_growth as columns
from tests import plain_lag
from tests.plain_lag import STANDS_STILL, LagAt

HOUR_MS = 3_600_000
NOW_MS = 1_790_000_000_000
BEFORE = LagAt(as_of_ms=NOW_MS - HOUR_MS, committed_offset=10, min_ms=HOUR_MS, max_ms=HOUR_MS)


def now(lag_ms: int, committed_offset: int = 10) -> LagAt:
    return LagAt(as_of_ms=NOW_MS, committed_offset=committed_offset, min_ms=lag_ms, max_ms=lag_ms)


def table(*rows: LagAt | None) -> pa.Table:
    names = {"committed_offset": "committed_offset", "min_ms": "lag_min_ms", "max_ms": "lag_max_ms"}
    known: list[dict[str, Any]] = [{} if row is None else asdict(row) for row in rows]
    return pa.table({new: pa.array([row.get(old) for row in known], pa.int64()) for old, new in names.items()})


def lag_growth(before: LagAt, after: LagAt) -> float | None:
    passed_ms = after.as_of_ms - before.as_of_ms
    (found,) = columns.lag_growth(table(before), table(after), passed_ms=passed_ms).to_pylist()
    return None if found is None else float(found)


def loses_at(min_ms: int | None, growth: float | None, as_of_ms: int) -> int | None:
    (found,) = columns.loses_at(pa.array([min_ms], pa.int64()), pa.array([growth], pa.float64()), as_of_ms).to_pylist()
    return None if found is None else int(found)


@pytest.mark.parametrize(
    ("lag_ms", "growth"),
    [(2 * HOUR_MS, STANDS_STILL), (HOUR_MS * 3 // 2, 0.5), (HOUR_MS, 0.0), (HOUR_MS // 2, -0.5), (0, -1.0)],
    ids=["stands still", "half as fast", "keeps up", "catches up", "has caught up"],
)
def test_growth(lag_ms: int, growth: float) -> None:
    assert lag_growth(BEFORE, now(lag_ms, 20)) == growth


def test_of_intervals_the_largest_growth_that_fits() -> None:
    assert lag_growth(replace(BEFORE, min_ms=0), replace(now(HOUR_MS // 4), min_ms=0)) == 0.25
    assert lag_growth(replace(BEFORE, min_ms=0), now(3 * HOUR_MS)) == STANDS_STILL


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (replace(BEFORE, min_ms=None, max_ms=None), now(HOUR_MS)),
        (BEFORE, replace(now(HOUR_MS), max_ms=None)),
        (BEFORE, now(3 * HOUR_MS, 9)),
        (replace(BEFORE, as_of_ms=NOW_MS), now(HOUR_MS)),
    ],
    ids=["nothing known", "not bounded", "went back", "no time passed"],
)
def test_what_says_nothing(before: LagAt, after: LagAt) -> None:
    assert lag_growth(before, after) is None


@pytest.mark.parametrize(
    ("left_hours", "growth", "lost_in_hours"),
    [
        (6, None, 6), (6, 1.0, 6), (6, 0.5, 12), (6, 0.0, None), (6, -0.5, None),
        (0, 0.5, 0), (-2, 0.5, -2), (0, 0.0, 0), (-2, 0.0, -2), (-2, -0.5, -2),
    ],
)  # fmt: skip
def test_when_retention_reaches_it(left_hours: int, growth: float | None, lost_in_hours: int | None) -> None:
    lost_ms = loses_at(NOW_MS + left_hours * HOUR_MS, growth, NOW_MS)
    assert lost_ms == (None if lost_in_hours is None else NOW_MS + lost_in_hours * HOUR_MS)


def test_nothing_is_lost_where_no_retention_is_known() -> None:
    assert loses_at(None, 1.0, NOW_MS) is None


def test_a_lag_that_hardly_grows() -> None:
    lost_ms = loses_at(NOW_MS + HOUR_MS, 1e-12, NOW_MS)
    assert lost_ms is not None
    assert NOW_MS + HOUR_MS < lost_ms < 1 << 53


def test_columns_say_what_rows_say() -> None:
    rng = Random(5)

    def some(as_of_ms: int) -> LagAt:
        least = rng.choice((None, 0, rng.randrange(9 * HOUR_MS)))
        most = None if least is None or rng.random() < 0.2 else least + rng.choice((0, 1, rng.randrange(HOUR_MS)))
        return LagAt(as_of_ms=as_of_ms, committed_offset=rng.randrange(3), min_ms=least, max_ms=most)

    earlier, later = ([some(at_ms) for _ in range(5_000)] for at_ms in (NOW_MS - HOUR_MS, NOW_MS))
    growth = columns.lag_growth(table(*earlier), table(*later), passed_ms=HOUR_MS)
    assert growth.to_pylist() == list(map(plain_lag.lag_growth, earlier, later))
    bounds = [rng.choice((None, NOW_MS + rng.randrange(-HOUR_MS, 1_000 * HOUR_MS))) for _ in earlier]
    lost = columns.loses_at(pa.array(bounds, pa.int64()), growth, NOW_MS).to_pylist()
    assert lost == [plain_lag.loses_at(*each, NOW_MS) for each in zip(bounds, growth.to_pylist(), strict=True)]
