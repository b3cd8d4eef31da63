"""How the broker of a run writes tombstones, by the settings that were recorded with the snapshot."""

from sexton.coordinator.api.batches import TopicSettings
from sexton.coordinator.api.broker_settings import broker_settings
from sexton.coordinator.profiles import profile_of
from sexton.runs.folder import RunRecord


def topic_settings_of(record: RunRecord) -> TopicSettings:
    """Codec and record format of the broker's appends; Kafka's defaults where nothing was recorded."""
    return broker_settings(
        record.broker_settings,
        record.topic_settings,
        max_message_bytes=record.max_message_bytes,
        profile=profile_of(record.profile),
    ).topic
