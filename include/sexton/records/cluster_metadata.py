"""The records of `__cluster_metadata` that describe a cluster: topics, settings, features, brokers.

A value is a frame version, a type and a version as unsigned varints, then the message (MetadataRecordSerde,
metadata/src/main/resources/common/metadata). All messages are flexible. Other types are UNREAD: they concern no topic,
setting, feature or broker's release.
"""

from typing import Any, Final
from uuid import UUID

from sexton.errors import LogError
from sexton.records import wire
from sexton.records.schema import ID, INT8, INT16, INT32, INT64, UINT16, Array, Schema, Struct, Text, record, wire_field

UNREAD: Final = None
_FRAME_VERSION = 1


@record
class Endpoint:
    """Where a broker listens."""

    name: str = wire_field(Text())
    host: str = wire_field(Text())
    port: int = wire_field(UINT16)
    security_protocol: int = wire_field(INT16)


@record
class SupportedFeature:
    """The levels of a feature that a broker supports."""

    name: str = wire_field(Text())
    min_supported_version: int = wire_field(INT16)
    max_supported_version: int = wire_field(INT16)


@record
class RegisterBroker:
    """A broker that has started; a later registration with the same id replaces it."""

    broker_id: int = wire_field(INT32)
    is_migrating_zk_broker: int = wire_field(INT8, since=2, default=0)
    incarnation_id: UUID = wire_field(ID)
    broker_epoch: int = wire_field(INT64)
    end_points: tuple[Endpoint, ...] = wire_field(Array(Struct(Endpoint)))
    features: tuple[SupportedFeature, ...] = wire_field(Array(Struct(SupportedFeature)))
    rack: str | None = wire_field(Text(nullable=True))
    fenced: int = wire_field(INT8)
    in_controlled_shutdown: int = wire_field(INT8, since=1, default=0)
    log_dirs: tuple[UUID, ...] = wire_field(Array(ID), since=3, tag=0, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = wire_field(Array(ID, nullable=True), since=4, tag=1, default=None)


@record
class UnregisterBroker:
    """A broker that was removed from the cluster."""

    broker_id: int = wire_field(INT32)
    broker_epoch: int = wire_field(INT64)


@record
class Topic:
    """A topic that was created."""

    name: str = wire_field(Text())
    topic_id: UUID = wire_field(ID)


_OPTIONAL_BROKERS = Array(INT32, nullable=True)


@record
class Partition:
    """A partition that was created."""

    partition_id: int = wire_field(INT32)
    topic_id: UUID = wire_field(ID)
    replicas: tuple[int, ...] = wire_field(Array(INT32))
    isr: tuple[int, ...] = wire_field(Array(INT32))
    removing_replicas: tuple[int, ...] = wire_field(Array(INT32))
    adding_replicas: tuple[int, ...] = wire_field(Array(INT32))
    leader: int = wire_field(INT32)
    leader_recovery_state: int = wire_field(INT8, tag=0, default=0)
    leader_epoch: int = wire_field(INT32)
    partition_epoch: int = wire_field(INT32)
    directories: tuple[UUID, ...] = wire_field(Array(ID), since=1, default=())
    eligible_leader_replicas: tuple[int, ...] | None = wire_field(_OPTIONAL_BROKERS, since=2, tag=1, default=None)
    last_known_elr: tuple[int, ...] | None = wire_field(_OPTIONAL_BROKERS, since=2, tag=2, default=None)


@record
class Config:
    """A setting of a topic, a broker or (with an empty name) all brokers; a `value` of None removes it."""

    resource_type: int = wire_field(INT8)
    resource_name: str = wire_field(Text())
    name: str = wire_field(Text())
    value: str | None = wire_field(Text(nullable=True))


@record
class RemoveTopic:
    """A topic that was deleted."""

    topic_id: UUID = wire_field(ID)


@record
class FeatureLevel:
    """The level of a feature; level 0 removes the feature."""

    name: str = wire_field(Text())
    feature_level: int = wire_field(INT16)


@record
class BeginTransaction:
    """The following records are applied at EndTransaction."""

    name: str | None = wire_field(Text(nullable=True), tag=0, default=None)


@record
class EndTransaction:
    """The records since BeginTransaction are applied."""


@record
class AbortTransaction:
    """The records since BeginTransaction are dropped."""

    reason: str | None = wire_field(Text(nullable=True), tag=0, default=None)


_Change = RegisterBroker | UnregisterBroker | Topic | Partition | Config | RemoveTopic | FeatureLevel
MetadataRecord = _Change | BeginTransaction | EndTransaction | AbortTransaction
_TYPES: dict[int, tuple[type[Any], int]] = {
    0: (RegisterBroker, 4), 1: (UnregisterBroker, 0), 2: (Topic, 0), 3: (Partition, 2), 4: (Config, 0),
    9: (RemoveTopic, 0), 12: (FeatureLevel, 0),
    23: (BeginTransaction, 0), 24: (EndTransaction, 0), 25: (AbortTransaction, 0),
}  # fmt: skip
"""The class of each type, and its newest known version."""
_SCHEMAS = {number: Schema(cls, flexible_since=0) for number, (cls, _) in _TYPES.items()}


def decode_metadata(value: bytes) -> MetadataRecord | None:
    """The record, or UNREAD; LogError (malformed_value) for bytes that Kafka would not read, or an unknown newer
    version."""
    try:
        frame, pos = wire.read_uvarint(value, 0)
        number, pos = wire.read_uvarint(value, pos)
        version, pos = wire.read_uvarint(value, pos)
        if frame != _FRAME_VERSION:
            raise LogError("malformed_value", f"frame version {frame} of a metadata record, {_FRAME_VERSION} is known")
        if number not in _TYPES:
            return UNREAD
        cls, newest = _TYPES[number]
        if not 0 <= version <= newest:
            what = f"version {version} of {cls.__name__}: versions up to {newest} are known"
            raise LogError("malformed_value", what)
        found: MetadataRecord
        found, pos = _SCHEMAS[number].reader(version)(wire.measured(value), pos)
    except (wire.Unreadable, wire.TooManyItems) as error:
        raise LogError("malformed_value", str(error)) from None
    if pos != len(value):
        raise LogError("malformed_value", f"{len(value) - pos} bytes are left after a {type(found).__name__}")
    return found
