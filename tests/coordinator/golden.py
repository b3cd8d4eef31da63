"""Recordings of real brokers (told in tests/golden/README.md), as the coordinator's tests read them."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sexton.coordinator.loading import Loaded
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.log.batch import Batch, read_batches, read_records
from tests.fates import load
from tests.golden.check_audit import GRACE_MS

GOLDEN = Path(__file__).parent.parent / "golden"
CAP_BYTES = 1 << 26
RELEASES: Mapping[str, str] = {
    f"kafka-{name}": name.partition("-")[0]
    for name in (
        *("4.3.1-plain", "4.3.1-lz4", "4.3.1-partial", "4.0.0", "3.9.1", "2.8.2-plain", "0.9.0.1", "4.4.0", "4.2.2"),
        *("4.1.2", "3.6.2", "3.5.2", "2.4.1", "2.3.1", "2.1.1", "2.0.1", "1.1.1", "0.11.0.3", "0.10.2.2"),
    )
}
"""The broker of every recording."""


@dataclass(frozen=True)
class Case:
    """A history in a log partition of its own, and what a real broker answered after loading it."""

    name: str
    group_id: str
    log_partition: int
    partition_count: int
    segment: bytes
    """Without a batch where the broker had nothing to load."""
    answers: dict[str, Any]
    profile: Profile

    def load(self) -> Loaded:
        return load([self.segment], cap_bytes=CAP_BYTES, profile=self.profile)


def cases(path: Path, release: str, answers: str) -> Mapping[str, Case]:
    """The histories of a file by name, with what the broker of `release` answered, which lies under `answers`."""
    return {
        case["case"]: Case(
            name=case["case"], group_id=case["group"], log_partition=case["log_partition"],
            partition_count=case["log_partitions"], segment=base64.b64decode(case["segment"] or ""),
            answers=case[answers], profile=of_broker(release),
        )
        for case in lines(path)
    }  # fmt: skip


@cache
def edge_cases(release: str) -> Mapping[str, Case]:
    """Every history made by hand with the answers of the broker of `release`: 4.3.1 or 2.8.2."""
    return cases(GOLDEN / "edge-cases.jsonl", release, release)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def segments(folder: Path) -> Iterator[tuple[int, list[bytes]]]:
    """(log partition, its segments in order)."""
    for directory in sorted(folder.glob("__consumer_offsets-*")):
        yield int(directory.name.rpartition("-")[2]), [path.read_bytes() for path in sorted(directory.glob("*.log"))]


def data_batches(name: str, stage: str = "before") -> Iterator[tuple[Batch, list[Any]]]:
    """(batch, its records) of every data batch of a recording, in log order."""
    for _, chunks in segments(GOLDEN / name / stage):
        for batch in (batch for chunk in chunks for batch in read_batches(chunk)):
            if isinstance(batch, Batch) and not batch.is_control:
                yield batch, list(read_records(batch, cap_bytes=CAP_BYTES))


def sweeps(name: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(instant, batches of all log partitions) of the broker's sweeps, which are seconds apart."""
    sweeps_file = GOLDEN / name / "sweeps.jsonl"
    left = lines(sweeps_file) if sweeps_file.exists() else []
    while left:
        at_ms = min(batch["at_ms"] for batch in left)
        yield at_ms, [batch for batch in left if batch["at_ms"] <= at_ms + GRACE_MS]
        left = [batch for batch in left if batch["at_ms"] > at_ms + GRACE_MS]


@cache
def load_recording(
    name: str, *, swept: bool = False, as_of_ms: int | None = None, release: str | None = None
) -> dict[int, Loaded]:
    """Every log partition of a recording, loaded by the rules of the broker that wrote it, or of another `release`."""
    folder = GOLDEN / name / ("swept" if swept else "before")
    profile = of_broker(release or RELEASES[name])
    return {
        log_partition: load(chunks, cap_bytes=CAP_BYTES, profile=profile, as_of_ms=as_of_ms)
        for log_partition, chunks in segments(folder)
    }
