"""Reads whole numbers from options, settings and fields of forms, and writes many numbers as ranges.

Python's int also takes white space, underscores and the digits of every script, so that a typo becomes another number.
"""

import re
from collections.abc import Iterable

INSTANT = "ISO 8601 instant or epoch milliseconds"
RE2 = "RE2 regular expression"
"""Formats of form fields (airflow/formats.py). They are here because the plugin in every Airflow process reads them."""
_WHOLE = re.compile(r"-?[0-9]{1,19}")


def whole_number(text: str) -> int:
    """The number in ASCII digits, with or without a minus sign; ValueError for any other text."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"no whole number: {text!r}")
    return int(text)


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers in ascending order, consecutive numbers as ranges: `0 to 24, 27, 30 to 49`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    joined = {True: ", ", False: " to "}
    return ", ".join(joined[last - first == 1].join(map(str, dict.fromkeys((first, last)))) for first, last in spans)
