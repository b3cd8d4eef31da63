"""Histories that real brokers judged otherwise than Sexton once did (tests/golden/kafka-says/README.md)."""

from collections.abc import Iterable, Mapping
from functools import cache

import pyarrow as pa

from sexton.coordinator import expiry
from sexton.coordinator.loading import HOLDS_NOTHING, load
from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import Tombstone
from sexton.kernels.results import finish
from sexton.verdicts.expiry import appended
from tests.coordinator.golden import CAP_BYTES, GOLDEN, Case, cases
from tests.kernels.compare import fold_bytes
from tests.kernels.compare import planned as sweep_of_tables
from tests.oracle import Rows, oracle_tables

FOLDER = GOLDEN / "kafka-says"
RETENTION_MS = 1
NOW_MS = 1 << 42
"""Long after anything in these histories: every offset is due."""


@cache
def kafka_says(release: str) -> Mapping[str, Case]:
    """The cases of the broker of `release`, by name."""
    return cases(FOLDER / f"{release}.jsonl", release, "broker")


def committed(case: Case, way: str) -> set[str]:
    """`topic-partition` of the group's rows of committed_offsets; `way` as of tests.coordinator.api.broker."""
    rows = _COMMITTED[way](case.segment, case.profile, case.log_partition, case.partition_count)
    return {f"{row['topic']}-{row['partition']}" for row in rows if row["group_id"] == case.group_id}


def planned(case: Case, way: str) -> list[tuple[int, str]]:
    """(log partition, key in hex) of every tombstone that the sweeps of all log partitions write, in no order."""
    segments = {case.log_partition: case.segment}
    if case.profile.one_cache:  # whose tombstones may go to log partitions that hold nothing
        segments = dict.fromkeys(range(case.partition_count), b"") | segments
    plans = _PLANS[way](segments, case.profile, case.partition_count)
    return sorted((where, tombstone.key.hex()) for where, plan in plans.items() for tombstone in plan)


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
    rows = sweep_of_tables(tables, retention_ms=RETENTION_MS, now_ms=NOW_MS, profile=profile)
    count = 0 if tables["load_profile"]["load_outcome"][0].as_py() in HOLDS_NOTHING else None
    return rows.slice(0, count), tables["groups"]["group_id"].slice(0, count)


def _committed_by_rules(segment: bytes, profile: Profile, log_partition: int, partition_count: int) -> Rows:
    loaded = load([segment], cap_bytes=CAP_BYTES, profile=profile)
    return oracle_tables(loaded, log_partition, partition_count)["committed_offsets"]


def _committed_by_kernels(segment: bytes, profile: Profile, log_partition: int, partition_count: int) -> Rows:
    fold = fold_bytes(segment, profile=profile)
    tables = finish(fold, log_partition=log_partition, partition_count=partition_count)
    rows: Rows = tables["committed_offsets"].to_pylist()
    return rows


_COMMITTED = {"plain": _committed_by_rules, "tables": _committed_by_kernels}
_PLANS = {"plain": plans_of_rules, "tables": plans_of_kernels}
