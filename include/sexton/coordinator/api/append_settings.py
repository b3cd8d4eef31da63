"""A coordinator's limits, codec and record format, from recorded settings of a broker and of the offsets topic.

Every release writes the tombstones of its sweep like commits: in offsets.topic.compression.codec and in the record
format of the log (OffsetManager of 0.8.2, GroupMetadataManager.cleanupGroupMetadata, CoordinatorRuntime with
Builder.withCompression from 4.0 on). The log recompresses if the topic has a compression.type other than `producer`,
with which brokers create it (LogValidator, BrokerCompressionType).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sexton.coordinator.api.append_errors import ALL_IN_SYNC
from sexton.coordinator.api.commit import MAX_METADATA_LENGTH
from sexton.coordinator.api.configs import CODEC, TOPIC_CODEC, Recorded
from sexton.coordinator.batches import BATCH_FORMAT, MAX_BATCH_BYTES, TopicSettings
from sexton.coordinator.profile import Profile
from sexton.coordinator.releases import message_format_of
from sexton.log import codec as codecs

METADATA = "offset.metadata.max.bytes"
ACKS, TIMEOUT = "offsets.commit.required.acks", "offsets.commit.timeout.ms"
REPLICATION = "offsets.topic.replication.factor"
COMMIT_TIMEOUT_MS = 5_000
"""Kafka's default of offsets.commit.timeout.ms."""
_MAX_INT16, _MAX_INT32 = 2**15 - 1, 2**31 - 1
MESSAGE_FORMAT, PROTOCOL = "message.format.version", "inter.broker.protocol.version"
_AS_PRODUCED, _UNCOMPRESSED = "producer", "uncompressed"
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSettings:
    """The settings of a coordinator; `warnings` name recorded values that are impossible."""

    topic: TopicSettings
    max_metadata_length: int
    profile: Profile
    """The rules, with the value versions that the inter-broker protocol allows."""
    required_acks: int = ALL_IN_SYNC
    """Number of replicas that must have an append before it is answered: -1 for all in-sync replicas, as always from
    4.0 on."""
    commit_timeout_ms: int = COMMIT_TIMEOUT_MS
    """How long an append waits for replicas until it ends in REQUEST_TIMED_OUT; from 4.0 on this applies to all writes
    of the coordinator."""
    warnings: tuple[str, ...] = ()


def append_settings(recorded: Recorded, *, profile: Profile) -> AppendSettings:
    """A coordinator's settings from the recorded ones; Kafka's default for settings that were not recorded."""
    broker, topic, max_message_bytes = recorded.broker_settings, recorded.topic_settings, recorded.max_message_bytes
    message_format = _message_format(broker, topic, profile)
    codec, warning = _codec(broker, topic)
    magic = profile.record_format if message_format is None else message_format
    warning = warning or impossible_codec(codec, magic, profile)
    warnings = [] if warning is None else [f"the offsets topic's codec is taken to be none: {warning}"]
    most_acks = _number(broker, REPLICATION, _MAX_INT16, at_least=1, at_most=_MAX_INT16, warnings=warnings)
    acks = _number(broker, ACKS, ALL_IN_SYNC, at_least=ALL_IN_SYNC, at_most=most_acks, warnings=warnings)
    return AppendSettings(
        topic=TopicSettings(
            codec=codecs.NONE if warning else codec,
            message_format=message_format,
            max_message_bytes=MAX_BATCH_BYTES if max_message_bytes is None else max_message_bytes,
        ),
        profile=_writing(broker, profile),
        max_metadata_length=int(broker.get(METADATA) or MAX_METADATA_LENGTH),
        required_acks=ALL_IN_SYNC if profile.is_java else acks,
        commit_timeout_ms=_number(
            broker, TIMEOUT, COMMIT_TIMEOUT_MS, at_least=1, at_most=_MAX_INT32, warnings=warnings
        ),
        warnings=tuple(warnings),
    )


def impossible_codec(codec: int, magic: int, profile: Profile) -> str | None:
    """Text saying that the release writes no batch of a codec in a record format; None where it does."""
    fits = codec != codecs.ZSTD or magic >= BATCH_FORMAT
    if fits and magic <= profile.record_format and codec <= profile.newest_codec:
        return None
    return f"Kafka {'.'.join(map(str, profile.release))} does not write {codecs.CODECS[codec]} in format {magic}"


def _number(
    broker: Mapping[str, str], name: str, default: int, *, at_least: int, at_most: int, warnings: list[str]
) -> int:
    """A recorded number within the limits that a broker starts with (KafkaConfig); else the default, and a warning."""
    text = broker.get(name) or str(default)
    if text.removeprefix("-").isdecimal() and at_least <= int(text) <= at_most:
        return int(text)
    warnings.append(f"{name} is taken to be {default}: a broker does not start with {text}")
    return default


def _writing(broker: Mapping[str, str], profile: Profile) -> Profile:
    """The profile with the value versions that the inter-broker protocol allows up to 3.9
    (GroupMetadataManager.offsetCommitValue, groupMetadataValue)."""
    protocol, text = _release(broker.get(PROTOCOL)), broker.get(PROTOCOL, "")
    if protocol is None or profile.is_java or profile.group_value_version is None:
        return profile
    of_offset = 2 if text.startswith("2.1-IV0") else 1 if protocol < (2, 1) else 3
    of_group = sum(protocol >= since for since in ((0, 10, 1), (2, 1), (2, 3)))
    return replace(
        profile,
        offset_value_version=min(profile.offset_value_version, of_offset),
        group_value_version=min(profile.group_value_version, of_group),
    )


def _codec(broker: Mapping[str, str], topic: Mapping[str, str]) -> tuple[int, str | None]:
    """The codec, and why the recorded one is not used, if so."""
    of_topic, of_broker = topic.get(TOPIC_CODEC, _AS_PRODUCED), broker.get(CODEC, str(codecs.NONE))
    if of_topic == _UNCOMPRESSED:
        return codecs.NONE, None
    if of_topic in codecs.CODECS:
        return codecs.CODECS.index(of_topic), None
    if of_topic != _AS_PRODUCED:
        return codecs.NONE, f"{TOPIC_CODEC} is {of_topic}"
    if not of_broker.isdecimal() or int(of_broker) >= len(codecs.CODECS):
        return codecs.NONE, f"{CODEC} is {of_broker}"
    return int(of_broker), None


def _message_format(broker: Mapping[str, str], topic: Mapping[str, str], profile: Profile) -> int | None:
    """The magic set for the topic, None where it is the release's newest."""
    configured = _release(topic.get(MESSAGE_FORMAT))
    protocol = min(_release(broker.get(PROTOCOL)) or profile.release, profile.release)
    magic = None if configured is None else message_format_of(configured, protocol)
    return None if magic is None or magic >= profile.record_format else magic


def _release(text: str | None) -> tuple[int, ...] | None:
    """`0.10.2-IV0` as (0, 10, 2)."""
    found = _RELEASE.match(text or "")
    return tuple(int(part) for part in found[0].split(".")) if found else None
