"""Recordings of real brokers (told in tests/golden/README.md), as the coordinator's tests read them."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sexton.coordinator.loading import Loaded, load

GOLDEN = Path(__file__).parent.parent / "golden"
CAP_BYTES = 1 << 26


@dataclass(frozen=True)
class EdgeCase:
    """A history made by hand, and what a real broker answered after loading it."""

    name: str
    group_id: str
    log_partition: int
    partition_count: int
    segment: bytes
    answers: dict[str, Any]

    def load(self) -> Loaded:
        return load([self.segment], cap_bytes=CAP_BYTES)


def edge_cases(release: str) -> dict[str, EdgeCase]:
    return {
        case["case"]: EdgeCase(
            name=case["case"],
            group_id=case["group"],
            log_partition=case["log_partition"],
            partition_count=case["log_partitions"],
            segment=base64.b64decode(case["segment"]),
            answers=case[release],
        )
        for case in lines(GOLDEN / "edge-cases.jsonl")
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def segments(folder: Path) -> Iterator[tuple[int, list[bytes]]]:
    """(log partition, its segments in order)."""
    for directory in sorted(folder.glob("__consumer_offsets-*")):
        yield int(directory.name.rpartition("-")[2]), [path.read_bytes() for path in sorted(directory.glob("*.log"))]


@cache
def load_recording(name: str, *, swept: bool = False, as_of_ms: int | None = None) -> dict[int, Loaded]:
    """Every log partition of a recording, loaded."""
    folder = GOLDEN / name / ("swept" if swept else "before")
    return {
        log_partition: load(chunks, cap_bytes=CAP_BYTES, as_of_ms=as_of_ms)
        for log_partition, chunks in segments(folder)
    }
