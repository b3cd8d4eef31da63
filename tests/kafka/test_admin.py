"""What a request that changes something becomes: data for each partition, a refusal, another try, or Unsettled."""

import pickle
from collections.abc import Callable
from types import SimpleNamespace as Answer
from typing import Any

import kafka.errors as kafka_errors
import pytest

from sexton.coordinator.api.errors import Error
from sexton.errors import BrokerError
from sexton.kafka import session as session_module
from sexton.kafka.acls import OPERATIONS, missing_acl
from sexton.kafka.admin import GroupError, commit_offsets, delete_group, delete_offsets
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import AMBIGUOUS, NotAllowed, TransientError, Unsettled, error_name
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import records_of
from tests.kafka.fake_cluster import FakeSession
from tests.log_encoding import encode_batch, encode_marker

OK, LOADING, NOT_COORDINATOR, GROUP_DENIED, TOPIC_DENIED, NOT_FOUND, SUBSCRIBED = 0, 14, 16, 30, 29, 69, 86
CONFIG = ClientConfig(
    bootstrap_servers="nowhere:1",
    security_protocol="SASL_SSL",
    sasl_mechanism="PLAIN",
    username="me",
    password="canary",
)


class Scripted(FakeSession):
    """A coordinator whose answers are given: a code of the whole, or codes of partitions 0, 1, ... of topic t."""

    def __init__(self, *answers: int | list[int], coordinator: int = OK) -> None:
        self.config = CONFIG
        self.sent = 0
        self._answers, self._coordinator = list(answers), coordinator

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        return Answer(coordinators=[Answer(error_code=self._coordinator, node_id=1)])

    def call_once(self, request: Any, *, node_id: int) -> Any:
        self.sent += 1
        told = self._answers.pop(0)
        codes = told if isinstance(told, list) else []
        whole = OK if isinstance(told, list) else told
        partitions = [Answer(partition_index=number, error_code=code) for number, code in enumerate(codes)]
        return Answer(
            error_code=whole,
            results=[Answer(group_id="g", error_code=whole)],
            topics=[Answer(name="t", partitions=partitions)],
        )


def deleted(session: ClusterSession) -> Any:
    return delete_offsets(session, "g", {"t": [0, 1]})


def committed(session: ClusterSession) -> Any:
    return commit_offsets(session, "g", {("t", 0): (1, -1, ""), ("t", 1): (2, -1, "")})


def group_deleted(session: ClusterSession) -> Any:
    return delete_group(session, "g")


@pytest.mark.parametrize(
    "work, answers, came",
    [
        (deleted, [[OK, SUBSCRIBED]], {("t", 0): None, ("t", 1): "GROUP_SUBSCRIBED_TO_TOPIC"}),
        (deleted, [[OK, TOPIC_DENIED]], {("t", 0): None, ("t", 1): "TOPIC_AUTHORIZATION_FAILED"}),
        (deleted, [LOADING, LOADING, [OK, OK]], {("t", 0): None, ("t", 1): None}),
        (committed, [[OK, GROUP_DENIED]], {("t", 0): None, ("t", 1): "GROUP_AUTHORIZATION_FAILED"}),
        (committed, [[LOADING, LOADING], [OK, OK]], {("t", 0): None, ("t", 1): None}),
        (group_deleted, [OK], None),
        (group_deleted, [NOT_FOUND], "GROUP_ID_NOT_FOUND"),
        (group_deleted, [LOADING, OK], None),
        (group_deleted, [999], "ERROR_999"),
    ],
)
def test_answers_are_data(work: Callable[[ClusterSession], Any], answers: list[Any], came: Any) -> None:
    session = Scripted(*answers)
    assert work(session) == came
    assert session.sent == len(answers)


@pytest.mark.parametrize(
    "work, answer",
    [
        *((deleted, code) for code in (-1, 6, 7, 13, 15, NOT_COORDINATOR, 56)),
        (deleted, [OK, NOT_COORDINATOR]),
        (committed, [NOT_COORDINATOR, NOT_COORDINATOR]),
        (committed, [TOPIC_DENIED, 15]),
        (group_deleted, NOT_COORDINATOR),
    ],
)
def test_what_may_have_been_done_is_not_tried_again(work: Callable[[ClusterSession], Any], answer: Any) -> None:
    session = Scripted(answer, answer)
    with pytest.raises(Unsettled, match="leaves open whether it was done"):
        work(session)
    assert session.sent == 1


@pytest.mark.parametrize("where", [{"coordinator": GROUP_DENIED}, {}], ids=["coordinator", "call"])
def test_a_refusal_names_the_acl(where: dict[str, int]) -> None:
    with pytest.raises(GroupError, match=r"\(allow User:me DELETE on group g\)") as caught:
        deleted(Scripted(GROUP_DENIED, **where))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.error_name, str(again)) == ("GROUP_AUTHORIZATION_FAILED", str(caught.value))


def test_who_may_not_look_for_the_coordinator_is_refused_as_data() -> None:
    session = Scripted(coordinator=GROUP_DENIED)
    assert group_deleted(session) == "GROUP_AUTHORIZATION_FAILED"
    assert set(committed(session).values()) == {"GROUP_AUTHORIZATION_FAILED"}
    assert session.sent == 0


def test_a_refused_request_is_told_as_such() -> None:
    with pytest.raises(NotAllowed, match=r"allow User:me READ on topic t") as caught:
        Scripted().check(TOPIC_DENIED, "Fetch", topic="t")
    assert pickle.loads(pickle.dumps(caught.value)).error_name == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("call", OPERATIONS)
def test_every_refusal_of_every_call_has_an_acl(call: str) -> None:
    for name in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
        assert str(missing_acl(name, call, {}, principal=None)).startswith("allow this principal ")
    assert missing_acl("NOT_COORDINATOR", call, {}, principal=None) is None


def test_every_ambiguous_name_is_one_of_kafkas() -> None:
    names = {error_name(code) for code in kafka_errors.kafka_errors if code is not None}
    assert names >= AMBIGUOUS


@pytest.mark.parametrize("error", Error)
def test_errors_have_kafkas_names(error: Error) -> None:
    assert error_name(error.value) == ("NO_ERROR" if error is Error.NONE else error.name)


class Manager:
    """kafka-python's connection manager: a connection that opens or does not, an answer or none."""

    def __init__(self, *, opens: bool) -> None:
        self._opens = opens

    def run(self, work: Callable[[], Any]) -> Any:
        coroutine = work()
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("nothing here waits")

    def get_connection(self, node_id: int) -> Any:
        return Answer(init_future=None if self._opens else kafka_errors.KafkaConnectionError("refused"))

    def send(self, *_: Any, **__: Any) -> Any:
        return kafka_errors.KafkaConnectionError("closed")

    async def wait_for(self, future: Any, _timeout_ms: int) -> Any:
        if future is not None:
            raise future


@pytest.mark.parametrize("opens, raised", [(False, TransientError), (True, Unsettled)])
def test_only_what_was_surely_not_sent_may_be_sent_again(
    monkeypatch: pytest.MonkeyPatch, opens: bool, raised: type[Exception]
) -> None:
    session = object.__new__(ClusterSession)
    session.config = CONFIG
    session._request_timeout_ms = 1
    session._manager = Manager(opens=opens)
    monkeypatch.setattr(session_module.ClusterSession, "_unreachable", lambda *_: TransientError("away"))
    with pytest.raises(raised):
        session.call_once(object(), node_id=1)


def test_records_of_the_tail() -> None:
    data = encode_batch([(b"a", b"1"), (b"b", None)], base_offset=5, timestamp_ms=7) + encode_marker(
        True, base_offset=7, timestamp_ms=8, producer_id=4, producer_epoch=0
    )
    first, second, marker = records_of(data)
    assert first == (5, b"a", b"1", 7, -1, False)
    assert second == (6, b"b", None, 7, -1, False)
    assert (marker.log_offset, marker.producer_id, marker.is_control) == (7, 4, True)


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:-1] + b"\xff", lambda data: b"\0" * 70])
def test_a_tail_that_cannot_be_read_is_never_empty(spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(BrokerError, match="not a whole record batch"):
        records_of(spoil(encode_batch([(b"a", b"1")], base_offset=5, timestamp_ms=7)))
