"""Commits to a broker that has just started, which answers when it is ready."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from sexton_dev.workload import commit_offsets

OFFSETS = [TopicPartition("orders", 0, 5)]


class NewBroker:
    """An Admin client that gives these answers, one a request: an error of the request, of a partition, or None."""

    def __init__(self, *answers: tuple[str, int] | None) -> None:
        self.answers = list(answers)

    def alter_consumer_group_offsets(self, asked: list[ConsumerGroupTopicPartitions], *, request_timeout: float) -> Any:
        assert 0 < request_timeout < 10, "it is asked again soon"
        place, code = self.answers.pop(0) or ("", 0)
        answer: Future[Any] = Future()
        if place == "request":
            answer.set_exception(KafkaException(KafkaError(code)))
        else:
            partition = SimpleNamespace(error=KafkaError(code) if place else None)
            answer.set_result(SimpleNamespace(topic_partitions=[partition]))
        return {asked[0].group_id: answer}


@pytest.mark.parametrize(
    "first",
    [
        ("request", KafkaError._TIMED_OUT),
        ("request", KafkaError.COORDINATOR_NOT_AVAILABLE),
        ("partition", KafkaError.NOT_COORDINATOR),
        ("partition", KafkaError.UNKNOWN_TOPIC_OR_PART),
    ],
)
def test_what_a_new_broker_does_not_answer_is_asked_again(first: tuple[str, int]) -> None:
    broker: Any = NewBroker(first, first, None)
    commit_offsets(broker, "g", OFFSETS)
    assert broker.answers == []


@pytest.mark.parametrize("where", ["request", "partition"])
def test_what_is_refused_is_told(where: str) -> None:
    broker: Any = NewBroker((where, KafkaError.GROUP_AUTHORIZATION_FAILED), None)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        commit_offsets(broker, "g", OFFSETS)
