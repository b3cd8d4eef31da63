"""Pages as HTML: the report's Jinja environment (escapes text, spells out invisible letters) with our templates."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import escape

from sexton.as_text import count, instant
from sexton.history.lost_by_day import KINDS, LostOffsets
from sexton.report.charts import TimelinePlot, stacked_plot, timeline_plot
from sexton.report.templates import new_environment, style
from sexton.summary.summary import Timeline
from sexton.ui.overview import Overview
from sexton.ui.page_view import PageView
from sexton.ui.texts import LANGUAGES, Texts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = {".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml"}
_VENDOR = ("htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css")
_OWN = ("ui.css", "ui.js", "icon.svg", "icon-dark.svg")


def render(view: PageView, template: str, **values: Any) -> str:
    """A template as HTML text. It can use the view, its texts as `t`, and its links as `url`."""
    page = _environment().get_template(template)

    def asset(name: str) -> str:
        return f"{view.base}/static/{name}?v={asset_version(name)}"

    known = {"view": view, "run": view.run, "t": view.texts, "url": view.url, "languages": LANGUAGES}
    return page.render(**known, asset=asset, **values)


@lru_cache(maxsize=1)
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Every static file by name: its bytes and media type. No other file is served."""
    folder = files(__package__).joinpath("static")
    found = {name: folder.joinpath(name).read_bytes() for name in _OWN}
    found |= {name: folder.joinpath("vendor", name).read_bytes() for name in _VENDOR}
    found["page.css"] = style().encode("utf-8")
    return {name: (data, _TYPES["." + name.rpartition(".")[2]]) for name, data in found.items()}


@lru_cache(maxsize=64)
def asset_version(name: str) -> str:
    """A short hash of a static file, so that browsers can cache it."""
    return hashlib.sha256(assets()[name][0]).hexdigest()[:12]


def expiry_plot(found: Overview, as_of_ms: int, texts: Texts) -> TimelinePlot:
    """The report's expiry timeline, with the texts of a language."""
    timeline = Timeline(due=found.due, bin_ms=found.bin_ms, offsets=found.bins, later=found.later)
    plot = timeline_plot(timeline, as_of_ms=as_of_ms)
    titles = [texts("plot.due", offsets=count(found.due))]
    for number, offsets in enumerate(found.bins):
        start = as_of_ms + number * found.bin_ms
        span = {"start": instant(start), "end": instant(start + found.bin_ms)}
        titles.append(texts("plot.bin", offsets=count(offsets), **span))
    titles.append(texts("plot.later", offsets=count(found.later)))
    bars = [replace(bar, title=title) for bar, title in zip(plot.bars, titles, strict=False)]
    labels = {"due now": texts("plot.due_label"), "later": texts("plot.later_label")}
    ticks = [replace(tick, label=labels.get(tick.label, tick.label)) for tick in plot.x_ticks]
    return replace(plot, bars=bars, x_ticks=ticks)


def lost_plot(found: LostOffsets, texts: Texts) -> TimelinePlot:
    """A stacked bar for each day: the offsets lost on it, by cause."""

    def part(row: Mapping[str, Any], kind: str) -> tuple[str, int, str]:
        title = texts("lost.bar", day=row["day"], cause=texts.code("lost_cause", kind), offsets=count(row[kind]))
        return kind, row[kind], title

    return stacked_plot(
        [
            (
                row["day"][5:],
                [("track", None, texts("lost.not_known", day=row["day"]))]
                if row[KINDS[0]] is None
                else [part(row, kind) for kind in KINDS],
            )
            for row in found.days
        ]
    )


def iso(at_ms: int | None) -> str:
    """Epoch milliseconds in ISO 8601 for the browser; empty for None, and beyond the year 9999."""
    try:
        return "" if at_ms is None else (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return ""


def second(at_ms: int | None) -> str:
    """An instant to the second, in UTC: `2026-11-21 04:00:00`."""
    return instant(None if at_ms is None else at_ms - at_ms % 1000).removesuffix(" UTC")


def minute(at_ms: int | None) -> str:
    """`second` without seconds if they are zero: `2026-11-21 04:00`."""
    text = second(at_ms)
    return text.removesuffix(":00") if text.count(":") == 2 else text


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = new_environment(PackageLoader("sexton.ui", "templates"))
    # `typed` puts user input back into its field: escaped, otherwise unchanged.
    environment.filters.update(iso=iso, minute=minute, second=second, as_json=json.dumps, typed=escape)
    return environment
