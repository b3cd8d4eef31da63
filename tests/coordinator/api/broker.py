"""Coordinators over bytes, by way of the plain replay or of the kernels' tables: both must answer alike."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, shard_after_load
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.loading import load
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.kernels.results import finish
from tests.coordinator.golden import CAP_BYTES, Case
from tests.kernels.compare import fold_bytes
from tests.log_builder import BatchSpec, Entry, encode_log

ShardOf = Callable[[bytes, Profile], CoordinatorShard]
_TABLES: dict[tuple[bytes, str], Mapping[str, pa.Table]] = {}
"""Most log partitions are empty, and several tests ask the same broker."""


def plain_shard(data: bytes, profile: Profile) -> CoordinatorShard:
    loaded = load([data], cap_bytes=CAP_BYTES, profile=profile)
    if loaded.load_outcome == AfterFailure.PREFIX:
        loaded = load([data], cap_bytes=CAP_BYTES, profile=profile, stops_at_failure=True)
    return shard_after_load(PlainView(loaded), loaded.load_outcome, profile=profile)


def tables_shard(data: bytes, profile: Profile) -> CoordinatorShard:
    """Never for a load that fails where a coordinator serves the prefix: the kernels read on."""
    key = data, repr(profile)  # a profile has no hash
    if key not in _TABLES:
        _TABLES[key] = finish(fold_bytes(data, profile=profile), log_partition=0, partition_count=None)
    tables = _TABLES[key]
    return shard_after_load(TablesView(tables), tables["load_profile"]["load_outcome"][0].as_py(), profile=profile)


WAYS: Mapping[str, ShardOf] = {"plain": plain_shard, "tables": tables_shard}


def coordinator_of(
    logs: Mapping[int, bytes], *, profile: Profile, partition_count: int | None, way: str = "plain"
) -> Coordinator:
    shards = {log_partition: WAYS[way](data, profile) for log_partition, data in logs.items()}
    return Coordinator(profile=profile, partition_count=partition_count, shards=shards)


def one_log(*entries: Entry | BatchSpec, profile: Profile, way: str = "plain") -> Coordinator:
    """One log partition, which every group belongs to; entries are plain records, each a batch."""
    specs = [entry if isinstance(entry, BatchSpec) else BatchSpec(entries=(entry,)) for entry in entries]
    return coordinator_of({0: encode_log(specs)}, profile=profile, partition_count=1, way=way)


def broker_of(cases: Iterable[Case], *, way: str) -> Coordinator:
    """The broker that loaded all these cases, each in its own log partition; the others are empty."""
    (first, *others) = cases
    logs = dict.fromkeys(range(first.partition_count), b"")
    logs |= {case.log_partition: case.segment for case in (first, *others) if case.segment}
    return coordinator_of(logs, profile=first.profile, partition_count=first.partition_count, way=way)


def rows(answer: Any) -> dict[str, list[Any]]:
    """A fetch's answer as the recordings have it: [offset, leader epoch?, metadata?, error?] by topic-partition."""
    return {
        f"{offset.topic}-{offset.partition}": [
            offset.committed_offset,
            *([] if offset.leader_epoch is None else [offset.leader_epoch]),
            *([offset.metadata] if offset.metadata else []),
            *([offset.error.name] if offset.error else []),
        ]
        for offset in answer.offsets
    }
