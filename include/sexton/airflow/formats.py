"""JSON schema formats of form fields. Their names describe the expected value, because Airflow's error quotes them:
`'yesterday' is not a 'ISO 8601 instant or epoch milliseconds'`.

A process checks only the formats registered in it: instants in every process that imports this module, regular
expressions in the API server (sexton.ui.plugin). For formats that are not registered the task checks the value.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from jsonschema import FormatChecker

from sexton.as_text import ms_of
from sexton.numbers import INSTANT


def instant_ms(text: str) -> int:
    """Return epoch milliseconds of an ISO 8601 time (UTC unless it has a zone) or of a number; else ValueError."""
    return int(text) if text.isdecimal() else ms_of(datetime.fromisoformat(text.upper()))


def register(name: str, parse: Callable[[str], object]) -> None:
    """Register a format in this process: a text is valid if `parse` raises no ValueError."""

    def is_valid(value: Any) -> bool:
        if isinstance(value, str) and value:  # the schema checks types, and an empty text is no value
            parse(value)
        return True

    # Every new FormatChecker() copies this dict; Airflow creates a FormatChecker for each value.
    FormatChecker.checkers = {**FormatChecker.checkers, name: (is_valid, ValueError)}


register(INSTANT, instant_ms)
