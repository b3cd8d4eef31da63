"""The settings of the brokers and of the offsets topic that a snapshot recorded, as values.

broker_settings.py says what they mean to a coordinator; it is a module of its own because its import takes long.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

CODEC = "offsets.topic.compression.codec"
TOPIC_CODEC = "compression.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a snapshot recorded of the brokers and of the offsets topic; of a disk, nothing."""

    broker_settings: Mapping[str, str] = field(default_factory=dict)
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: int | None = None
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Broker ids by log partition."""

    def with_codec(self, codec: int) -> "Recorded":
        """These settings with another codec of the broker."""
        of_topic = {name: value for name, value in self.topic_settings.items() if name != TOPIC_CODEC}
        return replace(self, broker_settings={**self.broker_settings, CODEC: str(codec)}, topic_settings=of_topic)
