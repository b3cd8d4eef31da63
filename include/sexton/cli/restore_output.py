"""Prints what `sexton restore` would do and what it did, for people and for machines."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sexton.as_text import count, instant, some
from sexton.cli.output import print_aside, print_doubts, print_json, print_line, print_table
from sexton.kafka_commands import SERVERS, reset_offsets

if TYPE_CHECKING:
    from sexton.execution.restore.apply_restore import RestoreSummary
    from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, RestoreRow

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "WHAT", "THEN", "NOW", "WRITTEN", "WHY-NOT")
OUTCOME_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "OUTCOME", "WRITTEN", "ERROR")
NOT_DONE = 1
_OUTCOME = {"outcome", "error", "found", "written_log_offset"}
"""The fields of an item's result that JSON has."""


def cannot_come_back(plan: "RestorePlan") -> list[str]:
    """Sentences on what a commit does not bring back; empty if nothing is written."""
    items = [row for row in plan.items if row.what not in ("keep", "join")]
    if not items:
        return []
    stamps = [row.then.commit_timestamp_ms for row in items if row.then.commit_timestamp_ms is not None]
    between = f" (they were from {instant(min(stamps))} to {instant(max(stamps))})" if stamps else ""
    lost = [f"commit timestamps are those of the restore{between}: retention starts again"]
    if explicit := sum(row.then.expire_timestamp_ms is not None for row in items):
        lost.append(f"{some(explicit, 'offset')} had an expiry set by a client: the broker's retention applies now")
    lost.append("a deleted group's type, generation and members: its offsets are in a group without members")
    if outside := sum(row.what in ("below_log_start", "beyond_log_end") for row in items):
        lost.append(f"{some(outside, 'offset')} outside of the log: consumers follow their auto.offset.reset (--clamp)")
    return lost


def print_restore(plan: "RestorePlan", limit: int, *, servers: str = SERVERS, json: bool) -> int:
    """Print what a restore would do, and how to apply it; returns the exit code."""
    if json:
        offsets = [row.to_row() for row in plan.rows]
        commands = kafka_commands(plan, servers)
        _print_json(plan, counts=plan.counts(), offsets=offsets, is_applied=False, kafka_commands=commands)
        return 0
    print_diff(plan, limit)
    if plan.items:
        what = "the same command with" if plan.keeps else f"sexton restore --id {plan.restore_id}"
        print_aside(f"to apply it: {what} --apply --approved-by NAME")
    if limit and len(plan.items) > limit:
        print_aside("Kafka's own commands for it: --limit 0 prints them, --json has them as kafka_commands")
    elif commands := kafka_commands(plan, servers):
        print_line()
        print_line("Kafka's own commands for it (no metadata comes back, offsets outside of a log move to its ends):")
        for line in (line for command in commands for line in command.split("\n")):
            print_line(line)  # not indented: the end mark of a here-document has to begin its line
    return 0


def kafka_commands(plan: "RestorePlan", servers: str = SERVERS) -> list[str]:
    """Kafka's own commands that commit the same offsets, one group after the other; none for a `keep`."""
    offsets: dict[str, dict[tuple[str, int], int]] = {}
    for row in plan.items if not plan.keeps else ():
        offsets.setdefault(row.group_id, {})[row.topic, row.partition] = row.to_put.committed_offset
    return [reset_offsets(group_id, own, servers=servers) for group_id, own in offsets.items()]


def print_diff(plan: "RestorePlan", limit: int) -> None:
    """Print the diff: what would be put back, what would not, and what cannot come back."""
    groups = len({row.group_id for row in plan.items})
    print_line(
        f"{some(len(plan.items), 'offset')} of {some(groups, 'group')} to {'keep' if plan.keeps else 'put back'}, "
        f"of {count(len(plan.rows))} ({plan.source}, cluster {plan.cluster_id})"
    )
    if plan.rows:
        print_line(", ".join(f"{count(number)} {what}" for what, number in plan.counts().items()))
        print_line()
        rows = sorted(plan.rows, key=lambda row: row.put is None)  # what would be written comes first
        print_table(COLUMNS, map(_diff_row, rows), limit=limit)
    if plan.items:
        print_line(f"restore {plan.restore_id}")
    for sentence in cannot_come_back(plan):
        print_aside(f"does not come back: {sentence}")
    print_doubts(plan.warnings)


def _diff_row(row: "RestoreRow") -> tuple[object, ...]:
    why = row.error
    if row.log_start_offset is not None:
        why = f"the log has {row.log_start_offset} to {row.log_end_offset}"
    then, now, put = (_value(value) for value in (row.then.value, row.now, row.put))
    return row.group_id, row.topic, row.partition, row.what.value, then, now, put, why


def _value(value: "OffsetValue | None") -> str | None:
    """A value in a cell: the offset, its leader epoch if known, and its metadata if not empty."""
    if value is None:
        return None
    epoch = "" if value.leader_epoch is None else f"@{value.leader_epoch}"
    return f"{value.committed_offset}{epoch}{' ' if value.metadata else ''}{value.metadata}"


def print_result(plan: "RestorePlan", summary: "RestoreSummary", limit: int, *, json: bool) -> int:
    """Print the outcome; returns the exit code, NOT_DONE if trying again may do more."""
    from sexton.execution.windows import Windows

    code = NOT_DONE if summary.may_be_tried_again else 0
    if json:
        offsets = [{**row.to_row(), **result.model_dump(include=_OUTCOME)} for row, result in summary.results]
        more = {
            "attempt": summary.attempt,
            "windows": asdict(Windows.of(summary.windows_ms)),
            "warnings": [*plan.warnings, *summary.warnings],
        }
        _print_json(plan, counts=summary.counts(), offsets=offsets, is_applied=True, **more)
        return code
    print_line()
    if not summary.results:
        print_line("nothing falls due" if plan.keeps else "nothing to put back")
        return code
    counts = ", ".join(f"{count(number)} {outcome}" for outcome, number in summary.counts().items())
    print_line(f"{counts}{'' if summary.attempt else ' (by an earlier attempt: nothing is left to do)'}")
    if summary.windows_ms:
        found = Windows.of(summary.windows_ms)
        print_aside(f"from preflight check to answer: {found.p50_ms:.1f} ms (median), {found.max_ms:.1f} ms at most")
    print_doubts(summary.warnings)
    odd = [
        (row.group_id, row.topic, row.partition, result.outcome, _value(row.put), result.error)
        for row, result in summary.results
        if result.outcome != "done"
    ]
    if odd:
        print_table(OUTCOME_COLUMNS, odd, limit=limit)
    if code:
        print_aside(f"to continue: sexton restore --id {plan.restore_id} --apply --approved-by NAME")
    return code


def _print_json(plan: "RestorePlan", **fields: Any) -> None:
    head = {
        "operation": "keep" if plan.keeps else "restore",
        "restore_id": plan.restore_id if plan.items else None,
        "cluster_id": plan.cluster_id,
        "source": plan.source,
        "overwrites": plan.overwrites,
        "clamps": plan.clamps,
        "would": plan.counts(),
        "cannot_come_back": cannot_come_back(plan),
        "warnings": list(plan.warnings),
    }
    print_json({**head, **fields})
