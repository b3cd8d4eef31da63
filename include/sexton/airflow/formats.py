"""Formats of the trigger forms' fields that no JSON schema knows, each under a name that reads as what is expected.

`'yesterday' is not a 'ISO 8601 instant or epoch milliseconds'` is what Airflow answers to a wrong value. A format is
checked by the process that validates, if it has been registered there: instants are wherever this module is imported,
regular expressions in the API server by the plugin (sexton.ui.plugin). Elsewhere the task refuses what is wrong.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from jsonschema import FormatChecker  # type: ignore[import-untyped]

INSTANT = "ISO 8601 instant or epoch milliseconds"
RE2 = "RE2 regular expression"
ISO_OR_MS = r"^$|^\d{1,16}$|^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?([Zz]|[+-]\d{2}:?\d{2})?$"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_ms(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 time (UTC unless it says otherwise), or `text` if it is those; ValueError."""
    return int(text) if text.isdecimal() else ms_of(datetime.fromisoformat(text.upper()))


def ms_of(instant: datetime) -> int:
    """Epoch milliseconds; a time without a zone is UTC."""
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def register(name: str, parse: Callable[[str], object]) -> None:
    """From here on a text of this format is refused in this process when `parse` raises a ValueError."""

    def is_valid(value: Any) -> bool:
        if isinstance(value, str) and value:  # other types are the type's to refuse, and empty is no value
            parse(value)
        return True

    # What every FormatChecker() made from here on starts with; Airflow makes one for each value.
    FormatChecker.checkers = {**FormatChecker.checkers, name: (is_valid, ValueError)}


register(INSTANT, instant_ms)
