"""How `sexton restore` tells what it would do and what it did, to people and to machines."""

import json as jsonlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sexton.cli.input_options import tell_aside, tell_line, tell_table
from sexton.report.figures import count, instant, some

if TYPE_CHECKING:
    from sexton.execution.restore.apply_restore import RestoreSummary
    from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, RestoreRow

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "WHAT", "THEN", "NOW", "WRITTEN", "WHY-NOT")
OUTCOME_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "OUTCOME", "WRITTEN", "ERROR")
NOT_DONE = 1


def cannot_come_back(plan: "RestorePlan") -> list[str]:
    """What of the values of then a commit does not bring back, in sentences; empty where nothing is written."""
    items = plan.items
    if not items:
        return []
    stamps = [row.then.commit_timestamp_ms for row in items if row.then.commit_timestamp_ms is not None]
    between = f" (they were from {instant(min(stamps))} to {instant(max(stamps))})" if stamps else ""
    told = [f"commit timestamps are those of the restore{between}: retention starts anew"]
    if explicit := sum(row.then.expire_timestamp_ms is not None for row in items):
        told.append(f"{some(explicit, 'offset')} had an expiry of its own: the broker's retention counts for it now")
    told.append("a deleted group's type, generation and members: its offsets are in a group without members")
    if outside := sum(row.what in ("below_log_start", "beyond_log_end") for row in items):
        told.append(
            f"{some(outside, 'offset')} outside of the log: consumers start by their auto.offset.reset (--clamp)"
        )
    return told


def shown(plan: "RestorePlan", limit: int, *, json: bool) -> int:
    """Tell what a restore would do, and how to have it done."""
    if json:
        _tell_json(plan, counts=plan.counts(), offsets=[row.to_row() for row in plan.rows], is_applied=False)
        return 0
    print_diff(plan, limit)
    if plan.items:
        tell_aside(f"to do it: sexton restore --id {plan.restore_id} --apply --approved-by NAME")
    return 0


def print_diff(plan: "RestorePlan", limit: int) -> None:
    """The diff: what would be put back first, then what would not, and what cannot come back."""
    groups = len({row.group_id for row in plan.items})
    tell_line(
        f"{some(len(plan.items), 'offset')} of {some(groups, 'group')} to put back, of {count(len(plan.rows))} "
        f"({plan.source}, cluster {plan.cluster_id})"
    )
    if plan.rows:
        tell_line(", ".join(f"{count(number)} {what}" for what, number in plan.counts().items()))
        tell_line("")
        # What would be written comes first: it must not hide behind what is the same.
        rows = sorted(plan.rows, key=lambda row: row.put is None)
        _table(COLUMNS, [_diff_row(row) for row in rows], limit)
    if plan.items:
        tell_line(f"restore {plan.restore_id}")
    for sentence in cannot_come_back(plan):
        tell_aside(f"does not come back: {sentence}")
    for warning in plan.warnings:
        tell_aside(f"! {warning}")


def _diff_row(row: "RestoreRow") -> tuple[object, ...]:
    why = row.error
    if row.log_start_offset is not None:
        why = f"the log has {row.log_start_offset} to {row.log_end_offset}"
    then, now, put = (_value(value) for value in (row.then.value, row.now, row.put))
    return row.group_id, row.topic, row.partition, row.what.value, then, now, put, why


def _value(value: "OffsetValue | None") -> str | None:
    """A value in a cell: the offset, its leader epoch, and its metadata where there is some."""
    if value is None:
        return None
    epoch = "" if value.leader_epoch is None else f"@{value.leader_epoch}"
    return f"{value.committed_offset}{epoch}{' ' if value.metadata else ''}{value.metadata}"


def done(plan: "RestorePlan", summary: "RestoreSummary", limit: int, *, json: bool) -> int:
    """Tell what came of it; the exit code, NOT_DONE where trying again may do more."""
    from sexton.execution.windows import Windows

    code = NOT_DONE if summary.may_be_tried_again else 0
    if json:
        offsets = [{**row.to_row(), **_outcome(result)} for row, result in summary.results]
        more = {"attempt": summary.attempt, "windows": asdict(Windows.of(summary.windows_ms))}
        _tell_json(plan, counts=summary.counts(), offsets=offsets, is_applied=True, **more)
        return code
    tell_line("")
    if not summary.results:
        tell_line("nothing to put back")
        return code
    told = ", ".join(f"{count(number)} {outcome}" for outcome, number in summary.counts().items())
    tell_line(f"{told}{'' if summary.attempt else ' (before: nothing is left to do)'}")
    if summary.windows_ms:
        found = Windows.of(summary.windows_ms)
        tell_aside(f"from last look to answer: {found.p50_ms:.1f} ms (median), {found.max_ms:.1f} ms at most")
    odd = [(row, result) for row, result in summary.results if result.outcome != "done"]
    if odd:
        rows = [
            (row.group_id, row.topic, row.partition, result.outcome, _value(row.put), result.error)
            for row, result in odd
        ]
        _table(OUTCOME_COLUMNS, rows, limit)
    if code:
        tell_aside(f"to go on: sexton restore --id {plan.restore_id} --apply --approved-by NAME")
    return code


def _outcome(result: Any) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "error": result.error,
        "found": None if result.found is None else result.found.model_dump(),
        "written_log_offset": result.written_log_offset,
    }


def _table(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]], limit: int) -> None:
    shown = rows[: limit or None]
    tell_table(columns, shown)
    if len(shown) < len(rows):
        tell_aside(f"{count(len(rows) - len(shown))} more (--limit 0 shows all)")


def _tell_json(plan: "RestorePlan", **told: Any) -> None:
    head = {
        "operation": "restore",
        "restore_id": plan.restore_id if plan.items else None,
        "cluster_id": plan.cluster_id,
        "source": plan.source,
        "overwrites": plan.overwrites,
        "clamps": plan.clamps,
        "would": plan.counts(),
        "cannot_come_back": cannot_come_back(plan),
        "warnings": list(plan.warnings),
    }
    sys.stdout.write(jsonlib.dumps({**head, **told}, ensure_ascii=True, indent=2) + "\n")
