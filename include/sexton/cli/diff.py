"""`sexton diff`: what differs between two instants."""

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.input_options import (
    UNDECODABLE,
    Archive,
    Profile,
    Segments,
    TopicsFile,
    tell_aside,
    tell_doubts,
    tell_line,
    tell_table,
)
from sexton.cli.options import Debug, Json, check_profile, parse_instant
from sexton.cli.progress import working
from sexton.errors import NoCoverage, UsageError
from sexton.report import figures

if TYPE_CHECKING:
    from sexton.history.difference import Comparison, Side

EXAMPLES = """\
[b]Examples[/b]

[dim]# what changed overnight[/dim]
sexton diff 2026-11-20T22:00:00Z 2026-11-21T06:00:00Z --archive s3://keep/offsets

[dim]# two audits[/dim]
sexton diff run-before run-after

[dim]# two published runs, those at or before the instants[/dim]
sexton diff 2026-11-20T22:00:00Z 2026-11-21T06:00:00Z --json | jq .counts
"""
GROUP_COLUMNS = ("GROUP", "CHANGE", "BEFORE", "AFTER", "CAUSE")
OFFSET_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "CHANGE", "BEFORE", "AFTER")
DEFAULT_ROWS = 50


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="An instant (ISO 8601 or ms), or a run folder.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one of the same kind.")],
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show up to N groups and N offsets; 0: all. --json has all.")
    ] = DEFAULT_ROWS,
    segments: Segments = None,
    archive: Archive = None,
    topics: TopicsFile = None,
    profile: Profile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Compare two instants: groups and offsets that appeared, changed and disappeared, and why groups did.

    The instants are of --segments or --archive, else of the published runs at or before them. Two run folders are
    compared as they are.
    """
    if segments is not None and archive is not None:
        raise UsageError("give --segments DIR or --archive URI, not both", fix="see `sexton diff --help`")
    if profile is not None:
        check_profile(profile)

    from sexton.history.difference import difference

    sides = [
        _side(text, segments=segments, archive=archive, topics=topics, profile=profile) for text in (before, after)
    ]
    tell_doubts(dict.fromkeys(doubt for side in sides for doubt in getattr(side, "doubts", ())))
    with working("Comparing", is_quiet=json):
        found = difference(*sides)
    for text, side in zip((before, after), sides, strict=True):
        if not getattr(side, "is_covered", True):
            raise NoCoverage("no record was written before that instant", where=text, fix="choose a later one")
    undecodable = sum(getattr(side, "undecodable_count", 0) for side in sides)
    if json:
        told = {
            "operation": "diff",
            "before": before,
            "after": after,
            "counts": found.counts(),
            "groups": found.groups.to_pylist(),
            "offsets": found.offsets.to_pylist(),
        }
        sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
    else:
        _print(found, limit)
    if undecodable:
        tell_aside(f"! {undecodable} undecodable records")
    return UNDECODABLE if undecodable else 0


def _side(text: str, *, segments: Path | None, archive: str | None, topics: Path | None, profile: str | None) -> "Side":
    """What an argument names; UsageError for what is neither an instant nor a run folder."""
    from sexton.coordinator.profiles import NEWEST
    from sexton.history.difference import LogSide, PublishedSide, RunSide
    from sexton.runs.folder import RunFolder

    if segments is None and archive is None and Path(text).is_dir():
        return RunSide(RunFolder(text))
    at_ms = parse_instant(text, "diff")
    if segments is None and archive is None:
        from sexton.lake.catalog import open_lake
        from sexton.lake.read import published_at

        lake = open_lake()
        return PublishedSide(lake, published_at(lake, at_ms))
    from sexton.runs.source import open_archive, open_segments
    from sexton.views.log_parts import LogParts
    from sexton.views.log_profile import choice_of

    topics_file = None if topics is None else str(topics)
    if segments is not None:
        source = open_segments(str(segments), topics_file=topics_file)
    else:
        source = open_archive(str(archive), as_of_ms=at_ms, topics_file=topics_file)
    taken_at_ms = time.time_ns() // 1_000_000
    parts = LogParts(source, profile=NEWEST, as_of_ms=at_ms, taken_at_ms=taken_at_ms)
    choice = choice_of(source, profile, parts)
    return LogSide(source, choice.profile, at_ms, taken_at_ms, doubts=choice.doubts)


def _print(found: "Comparison", limit: int) -> None:
    for name, counts in found.counts().items():
        tell_line(f"{name}: " + ", ".join(f"{figures.count(number)} {change}" for change, number in counts.items()))
    for columns, rows in ((GROUP_COLUMNS, found.groups), (OFFSET_COLUMNS, found.offsets)):
        if not rows.num_rows:
            continue
        names = ["group_id", "topic", "partition"] if "topic" in rows.column_names else ["group_id"]
        causes = ["cause"] if "cause" in rows.column_names else []
        shown = rows.select([*names, "change", "before", "after", *causes]).slice(0, limit or None)
        tell_line("")
        tell_table(columns, (tuple(row.values()) for row in shown.to_pylist()))
        if shown.num_rows < rows.num_rows:
            tell_aside(f"{figures.count(rows.num_rows - shown.num_rows)} more (--limit 0 shows all)")
