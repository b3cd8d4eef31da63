"""Makes names safe to show: anybody may choose the letters of group ids, topics and client ids.

Tables and summary.json keep names unchanged. When a name is shown, every character that is invisible, or that moves,
reorders or overwrites the text around it, becomes its code point in angle quotes (`‹U+202E›`), and a long name keeps
both ends. Templates escape HTML, and `rich.text.Text` terminal markup.
"""

import re
import unicodedata

NAME_CELLS = 56
"""Longest name shown in full; group ids may have 32,767 bytes."""
_CELLS_WITH_LENGTH = 24

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and symbols that draw nothing, so that two names could look the same.
_BLANK_LETTERS = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f")
_MAX_MARKS = 2


def visible(text: str) -> str:
    """A name with invisible and harmful characters spelled out, safe in any line of text.

    An empty name becomes `‹empty›`, a leading, trailing or doubled space `␣`.
    """
    if not text:
        return "‹empty›"
    shown = harmless(text)
    inner = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    return "␣" * before + re.sub("(?<= ) ", "␣", inner) + "␣" * (len(shown) - len(inner) - before)


def harmless(text: str) -> str:
    """As `visible`, but spaces and an empty text stay: for Sexton's own sentences, which may quote a name."""
    shown: list[str] = []
    marks = _MAX_MARKS  # a leading combining mark would change the text before it: spell it out
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        shown.append(f"‹U+{ord(char):04X}›" if marks > _MAX_MARKS or _is_hidden(char, category) else char)
    return "".join(shown)


def short(text: str, cells: int = NAME_CELLS) -> str:
    """`visible(text)`; if longer than `cells`, the length replaces the middle, because names differ at either end."""
    # Cut before spelling out too, so that a 32 KB name costs no more than a long one.
    shown = visible(text if len(text) <= 4 * cells else text[: 2 * cells] + text[-2 * cells :])
    if len(text) <= 4 * cells and len(shown) <= cells:
        return shown
    gap = f"…({len(text):,})…" if cells >= _CELLS_WITH_LENGTH else "…"
    tail = (cells - len(gap)) // 3
    return f"{shown[: cells - tail - len(gap)].rstrip()}{gap}{shown[-tail:].lstrip()}"


def _is_hidden(char: str, category: str) -> bool:
    variation_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    other_space = category == "Zs" and char != " "
    return category in _HIDDEN_CATEGORIES or variation_selector or other_space or char in _BLANK_LETTERS
