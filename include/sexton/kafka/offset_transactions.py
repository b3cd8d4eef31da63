"""Commits offsets in a transaction without a group member: begin, pend, end, each its own request (KIP-98, KIP-447).

A pending offset is in the log and has no effect until the transaction's end. At COMMIT it takes effect only if the log
has no newer record of the same key. So a client that reads the log up to its pending offset, and only then ends the
transaction, can compare and set.
confluent-kafka cannot do this: it decides itself when to end, and writes metadata with a trailing NUL.

Every request may be repeated after a transient error: of several records of a pending offset only the last counts. A
request without an answer raises Unsettled: `begin` with the same transactional id fences that producer and ends its
transaction. Requests are those of producers before KIP-890 part 2, which brokers from 2.5 to 4.x accept.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from sexton.kafka.admin import ErrorName, GroupError, Key, errors_by_partition, topics_with
from sexton.kafka.failures import AMBIGUOUS, TransientError, Unsettled, error_name
from sexton.kafka.group_state import TRANSACTION_COORDINATOR, CommittedValue, coordinator_of, find_coordinator
from sexton.kafka.session import ClusterSession

TIMEOUT_MS = 5_000
"""Time after which the coordinator aborts the open transaction of a dead process. Until then clients get
UNSTABLE_OFFSET_COMMIT."""
_PASSING = AMBIGUOUS | {"COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer id and its epoch, which a later `begin` with the same transactional id fences."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def begin(session: ClusterSession, transactional_id: str) -> ProducerIdentity:
    """A producer with this transactional id. When this returns, an earlier producer's open transaction has ended, and
    the transaction's marker is in the log."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS, max_version=4)

    def ask() -> Any:
        try:
            return _ask_coordinator(session, transactional_id, request)
        except Unsettled as error:  # harmless to repeat
            raise TransientError(error.message, where=error.where) from None

    answer = session.retrying(ask)
    return ProducerIdentity(
        transactional_id=transactional_id, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
    )


def pend(
    session: ClusterSession, producer: ProducerIdentity, group_id: str, offsets: Mapping[Key, CommittedValue]
) -> dict[Key, ErrorName | None]:
    """Write offsets of a group as pending; return each partition's error, None for success. A group that does not exist
    is created."""
    announced = AddOffsetsToTxnRequest(**asdict(producer), group_id=group_id, max_version=3)
    _ask_coordinator(session, producer.transactional_id, announced, group_id=group_id)
    PendedTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic  # noqa: N806 (a class)
    topics = topics_with(offsets, PendedTopic, PendedTopic.TxnOffsetCommitRequestPartition)
    request = TxnOffsetCommitRequest(**asdict(producer), group_id=group_id, topics=topics, max_version=3)

    def ask() -> dict[Key, ErrorName | None]:
        found = errors_by_partition(session.call_once(request, node_id=find_coordinator(session, group_id)))
        if passing := sorted(_PASSING & set(filter(None, found.values()))):
            raise TransientError(f"TxnOffsetCommit: {', '.join(passing)}", where=f"group {group_id}")
        return found

    return session.retrying(ask)


def end(session: ClusterSession, producer: ProducerIdentity, *, committed: bool) -> None:
    """End the transaction. The coordinator writes its marker shortly afterwards."""
    request = EndTxnRequest(**asdict(producer), committed=committed, max_version=3)
    _ask_coordinator(session, producer.transactional_id, request)


def _ask_coordinator(
    session: ClusterSession, transactional_id: str, request: Any, *, group_id: str | None = None
) -> Any:
    """The answer of the transactional id's coordinator; GroupError for an error that is not transient."""
    where = f"transactional id {transactional_id}"
    call = type(request).__name__.removesuffix("Request")

    def checked(answer: Any, call: str) -> Any:
        if answer.error_code:
            name = error_name(answer.error_code)
            if name in _PASSING:
                raise TransientError(f"{call}: {name}", where=where)
            fix = session.missing_acl(name, call, group_id=group_id, transactional_id=transactional_id)
            raise GroupError(f"{call} was refused: {name}", where=where, fix=fix, error_name=name)
        return answer

    def ask() -> Any:
        found = coordinator_of(session, transactional_id, key_type=TRANSACTION_COORDINATOR)
        return checked(session.call_once(request, node_id=checked(found, "FindCoordinator").node_id), call)

    return session.retrying(ask)
