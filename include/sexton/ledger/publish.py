"""Publishes the ledger of a plan as rows of the table `apply_ledger`, after each attempt.

The files are the ledger; the table is a copy for readers. Each publication replaces all rows of the plan with those of
its files, in one commit: publishing twice, or after a crash, gives the same rows as publishing once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sexton.errors import NoCoverage
from sexton.failpoints import failpoint
from sexton.lake.append import replace_rows
from sexton.lake.catalog import Lake
from sexton.ledger.entries import WRITTEN, Claim, Entry, Item, Result, StepOutcome
from sexton.ledger.recorded_steps import action_of, recorded_steps, results_beyond
from sexton.tables import TABLES

TABLE = "apply_ledger"
_BEFORE = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms")

Row = dict[str, Any]
AttemptPosition = tuple[int, int, int]
"""Log partition, position, attempt."""


def publish_ledger(lake: Lake, entries: Sequence[Entry], *, as_of_ms: int) -> int | None:
    """Replace the plan's rows in the table with its ledger; returns the number of rows, None where the table does not
    exist yet. `as_of_ms` is the plan's."""
    rows = rows_of(entries, as_of_ms=as_of_ms)
    if not rows:
        return 0
    try:
        lake.require_readable()
    except NoCoverage:
        return None
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import EqualTo

    table = pa.Table.from_pylist(rows, schema=TABLES[TABLE].arrow_schema())
    try:
        replace_rows(lake, TABLES[TABLE], table, EqualTo("plan_id", entries[0].plan_id))
    except (NoCoverage, NoSuchTableError):
        return None
    failpoint("ledger.published")
    return len(rows)


def rows_of(entries: Sequence[Entry], *, as_of_ms: int) -> list[Row]:
    """Rows of apply_ledger, one for each item and attempt, by attempt, log partition and position.

    An item without a call has the instant of its outcome as the instant of its intent.
    """
    claims = {entry.attempt: entry.body for entry in entries if isinstance(entry.body, Claim)}
    found: dict[AttemptPosition, Row] = {}
    for step in recorded_steps(entries):
        for item in step.intent.items:
            result, entry = step.results.get(item.item_id, (None, None))
            row = _row(item, result, action=step.intent.action, intent_at_ms=step.entry.at_ms, entry=entry)
            _keep(found, row, step.entry, claims)
    for item, result, entry in results_beyond(entries):
        row = _row(item, result, action=action_of(entries), intent_at_ms=entry.at_ms, entry=entry)
        _keep(found, row, entry, claims)
    for row in found.values():
        row["as_of_ms"] = as_of_ms
    return [found[place] for place in sorted(found, key=lambda where: (where[2], where[0], where[1]))]


def _keep(found: dict[AttemptPosition, Row], row: Row, entry: Entry, claims: Mapping[int, Claim]) -> None:
    """Keep the row that counts for an item and attempt in `found`: a row with a written outcome, else the last row."""
    place = row["log_partition"], row["position"], entry.attempt
    if place in found and found[place]["outcome"] in WRITTEN:
        return
    run_id = f"{entry.plan_id}-{entry.attempt:04d}"
    own = {"cluster_id": entry.cluster_id, "run_id": run_id, "plan_id": entry.plan_id, "attempt": entry.attempt}
    found[place] = {**own, "approved_by": claims[entry.attempt].approved_by, **row}


def _row(item: Item, result: Result | None, *, action: str, intent_at_ms: int, entry: Entry | None) -> Row:
    window_ms = entry.body.window_ms if entry is not None and isinstance(entry.body, StepOutcome) else None
    is_known = result is not None and result.outcome != "unknown"
    return {
        "action": action,
        "log_partition": item.log_partition,
        "position": item.position,
        "group_id": item.group_id,
        "topic": item.topic,
        "partition": item.partition,
        "intent_at_ms": intent_at_ms,
        "outcome_at_ms": entry.at_ms if entry is not None and is_known else None,
        "outcome": result.outcome if result is not None and is_known else None,
        "error": result.error if result is not None else None,
        "before": None if item.before is None else {name: getattr(item.before, name) for name in _BEFORE},
        "written_log_offset": result.written_log_offset if result is not None else None,
        "window_ms": None if window_ms is None else math.ceil(window_ms),
    }
