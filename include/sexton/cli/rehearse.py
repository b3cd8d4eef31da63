"""`sexton rehearse`: what another release would do with this log, there and back."""

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sexton.as_text import now_ms, some
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.options import (
    AUTO_PROFILE,
    DEFAULT_ROWS,
    OUTPUT,
    RULES,
    Json,
    RetentionMinutes,
    ShownRows,
    check_retention,
    check_topics_file,
    flag,
    option,
    parse_optional_instant,
    required,
)
from sexton.cli.output import print_aside, print_json, print_line, print_section, print_table, print_warnings
from sexton.cli.progress import working
from sexton.errors import UsageError

if TYPE_CHECKING:
    from sexton.rehearsal.rehearse import Rehearsal
    from sexton.runs.source import LogSource

LOAD_COLUMNS = ("LOG-PARTITION", "RECORDS", "GROUPS", "FROM", "TO", "TO-ONCE-CLEANED")
FAULT_COLUMNS = ("LOG-PARTITION", "WHEN", "LOG-OFFSET", "GROUP", "ISSUE", "MESSAGE")
GROUP_COLUMNS = ("GROUP", "LOG-PARTITION", "CHANGES", "FROM", "TO", "OFFSETS")
BACK_COLUMNS = ("LOG-PARTITION", "LOG-OFFSET", "WHAT", "COMES-WITH", "THE-OLD-RELEASE")
READY_COLUMNS = ("GROUP", "STATE", "CONVERTS", "FIELD", "REASON")


def rehearse(
    *,
    to: str = required(
        "--to RELEASE", "The release to rehearse: 4.3.1, or a profile such as group_coordinator:3.9.", RULES
    ),
    old: str | None = option(
        "--from RELEASE", "The release that runs now, in the same form. Default: what the log proves.", RULES
    ),
    retention_minutes: RetentionMinutes = None,
    back: bool = flag("--back", "Show what the old release cannot read afterwards, by log partition.", OUTPUT),
    out: Path | None = option("--out DIR", "Write rehearsal.html and rehearsal.json into this folder.", OUTPUT),
    limit: ShownRows = DEFAULT_ROWS,
    log: Annotated[LogInput, Without({"profile"})],
    json: Json = False,
) -> int:
    """Rehearse an upgrade or a downgrade: what would another release do with this log?

    Shows the loads that would fail, now or once the log is cleaned; groups that change or vanish; offsets that are lost
    or expire at another time; what the old release could not read afterwards; and which classic groups can become
    consumer groups (KIP-848). Changes nothing. Exit code 0: safe; 3: not safe, or no way back; 5: some bytes make the
    load fail in both releases.

    # is it safe to upgrade, and can we go back?
    sexton rehearse --to 4.3.1 --segments /var/kafka-logs --back

    # the page for the change request
    sexton rehearse --to 4.3.1 --from 3.4.0 --archive s3://keep/offsets --out rehearsal

    # only the verdict, for scripts
    sexton rehearse --to 4.2.1 --segments backup --json | jq -r .verdict
    """
    from sexton.rehearsal.rehearse import profile_named
    from sexton.rehearsal.rehearse import rehearse as rehearsed

    new, known = profile_named(to, "--to"), None if old in (None, AUTO_PROFILE) else profile_named(old, "--from")
    check_retention(retention_minutes)
    with working("Rehearsing", is_quiet=json):
        source, as_of_ms, proven = _source(log)
        found = rehearsed(
            source,
            new=new,
            old=known or (None if proven is None else profile_named(proven, "--run")),
            as_of_ms=as_of_ms,
            taken_at_ms=now_ms(),
            retention_minutes=retention_minutes,
        )
    document = {"operation": "rehearse", **found.document()}
    if out is not None:
        from sexton.report.rehearsal_page import render_rehearsal

        out.mkdir(parents=True, exist_ok=True)
        (out / "rehearsal.html").write_text(render_rehearsal(found), encoding="utf-8")
        (out / "rehearsal.json").write_text(jsonlib.dumps(document, indent=2) + "\n", encoding="utf-8")
    if json:
        print_json(document)
    else:
        _print(found, shows_back=back, limit=limit)
        if out is not None:
            print_aside(f"report  {out / 'rehearsal.html'}")
    return found.exit_code


def _source(log: LogInput) -> "tuple[LogSource, int | None, str | None]":
    """The log, the instant up to which it is read, and the profile of the run (None without a run)."""
    if sum(place is not None for place in (log.segments, log.archive, log.run)) != 1:
        raise UsageError("give one of --segments DIR, --archive URI and --run DIR", fix="see `sexton rehearse --help`")
    log.check_cluster()
    check_topics_file(log.topics)
    as_of_ms = parse_optional_instant(log.as_of, "--as-of")
    if log.run is None:
        return log.source(as_of_ms).with_buffer(log.load_buffer_bytes), as_of_ms, None
    own, record = log.of_run("rehearse a log: --segments DIR or --archive URI")
    if as_of_ms not in (None, record.as_of_ms):
        raise UsageError(f"the run is as of {record.as_of_ms} ms", where="--as-of", fix="use --segments or --archive")
    return own.source(record.as_of_ms).with_buffer(log.load_buffer_bytes), record.as_of_ms, record.profile


def _print(found: "Rehearsal", *, shows_back: bool, limit: int) -> None:
    from sexton.rehearsal.faults import WHEN
    from sexton.rehearsal.rehearse import VERDICTS

    print_line(f"{found.before.text} -> {found.after.text}: {VERDICTS[found.verdict]}")
    for reason in found.reasons:
        print_line(f"  {reason}")
    print_line()
    loads = (
        (one.log_partition, one.records, one.groups, one.before, one.after, one.after_cleaning) for one in found.loads
    )
    print_table(LOAD_COLUMNS, loads, limit=limit)
    rows = ((f.log_partition, WHEN[f.when], f.log_offset, f.group_id, f.issue, f.message) for f in found.faults)
    print_section(FAULT_COLUMNS, rows, limit=limit)
    changes = (
        (one.group_id, one.log_partition, " ".join(one.kinds), one.before.text, one.after.text, len(one.offsets))
        for one in found.groups
    )
    print_section(GROUP_COLUMNS, changes, limit=limit)
    for one in found.writes:
        print_line()
        print_line(f"writes {one.what} of version {one.after}, not {one.before}; the old release reads {one.old_reads}")
    if shows_back:
        _print_back(found, limit)
    stuck = [one for one in found.readiness if not one.converts]
    if found.readiness:
        print_line()
        can = len(found.readiness) - len(stuck)
        print_line(f"{can} of {some(len(found.readiness), 'classic group')} can become consumer groups (KIP-848)")
        if stuck:
            groups = ((one.group_id, one.state, "no", one.field, one.reason) for one in stuck)
            print_table(READY_COLUMNS, groups, limit=limit)
    print_warnings(found.warnings)


def _print_back(found: "Rehearsal", limit: int) -> None:
    print_line()
    for level in found.refused_back:
        lowered = ", though it was lowered again" if level.is_lowered else ""
        print_line(
            f"the old release does not start: {level.name} {level.level}{lowered}; it supports {level.supported}"
        )
    if found.way_back:
        rows = ((one.log_partition, one.log_offset, one.what, one.comes_with, one.answer) for one in found.way_back)
        print_table(BACK_COLUMNS, rows, limit=limit)
    else:
        print_line("the old release reads all that is here, and all that the new one writes")
    for one in found.to_come:
        print_aside(f"to come with {one.comes_with}: {one.what}")
