"""What the commands that ask a coordinator share: where to ask, and how answers are printed."""

import json as jsonlib
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from sexton.cli.options import PROFILE_HELP, check_profile, complete_profile, output, parse_instant
from sexton.errors import UsageError
from sexton.report.names import NAME_CELLS, harmless, visible

if TYPE_CHECKING:
    from sexton.coordinator.api.errors import Error
    from sexton.views.coordinator_view import CoordinatorView

MISSING = "-"
UNDECODABLE = 5
_INPUT = "Input, one of the three"
_RULES = "Rules"

Segments = Annotated[
    Path | None,
    typer.Option(metavar="DIR", rich_help_panel=_INPUT, help="A log directory with __consumer_offsets-N folders."),
]
Archive = Annotated[
    str | None,
    typer.Option(metavar="URI", rich_help_panel=_INPUT, help="Sexton's archive of segments: a folder or s3://, ..."),
]
RunDir = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", rich_help_panel=_INPUT, help="What `sexton audit --out` left.")
]
TopicsFile = Annotated[
    Path | None,
    typer.Option(
        "--topics",
        metavar="FILE",
        rich_help_panel=_INPUT,
        help="The cluster's topics as JSON lines (topic, id, partitions): for lag, ids and the number of partitions.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        metavar="ISO|MS", rich_help_panel=_RULES, help="Ask as of this instant; nothing written from then on is read."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:RELEASE]",
        rich_help_panel=_RULES,
        help=f"{PROFILE_HELP} Default: auto; of a run, its own.",
        autocompletion=complete_profile,
    ),
]


def view_of(
    segments: Path | None,
    archive: str | None,
    run: Path | None,
    *,
    topics: Path | None,
    as_of: str | None,
    profile: str | None,
    load_buffer_bytes: int | None = None,
) -> "CoordinatorView":
    """Open what the options name."""
    if profile is not None:
        check_profile(profile)
    if run is not None and load_buffer_bytes is not None:
        raise UsageError("a run has its own", where="--load-buffer-bytes", fix="ask the segments or the archive")
    if topics is not None and not topics.is_file():
        raise UsageError("no such file", where=topics, fix="--topics takes a file of JSON lines")
    as_of_ms = None if as_of is None else parse_instant(as_of, "--as-of")

    from sexton.views.coordinator_view import ViewRequest, open_view

    return open_view(
        ViewRequest(
            segments=None if segments is None else str(segments),
            archive=archive,
            run=None if run is None else str(run),
            as_of_ms=as_of_ms,
            taken_at_ms=time.time_ns() // 1_000_000,
            profile=profile,
            topics_file=None if topics is None else str(topics),
            load_buffer_bytes=load_buffer_bytes,
        )
    )


def tell_json(view: "CoordinatorView", operation: str, answer: dict[str, Any]) -> None:
    """Print an answer for machines, with the operation that it follows and whose rules."""
    tell_doubts(view.doubts)
    profile = view.coordinator.profile
    told = {
        "operation": operation,
        "profile": profile.text,
        "is_proven": profile.is_proven,
        "as_of_ms": view.as_of_ms,
        **answer,
        "warnings": [*view.warnings, *view.notes()],
    }
    sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")


def error_fields(error: "Error") -> dict[str, Any]:
    """An error as JSON tells it."""
    return {"error": error.name, "error_code": error.value}


def tell_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under Kafka's column names; None is `-`. In a pipe no line is wrapped, so that awk can read them."""
    told = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        _tell_plain([list(columns), *told])
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in told:
        table.add_row(*map(Text, row))
    output().print(table)


def _tell_plain(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what is in them, and no wider than a name may be: one of 32 KB would pad every other line."""
    widths = [min(max(cell_len(row[number]) for row in rows), NAME_CELLS) for number in range(len(rows[0]))]
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _cell(value: object) -> str:
    return MISSING if value is None else visible(value) if isinstance(value, str) else str(value)


def tell_line(text: str) -> None:
    """Print one line of an answer."""
    sys.stdout.write(harmless(text) + "\n")


def tell_aside(text: str) -> None:
    """Say on stderr what is not part of the answer."""
    sys.stderr.write(harmless(text) + "\n")


def tell_doubts(doubts: Iterable[str]) -> None:
    """Say on stderr what speaks against the profile that a log is read by."""
    for doubt in doubts:
        tell_aside(f"! {doubt}")


def tell_notes(view: "CoordinatorView") -> None:
    """Say on stderr what has to be known of the log beside the answer."""
    for note in [*view.warnings, *view.notes()]:
        tell_aside(f"! {note}")


def exit_code(view: "CoordinatorView") -> int:
    """5 where something that was read could not be decoded; an error that a broker would answer is none of ours."""
    return UNDECODABLE if view.has_undecodable else 0
