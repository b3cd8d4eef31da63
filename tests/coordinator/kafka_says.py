"""Histories that real brokers judged otherwise than Sexton once did (tests/golden/kafka-says/README.md)."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator import expiry
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.loading import load
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.coordinator.tombstones import Tombstone
from sexton.kernels.results import finish
from sexton.verdicts.expiry import appended, held_offsets, judge, plan, sweep_block
from tests.coordinator.api.broker import coordinator_of
from tests.coordinator.golden import CAP_BYTES, GOLDEN, lines
from tests.kernels.compare import fold_bytes
from tests.oracle import Rows, oracle_tables

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
    topic_id: str | None
    """The id of topic `t`, where it was noted."""
    profile: Profile

    def coordinator(self, way: str) -> Coordinator:
        """The broker that loaded it; `way` is "plain" (the plain rules) or "tables" (the kernels)."""
        segments = self.segments or dict.fromkeys(range(self.partition_count), b"")
        return coordinator_of(segments, profile=self.profile, partition_count=self.partition_count, way=way)

    def committed(self, way: str) -> set[str]:
        """`topic-partition` of the group's rows of committed_offsets."""
        return {
            f"{row['topic']}-{row['partition']}"
            for log_partition, segment in self.segments.items()
            for row in _COMMITTED[way](segment, self.profile, log_partition, self.partition_count)
            if row["group_id"] == self.group_id
        }

    def planned(self, way: str) -> list[tuple[int, str]]:
        """(log partition, key in hex) of every tombstone that the sweeps of all log partitions write, in no order."""
        segments = dict(self.segments)
        if self.profile.one_cache:  # whose tombstones may go to log partitions that hold nothing
            segments = dict.fromkeys(range(self.partition_count), b"") | segments
        plans = _PLANS[way](segments, self.profile, self.partition_count)
        return sorted((where, tombstone.key.hex()) for where, plan in plans.items() for tombstone in plan)


@cache
def kafka_says(release: str) -> Mapping[str, Case]:
    """The cases of the broker of `release`, by name."""
    return {
        case["case"]: Case(
            name=case["case"],
            group_id=case["group"],
            partition_count=case["log_partitions"],
            segments={} if case["segment"] is None else {case["log_partition"]: base64.b64decode(case["segment"])},
            answers=case["broker"],
            topic_id=case.get("topic_id_of_t"),
            profile=of_broker(release),
        )
        for case in lines(FOLDER / f"{release}.jsonl")
    }


Plans = Mapping[int, Iterable[Tombstone]]


def plans_of_rules(segments: Mapping[int, bytes], profile: Profile, partition_count: int) -> Plans:
    loads = {
        log_partition: load([segment], cap_bytes=CAP_BYTES, profile=profile)
        for log_partition, segment in segments.items()
    }
    return expiry.sweep_all(loads, partition_count=partition_count, retention_ms=RETENTION_MS, now_ms=NOW_MS)


def plans_of_kernels(segments: Mapping[int, bytes], profile: Profile, partition_count: int) -> Plans:
    swept = {log_partition: _swept(segment, profile) for log_partition, segment in segments.items()}
    if profile.one_cache:
        found = {}
        for where, own in swept.items():
            others = [rest for number, rest in sorted(swept.items()) if number != where]
            found[where] = appended(where, [own, *others], partition_count=partition_count)
    else:
        found = {where: rows for where, (rows, _) in swept.items()}
    return {where: [Tombstone(**row) for row in rows.to_pylist()] for where, rows in found.items()}


def _swept(segment: bytes, profile: Profile) -> tuple[pa.Table, pa.ChunkedArray]:
    """The plan of what one log partition holds, and the ids of its groups."""
    tables = finish(fold_bytes(segment, profile=profile), log_partition=0, partition_count=None)
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    state = (offsets, tables["groups"], tables["pending_offsets"])
    block = sweep_block(*state, retention_ms=RETENTION_MS, now_ms=NOW_MS, profile=profile)
    verdicts = judge(*state, retention_ms=RETENTION_MS, now_ms=NOW_MS, profile=profile)
    expires = pc.equal(verdicts["broker_verdict"], "expire")
    rows = plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile)
    is_blocked = block is not None and block.is_on(NOW_MS)
    return rows.slice(0, 0) if is_blocked else rows, tables["groups"]["group_id"]


def _committed_by_rules(segment: bytes, profile: Profile, log_partition: int, partition_count: int) -> Rows:
    loaded = load([segment], cap_bytes=CAP_BYTES, profile=profile)
    return oracle_tables(loaded, log_partition, partition_count)["committed_offsets"]


def _committed_by_kernels(segment: bytes, profile: Profile, log_partition: int, partition_count: int) -> Rows:
    fold = fold_bytes(segment, profile=profile)
    rows: Rows = finish(fold, log_partition=log_partition, partition_count=partition_count)[
        "committed_offsets"
    ].to_pylist()
    return rows


_COMMITTED = {"plain": _committed_by_rules, "tables": _committed_by_kernels}
_PLANS = {"plain": plans_of_rules, "tables": plans_of_kernels}
