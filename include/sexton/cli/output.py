"""What commands print: answers on stdout as tables, lines or JSON, everything else on stderr."""

import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sexton.as_text import count, size, some
from sexton.errors import UndecodableInput
from sexton.report.names import NAME_CELLS, harmless, short, visible
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.coordinator.api.errors import Error
    from sexton.views.coordinator_view import CoordinatorView

_READER: ContextVar[tuple[Callable[[Mapping[str, Any]], None], Callable[[str], None]] | None] = ContextVar(
    "_READER", default=None
)
MISSING = "-"
PIPE_COLUMNS = 120
CELL_CELLS = 300
"""Maximum length of a text in a cell on a terminal: a name, or a sentence that quotes names."""
UNDECODABLE = UndecodableInput.exit_code


def console() -> Console:
    """stdout for people: colours on a terminal, plain text in a pipe."""
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=width)


def print_line(text: str = "") -> None:
    """Print a line of an answer."""
    sys.stdout.write(harmless(text) + "\n")


@contextmanager
def answer_into(document: Callable[[Mapping[str, Any]], None], aside: Callable[[str], None]) -> Iterator[None]:
    """In this context, JSON documents go to `document` and asides to `aside`, instead of stdout and stderr."""
    before = _READER.set((document, aside))
    try:
        yield
    finally:
        _READER.reset(before)


def print_aside(text: str) -> None:
    """Print on stderr what is not part of the answer."""
    if (reader := _READER.get()) is not None:
        reader[1](harmless(text))
        return
    sys.stderr.write(harmless(text) + "\n")


def print_json(document: Mapping[str, Any]) -> None:
    """Print an answer as JSON; a dataclass in it becomes an object of its fields."""
    if (reader := _READER.get()) is not None:
        reader[0](document)
        return
    sys.stdout.write(jsonlib.dumps(document, default=asdict, indent=2) + "\n")


def print_json_rows(document: Mapping[str, Any], name: str) -> None:
    """Print an answer as JSON whose `document[name]` are many rows: one row a line, as the iterable yields them."""
    if (reader := _READER.get()) is not None:
        reader[0](document)
        return
    before, opened, after = jsonlib.dumps({**document, name: []}, indent=2).partition(f'\n  "{name}": [')
    sys.stdout.write(before + opened)
    between = "\n    "
    for row in document[name]:
        sys.stdout.write(between + jsonlib.dumps(row))
        between = ",\n    "
    sys.stdout.write(("\n  " if between[0] == "," else "") + after + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, limit: int = 0) -> None:
    """Print up to `limit` rows (0: all) under Kafka's column names; None is `-`.

    In a pipe lines are not wrapped, so that awk can read them.
    """
    rows = list(rows)
    cells = [[_cell(value, is_short=sys.stdout.isatty()) for value in row] for row in rows[: limit or None]]
    if not sys.stdout.isatty():
        _print_plain([list(columns), *cells])
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        console().print(table)
    print_left_out(len(rows) - len(cells))


def print_section(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "", *, limit: int = 0) -> None:
    """Print an empty line, the title and the table; nothing if there are no rows."""
    rows = list(rows)
    if not rows:
        return
    print_line()
    if title:
        print_line(title)
    print_table(columns, rows, limit=limit)


def print_left_out(rows: int) -> None:
    """Print on stderr how many rows --limit left out."""
    if rows:
        print_aside(f"{count(rows)} more (--limit 0 shows all)")


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    """Columns are as wide as their cells, but at most NAME_CELLS: a name of 32 KB would pad every other line."""
    widths = [min(max(cell_len(row[number]) for row in rows), NAME_CELLS) for number in range(len(rows[0]))]
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _cell(value: object, *, is_short: bool) -> str:
    """A value as text; a long text is complete in a pipe, for other programs, and shortened on a terminal."""
    if not isinstance(value, str):
        return MISSING if value is None else str(value)
    return short(value, CELL_CELLS) if is_short else visible(value)


def print_archived(taken: Any, archive: str, *, json: bool, at: str = "") -> int:
    """Print what a snapshot or an import added to an archive, and its warnings; returns the exit code."""
    if json:
        print_json(asdict(taken))
        return 0
    if because := getattr(taken, "admin_because", None):
        print_line(
            f"read {some(taken.groups, 'group')} with {some(taken.offsets, 'offset')} of cluster "
            f"{taken.cluster_id} by Admin API{at}"
        )
        print_line(f"coverage admin: {because}")
    else:
        held = f"{count(taken.log_offsets)} log_offsets, {size(taken.size_bytes)} in {some(taken.segments, 'segment')}"
        new, parts = held if taken.segments else "nothing new", some(taken.log_partitions, "log partition")
        print_line(f"{new} from {parts} of cluster {taken.cluster_id}{at}")
    print_warnings(taken.warnings)
    print_line(f"archive  {uri_without_login(archive)}")
    return 0


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings that belong to an answer, in yellow on a terminal."""
    for warning in warnings:
        console().print(Text(harmless(f"! {warning}"), style="yellow"), soft_wrap=True)


def print_doubts(doubts: Iterable[str]) -> None:
    """Print on stderr what contradicts the profile, and other notes on a log."""
    for doubt in doubts:
        print_aside(f"! {doubt}")


def print_notes(view: "CoordinatorView") -> int:
    """Print on stderr the warnings and notes on what was read; returns the exit code."""
    print_doubts([*view.warnings, *view.notes()])
    return _exit_code(view)


def print_view_json(view: "CoordinatorView", operation: str, answer: dict[str, Any]) -> int:
    """Print a coordinator's answer as JSON, with profile and warnings; returns the exit code."""
    print_doubts(view.doubts)
    profile = view.coordinator.profile
    head = {"operation": operation, "profile": profile.text, "is_proven": profile.is_proven}
    print_json({**head, "as_of_ms": view.as_of_ms, **answer, "warnings": [*view.warnings, *view.notes()]})
    return _exit_code(view)


def error_fields(error: "Error") -> dict[str, Any]:
    """A Kafka error in JSON."""
    return {"error": error.name, "error_code": error.value}


def _exit_code(view: "CoordinatorView") -> int:
    """5 if something that was read could not be decoded, else 0: an error that a broker would answer is an answer."""
    return UNDECODABLE if view.has_undecodable else 0
