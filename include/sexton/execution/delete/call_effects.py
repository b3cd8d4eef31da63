"""The effects of a deletion call, read from the log: its tombstones, and the commits that they removed.

The log decides. The coordinator's answer only explains why nothing was written: a call without an answer may have been
carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.execution.delete.group_calls import PlannedRow
from sexton.execution.engine import Answer
from sexton.execution.group_records import NO_PRODUCER_ID, GroupRecord, RecordKey
from sexton.execution.status import Call
from sexton.ledger.entries import Result

NOT_FOUND = "GROUP_ID_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class RacedCommit:
    """A newer value that a tombstone of Sexton removed. `row` is None for an offset that is not in the plan."""

    row: PlannedRow | None
    value: GroupRecord
    tombstone: GroupRecord


def raced_commits(
    records: Sequence[GroupRecord], rows: Sequence[PlannedRow], *, since: int, call: Call
) -> list[RacedCommit]:
    """For each key the newest value that was written since the preflight check (`since`) and is followed by a tombstone
    for the key.

    Deleting a group removes all its offsets; deleting offsets removes only the named ones.
    """
    rows_by_key = {row.record_key: row for row in rows}
    return [
        RacedCommit(row=rows_by_key.get(key), value=value, tombstone=tombstone)
        for key, (tombstone, value) in tombstones_by_key(records, since=since).items()
        if value is not None and (key in rows_by_key or call == "delete_group")
    ]


def tombstones_by_key(
    records: Sequence[GroupRecord], *, since: int
) -> dict[RecordKey, tuple[GroupRecord, GroupRecord | None]]:
    """The tombstone of each key at `since` or later, and the newest value between `since` and the tombstone.

    Another client may have removed an offset right before the call, and the offset may have been committed again before
    the call: then it is unknown which tombstone is from the call. Of several tombstones, the last one that removed a
    value counts.
    """
    found: dict[RecordKey, tuple[GroupRecord, GroupRecord | None]] = {}
    values: dict[RecordKey, GroupRecord] = {}
    for record in records:
        key = record.record_key
        if record.log_offset < since:
            continue
        if not record.is_tombstone:
            values[key] = record
        elif key not in found or key in values:
            found[key] = record, values.pop(key, None) if record.is_offset else None
    return found


def results_of(
    rows: Sequence[PlannedRow],
    answer: Answer,
    records: Sequence[GroupRecord],
    raced: Sequence[RacedCommit],
    *,
    since: int,
) -> list[Result]:
    """A result for each row; `unknown` where neither the log nor the answer decides."""
    tombstones = tombstones_by_key(records, since=since)
    values = {each.row.item_id: each.value for each in raced if each.row is not None}
    return [
        _result(row, answer, tombstones.get(row.record_key, (None, None))[0], values.get(row.item_id)) for row in rows
    ]


def _result(row: PlannedRow, answer: Answer, tombstone: GroupRecord | None, raced: GroupRecord | None) -> Result:
    error = answer.error_of(row.item_id)
    written = None if tombstone is None else tombstone.written_at
    if raced is not None:
        within = ", within a transaction," if raced.producer_id != NO_PRODUCER_ID else ""
        text = f"a commit at log_offset {raced.log_offset}{within} came in just before"
        return Result.of(row.item_id, "raced", text, written=written, found=raced.value)
    if written is not None:
        return Result.of(row.item_id, "done", written=written)
    if not answer.was_sent:
        return Result.of(row.item_id, "not_done", error)
    if not answer.is_settled:
        return Result.of(row.item_id, "unknown", error)
    if error == NOT_FOUND:
        return Result.of(row.item_id, "gone", error)
    if error is not None:
        return Result.of(row.item_id, "refused", error)
    return Result.of(row.item_id, "unknown")
