"""The record types of `__consumer_offsets`, each declared once, and what decodes and encodes them.

Here are layouts alone (KIP-211, 320, 345, 848, 932, 1071): offsets.py (types 0, 1), classic.py (2), with the
declaration language in schema.py and Kafka's primitives in wire.py. What a record means is in sexton.coordinator;
where its bytes lie in sexton.log.
"""

from sexton.records.record_type import RecordType, Releases
from sexton.records.registry import (
    RECORD_TYPES,
    MalformedRecord,
    UnknownRecordType,
    decode_key,
    decode_subscription,
    decode_value,
    encode_key,
    encode_value,
)
from sexton.records.schema import ZERO_UUID, Schema
from sexton.records.utf8 import decode_utf8
from sexton.records.uuids import kafka_uuid, parse_kafka_uuid

__all__ = [
    "RECORD_TYPES",
    "ZERO_UUID",
    "MalformedRecord",
    "RecordType",
    "Releases",
    "Schema",
    "UnknownRecordType",
    "decode_key",
    "decode_subscription",
    "decode_utf8",
    "decode_value",
    "encode_key",
    "encode_value",
    "kafka_uuid",
    "parse_kafka_uuid",
]
