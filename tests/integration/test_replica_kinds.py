"""Clusters on which a replica differs in the ways that `test_replicas.py` leaves out, each made anew from a seed.

A member that has left, a log partition that no longer loads, an unclean election, and a repair by the printed steps.
From the disks or the copies it is predicted what a replica answers, and what would differ; then that replica leads and
is asked for every group. Minutes for each seed, so only with `--full`. Transactions: `test_replica_transactions.py`.
"""

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer, TopicPartition

from sexton.java import JavaHome
from tests.integration.replica_kinds import (
    CLASSIC,
    CONSUMER,
    Groups,
    archive_log,
    comparison,
    copied,
    keys_in_conflict,
    keys_that_differ,
    offsets_in,
    predicted,
    printed_commands,
    replace_copy_as_printed,
    require_alike,
    require_told,
    restore_as_printed,
    rows_of,
    run_printed,
)
from tests.replicas_cluster import LOG_PARTITIONS, NODES, PARTITIONS, TOPIC, A, B, C, ThreeBrokers

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_200)]


# --- the kinds


def test_a_member_that_left_is_back(cluster: ThreeBrokers, rng: Random, tmp_path: Path) -> None:
    """`ghost_member`: C never saw that it left; and a classic group that was deleted is back with its member."""
    groups = Groups(cluster, rng)
    ghosts = [groups.new(part, "ghost") for part in range(LOG_PARTITIONS)]
    deleted = [groups.new(part, "deleted") for part in range(LOG_PARTITIONS)]
    members = [groups.join(group, CONSUMER) for group in ghosts] + [groups.join(group, CLASSIC) for group in deleted]
    for consumer in members:
        offsets = [TopicPartition(TOPIC, number, rng.randrange(1_000)) for number in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
    cluster.wait_until_in_sync()
    cluster.kill(C)
    for consumer in members:
        consumer.close()
    cluster.delete_groups(*deleted)
    left = [*ghosts, *deleted]
    cluster.clean(A, B, until=lambda node: not groups.tombstones(left, node))
    cluster.start(C)
    folders = copied(cluster, tmp_path / "copy")
    by_a, by_c = (predicted(folder, groups.ids) for folder in (folders[0], folders[2]))
    rows = rows_of(comparison(folders))
    assert {group for (group, topic, _), row in rows.items() if row["kind"] == "ghost_member"} == {*ghosts}
    assert {group for (group, topic, _), row in rows.items() if row["kind"] == "resurrected"} == {*deleted}
    assert {tuple(row["wrong_replicas"]) for row in rows.values()} == {("broker-3",)}
    assert offsets_in(rows) == keys_that_differ(by_a, by_c)
    told = require_told(cluster.answers(groups.ids), by_a)
    cluster.elect(C)
    told += require_told(cluster.answers(groups.ids), by_c)
    replace_copy_as_printed(rows, cluster, tmp_path / "aside")
    # C has led: once the session of a ghost has timed out there, its group has new records on all.
    by_a = predicted(copied(cluster, tmp_path / "after")[0], groups.ids)
    told += require_alike(cluster, groups.ids, by_a, tmp_path / "repaired")
    print(f"{told} answers as predicted; {len(rows)} differences, none after the printed repair")


def test_a_group_that_was_upgraded_meanwhile_fails_the_load(cluster: ThreeBrokers, rng: Random, tmp_path: Path) -> None:
    """`unloadable`: C has the group's record of the classic protocol, whose tombstone it never saw, and then records of
    the new one. Then it serves no group of that log partition."""
    groups = Groups(cluster, rng)
    part = rng.randrange(LOG_PARTITIONS)
    upgraded = groups.new(part, "upgraded")
    groups.join(upgraded, CLASSIC).close()
    groups.commit(upgraded)
    cluster.wait_until_in_sync()
    cluster.kill(C)
    groups.join(upgraded, CONSUMER).close()
    cluster.clean(A, B, until=lambda node: not groups.tombstones([upgraded], node))
    cluster.start(C)
    folders = copied(cluster, tmp_path / "copy")
    by_a, by_c = (predicted(folder, groups.ids) for folder in (folders[0], folders[2]))
    in_part = {group for group in groups.ids if cluster.log_partition_of(group) == part}
    assert {group for group, answer in by_c.items() if answer.error == "NOT_COORDINATOR"} == in_part
    rows = rows_of(comparison(folders))
    assert {row["kind"] for row in rows.values()} == {"unloadable"}
    assert {key[0] for key in rows} == in_part
    assert offsets_in(rows) == keys_that_differ(by_a, by_c)
    told = require_told(cluster.answers(groups.ids), by_a)
    cluster.elect(C, unloadable=[part])
    told += require_told(cluster.answers(groups.ids), by_c)
    replace_copy_as_printed(rows, cluster, tmp_path / "aside")
    told += require_alike(cluster, groups.ids, by_a, tmp_path / "repaired")
    print(f"{told} answers as predicted; {len(rows)} differences, none after the printed repair")


def test_after_an_unclean_election_both_sides_lack_something(
    cluster: ThreeBrokers, rng: Random, tmp_path: Path
) -> None:
    """`lost`: first by C, which is behind and leads; then by A and B, which had compacted an older value in favour of
    one that they truncate."""
    cluster.configure(unclean_leader_election_enable="true")
    groups, archive = Groups(cluster, rng), tmp_path / "archive"
    moved, deleted, pending = (
        [groups.new(part, name) for part in range(LOG_PARTITIONS)] for name in ("moved", "deleted", "pending")
    )
    for group in (*moved, *deleted):
        cluster.commit(group, {(TOPIC, 0): 100, (TOPIC, 1): rng.randrange(1_000)})
    producers: list[Producer] = [
        cluster.transaction(f"tx-{number}", group, {(TOPIC, 1): 777}) for number, group in enumerate(pending)
    ]
    cluster.wait_until_in_sync()
    ends = [cluster.end(part, C) for part in range(LOG_PARTITIONS)]
    before_ms = time.time_ns() // 1_000_000
    archive_log(cluster, archive)
    cluster.kill(C)
    for group in moved:
        cluster.commit(group, {(TOPIC, 0): 200})
    cluster.delete_groups(*deleted)
    new = [groups.new(part, "new") for part in range(LOG_PARTITIONS)]
    for group in new:
        groups.commit(group)
    for producer in producers:
        producer.commit_transaction() if rng.random() < 0.5 else producer.abort_transaction()
    cluster.wait_for(lambda: not any(cluster.open_transactions(node) for node in (A, B)), "the markers")

    def has_lost_the_older(node: int) -> bool:
        return all(at >= ends[part] for part, group in enumerate(moved) for at in groups.values_at(group, node))

    cluster.clean(A, B, until=has_lost_the_older)
    # From here on C keeps every record, which shows that nothing there has removed the older value.
    cluster.configure(min_compaction_lag_ms="3600000", max_compaction_lag_ms="3600000")
    led_by_a = cluster.answers(groups.ids)
    cluster.kill(B)
    cluster.kill(A, is_last=True)
    disks = [cluster.brokers[node].data for node in NODES]
    by_a, by_c = (predicted(folder, groups.ids) for folder in (disks[0], disks[2]))
    told = require_told(led_by_a, by_a)
    rows = rows_of(comparison(disks))
    # What was deleted comes back with any election, once its tombstone is cleaned away.
    assert {group for (group, _, _), row in rows.items() if not row["needs_unclean_election"]} <= {*deleted}
    assert {(group, TOPIC, 0) for group in moved} <= {key for key, row in rows.items() if row["kind"] == "lost"}
    assert {group for group, _, _ in rows} >= {*moved, *deleted, *new}
    assert offsets_in(rows) == keys_that_differ(by_a, by_c)

    cluster.start(C)
    cluster.wait_for(lambda: all(isr == [C] for isr in cluster.isr().values()), "C leads alone")
    cluster.wait_for_coordinator(C)
    told += require_told(cluster.answers(groups.ids), by_c)

    for group in (*new, *groups.ids[:4]):
        groups.commit(group)
    cluster.start(A, B)
    folders = copied(cluster, tmp_path / "copy")
    by_a, by_c = (predicted(folder, groups.ids) for folder in (folders[0], folders[2]))
    rows = rows_of(comparison(folders))
    assert not any(row["needs_unclean_election"] for row in rows.values())
    holes = {key for key, row in rows.items() if row["kind"] == "lost"}
    assert {(group, TOPIC, 0) for group in moved} <= holes
    assert {tuple(rows[key]["wrong_replicas"]) for key in holes} == {("broker-1", "broker-2")}
    assert offsets_in(rows) == keys_that_differ(by_a, by_c)
    told += require_told(cluster.answers(groups.ids), by_c)
    cluster.elect(A)
    told += require_told(cluster.answers(groups.ids), by_a)

    for group in moved:
        key = (group, TOPIC, 0)
        assert by_a[group].offsets.get((TOPIC, 0)) is None
        restore_as_printed(rows[key]["advice"], cluster, archive=archive, as_of_ms=before_ms)
        (offset, *_) = cluster.answers([group])[group].offsets[TOPIC, 0]
        assert offset == by_c[group].offsets[TOPIC, 0][0] == 100
    cluster.wait_until_in_sync()
    for node in (C, B):
        cluster.elect(node)
        assert {cluster.answers([group])[group].offsets[TOPIC, 0][0] for group in moved} == {100}
    print(f"{told} answers as predicted; {len(rows)} differences, {len(holes)} of them lost on A and B, and put back")


def test_records_of_another_leader_are_in_conflict_until_they_are_truncated(
    cluster: ThreeBrokers, rng: Random, tmp_path: Path
) -> None:
    """`conflict`: A and B go on without C and are killed; C leads after an unclean election, and goes on another way.
    A comes back by the printed repair, B by itself: then all have what C has."""
    # Nothing is cleaned, so that both ways are there from record to record.
    cluster.configure(
        unclean_leader_election_enable="true", min_compaction_lag_ms="3600000", max_compaction_lag_ms="3600000"
    )
    groups = Groups(cluster, rng)
    some = [groups.new(part, f"some-{number}") for part in range(LOG_PARTITIONS) for number in range(2)]
    for group in some:
        groups.commit(group)
    cluster.wait_until_in_sync()
    cluster.kill(C)
    for group in (*some, *(groups.new(part, "of-a") for part in range(LOG_PARTITIONS))):
        groups.commit(group)
    cluster.kill(B)
    cluster.kill(A, is_last=True)
    cluster.start(C)
    cluster.wait_for(lambda: all(isr == [C] for isr in cluster.isr().values()), "C leads alone")
    cluster.wait_for_coordinator(C)
    for group in (*(groups.new(part, "of-c") for part in range(LOG_PARTITIONS)), *some):
        groups.commit(group)
    led_by_c = cluster.answers(groups.ids)
    time.sleep(1)  # longer than replica.high.watermark.checkpoint.interval.ms: what is above is not compared
    cluster.kill(C, is_last=True)

    disks = [cluster.brokers[node].data for node in NODES]
    by_c = predicted(disks[2], groups.ids)
    told = require_told(led_by_c, by_c)
    found = comparison(disks)  # a key that C lacks has another row, of what is lost
    conflicts = found.differences.filter(pc.equal(found.differences["kind"], "conflict"))
    in_conflict = rows_of(replace(found, differences=conflicts))
    expected = keys_in_conflict(cluster)
    assert {key: {*row["log_offsets"]} for key, row in in_conflict.items()} == expected
    assert {(*row["wrong_replicas"], *row["right_replicas"]) for row in in_conflict.values()} == {
        ("broker-1", "broker-2", "broker-3")
    }
    assert {row["proof"] for row in in_conflict.values()} == {"leader_epoch"}

    cluster.start(C)
    cluster.wait_for(lambda: all(isr == [C] for isr in cluster.isr().values()), "C leads again")
    for part in range(LOG_PARTITIONS):
        name = f"__consumer_offsets-{part}"
        assert any(f"move its folder {name} away, start the broker" in row["advice"] for row in in_conflict.values())
        (cluster.brokers[A].data / name).rename(tmp_path / name)
    cluster.start(A, B)
    assert comparison(copied(cluster, tmp_path / "copy")).differences.num_rows == 0
    for node in (C, A, B):
        cluster.elect(node)
        told += require_told(cluster.answers(groups.ids), by_c)
    print(f"{told} answers as predicted; {len(in_conflict)} keys in conflict")


def test_the_printed_repair_of_a_deleted_group_leaves_what_is_right(
    cluster: ThreeBrokers, rng: Random, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]
) -> None:
    """`resurrected`, and C leads already: in one log partition what is back is deleted through C as the coordinator, in
    the other C's replica is taken away and replicated anew. Then it does not matter any more who leads."""
    groups = Groups(cluster, rng)
    by_command, by_copy = rng.sample(range(LOG_PARTITIONS), LOG_PARTITIONS)
    removed = [groups.new(part, "removed") for part in range(LOG_PARTITIONS)]
    trimmed = [groups.new(part, "trimmed") for part in range(LOG_PARTITIONS)]
    for group in (*removed, *trimmed):
        cluster.commit(group, {(TOPIC, number): rng.randrange(1_000) for number in range(2)})
    cluster.wait_until_in_sync()
    cluster.kill(C)
    cluster.delete_groups(*removed)
    for group in trimmed:
        cluster.delete_offsets(group, [0])
    cluster.clean(A, B, until=lambda node: not groups.tombstones([*removed, *trimmed], node))
    cluster.start(C)
    cluster.wait_until_in_sync()
    folders = copied(cluster, tmp_path / "before")
    right, rows = predicted(folders[0], groups.ids), rows_of(comparison(folders))
    cluster.elect(C)
    is_back = {(group, TOPIC, number) for group in removed for number in range(2)}
    assert offsets_in(rows) == is_back | {(group, TOPIC, 0) for group in trimmed}
    assert {tuple(row["kinds"]) for row in rows.values()} == {("resurrected",)}
    of_part = {part: [group for group in groups.ids if cluster.log_partition_of(group) == part] for part in (0, 1)}
    assert keys_that_differ(cluster.answers(groups.ids), right) == offsets_in(rows)

    commands = [
        command
        for row in rows.values()
        if row["log_partition"] == by_command
        for command in printed_commands(row["advice"])
    ]
    assert len(commands) == 4  # three offsets and a group
    for command in commands:
        run_printed(command, cluster, java=java, jars=kafka_jars)
    told = require_told(cluster.answers(of_part[by_command]), {group: right[group] for group in of_part[by_command]})

    of_copy = {key: row for key, row in rows.items() if row["log_partition"] == by_copy}
    replace_copy_as_printed(of_copy, cluster, tmp_path / "aside")
    told += require_alike(cluster, groups.ids, right, tmp_path / "copy")
    print(f"{told} answers as before; {len(commands)} commands for one log partition, a new copy of the other")
