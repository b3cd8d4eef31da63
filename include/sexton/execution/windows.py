"""Statistics of the windows of an attempt's calls."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of the calls: each is the time in ms from a preflight check to the answer. All 0 without a call."""

    steps: int = 0
    sum_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0

    @classmethod
    def of(cls, windows_ms: Sequence[float]) -> "Windows":
        if not windows_ms:
            return cls()
        ordered = sorted(windows_ms)
        return cls(
            steps=len(ordered),
            sum_ms=round(sum(ordered), 3),
            p50_ms=ordered[(len(ordered) - 1) // 2],
            p99_ms=ordered[-(-99 * len(ordered) // 100) - 1],
            max_ms=ordered[-1],
        )
