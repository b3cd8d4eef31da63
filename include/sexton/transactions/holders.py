"""The owners of open transactions that hold up offsets of one group, from a log or from published tables.

Without `__transaction_state` only the evidence in the offsets log is known: the producer, the start, and the offsets
that the transaction holds up. Rows are those of the table `transactions` without held_bytes, plus `audited_at_ms`: the
instant of the audit with the verdict; None where the verdict was made here from the states, or there is none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Release
from sexton.lake.audits import audit_rows, newest_audit
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, read_published
from sexton.tables import TRANSACTIONS
from sexton.transactions.rows import open_transactions, transaction_rows
from sexton.transactions.verdicts import KnownStates, OffsetsTransaction, TransactionClocks, judge_all

Row = dict[str, Any]
_JUDGED = (
    *("verdict", "reason", "transactional_id", "state", "start_offset", "ends_at_ms", "is_overdue", "is_confirmed"),
    *("abort_arguments", "evidence"),
)
"""Columns that an audit adds to the evidence in the offsets log."""


def transactions_of(
    group_id: str,
    rows: Sequence[Mapping[str, Any]],
    pending: Mapping[int, Mapping[OffsetKey, StoredOffset]],
    is_requested: Callable[[str, int], bool],
) -> list[OffsetsTransaction]:
    """The transactions of one log partition that hold up requested offsets of a group, with these offsets.

    `rows` are rows of open_transactions; `pending` has the pending offsets of each producer.
    """
    held = [
        {
            **{name: row[name] for name in ("log_partition", "producer_id")},
            **dict(zip(("group_id", "topic", "partition"), key, strict=True)),
            "committed_offset": offset.committed_offset,
        }
        for row in rows
        for key, offset in sorted(pending.get(row["producer_id"], {}).items())
        if key[0] == group_id and is_requested(key[1], key[2])
    ]
    return [one for one in open_transactions(rows, held) if one.offsets]


def holder_rows(
    transactions: Sequence[OffsetsTransaction],
    states: KnownStates | None,
    *,
    read_until_ms: int,
    slack_ms: int,
    release: Release | None,
) -> list[Row]:
    """The transactions with their verdicts, which are `unknown` without `states`."""
    clocks = TransactionClocks(read_until_ms=read_until_ms, slack_ms=slack_ms)
    table = transaction_rows(judge_all(transactions, states, clocks).judged, {}, release)
    return [{**row, "audited_at_ms": None} for row in table.drop_columns(["held_bytes"]).to_pylist()]


def published_holders(
    lake: Lake, run: PublishedRun, group_id: str, is_requested: Callable[[str, int], bool], *, until_ms: int | None
) -> list[Row]:
    """The transactions in a published run that hold up requested offsets of a group. Those that are also in the newest
    audit up to `until_ms` have their verdict from that audit."""
    every = read_published(lake, run, "open_transactions").to_pylist()
    rows = [row for row in every if group_id in row["group_ids"]]
    if not rows:
        return []
    columns = ["log_partition", "producer_id", "group_id", "topic", "partition", "committed_offset"]
    pending = [
        row
        for row in read_published(lake, run, "pending_offsets", columns).to_pylist()
        if row["group_id"] == group_id and is_requested(row["topic"], row["partition"])
    ]
    held = [one for one in open_transactions(rows, pending) if one.offsets]
    audit = _newest(lake, run, until_ms) if held else []
    return [_judged(row, audit) for row in holder_rows(held, None, read_until_ms=0, slack_ms=0, release=None)]


def _newest(lake: Lake, run: PublishedRun, until_ms: int | None) -> list[Row]:
    cluster_id = run.key.cluster_id
    as_of_ms = newest_audit(lake, [TRANSACTIONS.name], cluster_id, until_ms=until_ms)
    if as_of_ms is None:
        return []
    rows = audit_rows(lake, TRANSACTIONS.name, cluster_id, as_of_ms, TRANSACTIONS.column_names)
    return [{**row, "audited_at_ms": as_of_ms} for row in rows]


def _judged(row: Row, audit: Sequence[Row]) -> Row:
    """A transaction with its verdict from the audit, if the audit has it: log_offsets distinguish it from earlier and
    later transactions of the same producer."""
    for other in audit:
        is_same_producer = all(other[name] == row[name] for name in ("log_partition", "producer_id"))
        starts = max(other["start_offset"], row["start_offset"])
        if is_same_producer and starts <= min(other["last_log_offset"], row["last_log_offset"]):
            return {**row, **{name: other[name] for name in (*_JUDGED, "audited_at_ms")}}
    return row
