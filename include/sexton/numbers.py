"""Whole numbers in text that somebody gave: an option, a setting, a field of a form.

Python's int also takes white space, underscores and the digits of every script, so that a slip becomes another number.
"""

import re

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def whole_number(text: str) -> int:
    """The number that ASCII digits write, with a minus or without; ValueError for anything else."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"no whole number: {text!r}")
    return int(text)
