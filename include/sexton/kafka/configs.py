"""Settings as a cluster reports them (DescribeConfigs): those of its brokers, and those of the offsets topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from sexton.archive.cluster_metadata import differences_text
from sexton.errors import BrokerError
from sexton.kafka.failures import error_name
from sexton.kafka.session import ClusterSession

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DELETE_RETENTION, MAX_MESSAGE_BYTES = "delete.retention.ms", "max.message.bytes"
RETENTION_MINUTES = "offsets.retention.minutes"
OF_COORDINATORS = ("offset.metadata.max.bytes", "inter.broker.protocol.version")
"""Settings of a broker that decide what its coordinator takes and appends, besides those that begin with `offsets.`."""
OF_APPENDS = ("compression.type", "message.format.version")
"""Settings of the offsets topic that decide how a broker writes what its coordinator appends."""
UNTOLD_RETENTION = f"the offsets topic's {DELETE_RETENTION} is not known, Kafka's default is taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSettings:
    """Settings as a cluster reports them; `brokers_differ` as in ClusterMetadata."""

    broker: dict[str, str]
    topic: dict[str, str]
    brokers_differ: dict[str, dict[str, str]]


def reported_settings(session: ClusterSession, topic: str) -> tuple[ReportedSettings, list[str]]:
    """The settings that decide how offsets are kept and written: of the broker with the lowest id, and of the offsets
    topic.

    Every broker is asked, since each decides for the log partitions that it leads. A setting that is not reported is
    left out, with a warning that names the ACL.
    """
    first, *others = session.broker_ids
    keys = [DELETE_RETENTION, MAX_MESSAGE_BYTES, *OF_APPENDS]
    asked = {(BROKER_RESOURCE, str(first)): None, (TOPIC_RESOURCE, topic): keys}
    results = {one.resource_type: one for one in described(session, asked, node_id=first)}
    of_topic, of_broker = results[TOPIC_RESOURCE], results[BROKER_RESOURCE]
    warnings = [
        f"{what}: {_why_not_reported(session, result.error_code, topic)}"
        for what, result in (("the broker's settings are not known", of_broker), (UNTOLD_RETENTION, of_topic))
        if result.error_code
    ]
    brokers = {first: _of_coordinator(of_broker)}
    for broker in () if of_broker.error_code else others:
        settings, why = _of_another(session, broker, topic)
        if why is None:
            brokers[broker] = settings
        else:
            warnings.append(f"the settings of broker {broker} are not known, those of broker {first} are taken: {why}")
    reported = ReportedSettings(broker=brokers[first], topic=_texts(of_topic), brokers_differ=differences(brokers))
    return reported, [*warnings, *differences_text(reported.brokers_differ)]


def _of_another(session: ClusterSession, broker: int, topic: str) -> tuple[dict[str, str], str | None]:
    """The settings of one broker of several, or why they are not known: one that fails ends no snapshot."""
    try:
        (answer,) = described(session, {(BROKER_RESOURCE, str(broker)): None}, node_id=broker)
    except BrokerError as error:
        return {}, error.message
    return _of_coordinator(answer), _why_not_reported(session, answer.error_code, topic) if answer.error_code else None


def differences(brokers: Mapping[int, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The settings in which brokers differ, each with its value by broker id; "" where one does not report it."""
    names = sorted({name for settings in brokers.values() for name in settings})
    values = {
        name: {str(broker): settings.get(name, "") for broker, settings in sorted(brokers.items())} for name in names
    }
    return {name: reported for name, reported in values.items() if len(set(reported.values())) > 1}


def described(
    session: ClusterSession, resources: Mapping[tuple[int, str], Sequence[str] | None], *, node_id: int | None
) -> list[Any]:
    """What a broker reports of resources, by type and name: the settings that are named, or all."""
    Resource = DescribeConfigsRequest.DescribeConfigsResource  # noqa: N806 (a class)
    wanted = [
        Resource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for (kind, name), keys in resources.items()
    ]
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
    return list(session.call(request, node_id=node_id).results)


def _of_coordinator(result: Any) -> dict[str, str]:
    reported = _texts(result)
    return {name: reported[name] for name in sorted(reported) if name.startswith("offsets.") or name in OF_COORDINATORS}


def _texts(result: Any) -> dict[str, str]:
    return {item.name: item.value for item in result.configs or [] if item.value}


def _why_not_reported(session: ClusterSession, error_code: int, topic: str) -> str:
    name = error_name(error_code)
    acl = session.missing_acl(name, "DescribeConfigs", topic=topic)
    return f"{name} ({acl})" if acl else name
