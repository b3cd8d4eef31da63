"""Which target runs which cases of a matrix: a few of them every time, all of them where there is time for it."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def later(mark: pytest.MarkDecorator, cases: Iterable[Any], *, but: Collection[Any]) -> list[Any]:
    """For parametrize: `mark` is given to every case that is not one of `but`."""
    return [
        case if case in but else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case in cases
    ]
