"""What is wrong with a policy file: where, what was found, and how to mend it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from sexton.errors import UsageError

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One diagnostic in a file, or one piece of advice about it."""

    where: str
    line: int
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.what} ({self.fix})"


class PolicyError(UsageError):
    """A policy that cannot be used, with every diagnostic in it."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        first, *others = self.diagnostics
        if others:
            told = "; ".join(map(str, self.diagnostics))
            super().__init__(f"{len(self.diagnostics)} mistakes: {told}", where=first.where)
        else:
            super().__init__(first.what, where=f"{first.where}:{first.line}", fix=first.fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.diagnostics,)


def wrong(what: str, fix: str, *, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """What a validator raises: it keeps the fix beside the sentence. `at` names the place below the validated one."""
    return PydanticCustomError("policy", "{what}", {"what": what, "fix": fix, "at": at})


def shown(value: object) -> str:
    """A value as a message quotes it: on one line, nothing unseen in it, not too long."""
    text = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
