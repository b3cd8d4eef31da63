"""The settings of the brokers and of the offsets topic in a snapshot's metadata, as values.

append_settings.py interprets them for a coordinator. This is a separate module because append_settings.py takes long to
import.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

CODEC = "offsets.topic.compression.codec"
TOPIC_CODEC = "compression.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Recorded settings of the brokers and of the offsets topic; empty if the log was read from a broker's disk."""

    broker_settings: Mapping[str, str] = field(default_factory=dict)
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: int | None = None
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Broker ids by log partition."""

    def with_codec(self, codec: int) -> "Recorded":
        """These settings with another codec of the broker."""
        of_topic = {name: value for name, value in self.topic_settings.items() if name != TOPIC_CODEC}
        return replace(self, broker_settings={**self.broker_settings, CODEC: str(codec)}, topic_settings=of_topic)
