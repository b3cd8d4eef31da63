"""What a call did, read from the log: the tombstones it wrote, and what came in just before them.

The log decides. The coordinator's answer says why nothing was written; where there is none, or none that can be
trusted, there is nothing but to look (Jepsen's rule: what may have been done has not failed).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sexton.execution.steps import Call, Identity, Planned
from sexton.execution.watch import NO_PRODUCER_ID, Seen
from sexton.ledger.entries import Outcome, Result, Value

NOT_FOUND = "GROUP_ID_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the coordinator answered: by row, and `whole` for all of them. Kafka's names, None for done.

    Not `is_settled`: the call may have been carried out, or may still be. Not `was_sent`: it surely was not.
    """

    by_row: Mapping[tuple[int, int], str | None] = field(default_factory=dict)
    whole: str | None = None
    is_settled: bool = True
    was_sent: bool = True

    def error_of(self, row: Planned) -> str | None:
        return self.whole or self.by_row.get(row.place)


NO_ANSWER = Answer(is_settled=False)
"""Of a call that nobody lived to hear the answer of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A newer value that went with a tombstone of ours. `row` is None for an offset that the plan does not know."""

    row: Planned | None
    topic: str
    partition: int
    value: Seen
    tombstone: Seen


def taken_along(seen: Sequence[Seen], rows: Sequence[Planned], *, since: int, call: Call) -> list[Taken]:
    """Values written since the last look (`since`) that a tombstone of their key came after: the newest of each.

    Deleting a group takes offsets along that nobody asked about; deleting offsets only those that were named.
    """
    named = {row.identity: row for row in rows}
    found = []
    for identity, (tombstone, value) in graves(seen, since=since).items():
        if value is not None and (identity in named or call == "delete_group"):
            topic, partition = value.topic_partition
            row = named.get(identity)
            found.append(Taken(row=row, topic=topic, partition=partition, value=value, tombstone=tombstone))
    return found


def graves(seen: Sequence[Seen], *, since: int) -> dict[Identity, tuple[Seen, Seen | None]]:
    """The tombstone of each key at `since` or later, and the newest value that came after `since` and before it.

    Somebody else may have removed an offset right before us, and somebody committed it anew in between: which tombstone
    is ours cannot be told. So of several it is the one that took a value along, and the last of those.
    """
    found: dict[Identity, tuple[Seen, Seen | None]] = {}
    values: dict[Identity, Seen] = {}
    for one in seen:
        if one.log_offset < since:
            continue
        if not one.is_tombstone:
            values[one.identity] = one
        elif one.identity not in found or one.identity in values:
            value = values.pop(one.identity, None) if one.is_offset else None
            found[one.identity] = one, value
    return found


def results_of(
    rows: Sequence[Planned], answer: Answer, seen: Sequence[Seen], taken: Sequence[Taken], *, since: int
) -> list[Result]:
    """One result of each row; `unknown` where neither the log nor the answer tells."""
    tombstones = graves(seen, since=since)
    raced = {each.row.place: each.value for each in taken if each.row is not None}
    return [_result(row, answer, tombstones.get(row.identity, (None, None))[0], raced.get(row.place)) for row in rows]


def told_of_race(value: Seen) -> str:
    """What a person should know of a value that a tombstone of ours took along."""
    if value.producer_id != NO_PRODUCER_ID:
        return f"a commit at log_offset {value.log_offset}, within a transaction, came in just before"
    return f"a commit at log_offset {value.log_offset} came in just before"


def _result(row: Planned, answer: Answer, tombstone: Seen | None, raced: Seen | None) -> Result:
    error = answer.error_of(row)
    outcome: Outcome
    if tombstone is not None:
        outcome, error = ("raced", told_of_race(raced)) if raced else ("done", None)
    elif not answer.was_sent:
        outcome = "not_done"
    elif not answer.is_settled:
        outcome = "unknown"
    elif error == NOT_FOUND:
        outcome = "gone"
    elif error is not None:
        outcome = "refused"
    else:
        outcome, error = "unknown", None
    found: Value | None = raced.value if raced else None
    return Result(
        log_partition=row.item.log_partition,
        position=row.item.position,
        outcome=outcome,
        error=error,
        written_log_offset=tombstone.log_offset if tombstone else None,
        written_timestamp_ms=tombstone.timestamp_ms if tombstone else None,
        found=found,
    )
