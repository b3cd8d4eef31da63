"""The geometry of the plots of the report and the dashboard, which templates draw as inline SVG.

Why no plotting library: plotly.js adds 4.8 MB to every report, needs scripts (so no strict content policy), interprets
some HTML in labels, and prints badly. SVG drawn here takes a few KB, follows the light or dark scheme through CSS, and
its labels are escaped text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.as_text import DAY_MS, HOUR_MS, compact, count, duration, instant, some
from sexton.summary.summary import Timeline

WIDTH, HEIGHT = 920, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 18, 46
_FULL = HEIGHT - _TOP - _BOTTOM
_GAP = 16
_LABELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of the timeline in SVG units; `kind` (due, soon, later) is its CSS class, `title` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label at `at` (x or y, by axis)."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePlot:
    """Bars and axes of the expiry timeline; the plot area reaches from `left` to `right` and from `top` to `bottom`."""

    bars: list[Bar]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a bar list. `share` and `due_share` are percent of the longest bar."""

    label: str
    note: str
    value: str
    share: float
    due_share: float = 0.0


def timeline_plot(timeline: Timeline, *, as_of_ms: int) -> TimelinePlot:
    """The expiry timeline: a bar of due offsets, one bar for each time step, and a bar of later offsets."""
    inner = WIDTH - _LEFT - _RIGHT
    wide = inner / 22  # the two outer bars stand apart from the steps of time
    has_later = timeline.later > 0
    steps_left = _LEFT + wide + _GAP
    step = (inner - wide - _GAP - (wide + _GAP if has_later else 0)) / max(len(timeline.offsets), 1)
    ceiling = _ceiling(max([timeline.due, timeline.later, *timeline.offsets, 1]))

    def bar(x: float, width: float, offsets: int, kind: str, when: str) -> Bar:
        height = max(_FULL * offsets / ceiling, 1.5) if offsets else 0.0  # a single offset among millions stays visible
        title = f"{when}: {some(offsets, 'offset')}"
        return Bar(x=x, y=_TOP + _FULL - height, width=width, height=height, kind=kind, title=title)

    bars = [bar(_LEFT, wide, timeline.due, "due", "due now")]
    for number, offsets in enumerate(timeline.offsets):
        start = as_of_ms + number * timeline.bin_ms
        when = f"{instant(start)} to {instant(start + timeline.bin_ms)}"
        bars.append(bar(steps_left + number * step, max(step * 0.86, 0.5), offsets, "soon", when))
    ticks = [Tick(at=_LEFT + wide / 2, label="due now")]
    ticks += _time_ticks(timeline, steps_left, step)
    if has_later:
        x = WIDTH - _RIGHT - wide
        bars.append(bar(x, wide, timeline.later, "later", "later"))
        ticks.append(Tick(at=x + wide / 2, label="later"))
    return TimelinePlot(bars=bars, x_ticks=ticks, y_ticks=_y_ticks(ceiling))


def stacked_plot(columns: Sequence[tuple[str, Sequence[tuple[str, int | None, str]]]]) -> TimelinePlot:
    """A stacked bar for each (label, parts), with parts (kind, value, title) from below; None fills the height."""
    ceiling = _ceiling(max([1, *(sum(value or 0 for _, value, _ in parts) for _, parts in columns)]))
    step = (WIDTH - _LEFT - _RIGHT) / len(columns)
    bars = []
    for number, (_, parts) in enumerate(columns):
        y = float(_TOP + _FULL)
        for kind, value, title in parts:
            if height := _FULL if value is None else _FULL * value / ceiling:
                y -= height
                x = _LEFT + (number + 0.07) * step
                bars.append(Bar(x=x, y=y, width=step * 0.86, height=height, kind=kind, title=title))
    every = -(-len(columns) // (2 * _LABELS))
    ticks = [
        Tick(at=_LEFT + (number + 0.5) * step, label=label)
        for number, (label, _) in enumerate(columns)
        if number % every == 0
    ]
    return TimelinePlot(bars=bars, x_ticks=ticks, y_ticks=_y_ticks(ceiling))


def bar_rows(items: Sequence[tuple[str, str, int, int]]) -> list[Row]:
    """Rows of a bar list from (label, note, value, due part of the value)."""
    longest = max((value for _, _, value, _ in items), default=0) or 1
    return [
        Row(
            label=label,
            note=note,
            value=count(value),
            share=round(max(100 * value / longest, 0.4) if value else 0, 2),
            due_share=round(100 * min(due, value) / longest, 2),
        )
        for label, note, value, due in items
    ]


def _y_ticks(ceiling: int) -> list[Tick]:
    parts = 4 if ceiling % 4 == 0 else 2 if ceiling == 10 else ceiling
    quarters = [ceiling * part // parts for part in range(parts + 1)]
    return [Tick(at=_TOP + _FULL * (1 - value / ceiling), label=compact(value)) for value in quarters]


def _time_ticks(timeline: Timeline, left: float, step: float) -> list[Tick]:
    """Labels on whole hours or days if possible."""
    bins, bin_ms = len(timeline.offsets), timeline.bin_ms
    spans = [n * HOUR_MS for n in (1, 2, 3, 6, 12)] + [n * DAY_MS for n in (1, 2, 5, 7, 10, 30, 90, 365)]
    steps = (span // bin_ms for span in spans if span >= bin_ms and span % bin_ms == 0)
    every = next((n for n in steps if bins / n <= _LABELS), max(bins // _LABELS, 1))
    return [
        Tick(at=left + number * step, label=f"+{duration(number * bin_ms)}")
        for number in range(every, bins + 1, every)
        if number < bins or number * step + left < WIDTH - _RIGHT - 20
    ]


def _ceiling(largest: int) -> int:
    """The smallest number from `largest` on that divides into readable quarters."""
    if largest < 10:
        return largest if largest < 4 else -(-largest // 4) * 4
    magnitude = 10
    while magnitude * 10 <= largest:
        magnitude *= 10
    ceilings = (magnitude * n // 10 for n in (10, 12, 16, 20, 24, 32, 40, 60, 80, 100))
    return next(ceiling for ceiling in ceilings if ceiling >= largest)
