"""`sexton fetch`: what a client would be told of a group's offsets."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.fetch_in_flight import COLUMNS as IN_FLIGHT_COLUMNS
from sexton.cli.fetch_in_flight import commit_in_flight, in_flight_offsets, outcomes
from sexton.cli.input_options import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    error_fields,
    exit_code,
    tell_aside,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
    view_of,
)
from sexton.cli.options import Debug, Json, LoadBuffer
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.api.fetch import AskedPartition
    from sexton.views.coordinator_view import CoordinatorView

EXAMPLES = """\
[b]Examples[/b]

[dim]# all that a group has committed, from a broker's disk[/dim]
sexton fetch my-group --segments /var/kafka-logs

[dim]# two partitions and a topic, as a consumer of stable offsets asks (isolation.level=read_committed)[/dim]
sexton fetch my-group --topic orders:0 --topic orders:1 --topic clicks --require-stable --segments backup

[dim]# as it stood at that instant, by the rules of another release[/dim]
sexton fetch my-group --archive s3://keep/offsets --as-of 2026-11-21T04:00:00Z --profile group_metadata_manager:2.8

[dim]# from what an audit has left, for scripts[/dim]
sexton fetch my-group --run audit --json | jq '.offsets[].committed_offset'
"""
OPERATION = "OffsetFetch"
COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "LEADER-EPOCH", "METADATA", "ERROR")
_QUESTION = "Question"


def fetch(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")],
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="T[:P]",
            rich_help_panel=_QUESTION,
            help="A topic or one of its partitions; may be repeated. Default: all that the group has committed.",
        ),
    ] = None,
    topic_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            rich_help_panel=_QUESTION,
            help="Ask for the topic of this id: what was committed for an earlier topic of its name does not count.",
        ),
    ] = None,
    require_stable: Annotated[
        bool,
        typer.Option(
            rich_help_panel=_QUESTION, help="Answer UNSTABLE_OFFSET_COMMIT for what an open transaction holds."
        ),
    ] = False,
    in_flight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="T:P[=OFFSET]",
            rich_help_panel=_QUESTION,
            help="A commit of this partition waits for the log: what is answered meanwhile, and once it is appended or "
            "has failed; may be repeated.",
        ),
    ] = None,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Fetch a group's offsets as its coordinator would answer (OffsetFetch).

    -1 where nothing is committed, and for a group that is not there. An error that the broker would answer is part of
    the answer: the exit code is 0.
    """
    asked = [topic_partition(text) for text in topic or []]
    flying = dict(commit_in_flight(text) for text in in_flight or [])
    if topic_id is not None and len({name for name, _ in asked}) > 1:
        raise UsageError("an id is of one topic", where="--topic-id", fix="ask for one --topic at a time")

    from sexton.coordinator.api import fetch as questions
    from sexton.coordinator.in_flight import Outcome

    view = view_of(
        segments, archive, run, topics=topics, as_of=as_of, profile=profile, load_buffer_bytes=load_buffer_bytes
    )
    with working("Reading the log", is_quiet=json):
        view.check_coverage([group])
    partitions = _partitions(view, group, asked, topic_id) if asked or topic_id is not None else None
    answer, *later_answers = (
        questions.fetch(
            view.coordinator,
            group,
            partitions=partitions,
            require_stable=require_stable,
            in_flight=in_flight_offsets(flying),
            outcome=outcome,
        )
        for outcome in (Outcome if flying else (Outcome.WAITING,))
    )
    later = outcomes(flying, *later_answers) if flying else []
    log_partition = view.coordinator.log_partition_of(group)
    if json:
        offsets = [{**asdict(offset), **error_fields(offset.error)} for offset in answer.offsets]
        group_fields = {"group_id": group, "log_partition": log_partition, **error_fields(answer.error)}
        told = {"in_flight": later} if flying else {}
        tell_json(view, OPERATION, {**group_fields, "offsets": offsets, "waits": answer.waits, **told})
        return exit_code(view)
    where = "" if log_partition is None else f" (log partition {log_partition})"
    if answer.waits:
        tell_aside("the coordinator keeps this answer back until the commits in flight are replicated")
    if answer.error:
        tell_line(f"{short(group)}{where}: {answer.error.name} ({answer.error.value})")
    elif not answer.offsets:
        tell_line(f"{short(group)}{where}: no offsets")
    else:
        tell_table(
            COLUMNS,
            (
                (offset.topic, offset.partition, offset.committed_offset, offset.leader_epoch, offset.metadata or None,
                 offset.error.name)
                for offset in answer.offsets
            ),
        )  # fmt: skip
    if later:
        tell_line("")
        tell_table(
            IN_FLIGHT_COLUMNS,
            ((row["topic"], row["partition"], row["if_appended"], row["if_failed"]) for row in later),
        )
    tell_notes(view)
    return exit_code(view)


def topic_partition(text: str) -> tuple[str, int | None]:
    """A topic, and its partition where one is named; topics have no colon in their names."""
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdigit())):
        raise UsageError(f"not TOPIC or TOPIC:PARTITION: {text!r}", where="--topic", fix="such as orders or orders:0")
    return topic, int(partition) if colon else None


def _partitions(
    view: "CoordinatorView", group: str, asked: list[tuple[str, int | None]], topic_id: str | None
) -> "list[AskedPartition]":
    """The partitions to ask for: those named, and for a topic alone all that are known or committed."""
    from sexton.coordinator.api.fetch import AskedPartition

    if not asked and topic_id is not None:
        asked = [(view.topics.ids.get(topic_id, ""), None)]
    found: dict[tuple[str, int], None] = {}
    for topic, partition in asked:
        numbers = [partition] if partition is not None else _numbers(view, group, topic)
        found.update(dict.fromkeys((topic, number) for number in numbers))
    return [AskedPartition(topic=topic, partition=partition, topic_id=topic_id) for topic, partition in found]


def _numbers(view: "CoordinatorView", group: str, topic: str) -> list[int]:
    """The partitions of a topic; of one that is not known those that the group has committed, or 0."""
    known = (view.topics.partition_counts or {}).get(topic)
    if known is not None:
        return list(range(known))
    from sexton.coordinator.api.errors import Error

    if view.coordinator.error_of(group) is not Error.NONE:
        return [0]
    offsets = view.coordinator.view_of(group).offsets(group)
    return sorted(partition for name, partition in offsets if name == topic) or [0]
