"""confluent-kafka's AdminClient as a session uses it: for questions, with our deadline, our log, quotas and errors.

Which questions it takes, and which it must not, is said once, in this package's docstring.
"""

import logging
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sexton.kafka.client import ClientConfig

DEADLINE_MS = 10_000
"""The longest that one question may take: a broker that is down is waited for until then, not given up at once."""
SETTINGS = {"reconnect.backoff.max.ms": 1_000, "enable.metrics.push": False}

K = TypeVar("K", bound=Hashable)
Answers: TypeAlias = dict[K, Any]
"""What was asked about -> the answer, or the KafkaError instead of it."""
Question: TypeAlias = Callable[[Any], Mapping[K, "Future[Any]"]]
"""Calls a method of an AdminClient."""

# Its lines go to whoever configured logging, as those of kafka-python (session.py).
LOG = logging.getLogger("confluent_kafka")
LOG.addHandler(logging.NullHandler())
LOG.setLevel(logging.WARNING)


class Admin:
    """An AdminClient for one thread; it connects with the first question, and ends with the last reference to it."""

    def __init__(self, config: ClientConfig, *, request_timeout_ms: int) -> None:
        self._throttles: list[Any] = []
        own = {"socket.timeout.ms": min(request_timeout_ms, DEADLINE_MS), "throttle_cb": self._throttles.append}
        self._client = AdminClient({**config.for_confluent(), **SETTINGS, **own}, logger=LOG)

    def ask(self, question: Question[K]) -> tuple[Answers[K], int]:
        """The answers, and for how many milliseconds a quota asks to wait."""
        answers = {about: _result(future) for about, future in question(self._client).items()}
        self._client.poll(0)  # calls back about quotas, and hands over log lines
        throttle_ms = max((int(event.throttle_time * 1000) for event in self._throttles), default=0)
        self._throttles.clear()
        return answers, throttle_ms


def is_local_error(answer: Any) -> bool:
    """Whether it is an error of librdkafka's own, without an answer of a broker: its codes are below all of Kafka's."""
    return isinstance(answer, KafkaError) and bool(answer.code() < KafkaError.UNKNOWN)


def _result(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except KafkaException as error:
        return error.args[0]
