"""Statistics of the windows of an attempt's calls. A window lasts from the preflight check to the call's answer."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Number and lengths of windows; all 0 if there was no call."""

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
