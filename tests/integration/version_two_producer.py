"""A transactional producer of transaction version 2 (KIP-890), which librdkafka does not speak yet.

The group's coordinator announces its offsets to the transaction coordinator, and every marker raises the epoch, which
the answer to EndTxn brings. Kafka's own clients speak it from 4.0 on.
"""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest

from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import GROUP_COORDINATOR
from sexton.kafka.session import ClusterSession
from tests.transactions_broker import TRANSACTION, settled

TIMEOUT_MS = 900_000
WITHOUT_ANNOUNCING = 5
"""The first TxnOffsetCommit and EndTxn of that version."""


class VersionTwoProducer:
    """With those methods of confluent_kafka.Producer that the tests of replicas call."""

    def __init__(self, config: ClientConfig, transactional_id: str) -> None:
        self._config, self._transactional_id = config, transactional_id
        answer = self._call(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS, max_version=5)
        )
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def begin_transaction(self) -> None:
        """It begins with the first offsets."""

    def send_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        topics = [
            Topic(
                name=topic,
                partitions=[
                    Topic.TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=""
                    )
                    for (other, number), offset in offsets.items()
                    if other == topic
                ],
            )
            for topic in sorted({topic for topic, _ in offsets})
        ]
        request = TxnOffsetCommitRequest(
            **self._own, group_id=group, topics=topics, min_version=WITHOUT_ANNOUNCING, max_version=WITHOUT_ANNOUNCING
        )
        self._call(request, group=group)

    def commit_transaction(self, timeout_s: float = 0) -> None:
        self._end(committed=True)

    def abort_transaction(self, timeout_s: float = 0) -> None:
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            **self._own, committed=committed, min_version=WITHOUT_ANNOUNCING, max_version=WITHOUT_ANNOUNCING
        )
        answer, before = self._call(request), self.epoch
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        assert self.epoch == before + 1

    @property
    def _own(self) -> dict[str, Any]:
        return {
            "transactional_id": self._transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def _call(self, request: Any, *, group: str | None = None) -> Any:
        coordinator = (TRANSACTION, self._transactional_id) if group is None else (GROUP_COORDINATOR, group)
        with ClusterSession(self._config) as session:
            return settled(session, request, coordinator=coordinator)
