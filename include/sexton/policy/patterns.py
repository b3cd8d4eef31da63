"""Regular expressions in linear time: RE2, a full match, and bounds that keep the worst pattern quick.

RE2 never backtracks, but a pattern like `((a{100}){100}){100}` can still be a program of millions of steps. A program
is bounded, and so is the memory in which RE2 keeps what it has seen: beyond it RE2 goes on in time (length of the text)
x (size of the program), which these bounds keep well below a second for the longest group id there is (32,767 bytes).
"""

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

MAX_PATTERN_CHARS = 1_000
MAX_PROGRAM = 2_000
"""Instructions of a compiled pattern; `billing-.*|payments-.*` has about 30."""
_MAX_MEMORY_BYTES = 1 << 20


class PatternError(ValueError):
    """A regular expression that is none, or that is too large."""


def check_pattern(text: str) -> None:
    """PatternError unless `text` can be used."""
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"has {len(text)} characters, more than {MAX_PATTERN_CHARS}")
    try:
        size = _compiled(text).programsize
    except (re2.error, UnicodeError) as error:
        told = error.args[0] if error.args else error
        said = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        raise PatternError(f"is no regular expression of RE2: {said}") from None
    if size > MAX_PROGRAM:
        raise PatternError(f"compiles to {size} instructions, more than {MAX_PROGRAM}")


def is_full_match(pattern: str, text: str) -> bool:
    """Whether all of `text` matches; `.` takes every character, a newline too, for names may have any."""
    try:
        return _compiled(pattern).fullmatch(text) is not None
    except UnicodeEncodeError:  # a lone surrogate, which no log can hold: Java would read it as U+FFFD
        return (
            _compiled(pattern).fullmatch(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) is not None
        )


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Any:
    options = re2.Options()
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    return re2.compile(text, options)
