"""Diagnostics of a policy file: where, what is wrong, and what to write instead."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from sexton.errors import UsageError

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning about a file."""

    where: str
    line: int
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.what} ({self.fix})"


class PolicyError(UsageError):
    """A policy that cannot be used, with all its errors."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        first, *others = self.diagnostics
        if others:
            lines = "; ".join(map(str, self.diagnostics))
            super().__init__(f"{len(self.diagnostics)} mistakes: {lines}", where=first.where)
        else:
            super().__init__(first.what, where=f"{first.where}:{first.line}", fix=first.fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.diagnostics,)


def wrong(what: str, fix: str, *, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Return the error that a validator raises, with its fix. `at` is the location below the validated value."""
    return PydanticCustomError("policy", "{what}", {"what": what, "fix": fix, "at": at})


def shown(value: object) -> str:
    """Return a value as messages quote it: on one line, printable, shortened."""
    text = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
