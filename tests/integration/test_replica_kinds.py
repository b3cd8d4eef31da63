"""Clusters on which a replica differs in the ways that `test_replicas.py` leaves out, each made anew from a seed.

A member that has left, a log partition that no longer loads, and an unclean election. From the disks or the copies it
is predicted what a replica answers, and what would differ; then that replica leads and is asked for every group.
Minutes for each seed, so only with `--full`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.listing import listed_group
from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets
from sexton.kafka.session import ClusterSession
from sexton.records import decode_key
from sexton.replicas import Comparison, compare, open_replicas
from sexton.replicas.copy import copy_replicas
from tests.replicas.recordings import coordinator_of
from tests.replicas_cluster import (
    LOG_PARTITIONS,
    NODES,
    PARTITIONS,
    TOPIC,
    A,
    B,
    C,
    GroupAnswer,
    OffsetAnswers,
    ThreeBrokers,
)

SEEDS = (1, 2, 3)
STAYING = 3
"""So many groups of each log partition have nothing to do with the case."""
CLASSIC, CONSUMER = "classic", "consumer"
Answers = Mapping[str, GroupAnswer]
Key = tuple[str | None, str | None, int | None]

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_200)]


@pytest.fixture(params=SEEDS)
def rng(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)


@pytest.fixture
def cluster(rng: Random, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ThreeBrokers]:
    # What a disk says of its high watermark is then no older than that.
    settings = {"replica.high.watermark.checkpoint.interval.ms": "300"}
    with ThreeBrokers(tmp_path / "cluster", java=java, jars=kafka_jars, settings=settings) as cluster:
        yield cluster


class Groups:
    """The groups of a cluster, each made in its log partition."""

    def __init__(self, cluster: ThreeBrokers, rng: Random) -> None:
        self._cluster, self._rng = cluster, rng
        self.ids = [next(cluster.groups_of(part, name)) for part in range(LOG_PARTITIONS) for name in ("group", "tick")]
        for part in range(LOG_PARTITIONS):
            for number in range(STAYING):
                self.commit(self.new(part, f"stay-{number}"))

    def new(self, log_partition: int, name: str) -> str:
        """A name for a group of that log partition, which is asked about from now on."""
        group = next(self._cluster.groups_of(log_partition, f"{name}-{self._rng.randrange(1_000)}"))
        self.ids.append(group)
        return group

    def commit(self, group: str) -> None:
        """A few offsets for some partitions. A client that knew brokers which are down since would look for them."""
        some = self._rng.sample(range(PARTITIONS), self._rng.randint(1, PARTITIONS))
        offsets = {(TOPIC, number): (self._rng.randrange(1_000_000), None, "") for number in some}
        with ClusterSession(self._cluster.config) as session:
            assert set(commit_offsets(session, group, offsets).values()) == {None}

    def join(self, group: str, protocol: str) -> Consumer:
        """A member with an assignment, which has committed."""
        own = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({**self._cluster.config.for_confluent(), **own})
        consumer.subscribe([TOPIC])

        def is_assigned() -> bool:
            consumer.poll(0.2)
            return len(consumer.assignment()) == PARTITIONS

        self._cluster.wait_for(is_assigned, f"an assignment in {group}")
        return consumer

    def tombstones(self, groups: Sequence[str], node: int) -> int:
        """How many of these groups are in the log of a broker."""
        return sum(record.value is None for group in groups for record in self._cluster.records(group, node))

    def values_at(self, group: str, node: int) -> list[int]:
        """The log_offsets of the commits of a group for partition 0."""
        records = [record for record in self._cluster.records(group, node) if record.key is not None]
        return [one.log_offset for one in records if getattr(decode_key(one.key)[1], "partition", None) == 0]


# --- predicted


def predicted(folder: Path, groups: Sequence[str]) -> Answers:
    """What a coordinator that has loaded these bytes answers about each group, as `ThreeBrokers.answers` has it."""
    coordinator, every = coordinator_of(folder), [AskedPartition(topic=TOPIC, partition=n) for n in range(PARTITIONS)]
    found = {}
    for group in groups:
        plain, stable = (fetch(coordinator, group, partitions=every, require_stable=one) for one in (False, True))
        if plain.error is not Error.NONE:
            found[group] = GroupAnswer(error=plain.error.name)
            continue
        listed = listed_group(coordinator, group)
        offsets: list[OffsetAnswers] = [
            {
                (one.topic, one.partition): (
                    one.committed_offset,
                    one.leader_epoch,
                    one.metadata,
                    None if one.error is Error.NONE else one.error.name,
                )
                for one in answer.offsets
                if one.committed_offset >= 0 or one.error is not Error.NONE
            }
            for answer in (plain, stable)
        ]
        state = None if listed is None else (listed.group_type.lower(), listed.state)
        found[group] = GroupAnswer(listed=state, offsets=offsets[0], stable=offsets[1])
    return found


def require_told(answers: Answers, expected: Answers) -> int:
    """What a leader answers is what its bytes say; how many offsets and errors that were.

    A live coordinator keeps a simple group without offsets in its memory until the next sweep: that may be listed.
    """
    assert answers.keys() == expected.keys()
    count = 0
    for group, own in expected.items():
        said = answers[group]
        if own.error is not None:
            assert _plain(own.error) in _plain(said.error or ""), group
        else:
            assert (said.offsets, said.stable, said.error) == (own.offsets, own.stable, None), group
            assert said.listed == own.listed or (own.listed is None and not own.stable), group
        count += len(own.offsets) + len(own.stable) + (own.error is not None)
    assert count
    return count


def _plain(error: str) -> str:
    """NOT_COORDINATOR, which one of our clients calls NotCoordinatorError."""
    return error.replace("_", "").lower()


def keys_that_differ(one: Answers, other: Answers) -> set[Key]:
    """The offsets that are answered otherwise, of groups that are answered at all."""
    return {
        (group, *place)
        for group in one
        for place in {*one[group].stable, *other[group].stable, *one[group].offsets, *other[group].offsets}
        if (one[group].offsets.get(place), one[group].stable.get(place))
        != (other[group].offsets.get(place), other[group].stable.get(place))
    }


def rows_of(found: Comparison) -> dict[Key, dict[str, Any]]:
    return {(row["group_id"], row["topic"], row["partition"]): row for row in found.differences.to_pylist()}


def offsets_in(rows: Mapping[Key, object]) -> set[Key]:
    return {key for key in rows if key[1] is not None}


def copied(cluster: ThreeBrokers, folder: Path) -> list[Path]:
    """A copy of each broker's replicas."""
    copy_replicas(cluster.config, folder, taken_at_ms=1_800_000_000_000)
    return [folder / f"broker-{node}" for node in NODES]


def comparison(folders: Sequence[Path]) -> Comparison:
    return compare(open_replicas([str(folder) for folder in folders], []))


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
    print(f"{told} answers as predicted; {len(rows)} differences")


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
    print(f"{told} answers as predicted; {len(rows)} differences")


def test_after_an_unclean_election_both_sides_lack_something(
    cluster: ThreeBrokers, rng: Random, tmp_path: Path
) -> None:
    """`lost`: first by C, which is behind and leads; then by A and B, which had compacted an older value in favour of
    one that they truncate."""
    cluster.configure(unclean_leader_election_enable="true")
    groups = Groups(cluster, rng)
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
    print(f"{told} answers as predicted; {len(rows)} differences, {len(holes)} of them lost on A and B")
