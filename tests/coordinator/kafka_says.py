"""Histories that real brokers judged otherwise than Sexton once did (tests/golden/kafka-says/README.md)."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.compute as pc

from sexton.coordinator import expiry
from sexton.coordinator.loading import load
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.coordinator.questions.coordinator import Coordinator
from sexton.coordinator.tombstones import Tombstone
from sexton.kernels.state import finish
from sexton.kernels.sweep import held_offsets, judge, plan
from tests.coordinator.golden import CAP_BYTES, GOLDEN, lines
from tests.coordinator.questions.broker import coordinator_of
from tests.kernels.compare import fold_bytes

FOLDER = GOLDEN / "kafka-says"
RETENTION_MS = 1
NOW_MS = 1 << 42
"""Long after anything in these histories: every offset is due."""


@dataclass(frozen=True)
class Case:
    """A history, and what a real broker said of it."""

    name: str
    group_id: str
    partition_count: int
    segments: Mapping[int, bytes]
    answers: Mapping[str, Any]
    topic_id: str
    """The id of topic `t`."""
    profile: Profile

    def coordinator(self, way: str) -> Coordinator:
        """The broker that loaded it; `way` is "plain" (the plain rules) or "tables" (the kernels)."""
        return coordinator_of(self.segments, profile=self.profile, partition_count=self.partition_count, way=way)

    def planned(self, way: str) -> list[tuple[int, str]]:
        """(log partition, key in hex) of every tombstone that the sweeps of all log partitions write, in no order."""
        return sorted(
            (log_partition, tombstone.key.hex())
            for log_partition, segment in self.segments.items()
            for tombstone in _PLANS[way](segment, self.profile)
        )


@cache
def kafka_says(release: str) -> Mapping[str, Case]:
    """The cases of the broker of `release` that are of one log partition, by name."""
    return {
        case["case"]: Case(
            name=case["case"],
            group_id=case["group"],
            partition_count=case["log_partitions"],
            segments={case["log_partition"]: base64.b64decode(case["segment"])},
            answers=case["broker"],
            topic_id=case["topic_id_of_t"],
            profile=of_broker(release),
        )
        for case in lines(FOLDER / f"{release}.jsonl")
    }


def _plan_of_rules(segment: bytes, profile: Profile) -> Iterable[Tombstone]:
    loaded = load([segment], cap_bytes=CAP_BYTES, profile=profile)
    return expiry.sweep(loaded, retention_ms=RETENTION_MS, now_ms=NOW_MS)


def _plan_of_kernels(segment: bytes, profile: Profile) -> Iterable[Tombstone]:
    tables = finish(fold_bytes(segment, profile=profile), log_partition=0, partition_count=None)
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    verdicts = judge(
        offsets, tables["groups"], tables["pending_offsets"], retention_ms=RETENTION_MS, now_ms=NOW_MS, profile=profile
    )
    expires = pc.equal(verdicts["broker_verdict"], "expire")
    rows = plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile).to_pylist()
    return [Tombstone(**row) for row in rows]


_PLANS = {"plain": _plan_of_rules, "tables": _plan_of_kernels}
