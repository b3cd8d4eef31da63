"""`sexton fetch`: the offsets of a group as its coordinator would return them."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from sexton.cli.fetch_in_flight import COLUMNS as IN_FLIGHT_COLUMNS
from sexton.cli.fetch_in_flight import MARKER_COLUMNS, commit_in_flight, in_flight_offsets, outcomes
from sexton.cli.input_options import LogInput
from sexton.cli.options import GroupId, Json, option, parse_partition
from sexton.cli.output import (
    error_fields,
    print_aside,
    print_line,
    print_notes,
    print_section,
    print_table,
    print_view_json,
)
from sexton.errors import UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.api.fetch import AskedPartition, FetchedOffset
    from sexton.views.coordinator_view import CoordinatorView

COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "LEADER-EPOCH", "METADATA", "ERROR")
_question = partial(option, panel="Question")


def fetch(
    group: GroupId,
    *,
    topic: list[str] | None = _question(
        "--topic T[:P]",
        "A topic or one of its partitions; may be repeated. Default: everything that the group has committed.",
    ),
    topic_id: str | None = _question(
        "--topic-id ID", "The topic's id: offsets committed for an earlier topic of that name are not returned."
    ),
    require_stable: bool = _question(
        "--require-stable/--no-require-stable",
        "Answer UNSTABLE_OFFSET_COMMIT where a transaction is open.",
        default=False,
    ),
    in_flight: list[str] | None = _question(
        "--in-flight T:P[=OFFSET]",
        "Assume a commit of this partition that is not in the log yet: shows the answers before the append, "
        "after it, and if it fails; may be repeated.",
    ),
    producer_id: int | None = _question(
        "--producer-id N",
        "The commits in flight are part of this producer's transaction: shows the answers after its marker too.",
        min=0,
    ),
    dead: bool = _question(
        "--dead",
        "The group is removed before the appends of the commits in flight complete (0.10.1 to 3.9).",
        default=False,
    ),
    leads_until: int | None = _question(
        "--leads-until N",
        "Assume that another broker becomes the leader of the group's log partition while this one loads it and "
        "has read the batches below this log_offset.",
        min=0,
    ),
    log: LogInput,
    json: Json = False,
) -> int:
    """Fetch a group's offsets as its coordinator would return them (OffsetFetch).

    The offset is -1 if nothing is committed, or if the group does not exist. An error that the broker would return
    counts as an answer: the exit code is 0.

    # everything that a group has committed, from a broker's disk
    sexton fetch my-group --segments /var/kafka-logs

    # two partitions and a topic, as a read_committed consumer asks
    sexton fetch my-group --topic orders:0 --topic orders:1 --topic clicks --require-stable --segments backup

    # as of an instant, by the rules of another release
    sexton fetch my-group --archive s3://keep/offsets --as-of 2026-11-21T04:00:00Z --profile group_metadata_manager:2.8

    # from a run folder of `sexton audit`, for scripts
    sexton fetch my-group --run audit --json | jq '.offsets[].committed_offset'
    """
    asked = [parse_partition(text, "--topic") for text in topic or []]
    flying = dict(commit_in_flight(text) for text in in_flight or [])
    if topic_id is not None and len({name for name, _ in asked}) > 1:
        raise UsageError("an id belongs to one topic", where="--topic-id", fix="give one --topic at a time")

    from sexton.coordinator.api import fetch as api
    from sexton.coordinator.commits_in_flight import Outcome
    from sexton.coordinator.profile import PendingRule

    view = log.view_of([group], is_quiet=json)
    if producer_id is not None and view.coordinator.profile.pending_rule is PendingRule.NEVER:
        raise UsageError("there are no transactions before 0.11", where="--producer-id", fix="leave it out")
    if dead and not (flying and view.coordinator.profile.knows_commits_in_flight):
        what = "a group is Dead while its commits are in flight, from 0.10.1 to 3.9"
        raise UsageError(what, where="--dead", fix="give --in-flight and such a --profile")
    if leads_until is not None:
        view = view.losing_leadership(group, leads_until)
    settled = [Outcome.APPENDED, Outcome.FAILED] if flying else []
    markers = [Outcome.COMMITTED, Outcome.ABORTED] if flying and producer_id is not None else []
    partitions = _partitions(view, group, asked, topic_id) if asked or topic_id is not None else None
    answer, *later_answers = (
        api.fetch(
            view.coordinator,
            group,
            partitions=partitions,
            require_stable=require_stable,
            in_flight=in_flight_offsets(flying),
            outcome=outcome,
            producer_id=producer_id,
            is_dead=dead,
        )
        for outcome in (Outcome.WAITING, *settled, *markers)
    )
    later = outcomes(flying, *later_answers) if flying else []
    log_partition = view.coordinator.log_partition_of(group)
    if json:
        offsets = [{**asdict(offset), **error_fields(offset.error)} for offset in answer.offsets]
        group_fields = {"group_id": group, "log_partition": log_partition, **error_fields(answer.error)}
        document = {**group_fields, "offsets": offsets, "waits": answer.waits}
        return print_view_json(view, "OffsetFetch", {**document, **({"in_flight": later} if flying else {})})
    where = "" if log_partition is None else f" (log partition {log_partition})"
    if answer.waits:
        print_aside("the coordinator delays this answer until the commits in flight are replicated")
    if answer.error:
        print_line(f"{short(group)}{where}: {answer.error.name} ({answer.error.value})")
    elif not answer.offsets:
        print_line(f"{short(group)}{where}: no offsets")
    else:
        print_table(COLUMNS, map(_row, answer.offsets))
    print_section((*IN_FLIGHT_COLUMNS, *(MARKER_COLUMNS if markers else ())), ([*row.values()] for row in later))
    return print_notes(view)


def _row(offset: "FetchedOffset") -> tuple[object, ...]:
    value = offset.committed_offset, offset.leader_epoch, offset.metadata or None
    return offset.topic, offset.partition, *value, offset.error.name


def _partitions(
    view: "CoordinatorView", group: str, asked: list[tuple[str, int | None]], topic_id: str | None
) -> "list[AskedPartition]":
    """The partitions to ask for: the named ones; for a topic without a partition, all of `_numbers`."""
    from sexton.coordinator.api.fetch import AskedPartition

    if not asked and topic_id is not None:
        asked = [(view.topics.ids.get(topic_id, ""), None)]
    found: dict[tuple[str, int], None] = {}
    for topic, partition in asked:
        numbers = [partition] if partition is not None else _numbers(view, group, topic)
        found.update(dict.fromkeys((topic, number) for number in numbers))
    return [AskedPartition(topic=topic, partition=partition, topic_id=topic_id) for topic, partition in found]


def _numbers(view: "CoordinatorView", group: str, topic: str) -> list[int]:
    """The partitions of a topic; if the topic is not known, those with committed offsets of the group, else 0."""
    known = (view.topics.partition_counts or {}).get(topic)
    if known is not None:
        return list(range(known))
    from sexton.coordinator.api.errors import Error

    if view.coordinator.error_of(group) is not Error.NONE:
        return [0]
    offsets = view.coordinator.view_of(group).offsets(group)
    return sorted(partition for name, partition in offsets if name == topic) or [0]
