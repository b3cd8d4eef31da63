"""Numbers and instants as people read them, all in UTC and without a locale."""

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def ms_of(moment: datetime) -> int:
    """Epoch milliseconds. A time without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def now_ms() -> int:
    """The time by this machine's clock, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def count(number: int) -> str:
    """12345 -> `12,345`."""
    return f"{number:,}"


def some(number: int, noun: str) -> str:
    """`1 group`, `2 groups`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def compact(number: int) -> str:
    """At most one decimal and a unit, for axes: 12345 -> `12.3 k`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            return f"{number / size:.1f}".removesuffix(".0") + f" {unit}"
    return str(number)


def size(number_bytes: int) -> str:
    """Bytes in binary units."""
    value = float(number_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def share(fraction: float | None) -> str:
    """A fraction as percent; `-` where there is nothing to divide by."""
    return "-" if fraction is None else f"{fraction * 100:.1f} %"


def duration(span_ms: int | None) -> str:
    """The two largest units of a span: 90061000 -> `1 d 1 h`; `-` for None."""
    if span_ms is None:
        return "-"
    sign, left = ("-" if span_ms < 0 else ""), abs(span_ms)
    parts: list[tuple[int, str]] = []
    for unit_ms, unit in _UNITS:
        number, left = divmod(left, unit_ms)
        if number or parts:
            parts.append((number, unit))
    if not parts:
        return f"{span_ms} ms"
    return sign + " ".join(f"{count(number)} {unit}" for number, unit in parts[:2] if number)


def instant(at_ms: int | None) -> str:
    """Epoch milliseconds as `2026-11-21 04:00:00 UTC`; beyond the calendar as plain milliseconds; `-` for None."""
    if at_ms is None:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    fraction = f".{at_ms % 1000:03d}" if at_ms % 1000 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"
