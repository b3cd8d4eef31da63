"""`sexton explain`: what happened to a group, and when its offsets expire."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.as_text import MINUTE_MS, now_ms
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.options import GroupId, Json, RetentionMinutes, option, parse_optional_instant, parse_partition, shared
from sexton.cli.output import (
    print_doubts,
    print_json,
    print_line,
    print_notes,
    print_section,
    print_table,
    print_view_json,
)
from sexton.cli.progress import working
from sexton.kafka_commands import abort_transaction
from sexton.report.meanings import sweep_block_text
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.expiry import Verdict
    from sexton.coordinator.offsets import OffsetKey, StoredOffset
    from sexton.coordinator.orphans import KnownTopics
    from sexton.history.events import Event, NextVerdict, Story
    from sexton.history.log_story import LogStory, StoryReader
    from sexton.incident.broker_logs import BrokerLogs
    from sexton.incident.callers import Who
    from sexton.lake.catalog import Lake
    from sexton.lake.read import PublishedRun
    from sexton.runs.source import LogSource
    from sexton.transactions.reading import PartitionBytes
    from sexton.transactions.states import LoadedStates
    from sexton.views.coordinator_view import CoordinatorView

OPERATION = "explain"
EVENT_COLUMNS = ("WHEN", "LOG-OFFSET", "WHAT", "DETAIL")
TRANSACTION_COLUMNS = ("PRODUCER-ID", "EPOCH", "SINCE", "LOG-OFFSET", "VERDICT", "TRANSACTIONAL-ID", "STATE", "OFFSETS")
WHO_COLUMNS = ("PRINCIPAL", "HOST", "CLIENT-ID", "REQUEST", "LOGGED", "LINE")
NEXT_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "EXPIRES", "REASON")
_EVENTS = "Events"

AuthorizerLogs = Annotated[
    list[Path] | None,
    shared(
        "--authorizer-log FILE",
        "kafka-authorizer.log or kafka-request.log of a broker, also gzipped; may be repeated. Both need DEBUG.",
        "Who did it",
    ),
]
LogTimeZone = Annotated[
    str, shared("--log-time-zone ZONE", "The time zone of these logs, such as Europe/Berlin.", "Who did it")
]

Target = tuple[str | None, int | None]
"""The requested topic and partition, None for all."""


def explain(
    group: GroupId,
    target: Annotated[
        str | None, typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Only this topic, or one partition of it.")
    ] = None,
    *,
    since: str | None = option("--from ISO|MS", "Only events from this instant on.", _EVENTS),
    until: str | None = option("--to ISO|MS", "Only events before this instant.", _EVENTS),
    retention_minutes: RetentionMinutes = None,
    authorizer_log: AuthorizerLogs = None,
    log_time_zone: LogTimeZone = "UTC",
    log: Annotated[LogInput, Without({"run"})],
    json: Json = False,
) -> int:
    """Explain a group: when it appeared, how it changed, what it lost and why, and what expires next.

    Without --segments and --archive it reads the published tables, which have the changes from one run to the next.

    # why did this group lose its offsets, and what expires next?
    sexton explain my-group --archive s3://keep/offsets

    # one partition, and what happened to it in those hours
    sexton explain my-group orders:0 --segments backup --from 2026-11-21T00:00:00Z --to 2026-11-21T04:00:00Z

    # who deleted it? from the logs of the broker that led its log partition (they need the level DEBUG)
    sexton explain my-group --archive archive --authorizer-log kafka-authorizer.log --log-time-zone Europe/Berlin

    # from the published tables
    sexton explain my-group
    """
    asked: Target = (None, None) if target is None else parse_partition(target, "explain")
    since_ms, until_ms = parse_optional_instant(since, "--from"), parse_optional_instant(until, "--to")
    logs = broker_logs(authorizer_log, log_time_zone)
    answer = answer_of(group, asked, log, retention_minutes, quiet=json)
    found = answer.story
    found.keep_between(since_ms, until_ms)
    fields = found.fields()
    who: list[Who] = []
    if logs is not None:
        from sexton.incident.callers import who_did

        who = who_did(found.events, group, logs)
        fields["who"] = who
    if json and answer.opened is not None:
        return print_view_json(answer.opened.view, OPERATION, {"group_id": group, **fields})
    if json:
        notes = {"warnings": found.notes} if found.notes else {}
        print_json({"operation": OPERATION, **answer.head, "group_id": group, **fields, **notes})
        return 0
    _print(f"{short(group)}{answer.name and f' ({answer.name})'}", found)
    _print_who(who)
    print_doubts(found.notes)
    return 0 if answer.opened is None else print_notes(answer.opened.view)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog:
    """The log from which a story was read, and the `reader` that read it; None if the group has no records."""

    view: "CoordinatorView"
    source: "LogSource"
    reader: "StoryReader | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `explain` answers. Without a log, `head` identifies what was read: a published run, or admin snapshots."""

    story: "Story"
    name: str
    head: dict[str, Any] = field(default_factory=dict)
    opened: OpenedLog | None = None
    published: "tuple[Lake, PublishedRun] | None" = None


def answer_of(group: str, asked: Target, log: LogInput, retention_minutes: int | None, *, quiet: bool) -> Answer:
    """What happened to a group, from a log, from admin snapshots or from the published tables."""
    if (known := _without_log(group, asked, log, retention_minutes, quiet=quiet)) is not None:
        return known
    from sexton.history.events import Story

    view = log.view()
    with working("Reading the log", is_quiet=quiet):
        if not view.unknown_count:
            view.check_coverage([group])
        belongs, source = view.coordinator.log_partition_of(group), log.source(view.as_of_ms)
        home, story, reader = _read(view, source, group, asked, retention_minutes, belongs)
        if view.unknown_count and (home is None or len([*view.coordinator.holders_of(group)]) > 1):
            view.check_coverage([group])  # a group that is gone has its story where its records are
    found = Story(log_partition=home)
    if story is not None and reader is not None and home is not None:
        found = _explanation(view, source, home, story, reader)
        found.transactions = _transactions(view, source, home, reader, quiet=quiet)
    if belongs is not None and not found.events:
        for other in view.coordinator.holders_of(group):
            _, story, _ = _read(view, source, group, asked, retention_minutes, other)
            found.events += [*(story.events if story else ()), *_cut_off(view, group, other, belongs)]
    name = "" if home is None else f"log partition {home}"
    return Answer(story=found, name=name, opened=OpenedLog(view=view, source=source, reader=reader))


def broker_logs(paths: list[Path] | None, zone: str) -> "BrokerLogs | None":
    """The requests in the given logs of brokers; None if no log is given."""
    if not paths:
        return None
    from sexton.incident.broker_logs import read_logs

    return read_logs(paths, zone)


def _print_who(who: "list[Who]") -> None:
    for one in who:
        print_line()
        print_line(
            f"{one.what} at {as_text.instant(one.timestamp_ms)}: {one.certainty.replace('_', ' ')}, {one.reason}"
        )
        if one.callers:
            rows = ((c.principal, c.host, c.client_id, c.api, as_text.instant(c.at_ms), c.line) for c in one.callers)
            print_table(WHO_COLUMNS, rows)


def _read(
    view: "CoordinatorView",
    source: "LogSource",
    group: str,
    asked: Target,
    retention_minutes: int | None,
    home: int | None,
) -> "tuple[int | None, LogStory | None, StoryReader | None]":
    """The group's story in log partition `home`; if that is None, in the first log partition with the group."""
    from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
    from sexton.archive.folder import filesystem
    from sexton.history.log_story import StoryReader
    from sexton.history.offset_changes import known_of
    from sexton.ledger.recorded_steps import own_actions

    before, after, actions = None, None, None
    fs, path = filesystem(source.uri)
    if source.is_archive:
        before = oldest_metadata_after(fs, path, cluster_id=source.cluster_id, at_ms=-1)
        after = newest_metadata(fs, path, cluster_id=source.cluster_id)
        actions = own_actions(fs, path, source.cluster_id)
    known = known_of(
        before,
        after,
        retention_ms=None if retention_minutes is None else retention_minutes * MINUTE_MS,
        removed=actions and actions[0],
        restored=actions and actions[1],
    )
    for log_partition in sorted(source.segments) if home is None else [home]:
        if not source.segments.get(log_partition):
            continue
        reader = StoryReader(
            fs=fs,
            segments=source.segments[log_partition],
            group_id=group,
            asked=asked,
            profile=view.coordinator.profile,
            known=known,
            as_of_ms=None if source.is_archive else view.as_of_ms,
            taken_at_ms=now_ms(),
        )
        story = reader.read()
        if home is not None or story.events:
            return log_partition, story, reader
    return home, None, None


def _cut_off(view: "CoordinatorView", group: str, log_partition: int, home: int) -> "list[Event]":
    """The event that separated a group from its offsets in a log partition to which it does not hash."""
    from sexton.coordinator.partitioner import fitting_partition_counts
    from sexton.history.events import Event
    from sexton.runs.folder import PARTITION_COUNT_CHANGED

    count = view.coordinator.partition_count or 0
    if view.coordinator.profile.one_cache:
        return []
    grew = fitting_partition_counts({log_partition: [group]}, range(log_partition + 1, count))
    detail = (
        f"its offsets are in log partition {log_partition}; with {count} log partitions clients are routed to {home}: "
        "commit them again (kafka-consumer-groups.sh --reset-offsets) while no consumer of the group runs"
    )
    causes = (PARTITION_COUNT_CHANGED,) if grew else ()
    return [Event(timestamp_ms=None, log_offset=-1, what="lost", detail=detail, causes=causes)]


def _explanation(
    view: "CoordinatorView", source: "LogSource", home: int, story: "LogStory", reader: "StoryReader"
) -> "Story":
    """The story of a group, and the verdicts on its present offsets."""
    from sexton.coordinator.expiry import verdicts_of_group
    from sexton.history.events import NextVerdict, Story, describe
    from sexton.views.judged_group import known_topics

    served, part, profile = view.coordinator.shards[home].view, view.read[home], view.coordinator.profile
    known_ms = reader.known.retentions_ms
    retention_ms = known_ms[-1] if known_ms else profile.default_retention_minutes * MINUTE_MS
    at_ms = view.as_of_ms or story.last_timestamp_ms + 1
    block = part.sweep_block(retention_ms, at_ms)
    found = Story(log_partition=home, block=block, events=list(story.events))
    held = served if found.is_held else part.held
    group = story.group if held.group(reader.group_id) is not None or held.offsets(reader.group_id) else None
    if group is not None:
        offsets = {key: one for key, one in sorted(held.offsets(reader.group_id).items()) if reader.is_requested(*key)}
        pending = held.pending(reader.group_id)
        topics = known_topics(source)
        verdicts = verdicts_of_group(
            group, offsets, pending, retention_ms=retention_ms, now_ms=at_ms, profile=profile, block=block
        )
        found.state = describe(group) if served.group(reader.group_id) is not None else ""
        found.next_verdicts = [
            NextVerdict(
                topic=key[0],
                partition=key[1],
                committed_offset=offsets[key].committed_offset,
                reason=_reason(one, (reader.group_id, *key), offsets[key], topics),
                expires_at_ms=one.expires_at_ms,
            )
            for key, one in verdicts.items()
        ]
    return found


def _reason(judged: "Verdict", key: "OffsetKey", offset: "StoredOffset", topics: "KnownTopics | None") -> str:
    """The broker's reason; in place of `not_due`, the kind of orphan if the topic or partition is gone."""
    from sexton.coordinator.orphans import orphan_of

    orphan = None if topics is None or judged.reason != "not_due" else orphan_of(key, offset, topics)
    return orphan or judged.reason


def _transactions(
    view: "CoordinatorView", source: "LogSource", home: int, reader: "StoryReader", *, quiet: bool
) -> list[dict[str, Any]]:
    """The open transactions that hold offsets of the group, with their owners if the input has __transaction_state."""
    from sexton.settings import settings
    from sexton.transactions.holders import holder_rows, transactions_of
    from sexton.transactions.reading import state_log

    part = view.read[home]
    pending = view.coordinator.shards[home].view.transactions()
    found = transactions_of(reader.group_id, part.open_transactions(), pending, reader.is_requested)
    if not found:
        return []
    release = view.coordinator.profile.release
    states = state_log(
        source.uris,
        source.cluster_id if source.is_archive else None,
        as_of_ms=view.as_of_ms,
        taken_at_ms=now_ms(),
        release=release,
    )
    # When the disk was copied is unknown: assume the earliest possible instant, after its newest batch.
    until_ms = view.as_of_ms or source.taken_at_ms or part.max_timestamp_ms + 1
    return holder_rows(
        found,
        None if states is None else states.load(partial(_spread, quiet=quiet)),
        read_until_ms=until_ms,
        slack_ms=settings().settle_ms,
        release=release,
    )


def _spread(
    work: "Callable[[PartitionBytes], LoadedStates]", items: "list[PartitionBytes]", *, quiet: bool
) -> "Iterable[LoadedStates]":
    """Do `work` for each item; for small logs in this process, because others take seconds to start."""
    from sexton.history.log_story import PLAIN_BYTES
    from sexton.runs.processes import engine_here

    size_bytes = sum(item.size_bytes for item in items)
    if size_bytes <= PLAIN_BYTES:
        return map(work, items)
    with engine_here(quiet=quiet) as engine:
        return engine.map("Reading transactions", items, work, work_bytes=size_bytes)


def _without_log(
    group: str, asked: Target, log: LogInput, retention_minutes: int | None, *, quiet: bool
) -> Answer | None:
    """The answer from published tables, or from admin snapshots, which give intervals; None if the log answers."""
    as_of_ms, is_requested = parse_optional_instant(log.as_of, "--as-of"), partial(_is_asked, asked)
    if not log.is_log:
        from sexton.history.published_story import published_story
        from sexton.lake.catalog import open_lake
        from sexton.transactions.holders import published_holders

        with working("Reading the tables", is_quiet=quiet):
            lake, of = open_lake(), log.cluster_id
            run, found = published_story(lake, group, is_requested=is_requested, as_of_ms=as_of_ms, cluster_id=of)
            found.transactions = published_holders(lake, run, group, is_requested, until_ms=as_of_ms)
        head = {"cluster_id": run.key.cluster_id, "as_of_ms": run.key.as_of_ms}
        return Answer(story=found, name="published tables", head=head, published=(lake, run))
    if log.archive is None or log.segments is not None:
        return None
    from sexton.runs.admin_tables import admin_snapshot_for

    if (seen := admin_snapshot_for(log.archive, cluster_id=log.cluster_id, as_of_ms=as_of_ms)) is None:
        return None
    from sexton.history.admin_story import admin_story
    from sexton.runs.choose_profile import AUTO, choose

    series, snapshot = seen
    with working("Reading the admin snapshots", is_quiet=quiet):
        found = admin_story(
            series,
            snapshot,
            group,
            is_requested=is_requested,
            retention_minutes=retention_minutes,
            profile=choose(log.profile or AUTO, snapshot.metadata.broker_version).profile,
        )
    head = {"cluster_id": snapshot.cluster_id, "as_of_ms": snapshot.taken_at_ms, "coverage": series.coverage}
    return Answer(story=found, name=f"{series.source}, as of {as_text.instant(snapshot.taken_at_ms)}", head=head)


def _is_asked(asked: Target, topic: str, partition: int) -> bool:
    return asked[0] in (None, topic) and asked[1] in (None, partition)


def _print(name: str, found: "Story") -> None:
    state = found.state or ("no such group now" if found.events else "no trace of it")
    print_line(f"{name}: {state if found.is_held or not found.events else 'no coordinator has it'}")
    print_section(EVENT_COLUMNS, _event_rows(found.events))
    rows = ((one.topic, one.partition, one.committed_offset, _expires(one), one.reason) for one in found.next_verdicts)
    print_section(NEXT_COLUMNS, rows)
    print_section(TRANSACTION_COLUMNS, map(_transaction_row, found.transactions), "held by open transactions:")
    for row in found.transactions:
        print_line(_transaction_text(row))
    if found.block is not None:
        print_line()
        print_line(sweep_block_text(found.block))


def _expires(one: "NextVerdict") -> str:
    """When an offset is due: an instant, or the interval in which it falls due."""
    at = as_text.instant(one.expires_at_ms)
    return at if one.due_after_ms is None else f"{as_text.instant(one.due_after_ms)} to {at}"


def _transaction_row(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        *(row["producer_id"], row["producer_epoch"], as_text.instant(row["since_ms"]), row["start_offset"]),
        f"{row['verdict']} (overdue)" if row["is_overdue"] else row["verdict"],
        row["transactional_id"] and short(row["transactional_id"]),
        row["state"],
        len(row["offsets"]),
    )


def _transaction_text(row: dict[str, Any]) -> str:
    """The evidence for a transaction's verdict, how to end one that hangs, and the audit that found it."""
    audit = "" if row["audited_at_ms"] is None else f" (audit of {as_text.instant(row['audited_at_ms'])})"
    ends = "" if row["ends_at_ms"] is None else f"; ends at {as_text.instant(row['ends_at_ms'])} at the latest"
    fix = f"; to end it: {abort_transaction(row['abort_arguments'])}" if row["abort_arguments"] else ""
    return f"producer {row['producer_id']}: {row['evidence']}{ends}{fix}{audit}"


def _event_rows(events: "Iterable[Event]") -> Iterable[tuple[object, ...]]:
    for event in events:
        log_offset = None if event.log_offset < 0 else event.log_offset
        yield as_text.instant(event.timestamp_ms), log_offset, event.what, event.detail
