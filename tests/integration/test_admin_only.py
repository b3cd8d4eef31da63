"""A real broker that hides its offsets log from one principal: what admin snapshots say against what another reads in
the log."""

import random
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyarrow import fs as pafs

from sexton.archive.admin_intervals import merge_snapshots
from sexton.archive.admin_snapshots import AdminSnapshots
from sexton.archive.verify import verify
from sexton.cli import main
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig
from sexton.kafka.session import ClusterSession
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import decode_key
from sexton.runs.admin_tables import tables_of, with_nulls
from sexton.runs.folder import RunFolder, RunRecord
from sexton.tables import TABLES
from sexton.verdicts.intervals import CLOCK_SLACK_MS, judge_between
from sexton_dev.workload import commit_offsets, drive
from tests.clients import admin_of, joined, make_topics
from tests.integration.random_work import RandomWork, make_topics_once
from tests.integration.secure_broker import READER, SEEING, SecureCluster, grant, secure_cluster
from tests.integration.stages import replay, snapshot

pytestmark = pytest.mark.thorough

SEEDS, FULL_SEEDS = 12, 200
"""Random workloads, and how many with `--full`; one of them is drawn anew."""
LOCAL = pafs.LocalFileSystem()
OFFSET = ("group_id", "topic", "partition")
GROUP = ("group_type", "state", "protocol_type", "member_count", "subscription_known", "home_log_partition")
MEMBER = ("group_id", "member_id", "group_instance_id", "client_id", "client_host", "rack_id", "member_epoch")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("secure"), java=java, jars=kafka_jars) as cluster:
        grant(cluster.all_powerful, READER, *SEEING)
        yield cluster


def rows(folder: RunFolder, record: RunRecord, table: str) -> list[dict[str, Any]]:
    return [row for part in record.log_partitions for row in folder.read_table(table, part).to_pylist()]


def by_key(folder: RunFolder, record: RunRecord, table: str, key: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    return {tuple(row[name] for name in key): row for row in rows(folder, record, table)}


def assert_same(
    seen: tuple[RunFolder, RunRecord], read: tuple[RunFolder, RunRecord], *, unreadable: Collection[str] = ()
) -> int:
    """What admin snapshots say is what the log says; how many offsets, groups and members were equal. The subscriptions
    of groups that are `unreadable` by Admin API are left out."""
    ours, truth = (by_key(*each, "committed_offsets", OFFSET) for each in (seen, read))
    value = ("committed_offset", "leader_epoch", "metadata", "log_partition")
    assert {k: [r[n] for n in value] for k, r in ours.items()} == {k: [r[n] for n in value] for k, r in truth.items()}
    for key, row in ours.items():
        committed_ms = truth[key]["commit_timestamp_ms"]
        assert row["commit_after_ms"] is None or row["commit_after_ms"] - CLOCK_SLACK_MS < committed_ms, row
        assert committed_ms <= row["commit_by_ms"] + CLOCK_SLACK_MS, row
    pending = set(by_key(*read, "pending_offsets", OFFSET))
    assert {key for key, row in ours.items() if row["is_unstable"]} == pending & set(ours)

    groups, told = (by_key(*each, "groups", ("group_id",)) for each in (seen, read))
    assert groups.keys() == told.keys()
    for key, row in groups.items():
        names = [name for name in GROUP if name != "subscription_known" or row["group_id"] not in unreadable]
        assert [row[name] for name in names] == [told[key][name] for name in names], row
    for key, row in groups.items():
        since_ms = told[key]["current_state_timestamp_ms"]
        if since_ms is not None and row["state"] == "Empty":
            assert row["empty_after_ms"] is None or row["empty_after_ms"] - CLOCK_SLACK_MS < since_ms, row
            assert since_ms <= row["empty_by_ms"] + CLOCK_SLACK_MS, row
    members, known = (by_key(*each, "members", MEMBER) for each in (seen, read))
    assert set(members) == set(known)
    for key, row in members.items():
        assert row["assignment"] == known[key]["assignment"], row
        assert row["member_metadata"] == known[key]["member_metadata"], row
    for name in TABLES:
        if name in ("committed_offsets", "groups", "members", "offset_verdicts"):
            from_log = [column.name for column in TABLES[name].columns if column.known_from == "log"]
            assert [r for r in rows(*seen, name) if any(r[column] is not None for column in from_log)] == []
    return len(ours) + len(groups) + len(members)


@pytest.mark.timeout(7_200)
def test_snapshots_say_what_the_log_says(cluster: SecureCluster, tmp_path: Path, full: bool, drawn: int) -> None:
    make_topics_once(cluster.all_powerful)
    equal, count = 0, FULL_SEEDS if full else SEEDS
    for seed in sorted({*range(1, count), drawn}):
        with ClusterSession(cluster.all_powerful) as session:
            RandomWork(cluster.all_powerful, session, seed).run()
        time.sleep(0.3)  # a transaction is confirmed before its markers are written
        seen = snapshot(cluster.config(READER), tmp_path / "admin")
        assert (seen.coverage, seen.segments) == ("admin", 0)
        assert "READ on topic __consumer_offsets" in str(seen.admin_because)
        read = snapshot(cluster.all_powerful, tmp_path / "log")
        assert read.coverage == "log"
        ours = replay(tmp_path / "admin", tmp_path / f"admin-{seed}")
        assert (ours[1].coverage, ours[1].as_of_ms) == ("admin", seen.taken_at_ms)
        equal += assert_same(ours, replay(tmp_path / "log", tmp_path / f"log-{seed}"))
    print(f"{count} workloads, {equal} offsets, groups and members equal")
    assert equal > 20 * count
    assert verify(LOCAL, str(tmp_path / "admin")).findings == []
    (of_cluster,) = (tmp_path / "admin").iterdir()
    assert [folder.name for folder in of_cluster.iterdir()] == ["admin_snapshots"]


def test_every_kind_of_group(cluster: SecureCluster, tmp_path: Path) -> None:
    """Open members of both protocols, a share group, hostile names, an open transaction; then the whole audit."""
    with drive(cluster.all_powerful, seed=5, rounds=40):
        snapshot(cluster.config(READER), tmp_path / "admin")
        snapshot(cluster.all_powerful, tmp_path / "log")
    seen = replay(tmp_path / "admin", tmp_path / "by-admin")
    read = replay(tmp_path / "log", tmp_path / "by-log")
    # What a regular expression resolves to is not answered.
    assert assert_same(seen, read, unreadable={"inventory-next"}) > 80
    assert {row["group_type"] for row in rows(*seen, "groups")} == {"Classic", "Consumer", "Share"}
    assert main(["audit", "--archive", str(tmp_path / "admin"), "--out", str(tmp_path / "out")]) == 0


RETENTION_MS, SWEEP_MS = 60_000, 15_000
SIMPLE_GROUPS, PARTITIONS, MEMBERS_GROUPS = 200, 25, 24


def commit_at_random(config: ClientConfig, rng: random.Random, until_s: float) -> None:
    """Commits of simple groups: new values, the same ones again, and none for a while."""
    admin = admin_of(config)
    groups = [f"simple-{number}" for number in range(SIMPLE_GROUPS)]
    for group in groups:
        commit_offsets(admin, group, [TopicPartition("many", n, 7) for n in range(PARTITIONS)])
    while time.time() < until_s:
        some = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
        commit_offsets(admin, rng.choice(groups), [TopicPartition("many", n, rng.choice((7, 8, 9))) for n in some])
        time.sleep(rng.random() / 10)


def join_and_leave(config: ClientConfig, group: str, protocol: str, delay_s: float) -> None:
    """A member that commits every partition and leaves."""
    time.sleep(delay_s)
    with closing(joined(config, group, "many", protocol=protocol, auto_offset_reset="latest")) as consumer:
        consumer.commit(offsets=[TopicPartition("many", n, 5) for n in range(PARTITIONS)], asynchronous=False)


def tombstones(archive: Path) -> dict[tuple[str, str, int], list[int]]:
    """When the broker wrote a tombstone for each offset, by its own clock."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for file in sorted(archive.rglob("*.log")):
        for batch in read_batches(file.read_bytes()):
            assert isinstance(batch, Batch)
            for record in () if batch.is_control else read_records(batch, cap_bytes=1 << 26):
                assert isinstance(record, Record)
                if record.value is None and record.key is not None and record.key[:2] in (b"\0\0", b"\0\1"):
                    _, key = decode_key(record.key)
                    found.setdefault((key.group_id, key.topic, key.partition), []).append(record.timestamp_ms)
    return found


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_brokers_own_tombstones_come_in_the_intervals(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path]
) -> None:
    """Thousands of offsets that a broker expires: each within its interval at every admin snapshot, none told expired
    early."""
    rng = random.Random(7)
    quick = {
        "offsets.retention.minutes": str(RETENTION_MS // 60_000),
        "offsets.retention.check.interval.ms": str(SWEEP_MS),
        "group.initial.rebalance.delay.ms": "0",
    }
    with secure_cluster(tmp_path / "broker", java=java, jars=kafka_jars, settings=quick) as cluster:
        config = cluster.all_powerful
        grant(config, READER, *SEEING)
        make_topics(config, {"many": PARTITIONS})
        snapshot(cluster.config(READER), tmp_path / "admin", admin_only=True)
        until_s = time.time() + 40
        with ThreadPoolExecutor(8) as pool:
            work = [pool.submit(commit_at_random, config, rng, until_s)]
            for number in range(MEMBERS_GROUPS):
                protocol = ("classic", "consumer")[number % 2]
                delay_s = number / MEMBERS_GROUPS * 4
                work.append(pool.submit(join_and_leave, config, f"{protocol}-{number}", protocol, delay_s))
            held, deadline = 1, time.time() + 300
            while held or not all(each.done() for each in work):
                held = snapshot(cluster.config(READER), tmp_path / "admin", admin_only=True).offsets
                assert time.time() < deadline
                time.sleep(1)
            for each in work:
                each.result()
        snapshot(config, tmp_path / "log")
    written = tombstones(tmp_path / "log")
    expired = checked = 0
    (cluster_id,) = (folder.name for folder in (tmp_path / "admin").iterdir())
    instants = AdminSnapshots(LOCAL, str(tmp_path / "admin"), cluster_id).instants
    for taken_at_ms in instants[:: max(1, len(instants) // 25)]:
        taken = AdminSnapshots(LOCAL, str(tmp_path / "admin"), cluster_id).manifest(taken_at_ms)
        tables = tables_of(merge_snapshots(AdminSnapshots(LOCAL, str(tmp_path / "admin"), taken.cluster_id), taken))
        groups = with_nulls(tables[0], TABLES["groups"].columns)
        offsets = with_nulls(tables[2], TABLES["committed_offsets"].columns)
        rules = {"retention_ms": RETENTION_MS, "sweep_ms": SWEEP_MS}
        judged = judge_between(offsets, groups, now_ms=taken_at_ms, seen_ms=taken_at_ms, **rules)
        for row in judged.to_pylist():
            later = [at for at in written[tuple(row[name] for name in OFFSET)] if at >= taken_at_ms - CLOCK_SLACK_MS]
            assert later, row
            assert row["due_after_ms"] is None or row["due_after_ms"] <= later[0], (row, later)
            if row["broker_verdict"] == "expire":
                expired += 1
                assert later[0] <= taken_at_ms + SWEEP_MS + 5_000, (row, later)
            if row["broker_expires_at_ms"] is not None and row["group_id"].startswith(("classic", "consumer")):
                assert later[0] <= row["broker_expires_at_ms"] + SWEEP_MS + 5_000, (row, later)
            checked += 1
    print(
        f"{sum(map(len, written.values()))} tombstones of the broker, {len(instants)} looks, {checked} intervals, "
        f"{expired} verdicts of expire, none early"
    )
    assert sum(map(len, written.values())) >= 5_000
    assert expired
