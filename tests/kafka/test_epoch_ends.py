"""Which leader epochs are asked for, and what becomes of the answers, without a broker."""

from collections.abc import Mapping
from types import SimpleNamespace as Answer
from typing import Any

from sexton.archive.time_points import Key, TimePoint
from sexton.kafka.epoch_ends import epoch_ends
from sexton.kafka.failures import TransientError

AS_OF_MS = 1_790_000_000_000
NOT_LEADER = 6


class Epochs:
    """Partitions of one topic: where each log leaves its epochs. Stands behind a session."""

    def __init__(self, *partitions: Mapping[int, int], current: int) -> None:
        self.partitions, self.current = partitions, current
        self.requests: list[dict[int, int]] = []
        self.errors: dict[int, int] = {}
        self.is_gone = False

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        if type(request).__name__ == "MetadataRequest":
            partitions = [
                Answer(partition_index=n, leader_id=1, leader_epoch=self.current) for n in range(len(self.partitions))
            ]
            topic = Answer(name="t", topic_id=None, error_code=0, partitions=partitions)
            return Answer(cluster_id="c", topics=[topic])
        assert (node_id, request.replica_id) == (1, -1)
        (asked,) = request.topics
        numbers = [each.partition for each in asked.partitions]
        assert len(numbers) == len(set(numbers))
        self.requests.append({each.partition: each.leader_epoch for each in asked.partitions})
        if self.is_gone:
            raise TransientError("gone")
        answers = [
            Answer(
                partition=each.partition,
                error_code=self.errors.get(each.partition, 0),
                end_offset=self.partitions[each.partition].get(each.leader_epoch, -1),
            )
            for each in asked.partitions
        ]
        return Answer(topics=[Answer(topic="t", partitions=answers)])


def ask(epochs: Epochs, asked: Mapping[int, set[int]]) -> dict[Key, list[TimePoint]]:
    return epoch_ends(epochs, {("t", n): some for n, some in asked.items()}, as_of_ms=AS_OF_MS)  # type: ignore[arg-type]


def end(leader_epoch: int, at: int) -> TimePoint:
    return TimePoint(offset=at, timestamp_ms=AS_OF_MS, source="epoch_end", leader_epoch=leader_epoch)


def test_one_question_for_a_partition_and_request() -> None:
    epochs = Epochs({0: 10, 3: 40}, {1: 5}, current=7)
    assert ask(epochs, {0: {0, 3}, 1: {1, 2}}) == {
        ("t", 0): [end(0, 10), end(3, 40)],
        ("t", 1): [end(1, 5), end(2, -1)],
    }
    assert epochs.requests == [{0: 0, 1: 1}, {0: 3, 1: 2}]


def test_the_current_epoch_is_not_asked_for() -> None:
    epochs = Epochs({}, current=7)
    assert ask(epochs, {0: {7}}) == {}
    assert epochs.requests == []


def test_without_epochs_nothing_is_asked() -> None:
    assert epoch_ends(None, {}, as_of_ms=AS_OF_MS) == {}  # type: ignore[arg-type]


def test_what_is_not_answered_is_left_out() -> None:
    epochs = Epochs({0: 10}, {0: 20}, current=7)
    epochs.errors[0] = NOT_LEADER
    assert ask(epochs, {0: {0}, 1: {0}, 2: {0}}) == {("t", 1): [end(0, 20)]}
    epochs.is_gone = True
    assert ask(epochs, {0: {0}, 1: {0}}) == {}
