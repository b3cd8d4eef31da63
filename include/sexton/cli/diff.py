"""`sexton diff`: the differences between two instants."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton import as_text
from sexton.as_text import now_ms
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.options import DEFAULT_ROWS, Json, ShownRows, check_profile, parse_instant
from sexton.cli.output import (
    UNDECODABLE,
    print_aside,
    print_doubts,
    print_json,
    print_left_out,
    print_line,
    print_section,
)
from sexton.cli.progress import working
from sexton.errors import NoCoverage, UsageError

if TYPE_CHECKING:
    from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
    from sexton.history.difference import InstantComparison, Side

    Ends = tuple[SnapshotSeries, AdminSnapshot, AdminSnapshot]

COLUMNS = {
    **{"group_id": "GROUP", "topic": "TOPIC", "partition": "PARTITION", "change": "CHANGE", "before": "BEFORE"},
    **{"after": "AFTER", "cause": "CAUSE", "changed_after_ms": "CHANGED-AFTER", "changed_by_ms": "CHANGED-BY"},
}
"""Field -> heading; a table shows the fields that it has."""


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="An instant (ISO 8601 or ms), or a run folder.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one, of the same kind.")],
    *,
    limit: ShownRows = DEFAULT_ROWS,
    log: Annotated[LogInput, Without({"run", "as_of"})],
    json: Json = False,
) -> int:
    """Compare two instants: groups and offsets that appeared, changed and disappeared, and why.

    If the archive has admin snapshots instead of the log, each difference has the interval between two admin snapshots
    in which it occurred, and every possible cause.

    The instants are looked up in --segments or --archive, else in the published runs at or before them. Two run folders
    are compared as they are.

    # what changed overnight
    sexton diff 2026-11-20T22:00:00Z 2026-11-21T06:00:00Z --archive s3://keep/offsets

    # two audits
    sexton diff run-before run-after

    # two published runs, those at or before the instants
    sexton diff 2026-11-20T22:00:00Z 2026-11-21T06:00:00Z --json | jq .counts
    """
    if log.segments is not None and log.archive is not None:
        raise UsageError("give --segments DIR or --archive URI, not both", fix="see `sexton diff --help`")
    check_profile(log.profile)
    log.check_cluster()

    from sexton.history.difference import difference

    if (ends := _snapshots((before, after), log)) is not None:
        return _diff_snapshots((before, after), ends, log, limit, json=json)
    sides = [_side(text, log) for text in (before, after)]
    print_doubts(dict.fromkeys(doubt for side in sides for doubt in getattr(side, "doubts", ())))
    with working("Comparing", is_quiet=json):
        found = difference(*sides)
    for text, side in zip((before, after), sides, strict=True):
        if not getattr(side, "is_covered", True):
            raise NoCoverage("no record was written before this instant", where=text, fix="choose a later one")
    for text, failed in zip((before, after), found.failed_loads, strict=True):
        for log_partition in failed:
            why = "no coordinator can load it, so nothing in it is compared"
            print_aside(f"! log partition {log_partition} at {text}: {why}")
    undecodable = sum(getattr(side, "undecodable_count", 0) for side in sides)
    if json:
        failed_loads = dict(zip(("before", "after"), found.failed_loads, strict=True))
        _print_json((before, after), found, failed_loads=failed_loads)
    else:
        _print(found, limit)
    if undecodable:
        print_aside(f"! {undecodable} undecodable records")
    return UNDECODABLE if undecodable or any(found.failed_loads) else 0


def _snapshots(texts: tuple[str, str], log: LogInput) -> "Ends | None":
    """The series of admin snapshots, and the snapshot for each instant; None if a log or runs answer instead."""
    if log.archive is None:
        return None
    from sexton.runs.admin_tables import admin_snapshot_for

    instants = [parse_instant(text, "diff") for text in texts]
    before, after = (admin_snapshot_for(log.archive, cluster_id=log.cluster_id, as_of_ms=at_ms) for at_ms in instants)
    if before is None and after is None:
        return None
    if before is None or after is None:
        where = texts[0] if before is None else texts[1]
        raise NoCoverage("no admin snapshot answers for this instant, and the log does not either", where=where)
    (series, first), (_, last) = before, after
    if first.taken_at_ms > last.taken_at_ms:
        raise UsageError("the first instant is after the second", where=texts[0], fix="swap them")
    return series, first, last


def _diff_snapshots(texts: tuple[str, str], ends: "Ends", log: LogInput, limit: int, *, json: bool) -> int:
    from sexton.history.admin_difference import difference_of_snapshots
    from sexton.runs.choose_profile import AUTO, choose

    series, first, last = ends
    profile = choose(log.profile or AUTO, last.metadata.broker_version).profile
    with working("Comparing the admin snapshots", is_quiet=json):
        compared, read, left_out = difference_of_snapshots(series, first, last, profile=profile)
    if json:
        _print_json(texts, compared, coverage=series.coverage, admin_snapshots=read, groups_left_out=left_out)
        return 0
    between = f"from {as_text.instant(first.taken_at_ms)} to {as_text.instant(last.taken_at_ms)}"
    print_line(f"coverage {series.coverage}: {as_text.some(read, 'snapshot')} {series.source}, {between}")
    if left_out:
        print_line(
            f"left out: {as_text.some(left_out, 'group')} about which one of the two admin snapshots has no answer"
        )
    _print(compared, limit)
    return 0


def _print_json(texts: tuple[str, str], found: "InstantComparison", **about: object) -> None:
    rows = {"groups": found.groups.to_pylist(), "offsets": found.offsets.to_pylist()}
    print_json({"operation": "diff", "before": texts[0], "after": texts[1], **about, "counts": found.counts(), **rows})


def _side(text: str, log: LogInput) -> "Side":
    """The state that an argument names; UsageError if it is neither an instant nor a run folder."""
    from sexton.history.difference import LogSide, PublishedSide, RunSide
    from sexton.runs.folder import RunFolder

    if not log.is_log and Path(text).is_dir():
        if log.cluster_id is not None:
            raise UsageError("a run belongs to one cluster", where="--cluster-id", fix="leave it out")
        return RunSide(RunFolder(text))
    at_ms = parse_instant(text, "diff")
    if not log.is_log:
        from sexton.lake.catalog import open_lake
        from sexton.lake.read import published_at

        lake = open_lake()
        return PublishedSide(lake, published_at(lake, at_ms, cluster_id=log.cluster_id))
    from sexton.views.log_parts import LogParts

    source, taken_at_ms = log.source(at_ms).with_buffer(log.load_buffer_bytes), now_ms()
    parts = LogParts(source, as_of_ms=at_ms, taken_at_ms=taken_at_ms)
    choice = parts.choose(log.profile)
    return LogSide(source, choice.profile, parts.fold, at_ms, taken_at_ms, doubts=choice.doubts)


def _print(found: "InstantComparison", limit: int) -> None:
    for name, counts in found.counts().items():
        print_line(f"{name}: " + ", ".join(f"{as_text.count(number)} {change}" for change, number in counts.items()))
    for rows in (found.groups, found.offsets):
        names = [name for name in COLUMNS if name in rows.column_names]
        shown = rows.select(names).slice(0, limit or None)
        print_section(
            [COLUMNS[name] for name in names],
            (
                [as_text.instant(value) if name.endswith("_ms") else value for name, value in row.items()]
                for row in shown.to_pylist()
            ),
        )
        print_left_out(rows.num_rows - shown.num_rows)
