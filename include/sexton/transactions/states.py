"""The state of every transactional id in one partition of `__transaction_state`, as its coordinator loads it.

Follows TransactionStateManager.loadTransactionMetadata and TransactionLog: the last record of an id wins, a null value
removes the id, control batches and producer ids of batches are ignored. If a load fails, the coordinator keeps and
serves the ids from the records before the failure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sexton.coordinator.profile import Release
from sexton.coordinator.releases import reaches
from sexton.errors import LogError
from sexton.log.batch import BadRecord, Batch, Record, TornTail, read_batches, read_records
from sexton.records.transactions import (
    TransactionLogValue,
    UnknownVersion,
    decode_transaction_key,
    decode_transaction_value,
)


class TransactionState(StrEnum):
    """The states of a transaction with Kafka's names, in the order of their numbers."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES: tuple[TransactionState, ...] = tuple(TransactionState)
"""The states by their numbers."""
ENDED = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""States without outstanding markers; ids in these states expire."""
COMPLETING = frozenset(
    {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLoadRules:
    """How releases differ in loading; the defaults are the rules of the newest release.

    `newest_value` is the highest known version of a value. A record of an unknown version is skipped or ends the load.
    """

    skips_unknown_keys: bool = True
    skips_unknown_values: bool = True
    newest_value: int = 1


_DATED_RULES: tuple[tuple[Release, TransactionLoadRules], ...] = (
    ((4, 3), TransactionLoadRules()),
    ((3, 4, 1), TransactionLoadRules(skips_unknown_values=False)),  # KIP-915
    ((0, 11), TransactionLoadRules(skips_unknown_keys=False, skips_unknown_values=False, newest_value=0)),
)
"""(first release, rules), the newest release first."""


def rules_of(release: Release) -> TransactionLoadRules:
    """The rules of a Kafka release. Releases before 0.11 do not have the topic."""
    return next((rules for since, rules in _DATED_RULES if reaches(release, since, last=release)), _DATED_RULES[-1][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """A transactional id and its transaction, from its last record; None where the record has -1.

    `partitions` are the partitions of the transaction: empty once it has ended.
    """

    transactional_id: str
    log_partition: int
    log_offset: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    partitions: Mapping[str, tuple[int, ...]]
    updated_at_ms: int
    started_at_ms: int | None
    previous_producer_id: int | None = None
    next_producer_id: int | None = None
    next_producer_epoch: int | None = None
    client_transaction_version: int = 0

    def writes_to(self, topic: str, partition: int) -> bool:
        return partition in self.partitions.get(topic, ())


@dataclass(slots=True, kw_only=True)
class LoadedStates:
    """The state of a coordinator after the load of one partition.

    `failure` is why the load ended early; `ids` are then from the records before the failure. `skipped` counts records
    of unknown versions: the state of their ids is unknown. `leader_epoch` is the epoch of the last batch, -1 without a
    batch; it is also the epoch of the coordinator.
    """

    log_partition: int
    ids: dict[str, TransactionalId] = field(default_factory=dict)
    failure: str | None = None
    skipped: int = 0
    leader_epoch: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether an id that is missing here has no transaction."""
        return self.failure is None and not self.skipped


class _LoadEnds(Exception):
    """Raised where a coordinator's load ends early."""


def load_states(
    chunks: Iterable[bytes],
    *,
    log_partition: int,
    cap_bytes: int,
    as_of_ms: int | None = None,
    rules: TransactionLoadRules | None = None,
) -> LoadedStates:
    """Load the segments of one partition, given in log order.

    With `as_of_ms`, reading stops at the first batch whose largest timestamp is at or after `as_of_ms`.
    """
    loaded = LoadedStates(log_partition=log_partition)
    try:
        for chunk in chunks:
            for found in read_batches(chunk):
                if isinstance(found, TornTail):
                    continue
                if not isinstance(found, Batch):
                    raise _LoadEnds(f"{found.detail}")
                if as_of_ms is not None and found.max_timestamp_ms >= as_of_ms:
                    return loaded
                loaded.leader_epoch = found.leader_epoch
                for record in read_records(found, cap_bytes=cap_bytes):
                    _replay(loaded, record, rules or TransactionLoadRules())
    except _LoadEnds as error:
        loaded.failure = str(error)
    return loaded


def _replay(loaded: LoadedStates, record: Record | BadRecord, rules: TransactionLoadRules) -> None:
    if isinstance(record, BadRecord):
        raise _LoadEnds(f"log_offset {record.log_offset}: {record.detail}")
    where = f"log_offset {record.log_offset}"
    if record.key is None:
        raise _LoadEnds(f"{where}: a record without a key")
    try:
        key = decode_transaction_key(record.key)
        if isinstance(key, UnknownVersion):
            _skip(loaded, rules.skips_unknown_keys, f"{where}: a key of version {key.version}")
            return
        if record.value is None:
            loaded.ids.pop(key.transactional_id, None)
            return
        value = decode_transaction_value(record.value, newest=rules.newest_value)
    except LogError as error:
        raise _LoadEnds(f"{where}: {error}") from None
    if isinstance(value, UnknownVersion):
        _skip(loaded, rules.skips_unknown_values, f"{where}: a value of version {value.version}")
        return
    if not 0 <= value.status < len(STATES):
        raise _LoadEnds(f"{where}: no state has the number {value.status}")
    loaded.ids[key.transactional_id] = _entry(loaded, key.transactional_id, value, record.log_offset)


def _skip(loaded: LoadedStates, is_skipped: bool, what: str) -> None:
    if not is_skipped:
        raise _LoadEnds(f"{what} is not known")
    loaded.skipped += 1


def _entry(loaded: LoadedStates, name: str, value: TransactionLogValue, log_offset: int) -> TransactionalId:
    state = STATES[value.status]
    if value.partitions is None and state != TransactionState.EMPTY:
        raise _LoadEnds(f"log_offset {log_offset}: state {state} without partitions")
    partitions: dict[str, tuple[int, ...]] = {}
    for one in () if state == TransactionState.EMPTY else value.partitions or ():
        partitions[one.topic] = (*partitions.get(one.topic, ()), *one.partition_ids)
    return TransactionalId(
        transactional_id=name,
        log_partition=loaded.log_partition,
        log_offset=log_offset,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        timeout_ms=value.timeout_ms,
        partitions=partitions,
        updated_at_ms=value.updated_at_ms,
        started_at_ms=_known(value.started_at_ms),
        previous_producer_id=_known(value.previous_producer_id),
        next_producer_id=_known(value.next_producer_id),
        next_producer_epoch=_known(value.next_producer_epoch),
        client_transaction_version=value.client_transaction_version,
    )


def _known(number: int) -> int | None:
    return None if number == -1 else number
