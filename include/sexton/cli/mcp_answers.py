"""Answers for agents: the JSON document of a command, cut to a page, and fenced where it is shown as text.

Nothing is kept between pages. A cursor has the first row of the next page, the instant of the answer that it
continues, and a digest of the question, so that it is refused with another question.
"""

import base64
import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sexton.cli.json_schema import Answer, schema, schema_of
from sexton.cli.mcp_tools import NAMES, AgentInput, Tool
from sexton.cli.output import answer_into
from sexton.errors import SextonError, UsageError

DEFAULT_ROWS = 50
MAX_BYTES = 100_000
"""Maximum length of an answer as JSON."""
_NESTED, _CHARS = 50, 2_000
"""Maximum lengths of a list within a row, and of a text."""
_SHORTER = (5, 200)
"""The same two limits, used if even a page of one row is longer than MAX_BYTES."""


class Page(Answer):
    """Which rows of each list are in this answer."""

    first: int
    """Number of the first row, from 0; the same in each list."""
    limit: int
    """This page has at most this many rows of each list."""
    totals: dict[str, int]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


class PagedAnswer(Answer):
    """What a tool answers."""

    answer: dict[str, Any]
    page: Page
    left_out: dict[str, int]
    """Items that were left out of lists within rows, by place."""
    notes: list[str]
    exit_code: int
    """The command's exit code: 0; 3, a check failed; 5, undecodable input."""


def output_schema(tool: Tool) -> dict[str, Any]:
    """The schema of `ask`: in `answer` what the command prints with --json, its lists cut to a page."""
    answer, around = _declared(" ".join(tool.command)), schema(PagedAnswer)
    own = {name: value for name, value in answer.items() if name not in ("$schema", "$defs")}
    properties = {**around["properties"], "page": around["$defs"]["Page"], "answer": own}
    return {**around, "properties": properties, "$defs": answer.get("$defs", {})}


_declared = cache(schema_of)


class _Collected:
    """Collects what a command prints, with up to `limit` rows of each list in its document, from number `first` on."""

    def __init__(self, first: int, limit: int) -> None:
        self._rows = range(first, first + limit)
        self.document: dict[str, Any] = {}
        self.totals: dict[str, int] = {}
        self.notes: list[str] = []

    def take(self, document: Mapping[str, Any]) -> None:
        for name, value in document.items():
            if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
                self.document[name] = value
                continue
            kept, number = [], -1
            for number, row in enumerate(value):
                if number in self._rows:
                    kept.append(row)
            self.document[name], self.totals[name] = kept, number + 1


def ask(tool: Tool, given: Mapping[str, Any], source: AgentInput) -> dict[str, Any]:
    """A page of the answer, as `output_schema` declares it; SextonError if the command fails."""
    from sexton.cli import app, described
    from sexton.cli.command import CommandState

    question = {name: value for name, value in given.items() if name not in ("cursor", "limit") and value is not None}
    digest = sha256(json.dumps([tool.name, question, repr(source)], sort_keys=True).encode()).hexdigest()[:16]
    first, as_of_ms = _place(given.get("cursor"), digest)
    found = _Collected(first, given.get("limit") or DEFAULT_ROWS)
    with tempfile.TemporaryDirectory(prefix="sexton-mcp-") as place, answer_into(found.take, found.notes.append):
        try:
            argv = source.argv(tool, question, Path(place))
            code = int(app(args=argv, prog_name="sexton", standalone_mode=False, obj=CommandState()) or 0)
        except Exception as error:
            known = described(error)
            known.where = known.where and known.where.removeprefix(f"{place}/")  # an agent gave the text, not the file
            raise known from error
    instant = found.document.get("as_of_ms")
    if first and instant != as_of_ms:
        raise UsageError("the input has changed since the first page", where="cursor", fix="ask again without it")
    return _cut(found, first, given.get("limit") or DEFAULT_ROWS, code, digest)


def _cut(found: _Collected, first: int, limit: int, code: int, digest: str) -> dict[str, Any]:
    """The page; its rows, then its texts and inner lists are cut until it fits into MAX_BYTES, if possible."""
    nested, chars = _NESTED, _CHARS
    while True:
        left_out: Counter[str] = Counter()
        answer = {
            name: _shortened(value[:limit] if name in found.totals else value, name, left_out, nested, chars)
            for name, value in found.document.items()
        }
        is_last = all(total <= first + limit for total in found.totals.values())
        page = {
            "first": first,
            "limit": limit,
            "totals": found.totals,
            "next_cursor": None if is_last else _cursor(first + limit, found.document.get("as_of_ms"), digest),
        }
        notes = [_short_text(note, chars) for note in found.notes[:nested]]
        text = json.dumps(
            {"answer": answer, "page": page, "left_out": left_out, "notes": notes, "exit_code": code}, default=str
        )
        if len(text) <= MAX_BYTES or (limit == 1 and (nested, chars) == _SHORTER):
            fitting: dict[str, Any] = json.loads(text)
            return fitting
        if limit > 1:
            limit //= 2
        else:
            nested, chars = _SHORTER


def _shortened(value: Any, place: str, left_out: Counter[str], nested: int, chars: int, *, is_row: bool = False) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, str):
        return _short_text(value, chars)
    if isinstance(value, Mapping):
        return {
            name: _shortened(inner, f"{place}.{name}", left_out, nested, chars, is_row=True)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        kept = value[:nested] if is_row else value
        if len(kept) < len(value):
            left_out[place] += len(value) - len(kept)
        return [_shortened(inner, place, left_out, nested, chars, is_row=True) for inner in kept]
    return value


def _short_text(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}…({len(text):,} characters)"


def _cursor(first: int, as_of_ms: int | None, digest: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([first, as_of_ms, digest]).encode()).decode()


def _place(cursor: str | None, digest: str) -> tuple[int, int | None]:
    """The first row, and the instant of the answer that `cursor` continues; UsageError if the question differs."""
    if cursor is None:
        return 0, None
    try:
        first, as_of_ms, of = json.loads(base64.urlsafe_b64decode(cursor))
        if of == digest and isinstance(first, int) and first > 0:
            return first, as_of_ms
    except (ValueError, TypeError):
        pass
    raise UsageError("it belongs to another question", where="cursor", fix="ask again without it")


def fenced(document: object) -> str:
    """A document as text between two lines that no name in it can imitate: their label is random."""
    label = secrets.token_hex(8)
    body = json.dumps(document, ensure_ascii=True)
    return f"{NAMES} The data is between the two lines with {label}.\nBEGIN {label}\n{body}\nEND {label}"


def failure(error: SextonError) -> dict[str, Any]:
    """An error as --json prints it."""
    return {"error": error.message, "where": error.where, "fix": error.fix, "exit_code": error.exit_code}
