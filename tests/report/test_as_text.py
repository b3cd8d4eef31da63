"""Numbers and instants as people read them, and the axes of the plot."""

import pytest

from sexton import as_text
from sexton.as_text import DAY_MS, HOUR_MS, MINUTE_MS
from sexton.report.charts import bar_rows, timeline_plot
from sexton.summary.summary import Timeline


@pytest.mark.parametrize(
    "span_ms, text",
    [
        (None, "-"), (0, "0 ms"), (999, "999 ms"), (61_000, "1 min 1 s"), (DAY_MS, "1 d"),
        (DAY_MS + MINUTE_MS, "1 d"), (-HOUR_MS, "-1 h"), (1000 * DAY_MS, "1,000 d"),
    ],
)  # fmt: skip
def test_duration(span_ms: int | None, text: str) -> None:
    assert as_text.duration(span_ms) == text


@pytest.mark.parametrize(
    "at_ms, text",
    [
        (None, "-"), (0, "1970-01-01 00:00:00 UTC"), (1_700_000_000_001, "2023-11-14 22:13:20.001 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"), (2**63 - 1, f"{2**63 - 1} ms"),
    ],
)  # fmt: skip
def test_instant(at_ms: int | None, text: str) -> None:
    assert as_text.instant(at_ms) == text


@pytest.mark.parametrize("number, text", [(999, "999"), (1_000, "1 k"), (12_345, "12.3 k"), (2_000_000, "2 M")])
def test_compact(number: int, text: str) -> None:
    assert as_text.compact(number) == text


@pytest.mark.parametrize("size, text", [(1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")])
def test_size(size: int, text: str) -> None:
    assert as_text.size(size) == text


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 5, 9, 10, 11, 99, 100, 101, 12_345, 9_999_999])
@pytest.mark.parametrize("bins", [0, 1, 7, 60])
@pytest.mark.parametrize("later", [0, 3])
def test_bars_stay_in_the_plot(largest: int, bins: int, later: int) -> None:
    offsets = [largest] * bins
    plot = timeline_plot(Timeline(bin_ms=HOUR_MS, offsets=offsets, due=largest, later=later), as_of_ms=0)
    assert len(plot.bars) == bins + 1 + bool(later)
    for left, right in zip(plot.bars, plot.bars[1:], strict=False):
        assert left.x + left.width <= right.x + 0.01
    for bar in plot.bars:
        assert plot.left <= bar.x
        assert bar.x + bar.width <= plot.right + 0.01
        assert plot.top - 0.01 <= bar.y
        assert bar.y + bar.height <= plot.bottom + 0.01
    heights = [tick.at for tick in plot.y_ticks]
    assert heights == sorted(heights, reverse=True)
    assert len({tick.label for tick in plot.y_ticks}) == len(plot.y_ticks) >= 2
    assert all(plot.left <= tick.at <= plot.right for tick in plot.x_ticks)


def test_labels_of_a_week_are_days() -> None:
    plot = timeline_plot(Timeline(bin_ms=3 * HOUR_MS, offsets=[1] * 56, due=0, later=0), as_of_ms=0)
    assert [tick.label for tick in plot.x_ticks] == ["due now", "+1 d", "+2 d", "+3 d", "+4 d", "+5 d", "+6 d"]


def test_bar_rows() -> None:
    rows = bar_rows([("a", "", 200, 50), ("b", "", 1, 0), ("c", "", 0, 0)])
    assert [(row.share, row.due_share) for row in rows] == [(100, 25), (0.5, 0), (0, 0)]
    assert bar_rows([]) == []
