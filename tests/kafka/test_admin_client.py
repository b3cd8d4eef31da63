"""What a session makes of an AdminClient's errors, and that librdkafka's log lines stay off stderr."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from sexton.errors import BrokerError
from sexton.kafka.admin_client import Admin
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import TransientError
from sexton.kafka.session import ClusterSession

NOWHERE = ClientConfig(bootstrap_servers="127.0.0.1:1")
DENIED = 29


class Unconnected(ClusterSession):
    """A session without a connection of kafka-python's."""

    def __init__(self, timeout_ms: int = 300) -> None:
        self.config = NOWHERE
        self._request_timeout_ms, self._admin = timeout_ms, None


def failing(error: int) -> dict[str, "Future[Any]"]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(error, "the reason")))
    return {"it": future}


def test_an_error_that_a_broker_answers_is_the_callers() -> None:
    for code in (DENIED, KafkaError.UNKNOWN):
        assert Unconnected().ask_admin(lambda admin, code=code: failing(code))["it"].code() == code


def test_no_answer_may_pass() -> None:
    with pytest.raises(TransientError, match="no broker answers: Connection refused") as caught:
        Unconnected().ask_admin(lambda admin: failing(KafkaError._TIMED_OUT))
    assert caught.value.where == NOWHERE.bootstrap_servers


def test_no_token_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenless(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "OAuth token not set"))

    monkeypatch.setattr("sexton.kafka.session.Admin", tokenless)
    with pytest.raises(TransientError, match="no broker answers"):
        Unconnected().ask_admin(lambda admin: {})


def test_brokers_that_are_too_old_stay_so() -> None:
    with pytest.raises(BrokerError, match="the brokers are too old: the reason") as caught:
        Unconnected().ask_admin(lambda admin: failing(KafkaError._UNSUPPORTED_FEATURE))
    assert not isinstance(caught.value, TransientError)


def test_nothing_on_stderr(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    admin = Admin(NOWHERE, request_timeout_ms=500)
    asked = [ConfigResource(ResourceType.TOPIC, "t")]
    answers, throttle_ms = admin.ask(lambda client: client.describe_configs(asked))
    assert ([error.code() for error in answers.values()], throttle_ms) == ([KafkaError._TIMED_OUT], 0)
    del admin
    assert capfd.readouterr().err == ""
    assert "Connection refused" in caplog.text
