"""Clocks that are wrong by up to days, and commits stamped at any instant at all: whoever's clock a plan was made by,
nothing is deleted before the broker's own clock says that it is due (row 19)."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from sexton.coordinator.expiry import verdict
from sexton.errors import Refused
from sexton.execution.delete.preconditions import MAX_SKEW_MS
from sexton.execution.kafka_admin import BrokerTime
from tests.faults.apply_cluster import START_MS, US, SimCluster
from tests.faults.apply_worlds import HOUR_MS, World, account, swept_plan

DAY_MS = 24 * HOUR_MS
SKEWS_MS = (0, 1, -1, 59_000, -59_000, 61_000, -61_000, HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS)
INT64_MAX = (1 << 63) - 1


def stamps(rng: Random, retention_ms: int) -> int:
    """When a commit says that it was made: about when it is due, far in the future, 0, negative, or the largest."""
    return rng.choice(
        (
            START_MS - retention_ms + rng.randint(-3, 3),
            START_MS - retention_ms - rng.randint(0, 2 * DAY_MS),
            START_MS + rng.randint(1, 3 * DAY_MS),
            START_MS + rng.choice((0, 1, DAY_MS)) - retention_ms,
            *(0, -1, -DAY_MS, INT64_MAX, START_MS),
        )
    )


def case(rng: Random, folder: Path) -> World:
    """A cluster whose brokers have the right time, and a plan by a clock that is wrong by `skew`."""
    cluster = SimCluster(rng.getrandbits(32), log_partitions=1)
    cluster.topics = {"t1": 8}
    retention_ms = rng.choice((60_000, HOUR_MS, DAY_MS, 7 * DAY_MS))
    cluster.retention_ms = retention_ms
    for number in range(rng.randint(1, 3)):
        group_id = f"g{number}"
        if rng.random() < 0.4:
            cluster.classic(group_id, state_ms=rng.choice((-1, 0, stamps(rng, retention_ms))))
        for partition in range(rng.randint(1, 3)):
            expires = {"version": 1, "expire_timestamp_ms": stamps(rng, retention_ms)} if rng.random() < 0.2 else {}
            commit(cluster, group_id, partition, stamps(rng, retention_ms), **expires)
    skew_ms = rng.choice(SKEWS_MS)
    plan = swept_plan(cluster, as_of_ms=START_MS + skew_ms, retention_ms=retention_ms)
    cluster.now_ms = START_MS + skew_ms + rng.choice((0, 1, 30_000))  # what the worker's clock shows
    cluster.skew_ms = START_MS + rng.choice((0, 1, 30_000)) - cluster.now_ms  # so that the brokers' is right
    return World(cluster=cluster, plan=plan, root=folder)


def commit(cluster: SimCluster, group_id: str, partition: int, stamp_ms: int, **told: Any) -> None:
    from tests.log_builder import offset_key, offset_value

    value = offset_value(7, commit_timestamp_ms=stamp_ms, **told)
    cluster.log_of(group_id).append([(offset_key(group_id, "t1", partition), value)], by="others", now_ms=START_MS)


def test_nothing_goes_early(full: bool, seed: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    count, totals = 5_000 if full else 150, Counter[str]()  # with two seeds: 10,000
    for number in range(count):
        rng = Random(f"{seed} {number}")
        made = case(rng, tmp_path / str(number))
        cluster, as_of_ms = made.cluster, made.plan.record.as_of_ms
        judged = {
            key: verdict(
                offset, key[1], log.loaded.groups.by_id[key[0]], is_pending=False,
                retention_ms=made.plan.record.retention_ms, now_ms=cluster.broker_ms,
            )
            for log in cluster.logs
            for key, offset in log.loaded.offsets.items()
        }  # fmt: skip
        asked = rng.random() < 0.6  # else nobody tells the brokers' time, and the log's newest stamp has to do
        time = BrokerTime(at_least_ms=START_MS, now_ms=cluster.broker_ms if asked else None)
        cluster.broker_time = lambda time=time: time  # type: ignore[method-assign]
        skew_ms = abs(cluster.skew_ms)
        try:
            made.apply(sink="coordinator")
            totals["applied"] += 1
            assert skew_ms <= MAX_SKEW_MS or not made.plan.tombstones.num_rows or not asked
            assert max(time.at_least_ms, time.now_ms or -1) >= as_of_ms or not made.plan.tombstones.num_rows
        except Refused as refused:
            totals["refused" if "clock" in str(refused) or "stamped" in str(refused) else str(refused)] += 1
        for log in cluster.logs:
            for write in log.writes:
                if write.by == US and write.key is not None and write.value is None:
                    totals["deleted"] += 1
                    assert judged[write.key].decision == "expire", (number, write.key, judged[write.key])
        if made.ledger.entries():
            assert account(made).violations == []
    tell(f"{count} cases, 0 early expiries: {dict(totals)}")
    assert set(totals) == {"applied", "refused", "deleted"}
