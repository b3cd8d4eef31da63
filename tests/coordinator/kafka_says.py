"""Histories that real brokers judged otherwise than Sexton once did (tests/golden/kafka-says/README.md)."""

from collections.abc import Iterable, Mapping
from functools import cache

import pyarrow as pa

from sexton.coordinator.loading import HOLDS_NOTHING, Loaded
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Profile
from sexton.kernels.results import finish
from sexton.verdicts.expiry import appended
from tests.coordinator.golden import CAP_BYTES, GOLDEN, Case, cases
from tests.fates import load
from tests.kernels.compare import fold_bytes
from tests.kernels.compare import planned as sweep_of_tables
from tests.oracle import Rows, oracle_tables
from tests.plain_sweep import Tombstone, in_plan_order, sweep

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


def sweep_all(
    loads: Mapping[int, Loaded], *, partition_count: int, retention_ms: int, now_ms: int
) -> dict[int, list[Tombstone]]:
    """What the sweep of a broker that leads all of `loads` appends to each log partition at `now_ms`.

    From 4.0 on a group's tombstones go to the log partition that holds it. Before, one cache holds the groups of all of
    them (Profile.one_cache), and the tombstones go to the log partition that the id hashes to; to none where the broker
    does not lead that (GroupMetadataManager.cleanupGroupMetadata). Of several copies of a group the cache has the one
    that was loaded first. The log does not record the order of loads: the copy in the group's log partition is taken as
    the first, then that of the lowest log partition.
    """
    planned: dict[int, list[Tombstone]] = {log_partition: [] for log_partition in loads}
    cached_from: dict[str, int] = {}
    for log_partition, loaded in sorted(loads.items()):
        if loaded.holds_nothing:
            continue
        for group_id in loaded.groups.by_id:
            if partition_of(group_id, partition_count) == log_partition:
                cached_from[group_id] = log_partition
            cached_from.setdefault(group_id, log_partition)
    for log_partition, loaded in loads.items():
        for tombstone in sweep(loaded, retention_ms=retention_ms, now_ms=now_ms):
            goes_to: int | None = log_partition
            if loaded.profile.one_cache:
                is_cached = cached_from[tombstone.group_id] == log_partition
                goes_to = partition_of(tombstone.group_id, partition_count) if is_cached else None
            if goes_to in planned:
                planned[goes_to].append(tombstone)
    return {log_partition: in_plan_order(tombstones) for log_partition, tombstones in planned.items()}


def plans_of_rules(segments: Mapping[int, bytes], profile: Profile, partition_count: int) -> Plans:
    loads = {
        log_partition: load([segment], cap_bytes=CAP_BYTES, profile=profile)
        for log_partition, segment in segments.items()
    }
    return sweep_all(loads, partition_count=partition_count, retention_ms=RETENTION_MS, now_ms=NOW_MS)


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
