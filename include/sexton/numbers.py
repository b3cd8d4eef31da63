"""Whole numbers in text: those that somebody gave (an option, a setting, a field of a form), and many in few words.

Python's int also takes white space, underscores and the digits of every script, so that a slip becomes another number.
"""

import re
from collections.abc import Iterable

INSTANT = "ISO 8601 instant or epoch milliseconds"
RE2 = "RE2 regular expression"
"""Formats of texts in a form (airflow/formats.py). Here, because the plugin of every Airflow process reads them."""
_WHOLE = re.compile(r"-?[0-9]{1,19}")


def whole_number(text: str) -> int:
    """The number that ASCII digits write, with a minus or without; ValueError for anything else."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"no whole number: {text!r}")
    return int(text)


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours as ranges: `0 to 24, 27, 30 to 49`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    joined = {True: ", ", False: " to "}
    return ", ".join(joined[last - first == 1].join(map(str, dict.fromkeys((first, last)))) for first, last in spans)
