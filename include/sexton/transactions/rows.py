"""The rows of the tables `transactions` and `transactional_ids`, and the verdicts in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sexton.coordinator.profile import Release
from sexton.tables import TRANSACTIONAL_IDS, TRANSACTIONS
from sexton.tables.table import Table
from sexton.transactions.ids import expires_at_ms, family_of
from sexton.transactions.states import TransactionalId
from sexton.transactions.verdicts import Judged, OffsetsTransaction, Reason

_WHY: Mapping[Reason, str] = {
    "ongoing": "its coordinator knows it and aborts it when its timeout is over",
    "markers_due": "its coordinator has decided, and sends the markers",
    "no_timeout": "two-phase commit: no timeout ends it, only its producer does",
    "unknown_producer": "no transactional id has or had this producer id",
    "ended": "its transactional id has ended that transaction",
    "not_listed": "the open transaction of its id does not list this log partition",
    "other_epoch": "its id has an open transaction of another producer epoch here, whose end would end this one, too",
    "not_read": "the newest state of its producer was not read",
    "recent": "its state changed while the logs were read: read them again",
}
_OVERDUE = "; it should have ended by now: look at the log of that id's coordinator, or move its leadership"


def open_transactions(transactions: Iterable[Mapping[str, Any]], pending: Iterable[Mapping[str, Any]]) -> list[
    OffsetsTransaction
]:  # fmt: skip
    """The open transactions of the offsets log, from a run's rows of the tables open_transactions and
    pending_offsets."""
    held: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in pending:
        offset = {name: row[name] for name in ("group_id", "topic", "partition", "committed_offset")}
        held.setdefault((row["log_partition"], row["producer_id"]), []).append(offset)
    return [
        OffsetsTransaction(
            log_partition=row["log_partition"],
            producer_id=row["producer_id"],
            producer_epoch=row["producer_epoch"],
            first_log_offset=row["first_log_offset"],
            last_log_offset=row["last_log_offset"],
            since_ms=row["first_timestamp_ms"],
            group_ids=row["group_ids"],
            offsets=held.get((row["log_partition"], row["producer_id"]), ()),
        )
        for row in transactions
    ]


def owners_of(judged: Iterable[Judged]) -> dict[tuple[int, int], tuple[str | None, str]]:
    """Transactional id and verdict of each open transaction, by log partition and producer id."""
    return {
        (one.transaction.log_partition, one.transaction.producer_id): (
            None if one.transactional_id is None else one.transactional_id.transactional_id,
            one.verdict,
        )
        for one in judged
    }


def transaction_rows(
    judged: Sequence[Judged], held_bytes: Mapping[tuple[int, int], int], release: Release | None
) -> pa.Table:
    """The table `transactions`, without its run columns; `held_bytes` is by log partition and start offset."""
    rows = [_transaction_row(one, held_bytes, release) for one in judged]
    return pa.Table.from_pylist(rows, TRANSACTIONS.arrow_schema(with_run=False))


def _transaction_row(one: Judged, held_bytes: Mapping[tuple[int, int], int], release: Release | None) -> dict[str, Any]:
    log, owner = one.transaction, one.transactional_id
    return {
        **_shared(log, TRANSACTIONS),
        **_shared(one, TRANSACTIONS),
        "transactional_id": owner and owner.transactional_id,
        "state": owner and owner.state.value,
        "group_ids": list(log.group_ids),
        "offsets": list(log.offsets),
        "held_bytes": held_bytes.get((log.log_partition, log.first_log_offset)),
        "abort_arguments": one.abort_arguments(release),
        "evidence": _evidence(one),
    }


def _shared(source: Any, table: Table) -> dict[str, Any]:
    """The fields of an object that a table has under the same name."""
    return {name: getattr(source, name) for name in table.column_names if name in source.__slots__}


def _evidence(one: Judged) -> str:
    owner = one.transactional_id
    said = _WHY[one.reason]
    if owner is not None:
        verb = "was" if one.reason == "not_read" else "is"
        said += f": {owner.transactional_id} {verb} {owner.state} with producer id {owner.producer_id}, epoch "
        said += f"{owner.producer_epoch}"
    return said + (_OVERDUE if one.is_overdue else "")


def id_rows(ids: Iterable[TransactionalId], *, expiration_ms: int, read_at_ms: int) -> pa.Table:
    """The table `transactional_ids`, without its run columns."""
    rows = [
        {
            **_shared(one, TRANSACTIONAL_IDS),
            "state_log_partition": one.log_partition,
            "state_log_offset": one.log_offset,
            "family": family_of(one.transactional_id),
            "state": one.state.value,
            "age_ms": read_at_ms - one.updated_at_ms,
            "expires_at_ms": expires_at_ms(one, expiration_ms=expiration_ms),
            "partitions": [{"topic": topic, "partitions": [*some]} for topic, some in one.partitions.items()],
        }
        for one in ids
    ]
    return pa.Table.from_pylist(rows, TRANSACTIONAL_IDS.arrow_schema(with_run=False))
