"""Errors between a client and a cluster, in one line each.

A transient failure is a TransientError; a request that was sent and may have been carried out is Unsettled; after a
refusal a person has to act.
"""

import kafka.errors as kafka_errors

from sexton.errors import BrokerError, SextonError, UsageError

REFUSED_LOGINS = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)
UNREACHABLE = (
    kafka_errors.KafkaTimeoutError,
    kafka_errors.RequestTimedOutError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.NodeNotReadyError,
)

RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}
"""Kafka's names of the errors that kafka-python names differently."""

AMBIGUOUS = frozenset(
    {
        "UNKNOWN_SERVER_ERROR",
        "REQUEST_TIMED_OUT",
        "NETWORK_EXCEPTION",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR",
    }
)
"""Errors after which records may be in the log: they were appended and not replicated in time, or leadership moved
(CoordinatorOperationExceptionHelper turns REQUEST_TIMED_OUT into COORDINATOR_NOT_AVAILABLE)."""


class TransientError(BrokerError):
    """A transient failure: a leader moves, a coordinator loads, a connection broke."""


class Unsettled(BrokerError):
    """A request that changes something may or may not have been carried out: read the state before retrying."""


class NamedError(SextonError):
    """An error that has a name in Kafka: `error_name`."""

    def __init__(self, message: str, *, where: object = None, fix: str | None = None, error_name: str = "") -> None:
        self.error_name = error_name
        super().__init__(message, where=where, fix=fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), {"where": self.where, "fix": self.fix, "error_name": self.error_name}


class NotAllowed(NamedError, UsageError):
    """This principal lacks an ACL, which the error's `fix` names."""


def error_name(error_code: int) -> str:
    """Kafka's name of an error code, as its documentation lists it today."""
    if error_code in RENAMED:
        return RENAMED[error_code]
    if error_code not in kafka_errors.kafka_errors:
        return f"ERROR_{error_code}"  # of a later release
    name: str = kafka_errors.for_code(error_code).message
    return name


def explain(error: kafka_errors.KafkaError, *, where: object) -> SextonError | None:
    """The error for an exception of kafka-python, None when it only says that the connection failed."""
    if isinstance(error, REFUSED_LOGINS):
        return UsageError(
            "the cluster refuses these credentials", where=where, fix="check user name, password, mechanism"
        )
    if isinstance(error, UNREACHABLE):
        return None
    kind = TransientError if error.retriable else BrokerError
    return kind(f"{type(error).__name__.removesuffix('Error')}: {error}", where=where)
