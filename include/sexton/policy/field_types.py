"""Field types of a policy, and the base of its models."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, StringConstraints

from sexton.policy.diagnostics import shown, wrong
from sexton.policy.durations import (
    DURATION_FORMS,
    INSTANT_FORM,
    duration_text,
    instant_text,
    parse_duration,
    parse_instant,
)


def _duration(value: object) -> int:
    try:
        return parse_duration(_scalar(value))
    except ValueError as error:
        raise wrong(f"{shown(value)} {error}", DURATION_FORMS) from None


def _instant(value: object) -> int:
    try:
        return parse_instant(_scalar(value))
    except ValueError as error:
        raise wrong(f"{shown(value)} {error}", INSTANT_FORM) from None


def _scalar(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _alternatives(value: object) -> object:
    """Return a text, or a list of at least one text, as a sorted tuple without duplicates."""
    if isinstance(value, list | tuple):
        if not value:
            raise wrong("an empty list matches nothing", "name at least one, or leave the key out")
        return tuple(sorted(set(value))) if all(isinstance(item, str) for item in value) else tuple(value)
    return (value,)


def _keep(value: object) -> int:
    return FOREVER_MS if _scalar(value).lower() == "true" else _duration(value)


def _keep_text(keep_ms: int) -> str:
    return "true" if keep_ms == FOREVER_MS else duration_text(keep_ms)


FOREVER_MS = (1 << 63) - 1
"""How long a hold without an end keeps offsets alive."""
KeepMs = Annotated[int, BeforeValidator(_keep), PlainSerializer(_keep_text, return_type=str)]
DurationMs = Annotated[int, BeforeValidator(_duration), PlainSerializer(duration_text, return_type=str)]
InstantMs = Annotated[int, BeforeValidator(_instant), PlainSerializer(instant_text, return_type=str)]
Alternatives = Annotated[tuple[str, ...], BeforeValidator(_alternatives)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]

A_DURATION = f"a duration, {DURATION_FORMS}"
AN_INSTANT = f"an instant {INSTANT_FORM}"


class Model(BaseModel):
    """A part of a policy: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
