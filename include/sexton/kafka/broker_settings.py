"""Settings reported by a cluster (DescribeConfigs): of its brokers, and of the offsets topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigEntry, ConfigResource, ResourceType

from sexton.archive.cluster_metadata import differences_text
from sexton.errors import BrokerError
from sexton.kafka.failures import error_name
from sexton.kafka.session import ClusterSession

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
DELETE_RETENTION, MAX_MESSAGE_BYTES = "delete.retention.ms", "max.message.bytes"
RETENTION_MINUTES = "offsets.retention.minutes"
OF_COORDINATORS = ("offset.metadata.max.bytes", "inter.broker.protocol.version", "transactional.id.expiration.ms")
"""Broker settings that decide what its coordinators accept, append and expire, in addition to those that begin with
`offsets.`."""
OF_APPENDS = ("compression.type", "message.format.version")
"""Settings of the offsets topic that decide how a broker writes its coordinators' appends."""
OF_TOPIC = (DELETE_RETENTION, MAX_MESSAGE_BYTES, *OF_APPENDS)
UNTOLD_RETENTION = f"the offsets topic's {DELETE_RETENTION} is not known, Kafka's default is taken"

Resource: TypeAlias = tuple[ResourceType, str]
"""A resource with settings: its type, and its name or id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSettings:
    """Settings as a cluster reports them; `brokers_differ` as in ClusterMetadata."""

    broker: dict[str, str]
    topic: dict[str, str]
    brokers_differ: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The settings of a resource that have a value; none where the broker answers with an error instead."""

    settings: dict[str, str] = field(default_factory=dict)
    error_code: int = 0


def reported_settings(session: ClusterSession, topic: str) -> tuple[ReportedSettings, list[str]]:
    """The settings of the broker with the lowest id and of the offsets topic that decide how offsets are kept and
    written; and warnings.

    Every broker is asked, since each decides for the log partitions that it leads. If settings are not reported, they
    are left out, and a warning names the missing ACL. A topic that the cluster does not show has no settings.
    """
    first, *others = session.broker_ids
    of_broker, of_topic = described(session, (BROKER, str(first)), (TOPIC, topic))
    warnings = [
        f"{what}: {session.named(error_name(result.error_code), 'DescribeConfigs', topic=topic)}"
        for what, result in (("the broker's settings are not known", of_broker), (UNTOLD_RETENTION, of_topic))
        if result.error_code not in (0, KafkaError.UNKNOWN_TOPIC_OR_PART)
    ]
    brokers = {first: _of_coordinator(of_broker)}
    for broker in () if of_broker.error_code else others:
        try:
            (answer,) = described(session, (BROKER, str(broker)))
            code = answer.error_code
            why = session.named(error_name(code), "DescribeConfigs", topic=topic) if code else None
        except BrokerError as error:  # a broker that does not answer does not end the snapshot
            why = error.message
        if why is None:
            brokers[broker] = _of_coordinator(answer)
        else:
            warnings.append(f"the settings of broker {broker} are not known, those of broker {first} are taken: {why}")
    reported = ReportedSettings(
        broker=brokers[first],
        topic={name: of_topic.settings[name] for name in OF_TOPIC if name in of_topic.settings},
        brokers_differ=differences(brokers),
    )
    return reported, [*warnings, *differences_text(reported.brokers_differ)]


def differences(brokers: Mapping[int, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The settings in which brokers differ, each with its value by broker id; "" where a broker does not report it."""
    names = sorted({name for settings in brokers.values() for name in settings})
    values = {
        name: {str(broker): settings.get(name, "") for broker, settings in sorted(brokers.items())} for name in names
    }
    return {name: reported for name, reported in values.items() if len(set(reported.values())) > 1}


def described(session: ClusterSession, *resources: Resource) -> list[Described]:
    """The reported settings of each resource. At most one may be a broker, which is asked for its own settings."""
    asked = [ConfigResource(kind, name) for kind, name in resources]
    answers = session.ask_admin(lambda admin: admin.describe_configs(asked))
    return [_described(answers[resource]) for resource in asked]


def _described(answer: dict[str, ConfigEntry] | KafkaError) -> Described:
    if isinstance(answer, KafkaError):
        return Described(error_code=answer.code())
    return Described(settings={name: entry.value for name, entry in answer.items() if entry.value})


def _of_coordinator(reported: Described) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(reported.settings.items())
        if name.startswith("offsets.") or name in OF_COORDINATORS
    }
