"""Regular expressions in linear time: RE2 with a full match and bounds for the worst pattern.

RE2 never backtracks, but `((a{100}){100}){100}` compiles to millions of instructions. So the size of a program and the
cache of RE2 are bounded. Beyond its cache RE2 takes (length of the text) x (size of the program), which is well below a
second for the longest group id (32,767 bytes).
"""

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

MAX_PATTERN_CHARS = 1_000
MAX_PROGRAM = 2_000
"""Instructions of a compiled pattern; `billing-.*|payments-.*` has about 30."""
_MAX_MEMORY_BYTES = 1 << 20


class PatternError(ValueError):
    """An invalid or too large regular expression."""


def check_pattern(text: str) -> None:
    """Raise PatternError unless `text` is valid and small enough."""
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"has {len(text)} characters, more than {MAX_PATTERN_CHARS}")
    try:
        size = _compiled(text).programsize
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"is not an RE2 regular expression: {text}") from None
    if size > MAX_PROGRAM:
        raise PatternError(f"compiles to {size} instructions, more than {MAX_PROGRAM}")


def is_full_match(pattern: str, text: str) -> bool:
    """Return whether all of `text` matches. `.` matches newlines, too, because names may have them."""
    try:
        return _compiled(pattern).fullmatch(text) is not None
    except UnicodeEncodeError:  # a lone surrogate, which Java decodes as U+FFFD
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
