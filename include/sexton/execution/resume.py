"""What earlier calls left unknown: intents that nobody wrote an outcome of, and calls that had no answer.

What was not done when it was looked for is tried again. It may still be done by the first call, if that was only late:
so the log is read for that before it is tried again, and once more when the attempt ends.
"""

from collections.abc import Sequence

from sexton.execution.calling import beyond_plan, settle
from sexton.execution.context import ApplyContext
from sexton.execution.effects import NO_ANSWER, Taken, graves, results_of, taken_along
from sexton.execution.restore_raced import put_back, settle_restore
from sexton.execution.steps import Call, GroupWork, Planned
from sexton.execution.watch import Seen
from sexton.ledger.entries import Item, Result
from sexton.ledger.ledger import Told

DOUBT_MS = 60_000
"""How long after its intent a call without an answer is waited for: twice as long as anybody waits for a broker."""
LATE_MS = 3_600_000
"""Which tombstones can be of a call at all: those that are stamped no later than this after its intent."""


def settle_open(attempt: ApplyContext) -> None:
    """Find out what became of every intent that has no outcome, and write that down."""
    by_group = {(group.log_partition, group.group_id): group for group in attempt.work}
    for told in attempt.status.open:
        open_items = [item for item in told.intent.items if told.is_open_for(item)]
        if not open_items:
            continue
        group = by_group[open_items[0].log_partition, open_items[0].group_id]
        since = int(told.intent.checks["log_offset"])
        if told.intent.action == "restore":
            results = [settle_restore(attempt, group, item, since=since) for item in open_items]
            attempt.conclude(results, step=told.intent.step, of_attempt=told.entry.attempt)
        else:
            _settle(attempt, group, told, open_items, since=since)


def wait_for_late_ones(attempt: ApplyContext) -> None:
    """Wait until calls that had no answer are done or never will be, and read what they did.

    Where every call was answered nothing is waited for.
    """
    begun_ms = [attempt.status.intended[place].at_ms for place in attempt.unsettled]
    if begun_ms and (left_ms := max(begun_ms) + DOUBT_MS - attempt.clocks.now_ms()) > 0:
        attempt.clocks.sleep(left_ms / 1000)
    for group in attempt.work:
        recheck(attempt, group)


def recheck(attempt: ApplyContext, group: GroupWork) -> None:
    """Read what calls of ours may have done to a group since they were given up, and put back what they took along.

    Also those that were made again and are done: the first one may come after the second. What is stamped LATE_MS after
    the intent is taken for somebody else's.
    """
    status, watch = attempt.status, attempt.watch(group.log_partition)
    rows = [
        row
        for row in group.rows
        if row.place in status.intended and (not status.is_written(row.place) or row.place in attempt.unsettled)
    ]
    if not rows:
        return
    watch.read()
    results: list[Result] = []
    done: list[Planned] = []
    for row in rows:
        known = status.results.get(row.place)
        written = known.written_log_offset if known is not None else None
        intended = status.intended[row.place]
        since = intended.since if written is None else written + 1
        seen = _in_time(watch.seen(group.group_id, since=since), intended.at_ms)
        taken = taken_along(seen, [row], since=since, call="delete_offsets")
        if row.identity in graves(seen, since=since) and (written is None or taken):
            results += results_of([row], NO_ANSWER, seen, taken, since=since)
            done.append(row)
    extras, more = _extras(attempt, group, rows)
    if results or more:
        attempt.conclude([*results, *more], beyond=[*(row.item for row in done), *extras])
    put_back(attempt, group)


def _extras(attempt: ApplyContext, group: GroupWork, rows: list[Planned]) -> tuple[list[Item], list[Result]]:
    """What a group's deletion took along of offsets that the plan does not know."""
    calls = [attempt.status.intended[row.place] for row in rows]
    of_group = [one for one in calls if one.call == "delete_group"]
    if not of_group:
        return [], []
    since = min(one.since for one in of_group)
    seen = attempt.watch(group.log_partition).seen(group.group_id, since=since)
    seen = _in_time(seen, max(one.at_ms for one in of_group))
    return beyond_plan(attempt, group, taken_along(seen, group.rows, since=since, call="delete_group"))


def _in_time(seen: Sequence[Seen], intended_at_ms: int) -> list[Seen]:
    """Without the tombstones that come too late to be of a call that was intended then."""
    return [one for one in seen if not one.is_tombstone or one.timestamp_ms <= intended_at_ms + LATE_MS]


def _settle(attempt: ApplyContext, group: GroupWork, told: Told, items: list[Item], *, since: int) -> None:
    """By reading: the call was made by a process that is gone, and nobody heard its answer."""
    places = {item.place for item in items}
    rows: list[Planned] = [row for row in group.rows if row.place in places]
    call: Call = "delete_group" if told.intent.checks.get("call") == "delete_group" else "delete_offsets"
    results: list[Result]
    taken: list[Taken]
    results, taken = settle(attempt, group, rows, NO_ANSWER, since=since, call=call)
    extras, more = beyond_plan(attempt, group, taken)
    attempt.conclude([*results, *more], step=told.intent.step, of_attempt=told.entry.attempt, beyond=extras)
    put_back(attempt, group)
