"""The load that never ends: a batch that does not fit into the buffer of a coordinator before 2.0.1 (KAFKA-7286).

GroupMetadataManager.doLoadGroupsAndOffsets (0.8.2: OffsetManager.loadOffsets) reads the log into a buffer of
offsets.load.buffer.size bytes and continues after the last whole batch in it. A larger batch never fits: the
coordinator reads from the same position for ever, and the load of the log partition never ends.

For whole segments: sexton.kernels.endless_load.
"""

from dataclasses import dataclass

from sexton.coordinator.profile import Profile

NEVER_ENDS = "never_ends"
"""The outcome of such a load in load_profile."""
BUFFER = "offsets.load.buffer.size"
DEFAULT_BUFFER_BYTES = 5 * 1024 * 1024
"""Kafka's default, in every release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """Where a load never ends: the first batch that does not fit into the buffer."""

    log_offset: int
    batch_bytes: int
    buffer_bytes: int

    def text(self, largest_batch_bytes: int) -> str:
        """The consequence and the remedy; `largest_batch_bytes` is that of the whole log partition."""
        return (
            f"log_offset {self.log_offset}: the load never ends, a batch of {self.batch_bytes} bytes is larger than "
            f"{BUFFER} ({self.buffer_bytes}; KAFKA-7286): raise it to at least {largest_batch_bytes} and restart"
        )


def is_too_large(batch_bytes: int, *, buffer_bytes: int | None, profile: Profile) -> bool:
    """Whether a load never gets past a batch of that size; a buffer of None fits every batch."""
    return buffer_bytes is not None and batch_bytes > buffer_bytes and not profile.grows_load_buffer
