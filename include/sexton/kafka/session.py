"""Requests to a cluster, in Kafka's own protocol and with an AdminClient, and their errors in a user's terms.

The docstring of this package says which of the two sends a request. Requests go over kafka-python 3's connection
manager (`kafka.net`), whose interface may change: it is pinned, and only this module and oauth.py use it. Every call
has a deadline. Transient failures (a broker restarting, a leader moving) are retried with growing, jittered waits and
fresh metadata; other errors are reported in one line.
"""

import logging
import socket
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Self, TypeAlias, TypeVar

import kafka.errors as kafka_errors
from confluent_kafka import KafkaError, KafkaException
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from sexton.as_text import MINUTE_MS
from sexton.errors import BrokerError, SextonError, UsageError
from sexton.kafka.acls import missing_acl
from sexton.kafka.admin_client import Admin, Answers, K, Question, is_local_error
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import REFUSED_LOGINS, NotAllowed, TransientError, Unsettled, error_name, explain
from sexton.topics import OFFSETS_TOPIC

__all__ = ["ClusterSession", "Connect", "TransientError", "Unsettled"]

CONNECT_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 30_000
RETRY_FOR_S = 60
THROTTLE_LIMIT_MS = MINUTE_MS
"""The longest wait that a broker's quota may ask for: with Kafka's default windows it is 11 seconds at most."""
_TRY_MS = 1_500
RESPONSE_LIMIT_BYTES = 512 * 1024 * 1024

T = TypeVar("T")
Connect: TypeAlias = "Callable[[ClientConfig], ClusterSession]"

# kafka-python logs failed connections only if the application has configured logging; our error reports them once.
# Below WARNING kafka-python would log requests, with passwords.
logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").setLevel(logging.WARNING)


class ClusterSession:
    """An open connection to the cluster of `config`; a context manager, for one thread.

    Raises UsageError when the credentials are refused, BrokerError when no broker answers in time.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self.config = config
        self._request_timeout_ms = request_timeout_ms
        self._retry_for_s = retry_for_s
        self._admin: Admin | None = None
        self._net = NetworkSelector()
        self._manager = KafkaConnectionManager(
            self._net,
            receive_message_max_bytes=RESPONSE_LIMIT_BYTES,
            request_timeout_ms=request_timeout_ms,
            **config.for_kafka_python(),
        )
        try:
            self._run(lambda: self._bootstrap(connect_timeout_ms))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin = None
        self._manager.close()
        self._net.close()

    @property
    def broker_ids(self) -> list[int]:
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    @property
    def broker_version(self) -> str | None:
        """The newest release known to kafka-python that fits the broker's request versions; None if none fits."""
        version = self._manager.broker_version
        return ".".join(str(part) for part in version) if version else None

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        """Send one request (to any broker, or to `node_id`); the caller handles error codes inside the response.

        When a quota is used up, this waits for the throttle time. Raises BrokerError when that is longer than
        THROTTLE_LIMIT_MS: every call has a limit.
        """

        answer = self._run(lambda: self._send(request, node_id))
        if throttle_ms := self._wait_ms(getattr(answer, "throttle_time_ms", None) or 0):
            # Sleep in kafka-python's event loop: the connection refuses requests until the throttle time is over, and
            # notices that it is over only while this loop runs.
            self._run(lambda: self._net.sleep(throttle_ms / 1000))
        return answer

    def ask_admin(self, question: Question[K]) -> Answers[K]:
        """The answers of confluent-kafka's AdminClient to `question`, which calls a method of that client.

        An answer may be a broker's KafkaError, which the caller handles. Raises TransientError when there is no answer
        in time, BrokerError when the brokers are too old for the query; waits for quotas as `call` does.
        """
        try:
            self._admin = self._admin or Admin(self.config, request_timeout_ms=self._request_timeout_ms)
        except KafkaException as refused:  # no token came in time
            raise self._unreachable(refused.args[0].str()) from None
        answers, throttle_ms = self._admin.ask(question)
        time.sleep(self._wait_ms(throttle_ms) / 1000)
        for error in filter(is_local_error, answers.values()):
            if error.code() == KafkaError._UNSUPPORTED_FEATURE:
                raise BrokerError(f"the brokers are too old: {error.str()}", where=self.config.bootstrap_servers)
            raise self._unreachable(error.str())
        return answers

    def call_once(self, request: Any, *, node_id: int) -> Any:
        """Send a request that changes something, to `node_id`; the caller handles error codes inside the response.

        Raises TransientError when the request was certainly not sent, Unsettled when it was sent and no answer came:
        read the state before a retry. An answer is always returned, even with a throttle time longer than
        THROTTLE_LIMIT_MS: then the next call is refused.
        """
        is_sent = False

        async def send() -> Any:
            nonlocal is_sent
            await self._manager.wait_for(self._manager.get_connection(node_id).init_future, self._request_timeout_ms)
            is_sent = True
            return await self._send(request, node_id)

        try:
            answer = self._run(send)
        except TransientError as error:
            if not is_sent:
                raise
            what = f"{type(request).__name__} was sent, but may not have been carried out: {error.message}"
            raise Unsettled(what, where=error.where, fix="read the present state before trying again") from None
        if throttle_ms := min(getattr(answer, "throttle_time_ms", None) or 0, THROTTLE_LIMIT_MS):
            self._run(lambda: self._net.sleep(throttle_ms / 1000))
        return answer

    def check(
        self, error_code: int, call: str, *, where: object = None, topic: str | None = None, group_id: str | None = None
    ) -> None:
        """Raise the error for an error code in the answer to `call` (Fetch, FindCoordinator, ...); none for 0."""
        if not error_code:
            return
        where = where or (f"group {group_id}" if group_id is not None else self.config.bootstrap_servers)
        name = error_name(error_code)
        if acl := self.missing_acl(name, call, topic=topic, group_id=group_id):
            raise NotAllowed(f"{call} is not allowed: {name}", where=where, fix=acl, error_name=name)
        error = kafka_errors.for_code(error_code)()
        if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
            fix = "the cluster creates __consumer_offsets with its first group" if topic == OFFSETS_TOPIC else None
            raise UsageError(f"topic {topic} does not exist", where=where, fix=fix)
        raise explain(error, where=where) or TransientError(f"{call}: {name}", where=where)

    def missing_acl(
        self,
        error_name: str,
        call: str,
        *,
        topic: str | None = None,
        group_id: str | None = None,
        transactional_id: str | None = None,
    ) -> str | None:
        """The ACL to grant when `call` (OffsetDelete, ...) fails with `error_name`; None for errors other than missing
        access."""
        names = {"topic": topic, "group": group_id, "transactional id": transactional_id}
        acl = missing_acl(error_name, call, names, principal=self.config.principal)
        return str(acl) if acl else None

    def named(self, error_name: str, call: str, *, topic: str | None = None, group_id: str | None = None) -> str:
        """Text with the error that `call` failed with, and the missing ACL if that is the reason."""
        acl = self.missing_acl(error_name, call, topic=topic, group_id=group_id)
        return f"{error_name} ({acl})" if acl else error_name

    def refresh(self) -> None:
        """Refresh the brokers' addresses, which may change when they restart."""
        self._admin = None  # librdkafka may keep asking a controller that is gone; a new client finds the current one
        self._run(self._manager.cluster.refresh_metadata)

    def retrying(self, work: Callable[[], T]) -> T:
        """The result of `work()`, retried after a TransientError until the time for it is up."""
        earlier_attempts = count()

        def attempt() -> T:
            if next(earlier_attempts):
                self.refresh()
            return work()

        return Retrying(
            retry=retry_if_exception_type(TransientError),
            wait=wait_random_exponential(multiplier=0.1, max=5),
            stop=stop_after_delay(self._retry_for_s),
            reraise=True,
        )(attempt)

    def _wait_ms(self, throttle_ms: int) -> int:
        """The time in ms to wait for a quota; BrokerError when that is too long."""
        if throttle_ms > THROTTLE_LIMIT_MS:
            raise BrokerError(
                f"a quota holds this client back for {throttle_ms / 1000:.0f} s",
                where=self.config.bootstrap_servers,
                fix=f"raise the quota of client id {self.config.client_id}, or read more slowly",
            )
        return throttle_ms

    async def _send(self, request: Any, node_id: int | None) -> Any:
        future = self._manager.send(request, node_id=node_id, request_timeout_ms=self._request_timeout_ms)
        return await self._manager.wait_for(future, self._request_timeout_ms)

    async def _bootstrap(self, timeout_ms: int) -> None:
        """Connect. The manager's bootstrap would retry refused credentials until the time is up, so this logs in first.

        A broker that accepts connections and stalls gets a share of the time, so that other brokers can answer in the
        rest.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        cluster, answering = self._manager.cluster, []
        servers = cluster.bootstrap_brokers()
        for number, broker in enumerate(servers):
            left_ms = max(0, int((deadline - time.monotonic()) * 1000)) // (len(servers) - number)
            connection = self._manager.get_connection(broker.node_id, left_ms, refresh_metadata_on_err=False)
            try:
                await self._manager.wait_for(connection.init_future, left_ms)
                answering.append(broker)
                break
            except REFUSED_LOGINS:
                raise
            except kafka_errors.KafkaError:
                # A refusal that comes together with the end of the connection is lost in kafka-python. But a broker
                # that sent its versions and then closes the connection on a login has refused it.
                if connection.broker_version_data is not None and self.config.sasl_mechanism:
                    raise kafka_errors.SaslAuthenticationFailedError() from None
        # The manager picks a random server and spends all of its time on it: give it the server that answers, and all
        # servers once that server has stopped answering.
        cluster.bootstrap_brokers = lambda: answering or servers
        try_ms = _TRY_MS if len(servers) > 1 else timeout_ms
        try:
            while True:
                left_ms = max(0, int((deadline - time.monotonic()) * 1000))
                try:
                    await self._manager.bootstrap_async(min(left_ms, try_ms))
                    return
                except kafka_errors.KafkaTimeoutError:
                    answering.clear()
                    if left_ms <= try_ms:
                        raise
                    try_ms *= 2
        finally:
            del cluster.bootstrap_brokers

    def _run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def awaited() -> Any:
            return await work()

        try:
            return self._manager.run(awaited)
        except kafka_errors.KafkaError as error:
            raise explain(error, where=self.config.bootstrap_servers) or self._unreachable(error) from None

    def _unreachable(self, error: object) -> SextonError:
        """The error for a host where nothing listens, or where the listener does not answer as a broker."""
        host, _, port = self.config.bootstrap_servers.split(",")[0].strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
        except (OSError, ValueError) as reason:
            said = getattr(reason, "strerror", None) or str(reason)
            fix = "is the broker running, and is this its address?"
            return TransientError(f"no broker answers: {said}", where=self.config.bootstrap_servers, fix=fix)
        return TransientError(
            f"the broker gives no answer in time ({error})",
            where=self.config.bootstrap_servers,
            fix=f"is security.protocol {self.config.security_protocol} right? is the broker overloaded?",
        )
