"""A published lake as large as a cluster that is much too large: 100,000 groups, 2 million offsets, some hours of runs.

`python -m tests.ui.generated FOLDER [GROUPS] [OFFSETS] [RUNS]` writes it. Numbers are drawn from a fixed seed.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sexton.lake.branch import RunKey
from sexton.tables import TABLES
from tests.ui.lakes import RETENTION_MS, WrittenLake, lake_at

GROUPS, OFFSETS, RUNS = 100_000, 2_000_000, 6
LOG_PARTITIONS, TOPICS = 50, 500
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FIRST_MS = 1_795_262_400_000
CLUSTER = "kx9Qf3TjQwOe1uQw9y3b2A"
TEAMS = ("billing", "search", "fraud", "ads", "mobile", "data", "ci", "logistics")
_STATES = (("Classic", "Empty"), ("Classic", "Stable"), ("Consumer", "Stable"), ("Consumer", "Empty"))


class Cluster:
    """Groups and offsets that stay the same from run to run, but for what is committed to them."""

    def __init__(self, groups: int, offsets: int) -> None:
        self.rng = np.random.default_rng(20_261_121)
        names = np.array([f"{TEAMS[n % len(TEAMS)]}.service-{n // 8:05d}.consumer-{n % 8}" for n in range(groups)])
        homes = self.rng.integers(0, LOG_PARTITIONS, groups)
        order = np.lexsort((names, homes))
        self.names, self.homes = names[order], homes[order]
        share = self.rng.pareto(2.0, groups) + 0.2
        self.sizes = np.minimum((share * offsets / share.sum()).astype(np.int64), 5_000)
        short = offsets - int(self.sizes.sum())
        self.sizes[: abs(short)] += np.sign(short)
        self.sizes = np.maximum(self.sizes, 0)
        self.kinds = self.rng.choice(len(_STATES), groups, p=(0.45, 0.3, 0.2, 0.05))
        self.of = np.repeat(np.arange(groups), self.sizes)
        place = np.arange(len(self.of)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.topic = (self.of * 7 + place // 12) % TOPICS
        self.partition = place % 12 + 12 * (place // (12 * TOPICS))
        self.committed = self.rng.integers(0, 10**9, len(self.of))
        self.age_ms = (self.rng.random(len(self.of)) ** 2 * 8.2 * DAY_MS).astype(np.int64)
        self.is_orphan = self.topic >= TOPICS - 6

    def tables(self, key: RunKey, number: int) -> dict[str, Any]:
        """Everything that a run of it publishes."""
        moved = self.rng.random(len(self.of)) < 0.01
        self.committed = self.committed + np.where(moved, self.rng.integers(1, 5_000, len(self.of)), 0)
        self.age_ms = np.where(moved, 60_000, self.age_ms + HOUR_MS)
        return {
            **self._offsets(key),
            "groups": self._groups(key),
            "members": self._members(),
            "offset_changes": self._changes(key, moved),
            "load_profile": self._load(),
            "topic_partitions": self._topics(),
            "open_transactions": [_transaction(number, key.as_of_ms) for number in range(7)],
            "dq_results": [_check(number) for number in range(160)],
            "expiry_forecast": self._forecast(key),
        }

    def _offsets(self, key: RunKey) -> dict[str, pa.Table]:
        rows = len(self.of)
        is_cache = np.isin(self.kinds[self.of], (1, 2))
        commit = key.as_of_ms - self.age_ms
        expires = commit + RETENTION_MS
        is_due = ~is_cache & (expires <= key.as_of_ms)
        shared = {
            "group_id": pa.array(self.names).take(pa.array(self.of)),
            "topic": pa.array([f"events.{number:03d}" for number in range(TOPICS)]).take(pa.array(self.topic)),
            "partition": pa.array(self.partition, pa.int32()),
            "log_partition": pa.array(self.homes[self.of], pa.int32()),
        }
        committed = {
            **shared, "committed_offset": pa.array(self.committed), "metadata": _same("", rows),
            "commit_timestamp_ms": pa.array(commit), "log_offset": pa.array(np.arange(rows) * 3),
            "producer_id": pa.array(np.full(rows, -1)),
        }  # fmt: skip
        judged = {
            **shared,
            "broker_verdict": pa.array(np.where(is_due, "expire", "keep")),
            "broker_reason": pa.array(np.where(is_due, "expired", np.where(is_cache, "subscribed", "not_due"))),
            "broker_expires_at_ms": pa.array(expires, mask=is_cache),
            "base_timestamp_ms": pa.array(commit),
            "changes_by": pa.array(np.where(is_cache, "subscription", "time")),
            "orphan": pa.array(np.full(rows, "topic_gone"), mask=~self.is_orphan),
            "left_topic": pa.array(is_cache & (self.partition == 11)),
            "behind_log_start": pa.array(self.committed < 4_000_000),
        }
        return {
            name: _table(name, key, found)
            for name, found in (("committed_offsets", committed), ("offset_verdicts", judged))
        }

    def _groups(self, key: RunKey) -> pa.Table:
        rows = len(self.names)
        types, states = (np.array(each)[self.kinds] for each in zip(*_STATES, strict=True))
        members = np.where(states == "Stable", 1 + np.arange(rows) % 5, 0)
        found = {
            "group_id": pa.array(self.names), "group_type": pa.array(types), "state": pa.array(states),
            "protocol_type": _same("consumer", rows), "protocol": _same("range", rows),
            "generation": pa.array(np.arange(rows) % 900, pa.int32()),
            "current_state_timestamp_ms": pa.array(np.full(rows, key.as_of_ms - DAY_MS)),
            "member_count": pa.array(members, pa.int32()), "subscription_known": pa.array(np.ones(rows, bool)),
            "offset_count": pa.array(self.sizes), "has_open_transaction": pa.array(np.zeros(rows, bool)),
            "pending_count": pa.array(np.zeros(rows, np.int64)), "log_partition": pa.array(self.homes, pa.int32()),
        }  # fmt: skip
        return _table("groups", key, found)

    def _members(self) -> list[dict[str, Any]]:
        some = np.flatnonzero(np.isin(self.kinds, (1, 2)))[:20_000]
        return [
            {
                "group_id": str(self.names[n]), "member_id": f"member-{n}", "client_id": f"client-{n % 40}",
                "client_host": f"/10.0.{n % 250}.{n % 199}", "log_partition": int(self.homes[n]),
            }
            for n in some
        ]  # fmt: skip

    def _changes(self, key: RunKey, moved: np.ndarray) -> pa.Table:
        at = np.flatnonzero(moved)
        rows = len(at)
        found = {
            "group_id": pa.array(self.names).take(pa.array(self.of[at])),
            "topic": pa.array([f"events.{number:03d}" for number in range(TOPICS)]).take(pa.array(self.topic[at])),
            "partition": pa.array(self.partition[at], pa.int32()),
            "new_committed_offset": pa.array(self.committed[at]), "kind": _same("set", rows),
            "log_partition": pa.array(self.homes[self.of[at]], pa.int32()), "log_offset": pa.array(at * 3),
            "timestamp_ms": pa.array(np.full(rows, key.as_of_ms - 60_000)),
        }  # fmt: skip
        return _table("offset_changes", key, found)

    def _load(self) -> list[dict[str, Any]]:
        sizes = np.bincount(self.homes[self.of], minlength=LOG_PARTITIONS)
        return [
            {
                "log_partition": number, "bytes": int(sizes[number]) * 420, "batches": int(sizes[number]),
                "records": int(sizes[number]) * 4, "live_records": int(sizes[number]), "largest_batch_bytes": 9_000,
                "first_log_offset": 0, "next_log_offset": int(sizes[number]) * 4, "load_outcome": "loaded",
                "predicted_load_ms": int(sizes[number]) // 100, "garbage_share": 0.75,
                "skew": float(sizes[number] / sizes.mean()), "hottest_group_share": 0.02,
                "hot_groups": [str(self.names[0])],
            }
            for number in range(LOG_PARTITIONS)
        ]  # fmt: skip

    def _topics(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": f"events.{topic:03d}", "partition": partition, "log_start_offset": 4_000_000,
                "log_end_offset": 1_000_100_000,
            }
            for topic in range(TOPICS - 6)
            for partition in range(12)
        ]  # fmt: skip

    def _forecast(self, key: RunKey) -> list[dict[str, Any]]:
        return [
            {
                "group_id": str(self.names[n]), "horizon_days": days, "by": "broker",
                "offset_count": int(self.sizes[n]), "first_expires_at_ms": key.as_of_ms,
                "last_expires_at_ms": key.as_of_ms + days * DAY_MS,
            }
            for n in range(0, len(self.names), 20)
            for days in (1, 7, 30)
            if self.sizes[n]
        ]  # fmt: skip


def write(folder: Path, *, groups: int = GROUPS, offsets: int = OFFSETS, runs: int = RUNS) -> WrittenLake:
    """Publish hourly runs of one cluster into a new lake."""
    lake, cluster = lake_at(folder), Cluster(groups, offsets)
    cuts = [{"log_partition": number, "cut": 10**7} for number in range(LOG_PARTITIONS)]
    for number in range(runs):
        key = RunKey(cluster_id=CLUSTER, as_of_ms=FIRST_MS + number * HOUR_MS, run_id=f"scheduled__{number:04d}")
        lake.publish(key, cluster.tables(key, number), cuts=cuts)
    return lake


def _table(name: str, key: RunKey, found: dict[str, pa.Array]) -> pa.Table:
    schema = TABLES[name].arrow_schema()
    rows = len(found["group_id"])
    own = {
        "cluster_id": _same(key.cluster_id, rows),
        "as_of_ms": pa.array(np.full(rows, key.as_of_ms)),
        "run_id": _same(key.run_id, rows),
    }
    every = {**own, **found}
    return pa.table(
        [every[field.name] if field.name in every else pa.nulls(rows, field.type) for field in schema], schema=schema
    )


def _same(value: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value])).cast(pa.string())


def _transaction(number: int, as_of_ms: int) -> dict[str, Any]:
    return {
        "producer_id": 7_000 + number, "producer_epoch": 2, "log_partition": number,
        "first_log_offset": 100 * number, "last_log_offset": 100 * number + 9,
        "first_timestamp_ms": as_of_ms - (number + 1) * HOUR_MS, "group_ids": [f"pinned-{number}"],
    }  # fmt: skip


def _check(number: int) -> dict[str, Any]:
    return {"table": "groups", "expectation": f"promise {number}", "severity": "warning", "success": number != 3}


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    write(Path(sys.argv[1]), **dict(zip(("groups", "offsets", "runs"), map(int, sys.argv[2:]), strict=False)))
