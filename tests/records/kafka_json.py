"""Show decoded fields as Kafka's generated JSON converters do (what kafka-dump-log prints), to compare the two."""

import base64
from typing import Any
from uuid import UUID

from sexton.records.schema import Array, Blob, Field, Fixed, Kind, Schema, Struct, Text
from tests.record_fields import as_fields


def as_kafka_json(schema: Schema, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Kafka's JSON of a decoded key or value of `version`."""
    return _struct(schema.fields, version, values)


def _struct(fields: tuple[Field, ...], version: int, values: dict[str, Any]) -> dict[str, Any]:
    assert list(values) == [field.name for field in fields]
    return {
        field.kafka_name: _value(field.kind, version, values[field.name])
        for field in fields
        # A tagged field that has its default is left out.
        if field.is_in(version) and not (field.tag is not None and values[field.name] == as_fields(field.absent))
    }


def _value(kind: Kind, version: int, value: Any) -> Any:
    match kind:
        case _ if value is None:
            return None
        case Struct():
            return _struct(kind.fields, version, value)
        case Array():
            return [_value(kind.item, version, item) for item in value]
        case Blob():
            return base64.b64encode(value).decode()
        case Fixed() if isinstance(value, UUID):
            return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
        case Fixed() | Text():
            return value
