"""What is shown of a name: nothing unseen, nothing that moves other text, never longer than it may be."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.report.names import NAME_CELLS, short, visible
from tests.report.run_folder import HOSTILE_NAMES

MOVING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("orders-service", "orders-service"), ("", "‹empty›"), ("日本😀", "日本😀"), ("שלום", "שלום"), ("a b", "a b"),
        (" a  b ", "␣a ␣b␣"), ("line\nbreak", "line‹U+000A›break"), ("nul\x00", "nul‹U+0000›"),
        ("\x1b[31m", "‹U+001B›[31m"), ("right\u202eleft", "right‹U+202E›left"),
        ("zero\u200bwidth", "zero‹U+200B›width"), ("no\u00a0break", "no‹U+00A0›break"),
        ("blank\u3164", "blank‹U+3164›"), ("e\u0301", "e\u0301"), ("\ue000", "‹U+E000›"), ("v\ufe0f", "v‹U+FE0F›"),
    ],
)  # fmt: skip
def test_visible(name: str, shown: str) -> None:
    assert visible(name) == shown


def test_a_pile_of_combining_marks_is_spelled_out() -> None:
    shown = visible("e" + "\u0301" * 40)
    assert shown.count("\u0301") <= 2
    assert shown.count("‹U+0301›") >= 38


def test_names_that_look_alike_are_told_apart() -> None:
    names = ["a", "a ", "a\u200b", "a\u00a0", "a\u2060", "\ufeffa", "a\u3164"]
    assert len({visible(name) for name in names}) == len(names)


@given(st.text())
def test_nothing_unseen_is_left(name: str) -> None:
    for char in visible(name):
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert char not in MOVING


@given(st.text(max_size=2_000), st.integers(12, 80))
def test_short_is_short(name: str, cells: int) -> None:
    assert len(short(name, cells)) <= cells


@pytest.mark.parametrize("name", ["team/" + "x" * 100 + "-0017", "n" * 32_767])
def test_a_long_name_keeps_both_ends(name: str) -> None:
    shown = short(name)
    assert len(shown) <= NAME_CELLS
    assert shown.startswith(name[:8])
    assert shown.endswith(name[-8:])
    assert f"…({len(name):,})…" in shown


def test_a_name_that_fits_is_not_cut() -> None:
    assert short("x" * NAME_CELLS) == "x" * NAME_CELLS


def test_hostile_names_are_many_enough() -> None:
    assert len(set(HOSTILE_NAMES)) == len(HOSTILE_NAMES)
