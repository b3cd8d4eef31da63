"""`sexton explain`: the story of a group, and what its offsets come to."""

import json as jsonlib
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.input_options import (
    Archive,
    AsOf,
    Profile,
    Segments,
    TopicsFile,
    exit_code,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
    view_of,
)
from sexton.cli.options import Debug, Json, LoadBuffer, parse_instant
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.meanings import sweep_block_text
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.expiry import SweepBlock
    from sexton.history.events import Event
    from sexton.history.log_story import LogStory, NextVerdict, StoryReader
    from sexton.views.coordinator_view import CoordinatorView

EXAMPLES = """\
[b]Examples[/b]

[dim]# why did this group lose its offsets, and what goes next?[/dim]
sexton explain my-group --archive s3://keep/offsets

[dim]# one partition, and what happened to it in those hours[/dim]
sexton explain my-group orders:0 --segments backup --from 2026-11-21T00:00:00Z --to 2026-11-21T04:00:00Z

[dim]# from the published tables of this deployment[/dim]
sexton explain my-group
"""
OPERATION = "explain"
EVENT_COLUMNS = ("WHEN", "LOG-OFFSET", "WHAT", "DETAIL")
NEXT_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "EXPIRES", "REASON")
MINUTE_MS = 60_000
_RULES = "Rules"
_QUESTION = "Question"


def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")],
    target: Annotated[
        str | None, typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Only this topic, or one partition of it.")
    ] = None,
    *,
    since: Annotated[
        str | None, typer.Option("--from", metavar="ISO|MS", rich_help_panel=_QUESTION, help="Events from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="ISO|MS", rich_help_panel=_QUESTION, help="Events before then.")
    ] = None,
    retention_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=_RULES,
            help="offsets.retention.minutes. Default: as archived with the log; to judge what is next, else Kafka's.",
        ),
    ] = None,
    segments: Segments = None,
    archive: Archive = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Tell the story of a group: when it appeared, what it became, what it lost and why, and what expires next.

    Without --segments and --archive the published tables are asked, which tell of instants and intervals.
    """
    topic, partition = topic_partition(target)
    span = (_instant(since, "--from"), _instant(until, "--to"))
    if segments is None and archive is None:
        return _from_tables(group, topic, partition, span, as_of=_instant(as_of, "--as-of"), json=json)
    from sexton.history.events import describe
    from sexton.history.log_story import next_verdicts

    view = view_of(
        segments, archive, None, topics=topics, as_of=as_of, profile=profile, load_buffer_bytes=load_buffer_bytes
    )
    with working("Reading the log", is_quiet=json):
        view.check_coverage([group])
        home, story, teller = _read(view, group, topic, partition, segments, archive, retention_minutes)
    held = None if home is None else view.coordinator.shards[home].view
    if story is None or teller is None or held is None:
        return _tell(json, view, group, home, "", [], [])
    is_there = held.group(group) is not None
    known_ms = teller.known.retentions_ms
    default_ms = view.coordinator.profile.default_retention_minutes * MINUTE_MS
    retention_ms = known_ms[-1] if known_ms else default_ms
    now_ms = view.as_of_ms or story.last_timestamp_ms + 1
    block = None if home is None else view.parts.read[home].sweep_block(retention_ms, now_ms)
    upcoming = next_verdicts(
        story.group if is_there else None,
        {key: offset for key, offset in held.offsets(group).items() if teller.asks_for(*key)},
        held.pending(group),
        retention_ms=retention_ms,
        now_ms=now_ms,
        profile=view.coordinator.profile,
        block=block,
    )
    state = describe(story.group) if is_there and story.group is not None else ""
    return _tell(json, view, group, home, state, _between(story.events, span), upcoming, block)


def topic_partition(text: str | None) -> tuple[str | None, int | None]:
    """The topic of `TOPIC[:PARTITION]`, and the partition where one is named."""
    if text is None:
        return None, None
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdigit())):
        raise UsageError(f"not TOPIC or TOPIC:PARTITION: {text!r}", where="explain", fix="such as orders or orders:0")
    return topic, int(partition) if colon else None


def _instant(text: str | None, option: str) -> int | None:
    return None if text is None else parse_instant(text, option)


def _between(events: "Iterable[Event]", span: tuple[int | None, int | None]) -> "list[Event]":
    """The events in [from, to); what has no timestamp is in every span."""
    since, until = span
    return [
        event
        for event in events
        if event.timestamp_ms is None
        or ((since is None or event.timestamp_ms >= since) and (until is None or event.timestamp_ms < until))
    ]


def _read(
    view: "CoordinatorView",
    group: str,
    topic: str | None,
    partition: int | None,
    segments: Path | None,
    archive: str | None,
    retention_minutes: int | None,
) -> "tuple[int | None, LogStory | None, StoryReader | None]":
    """The group's story, by its log partition: the one where it belongs, else the first that tells of it."""
    from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
    from sexton.history.log_story import StoryReader
    from sexton.history.offset_changes import known_of
    from sexton.ledger.recorded_steps import acts_of
    from sexton.runs.source import filesystem, open_archive, open_segments

    place = str(segments) if segments is not None else str(archive)
    fs, path = filesystem(place)
    if segments is not None:
        source, before, after = open_segments(place, topics_file=None), None, None
        acts = None
    else:
        source = open_archive(place, as_of_ms=view.as_of_ms, topics_file=None)
        before = oldest_metadata_after(fs, path, cluster_id=source.cluster_id, at_ms=-1)
        after = newest_metadata(fs, path, cluster_id=source.cluster_id)
        acts = acts_of(fs, path, source.cluster_id)
    home = view.coordinator.log_partition_of(group)
    for log_partition in sorted(source.segments) if home is None else [home]:
        if not source.segments.get(log_partition):
            continue
        teller = StoryReader(
            fs=fs,
            segments=source.segments[log_partition],
            group_id=group,
            topic=topic,
            partition=partition,
            profile=view.coordinator.profile,
            known=known_of(
                before,
                after,
                retention_ms=None if retention_minutes is None else retention_minutes * MINUTE_MS,
                removed=acts and acts[0],
                restored=acts and acts[1],
            ),
            as_of_ms=None if source.is_archive else view.as_of_ms,
            taken_at_ms=time.time_ns() // 1_000_000,
        )
        story = teller.tell()
        if home is not None or story.events:
            return log_partition, story, teller
    return home, None, None


def _tell(
    json: bool,
    view: "CoordinatorView",
    group: str,
    log_partition: int | None,
    state: str,
    events: "list[Event]",
    upcoming: "list[NextVerdict]",
    block: "SweepBlock | None" = None,
) -> int:
    if json:
        blocked = None if block is None else asdict(block)
        told = {
            "group_id": group,
            "log_partition": log_partition,
            "state": state or None,
            "sweep_blocked": blocked,
        }
        tell_json(view, OPERATION, {**told, **_fields(events, upcoming)})
        return exit_code(view)
    where = "" if log_partition is None else f" (log partition {log_partition})"
    _print(f"{short(group)}{where}", state, events, upcoming)
    _tell_block(block)
    tell_notes(view)
    return exit_code(view)


def _tell_block(block: "SweepBlock | None") -> None:
    if block is not None:
        tell_line("")
        tell_line(sweep_block_text(block))


def _fields(events: "list[Event]", upcoming: "list[NextVerdict]") -> dict[str, Any]:
    return {"events": [asdict(event) for event in events], "next": [asdict(one) for one in upcoming]}


def _print(name: str, state: str, events: "list[Event]", upcoming: "list[NextVerdict]") -> None:
    tell_line(f"{name}: {state or ('no such group now' if events else 'no trace of it')}")
    if events:
        tell_line("")
        tell_table(
            EVENT_COLUMNS,
            (
                (
                    _when(event.timestamp_ms),
                    None if event.log_offset < 0 else event.log_offset,
                    event.what,
                    event.detail,
                )
                for event in events
            ),
        )
    if upcoming:
        tell_line("")
        tell_table(
            NEXT_COLUMNS,
            (
                (one.topic, one.partition, one.committed_offset, _when(one.expires_at_ms), one.reason)
                for one in upcoming
            ),
        )


def _when(at_ms: int | None) -> str | None:
    return None if at_ms is None else figures.instant(at_ms)


def _from_tables(
    group: str,
    topic: str | None,
    partition: int | None,
    span: tuple[int | None, int | None],
    *,
    as_of: int | None,
    json: bool,
) -> int:
    """The story by the published tables."""
    from sexton.history.published_story import published_story
    from sexton.lake.catalog import open_lake

    with working("Reading the tables", is_quiet=json):
        story = published_story(open_lake(), group, topic=topic, partition=partition, as_of_ms=as_of)
    events = _between(story.events, span)
    if json:
        run = story.run.key
        told = {"operation": OPERATION, "cluster_id": run.cluster_id, "as_of_ms": run.as_of_ms, "group_id": group}
        blocked = None if story.block is None else asdict(story.block)
        told |= {"log_partition": story.log_partition, "state": story.state or None, "sweep_blocked": blocked}
        told |= _fields(events, story.next_ones)
        sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
    else:
        _print(f"{short(group)} (published tables)", story.state, events, story.next_ones)
        _tell_block(story.block)
    return 0
