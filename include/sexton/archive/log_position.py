"""A position in the archived bytes of a log partition, as runs and checkpoints note it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Where reading of a lineage stops: before the batch at `cut`, which is at byte `position` of the archived segment
    that begins at log_offset `segment`; at byte 0 of one that may not be there yet, where all is read."""

    lineage: str
    cut: int
    segment: int
    position: int

    @property
    def order(self) -> tuple[int, int]:
        """Positions of one lineage compare by this."""
        return self.segment, self.position
