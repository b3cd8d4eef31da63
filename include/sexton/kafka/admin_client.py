"""confluent-kafka's AdminClient as a session uses it: for queries, with the session's deadline, logging, quotas and
errors.

The docstring of this package lists the requests that go through it, and those that must not.
"""

import logging
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sexton.kafka.client import ClientConfig

DEADLINE_MS = 10_000
"""Timeout of one query. librdkafka uses all of it to wait for an unreachable broker."""
SETTINGS = {"reconnect.backoff.max.ms": 1_000, "enable.metrics.push": False}

K = TypeVar("K", bound=Hashable)
Answers: TypeAlias = dict[K, Any]
"""Requested resource -> the answer, or the KafkaError instead."""
Question: TypeAlias = Callable[[Any], Mapping[K, "Future[Any]"]]
"""Calls a method of an AdminClient."""

# Its log lines go to the configured logging, like those of kafka-python (session.py).
LOG = logging.getLogger("confluent_kafka")
LOG.addHandler(logging.NullHandler())
LOG.setLevel(logging.WARNING)


class Admin:
    """An AdminClient for one thread; it connects at the first query, and closes when its last reference is dropped."""

    def __init__(self, config: ClientConfig, *, request_timeout_ms: int) -> None:
        self._throttles: list[Any] = []
        own = {"socket.timeout.ms": min(request_timeout_ms, DEADLINE_MS), "throttle_cb": self._throttles.append}
        self._client = AdminClient({**config.for_confluent(), **SETTINGS, **own}, logger=LOG)

    def ask(self, question: Question[K]) -> tuple[Answers[K], int]:
        """The answers, and the throttle time in ms that a quota asks for."""
        answers = {about: _result(future) for about, future in question(self._client).items()}
        self._client.poll(0)  # calls back about quotas, and delivers log lines
        throttle_ms = max((int(event.throttle_time * 1000) for event in self._throttles), default=0)
        self._throttles.clear()
        return answers, throttle_ms


def is_local_error(answer: Any) -> bool:
    """Whether `answer` is librdkafka's own error, not a broker's: its codes are lower than all of Kafka's."""
    return isinstance(answer, KafkaError) and bool(answer.code() < KafkaError.UNKNOWN)


def _result(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except KafkaException as error:
        return error.args[0]
