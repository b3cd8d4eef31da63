"""One audit: the open transactions of a replayed offsets log with their verdicts, and all transactional ids.

The verdicts depend on the order of reading: the offsets log first, then the states, then the brokers' own producers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sexton.archive.folder import filesystem
from sexton.coordinator.profile import Release
from sexton.runs.source import LogSource
from sexton.topics import TRANSACTIONS_TOPIC
from sexton.transactions.ids import Family, floods
from sexton.transactions.reading import Spread, StateLog, held_bytes
from sexton.transactions.rows import id_rows, transaction_rows
from sexton.transactions.states import TransactionalId
from sexton.transactions.verdicts import (
    Judgement,
    KnownStates,
    OffsetsTransaction,
    Producers,
    TransactionClocks,
    judge_all,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit. `read_at_ms` is when the states were read, None if they were not read.

    `transactions` and `transactional_ids` are the tables of these names, without their run columns; `notes` name what
    could not be read.
    """

    judgement: Judgement
    ids: Sequence[TransactionalId]
    read_at_ms: int | None
    transactions: pa.Table
    transactional_ids: pa.Table
    floods: Sequence[Family]
    notes: Sequence[str]

    def counts(self) -> dict[str, int]:
        """Number of transactions by verdict."""
        return dict(Counter(one.verdict for one in self.judgement.judged))


def audit(
    source: LogSource,
    transactions: Sequence[OffsetsTransaction],
    state_log: StateLog | None,
    clocks: TransactionClocks,
    *,
    release: Release,
    expiration_ms: int,
    spread: Spread,
    producers: Callable[[], Producers] | None = None,
) -> Audit:
    """Judge the open transactions of `source`. `producers` asks the brokers; it is only called if a transaction is
    open."""
    states = None if state_log is None else state_log.load(spread)
    asked = producers() if producers is not None and transactions else None
    judgement = judge_all(transactions, states, clocks, producers=asked)
    ids = sorted(states.ids, key=lambda one: (one.transactional_id, one.log_partition)) if states else []
    return Audit(
        judgement=judgement,
        ids=ids,
        read_at_ms=None if states is None else states.read_at_ms,
        transactions=transaction_rows(judgement.judged, _held(source, judgement), release),
        transactional_ids=id_rows(ids, expiration_ms=expiration_ms, read_at_ms=states.read_at_ms if states else 0),
        floods=floods(ids),
        notes=_notes(states, judgement, asked),
    )


def _held(source: LogSource, judgement: Judgement) -> dict[tuple[int, int], int]:
    """Bytes that each transaction keeps uncleaned, by log partition and first log_offset."""
    fs, _ = filesystem(source.uri)
    places: dict[int, set[int]] = {}
    for one in judgement.judged:
        places.setdefault(one.transaction.log_partition, set()).add(one.transaction.first_log_offset)
    return {
        (part, log_offset): size_bytes
        for part, offsets in places.items()
        for log_offset, size_bytes in held_bytes(fs, source.segments.get(part, []), offsets).items()
    }


def _notes(states: KnownStates | None, judgement: Judgement, asked: Producers | None) -> list[str]:
    notes = []
    if states is None and judgement.judged:
        notes.append(f"{TRANSACTIONS_TOPIC} was not read, so the ids of the open transactions are unknown")
    elif states and states.partition_count is None and judgement.of("unknown"):
        notes.append(
            f"the number of partitions of {TRANSACTIONS_TOPIC} is not known, nor proven by the transactional ids that "
            "were read: partitions that were not read may have the ids of more producers"
        )
    for part in states.partitions if states else ():
        if part.failure:
            notes.append(f"{TRANSACTIONS_TOPIC}-{part.log_partition}: a coordinator's load ends early: {part.failure}")
        if part.skipped:
            notes.append(
                f"{TRANSACTIONS_TOPIC}-{part.log_partition}: {part.skipped} records of unknown versions were skipped"
            )
    if asked is not None and (silent := {one.transaction.log_partition for one in judgement.judged} - asked.keys()):
        parts = ", ".join(map(str, sorted(silent)))
        notes.append(f"log partitions {parts}: no broker said what is open there; clocks decide what is recent")
    if judgement.ended:
        notes.append(f"{len(judgement.ended)} open transactions have ended since the offsets log was read")
    return notes
