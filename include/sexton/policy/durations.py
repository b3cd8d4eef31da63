"""Converts durations and instants of a policy to milliseconds and back. Durations are whole minutes."""

import re
from datetime import UTC, datetime, timedelta

from sexton.as_text import DAY_MS, HOUR_MS, MINUTE_MS, ms_of

WEEK_MS = 7 * DAY_MS
MAX_DURATION_MS = 36_525 * DAY_MS
"""A hundred years, so that sums with instants stay within int64."""
DURATION_FORMS = "such as 90m, 36h, 7d, 2w, 1d12h, P7D, PT36H, or a number of minutes like 10080"
INSTANT_FORM = "with a time and a zone, such as 2027-01-01T00:00:00Z"

_SHORT = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?", re.ASCII)
_ISO = re.compile(r"P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?)?", re.ASCII)
_MINUTES = re.compile(r"\d{1,9}", re.ASCII)
_UNITS_MS = (WEEK_MS, DAY_MS, HOUR_MS, MINUTE_MS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Return milliseconds of `7d`, `1d12h`, ISO 8601's `P7D` or `PT36H`, or of a plain number of minutes.

    ValueError for anything else, for less than a minute and for more than a hundred years.
    """
    if _MINUTES.fullmatch(text):
        length_ms = int(text) * MINUTE_MS
    else:
        found = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
        if found is None or not any(found.groups()) or text.endswith("T"):
            raise ValueError("is no duration")
        length_ms = sum(int(count or 0) * unit_ms for count, unit_ms in zip(found.groups(), _UNITS_MS, strict=True))
    if not MINUTE_MS <= length_ms <= MAX_DURATION_MS:
        raise ValueError("is not between a minute and a hundred years")
    return length_ms


def duration_text(length_ms: int) -> str:
    """Return a duration such as `1d12h`, in whole minutes (rounded down)."""
    parts, left_ms = [], length_ms
    for unit, unit_ms in zip("dhm", _UNITS_MS[1:], strict=True):
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0m"


def parse_instant(text: str) -> int:
    """Return epoch milliseconds of an ISO 8601 instant; ValueError if it has no time or no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no instant") from None
    if moment.tzinfo is None or "T" not in text.upper().replace(" ", "T"):
        raise ValueError("has no time or no zone")
    return ms_of(moment)


def instant_text(at_ms: int) -> str:
    """Return `2027-01-01T00:00:00Z`, with milliseconds if not 0; a number if it is beyond the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    return moment.isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds").replace("+00:00", "Z")
