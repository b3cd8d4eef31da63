"""A position in the archived bytes of a log partition, as runs and checkpoints record it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Where reading of a lineage stops: before the batch at `cut`.

    That batch is at byte `position` of the archived segment that begins at log_offset `segment`. At byte 0 the segment
    may not exist yet: reading stops at the end of the archived lineage.
    """

    lineage: str
    cut: int
    segment: int
    position: int

    @property
    def order(self) -> tuple[int, int]:
        """Sort key for positions of one lineage."""
        return self.segment, self.position
