"""What earlier calls left unknown: intents that nobody wrote an outcome of, and calls that had no answer.

What was not done when it was looked for is tried again. It may still be done by the first call, if that was only late:
so when the attempt ends, the log is read once more for tombstones that nothing accounts for yet.
"""

from sexton.stages.apply.attempt import Attempt
from sexton.stages.apply.calling import beyond_plan, settle
from sexton.stages.apply.effects import NO_ANSWER, Taken, graves, results_of, taken_along
from sexton.stages.apply.entries import Item, Result
from sexton.stages.apply.ledger import Told
from sexton.stages.apply.putback import put_back, settle_restore
from sexton.stages.apply.steps import Call, GroupWork, Planned


def settle_open(attempt: Attempt) -> None:
    """Find out what became of every intent that has no outcome, and write that down."""
    by_group = {(group.log_partition, group.group_id): group for group in attempt.work}
    for told in attempt.standing.open:
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


def look_for_late_ones(attempt: Attempt) -> None:
    """Read once more what calls without an answer have done since they were given up."""
    for group in attempt.work:
        rows = [row for row in group.rows if row.place in attempt.unsettled]
        if not rows:
            continue
        watch = attempt.watch(group.log_partition)
        watch.read()
        for row in rows:
            known = attempt.standing.results.get(row.place)
            written = known.written_log_offset if known is not None else None
            since = attempt.unsettled[row.place] if written is None else written + 1
            seen = watch.seen(group.group_id, since=since)
            taken = taken_along(seen, [row], since=since, call="delete_offsets")
            if row.identity in graves(seen, since=since) and (written is None or taken):
                attempt.conclude(results_of([row], NO_ANSWER, seen, taken, since=since), beyond=[row.item])
        put_back(attempt, group)


def _settle(attempt: Attempt, group: GroupWork, told: Told, items: list[Item], *, since: int) -> None:
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
