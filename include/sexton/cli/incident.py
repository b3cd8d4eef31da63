"""`sexton incident`: one file about what happened to a group, for a post-mortem."""

import json as jsonlib
import secrets
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sexton import as_text
from sexton.as_text import now_ms
from sexton.cli.explain import AuthorizerLogs, LogTimeZone, answer_of, broker_logs
from sexton.cli.input_options import LogInput
from sexton.cli.options import OUTPUT, GroupId, Json, RetentionMinutes, flag, option, parse_optional_instant, required
from sexton.cli.output import UNDECODABLE, print_doubts, print_json, print_line
from sexton.errors import UsageError
from sexton.report.names import short
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.incident.document import Incident


def incident(
    group: GroupId,
    *,
    out: Path = required("--out FILE", "The page to write (.html); its JSON is written next to it.", OUTPUT),
    mask: bool = flag(
        "--mask",
        "Write pseudonyms for groups, topics, members, clients, principals, hosts and files. It cannot be undone.",
        OUTPUT,
    ),
    since: str | None = option("--from ISO|MS", "Only events from this instant on.", "Events"),
    until: str | None = option("--to ISO|MS", "Only events before this instant.", "Events"),
    retention_minutes: RetentionMinutes = None,
    authorizer_log: AuthorizerLogs = None,
    log_time_zone: LogTimeZone = "UTC",
    log: LogInput,
    json: Json = False,
) -> int:
    """Write one file for a post-mortem: what happened to a group, who did it, and which commands to run.

    It has what happened and why, who did it if brokers logged that, the records that prove it with their log
    offsets, lag, open transactions, differences between replicas, settings, what to do, and the hashes of its sources.
    It states where the input has no evidence. The page opens without network access. Without --segments,
    --archive and --run the command reads the published tables, as explain does.

    # the file for the post-mortem, and its JSON incident.json
    sexton incident my-group --archive s3://keep/offsets --out incident.html

    # with who did it, from the logs of the broker that led the group's log partition
    sexton incident my-group --segments backup --authorizer-log kafka-authorizer.log --out incident.html

    # without names, to share it outside the company
    sexton incident my-group --archive s3://keep/offsets --mask --out incident.html

    # the causes, for scripts
    sexton incident my-group --segments backup --out incident.html --json | jq '.causes[].kinds'
    """
    if out.suffix != ".html":
        raise UsageError("not a page", where=out, fix="a name that ends with .html")
    since_ms, until_ms = parse_optional_instant(since, "--from"), parse_optional_instant(until, "--to")
    logs = broker_logs(authorizer_log, log_time_zone)
    given, files = _opened(log)
    answer = answer_of(group, (None, None), given, retention_minutes, quiet=json)
    answer.story.keep_between(since_ms, until_ms)

    from sexton.incident.document import steps_of
    from sexton.incident.gather import GroupFacts, from_log, from_snapshots, from_tables
    from sexton.report.incident_page import render_incident

    opened, head = answer.opened, answer.head
    facts = GroupFacts(
        group_id=group,
        cluster_id=opened.source.cluster_id if opened else head["cluster_id"],
        as_of_ms=opened.view.as_of_ms if opened else head["as_of_ms"],
        read_by=opened.view.coordinator.profile.text if opened else answer.name,
        story=answer.story,
        warnings=[*opened.view.warnings, *opened.view.notes()] if opened else (),
        logs=logs,
        files=files,
        now_ms=now_ms(),
    )
    if opened is not None:
        found = from_log(facts, opened.view, opened.source, opened.reader)
    elif answer.published is not None:
        found = from_tables(facts, *answer.published)
    else:
        found = from_snapshots(facts)
    if mask:
        from sexton.incident.masking import masked

        places = [*map(str, (*(given.segments or ()), *(authorizer_log or ()), given.archive or "", log.run or ""))]
        found = masked(found, salt=secrets.token_bytes(32), more={"file": places})
    found = replace(found, steps=steps_of(found, before=_restore(found, given, is_masked=mask)))
    document = found.document()
    text = jsonlib.dumps(document, indent=2) + "\n"
    beside = out.with_suffix(".json")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text(text, encoding="utf-8")
    out.write_text(render_incident(found, json_text=text, json_name=beside.name), encoding="utf-8")
    if json:
        print_json(document)
    else:
        _print(found, out, beside)
        print_doubts(found.warnings)
    return UNDECODABLE if opened is not None and opened.view.has_undecodable else 0


def _opened(log: LogInput) -> tuple[LogInput, list[tuple[str, Path]]]:
    """The log to read (with --run, the log that the run read), and the other files that the incident is made from."""
    files = [] if log.topics is None else [("topics", log.topics)]
    if log.run is None:
        return log, files
    if log.is_log:
        raise UsageError("give one of --segments, --archive and --run", fix="see `sexton incident --help`")
    return log.of_run("give --archive URI")[0], [*files, ("run", log.run / "run.json")]


def _restore(found: "Incident", log: LogInput, *, is_masked: bool) -> str | None:
    """The command that restores what was committed right before the last loss; None without an archive or a loss."""
    losses = [cause.last_ms for cause in found.causes if cause.last_ms is not None and cause.offsets]
    if log.archive is None or not losses:
        return None
    archive = "ARCHIVE" if is_masked else uri_without_login(log.archive)
    at = datetime.fromtimestamp(max(losses) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    words = ["sexton", "restore", "--as-of", at, "--group", found.group_id, "--archive", archive]
    return shlex.join(words)


def _print(found: "Incident", out: Path, beside: Path) -> None:
    state = found.state or "no such group now"
    print_line(f"{short(found.group_id)}: {state if found.is_held else 'no coordinator has it'}")
    for cause in found.causes:
        last = f"{' or '.join(cause.kinds)} at {as_text.instant(cause.last_ms)}"
        print_line(f"cause    {last}: {'; or '.join(cause.meanings)}")
    for who in found.who:
        names = ", ".join(f"{caller.principal} from {caller.host}" for caller in who.callers)
        print_line(f"who      {who.certainty.replace('_', ' ')}: {names or who.reason}")
    for step in found.steps:
        print_line(f"to do    {step.text}")
        for line in (line for command in step.commands for line in command.split("\n")):
            print_line(line)
    print_line(f"page     {out}")
    print_line(f"json     {beside}")
