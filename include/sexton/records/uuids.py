"""Kafka's text form of a topic id: base64url without padding, where the zero UUID means "none"."""

import base64
import re
from uuid import UUID

from sexton.records.schema import ZERO_UUID


def kafka_uuid(value: UUID) -> str | None:
    """Write a UUID as Kafka's tools do (22 characters); None for the zero UUID."""
    if value == ZERO_UUID:
        return None
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def parse_kafka_uuid(text: str) -> UUID:
    """Read Kafka's text form of a UUID; raises ValueError for anything but 22 characters of base64url."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text):
        raise ValueError(f"{text!r} is not a Kafka id: 22 characters of base64url expected")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
