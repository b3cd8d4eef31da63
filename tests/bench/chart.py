"""The chart of the README: records a second, as bars on a logarithmic scale, in plain SVG.

Of each set the largest log is shown, and kafka-dump-log where it was measured, on the plain one. Readable on light and
dark pages: colours follow the reader's scheme, as far as the viewer passes it on to an image.
"""

import math
from collections.abc import Sequence
from html import escape

from tests.bench.figures import MILLION, Figures

WIDTH = 760
LEFT, RIGHT, TOP = 150, 70, 66
BAR, GAP, BETWEEN = 13, 3, 16
DUMPED_SET = "plain"
LOWEST, HIGHEST = 10_000.0, 100_000_000.0

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.note { fill: #59636e }
.grid { stroke: #d1d9e0 }
.dump { fill: #afb8c1 } .broker { fill: #818b98 } .audit { fill: #54aeff } .kernel { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .note { fill: #9198a1 } .grid { stroke: #3d444d }
  .dump { fill: #3d444d } .broker { fill: #656c76 } .audit { fill: #1f6feb } .kernel { fill: #79c0ff }
}
"""

SERIES = (
    ("dump", "kafka-dump-log"),
    ("broker", "Kafka's own load, just started"),
    ("audit", "sexton audit, everything included"),
    ("kernel", "sexton's kernel, one core"),
)


def chart(all_figures: Sequence[Figures], dump_rate: float | None) -> str:
    """An SVG with the bars of the largest log of each set."""
    parts, y = [*_legend()], TOP
    largest: dict[str, Figures] = {}
    for one in sorted(all_figures, key=lambda figures: figures.commits):
        largest[one.name] = one
    for one in largest.values():
        rates = {
            "dump": dump_rate or 0.0 if one.name == DUMPED_SET else 0.0,
            "broker": one.records / one.broker_started_s,
            "audit": one.records / one.audit_s,
            "kernel": one.records / one.kernel_s,
        }
        shown = [(kind, rates[kind]) for kind, _ in SERIES if rates[kind] > 0]
        middle = y + (len(shown) * (BAR + GAP) - GAP) / 2 + 4
        parts.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(one.label)}</text>')
        for kind, rate in shown:
            width = _x(rate) - LEFT
            parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
            parts.append(f'<text class="note" x="{LEFT + width + 6:.1f}" y="{y + BAR - 2}">{_rate(rate)}</text>')
            y += BAR + GAP
        y += BETWEEN
    return _document([*_grid(y), *parts], height=y + 24)


def _x(rate: float) -> float:
    share = (math.log10(rate) - math.log10(LOWEST)) / (math.log10(HIGHEST) - math.log10(LOWEST))
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.002), 1)


def _rate(rate: float) -> str:
    return f"{rate / MILLION:.1f} M/s" if rate >= MILLION else f"{rate / 1000:,.0f} k/s"


def _legend() -> list[str]:
    parts = []
    for number, (kind, text) in enumerate(SERIES):
        x, y = LEFT + number % 2 * 230, 12 + number // 2 * 20
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="11" height="11" rx="2"/>')
        parts.append(f'<text x="{x + 17}" y="{y + 10}">{escape(text)}</text>')
    return parts


def _grid(bottom: int) -> list[str]:
    parts = []
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        x = _x(10.0**power)
        label = f"{10**power // MILLION:,} M/s" if power >= 6 else f"{10**power // 1000:,} k/s"
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="note" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    return parts


def _document(parts: Sequence[str], *, height: int) -> str:
    title = "Records a second: kafka-dump-log, the broker's own load, sexton audit, sexton's kernel"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{title}">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
