"""The record types of `__consumer_offsets`, each declared once, with their decoders and encoders.

This package has layouts only: offsets.py (types 0 and 1), classic.py (2), consumer.py (3 to 8 and 16, KIP-848),
share.py (9 to 15, KIP-932), streams.py (17 to 23, KIP-1071), with the language of declarations in schema.py and Kafka's
primitives in wire.py. The meaning of records is in sexton.coordinator; batches are in sexton.log.
"""

from sexton.records.classic import GroupMetadataKey, GroupMetadataMember, GroupMetadataValue
from sexton.records.consumer import GroupKey, MemberKey, RegularExpressionKey
from sexton.records.offsets import OFFSET_TYPES, OffsetCommitKey, OffsetCommitValue
from sexton.records.record_type import RecordType, Releases
from sexton.records.registry import (
    RECORD_TYPES,
    Key,
    MalformedRecord,
    UnknownRecordType,
    Value,
    decode_key,
    decode_subscription,
    decode_value,
    encode_key,
    encode_value,
)
from sexton.records.schema import ZERO_UUID, Schema
from sexton.records.utf8 import decode_utf8
from sexton.records.uuids import kafka_uuid, parse_kafka_uuid
from sexton.records.wire import MAX_ITEMS

__all__ = [
    "MAX_ITEMS",
    "OFFSET_TYPES",
    "RECORD_TYPES",
    "ZERO_UUID",
    "GroupKey",
    "GroupMetadataKey",
    "GroupMetadataMember",
    "GroupMetadataValue",
    "Key",
    "MalformedRecord",
    "MemberKey",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "RecordType",
    "RegularExpressionKey",
    "Releases",
    "Schema",
    "UnknownRecordType",
    "Value",
    "decode_key",
    "decode_subscription",
    "decode_utf8",
    "decode_value",
    "encode_key",
    "encode_value",
    "kafka_uuid",
    "parse_kafka_uuid",
]
