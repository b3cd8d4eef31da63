"""Clusters on which transactions have ended on two replicas and are open on the third, each made anew from a seed.

Broker C is away while transactions are aborted or committed, until A and B have cleaned away values and markers. From
the copies it is predicted what each replica answers; an archive that was written meanwhile shows which one is right.
Then C leads and is asked for every group, and the producers go on, or never return. Minutes for each seed, so only
with `--full`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from sexton.cli import main
from sexton.java import JavaHome
from sexton_dev.workload import group_metadata
from tests.integration.replica_kinds import (
    Answers,
    Groups,
    Key,
    comparison,
    copied,
    keys_that_differ,
    offsets_in,
    predicted,
    printed_commands,
    replace_copy_as_printed,
    require_alike,
    require_told,
    rows_of,
    run_printed,
)
from tests.integration.version_two_producer import VersionTwoProducer
from tests.replicas_cluster import LOG_PARTITIONS, NODES, PARTITIONS, TOPIC, A, B, C, ThreeBrokers

NEVER_MS = "3600000"
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
TIMEOUT_S = 60

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_200)]


@pytest.fixture(params=[1, 2], ids="transaction-version-{}".format)
def version(request: pytest.FixtureRequest) -> int:
    """That of the producers: 1 is librdkafka's, 2 that of Kafka's own clients from 4.0 on."""
    found: int = request.param
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A transaction of one log partition that has begun on all replicas, and the offsets in it."""

    producer: Producer | VersionTwoProducer
    producer_id: int
    log_partition: int
    start_offset: int
    offsets: Mapping[str, Mapping[tuple[str, int], int]]

    @property
    def keys(self) -> set[Key]:
        return {(group, *place) for group, places in self.offsets.items() for place in places}


class Transactions:
    """The transactions of a case, and how C misses their ends."""

    def __init__(self, cluster: ThreeBrokers, groups: Groups, rng: Random, folder: Path, *, version: int) -> None:
        self._cluster, self.groups, self._rng, self._version = cluster, groups, rng, version
        self.archive = folder / "archive"
        self.markers: dict[int, int] = {}
        """The log_offset of the marker of each producer."""

    def begin(self, name: str, log_partition: int) -> Open:
        """One with offsets of three groups, of which the first has no other offsets."""
        known = {one.producer_id for one in self._cluster.open_transactions(A)}
        offsets = {}
        for number in range(3):
            group = self.groups.new(log_partition, f"{name}-{number}")
            if number:
                self.groups.commit(group)
            offsets[group] = self._some_offsets()
        first, *others = offsets
        producer = self._begun(f"{name}-{log_partition}", first, offsets[first])
        for group in others:
            self.send(producer, group, offsets[group])
        (began,) = (one for one in self._cluster.open_transactions(A) if one.producer_id not in known)
        return Open(
            producer=producer,
            producer_id=began.producer_id,
            log_partition=log_partition,
            start_offset=began.start_offset,
            offsets=offsets,
        )

    def begin_everywhere(self, *names: str) -> list[list[Open]]:
        """A transaction of each name in every log partition."""
        return [[self.begin(name, part) for part in range(LOG_PARTITIONS)] for name in names]

    def _begun(
        self, transactional_id: str, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> Producer | VersionTwoProducer:
        if self._version == 1:
            return self._cluster.transaction(transactional_id, group, offsets)
        producer = VersionTwoProducer(self._cluster.config, transactional_id)
        producer.send_offsets(group, offsets)
        return producer

    def send(self, producer: Producer | VersionTwoProducer, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        if isinstance(producer, VersionTwoProducer):
            producer.send_offsets(group, offsets)
            return
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        metadata = group_metadata(self._cluster.config.for_confluent(), group)
        producer.send_offsets_to_transaction(wanted, metadata, TIMEOUT_S)

    def lose_c(self) -> None:
        """C goes. Until `clean_away` the others clean nothing, so that the archive gets all that was written."""
        self._cluster.wait_until_in_sync()
        self._cluster.kill(C)
        self._cluster.configure(min_compaction_lag_ms=NEVER_MS, max_compaction_lag_ms=NEVER_MS)

    def wait_for_markers(self, opened: Sequence[Open]) -> None:
        self._cluster.wait_for(lambda: not any(self._cluster.open_transactions(node) for node in (A, B)), "markers")
        for one in opened:
            (marker,) = self._cluster.markers(one.producer_id, A)
            self.markers[one.producer_id] = marker.base_offset

    def clean_away(self, tombstones_of: Sequence[str] = ()) -> None:
        """Take the archive, then have A and B clean away the markers and these groups' tombstones."""
        servers = self._cluster.config.bootstrap_servers
        assert main(["snapshot", "--bootstrap-servers", servers, "--archive", str(self.archive), "--json"]) == 0
        self._cluster.configure(min_compaction_lag_ms="0", max_compaction_lag_ms="1000")
        self._cluster.clean(
            A,
            B,
            until=lambda node: (
                not any(self._cluster.markers(producer, node) for producer in self.markers)
                and not self.groups.tombstones(tombstones_of, node)
            ),
        )

    def end_next(self, one: Open, *, commit: bool) -> None:
        """The next transaction of a producer, with an offset of another group, and its end."""
        group = self.groups.new(one.log_partition, "next")
        one.producer.begin_transaction()
        self.send(one.producer, group, {(TOPIC, 0): self._rng.randrange(1_000)})
        one.producer.commit_transaction(TIMEOUT_S) if commit else one.producer.abort_transaction(TIMEOUT_S)

    def _some_offsets(self) -> dict[tuple[str, int], int]:
        some = self._rng.sample(range(PARTITIONS), self._rng.randint(1, 3))
        return {(TOPIC, number): self._rng.randrange(1_000_000, 2_000_000) for number in some}


@pytest.fixture
def transactions(cluster: ThreeBrokers, rng: Random, tmp_path: Path, version: int) -> Transactions:
    return Transactions(cluster, Groups(cluster, rng), rng, tmp_path, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """From the copies: what A and C answer, and what differs, with the archive as a witness."""

    by_a: Answers
    by_c: Answers
    rows: Mapping[Key, dict[str, Any]]


def prediction(cluster: ThreeBrokers, groups: Groups, transactions: Transactions, folder: Path) -> Predicted:
    """Every offset that C would answer otherwise is named; C is wrong in all, and never without a proof."""
    folders = copied(cluster, folder)
    by_a, by_c = (predicted(place, groups.ids) for place in (folders[0], folders[2]))
    rows = rows_of(comparison(folders, archive=transactions.archive, cluster_id=cluster.cluster_id))
    assert offsets_in(rows) == keys_that_differ(by_a, by_c)
    for (_, topic, _), row in rows.items():
        assert (row["wrong_replicas"], row["right_replicas"]) == (["broker-3"], ["broker-1", "broker-2"]), row
        assert row["proof"] in ("marker", "tombstone"), row
        assert "archive" in row["evidence"] or topic is None, row
    return Predicted(by_a=by_a, by_c=by_c, rows=rows)


def require_open(found: Predicted, transactions: Transactions, opened: Sequence[Open]) -> set[Key]:
    """Every offset of the transactions is pending on C, and the archive's marker shows how it ended; their keys."""
    for one in opened:
        for key in one.keys:
            assert found.rows[key]["since_log_offset"] == transactions.markers[one.producer_id]
            group, *place = key
            assert found.by_c[str(group)].stable[tuple(place)][3] == UNSTABLE  # type: ignore[index]
    return {key for one in opened for key in one.keys}


def require_both_told(cluster: ThreeBrokers, groups: Groups, found: Predicted) -> int:
    """A answers what was predicted, and so does C once it leads; how many answers that were."""
    told = require_told(cluster.answers(groups.ids), found.by_a)
    cluster.elect(C)
    return told + require_told(cluster.answers(groups.ids), found.by_c)


def require_next(
    cluster: ThreeBrokers,
    transactions: Transactions,
    found: Predicted,
    *,
    commit: Sequence[Open],
    abort: Sequence[Open],
) -> int:
    """What the next COMMIT and the next ABORT serve is what the rows have said; how many offsets that were."""
    for one in (*commit, *abort):
        transactions.end_next(one, commit=one in commit)
    cluster.wait_for(lambda: not cluster.open_transactions(C), "the next markers")
    served = cluster.answers({group for one in (*commit, *abort) for group in one.offsets})
    count = 0
    for one in (*commit, *abort):
        for group, *place in one.keys:
            key = (group, *place)
            then = found.rows[key]["next_commit_offset" if one in commit else "next_abort_offset"]  # type: ignore[index]
            now = served[str(group)].stable.get(tuple(place))  # type: ignore[arg-type]
            assert (None if now is None else now[0]) == then, key
            count += 1
    return count


def test_an_aborted_transaction_is_open_again(
    cluster: ThreeBrokers, transactions: Transactions, tmp_path: Path
) -> None:
    """`aborted_to_committed`: the next COMMIT of the producer serves the aborted offsets, its next ABORT ends it. Once
    A leads again its answers are others than C's."""
    groups = transactions.groups
    then_commit, then_abort = transactions.begin_everywhere("commits", "aborts")
    opened = [*then_commit, *then_abort]
    transactions.lose_c()
    for one in opened:
        one.producer.abort_transaction(TIMEOUT_S)
    transactions.wait_for_markers(opened)
    transactions.clean_away()
    cluster.start(C)

    found = prediction(cluster, groups, transactions, tmp_path / "copy")
    assert offsets_in(found.rows) == require_open(found, transactions, opened)
    assert {tuple(row["kinds"]) for row in found.rows.values()} == {("aborted_to_committed", "stuck")}
    told = require_both_told(cluster, groups, found)
    count = require_next(cluster, transactions, found, commit=then_commit, abort=then_abort)
    assert any(found.rows[key]["next_commit_offset"] is not None for one in then_commit for key in one.keys)

    cluster.wait_until_in_sync()
    folders = copied(cluster, tmp_path / "after")
    by_a, by_c = (predicted(place, groups.ids) for place in (folders[0], folders[2]))
    told += require_told(cluster.answers(groups.ids), by_c)
    assert keys_that_differ(by_a, by_c) == {key for one in then_commit for key in one.keys}
    replace_copy_as_printed(found.rows, cluster, tmp_path / "aside")
    told += require_alike(cluster, groups.ids, by_a, tmp_path / "repaired")
    print(f"{told} answers as predicted; {len(found.rows)} differences, {count} served by the next marker as told")


def test_a_committed_transaction_is_open_again(
    cluster: ThreeBrokers, transactions: Transactions, rng: Random, tmp_path: Path
) -> None:
    """`committed_hidden`: each offset of it was superseded, by a newer one or a deletion, so that A and B could clean
    its marker away. The next COMMIT brings back what was deleted."""
    groups = transactions.groups
    then_commit, then_abort = transactions.begin_everywhere("commits", "aborts")
    opened = [*then_commit, *then_abort]
    transactions.lose_c()
    for one in opened:
        one.producer.commit_transaction(TIMEOUT_S)
    transactions.wait_for_markers(opened)
    deleted = []
    for one in opened:
        newer, trimmed, removed = rng.sample([*one.offsets], 3)
        cluster.commit(newer, {place: rng.randrange(3_000_000, 4_000_000) for place in one.offsets[newer]})
        cluster.delete_offsets(trimmed, [number for _, number in one.offsets[trimmed]])
        cluster.delete_groups(removed)
        deleted += [trimmed, removed]
    transactions.clean_away(deleted)
    cluster.start(C)

    found = prediction(cluster, groups, transactions, tmp_path / "copy")
    pending = require_open(found, transactions, opened)
    assert {found.rows[key]["kind"] for key in pending} == {"committed_hidden"}
    assert {row["kind"] for key, row in found.rows.items() if key not in pending} == {"resurrected"}
    assert {group for group, _, _ in found.rows} == {group for one in opened for group in one.offsets}
    told = require_both_told(cluster, groups, found)
    count = require_next(cluster, transactions, found, commit=then_commit, abort=then_abort)

    cluster.wait_until_in_sync()
    by_a = predicted(copied(cluster, tmp_path / "after")[0], groups.ids)
    replace_copy_as_printed(found.rows, cluster, tmp_path / "aside")
    told += require_alike(cluster, groups.ids, by_a, tmp_path / "repaired")
    print(f"{told} answers as predicted; {len(found.rows)} differences, {count} served by the next marker as told")


def test_a_transaction_whose_producer_does_not_return_is_stuck(
    cluster: ThreeBrokers, transactions: Transactions, rng: Random, tmp_path: Path, java: JavaHome,
    kafka_jars: list[Path],
) -> None:  # fmt: skip
    """`stuck`: C's last stable offset stays and its cleaner stops there. The printed steps, on C as the leader, leave
    what A answers."""
    groups = transactions.groups
    aborted, committed = transactions.begin_everywhere("aborted", "committed")
    opened = [*aborted, *committed]
    transactions.lose_c()
    for one in opened:
        one.producer.abort_transaction(TIMEOUT_S) if one in aborted else one.producer.commit_transaction(TIMEOUT_S)
    transactions.wait_for_markers(opened)
    for one in committed:
        for group, places in one.offsets.items():
            cluster.commit(group, {place: rng.randrange(3_000_000, 4_000_000) for place in places})
    transactions.clean_away()
    away = [*copied(cluster, tmp_path / "away")[:2], cluster.brokers[C].data]
    rows = rows_of(comparison(away, archive=transactions.archive, cluster_id=cluster.cluster_id))
    # C ends inside them: whatever it fetches once it is back, their markers are not in it.
    assert {rows[key]["kind"] for one in aborted for key in one.keys} == {"stuck"}
    assert {rows[key]["kind"] for one in committed for key in one.keys} == {"committed_hidden"}
    cluster.start(C)

    found = prediction(cluster, groups, transactions, tmp_path / "copy")
    assert offsets_in(found.rows) == require_open(found, transactions, opened)
    kinds = {key: found.rows[key]["kinds"] for one in opened for key in one.keys}
    assert {tuple(kinds[key]) for one in aborted for key in one.keys} == {("aborted_to_committed", "stuck")}
    assert {tuple(kinds[key]) for one in committed for key in one.keys} == {("committed_hidden", "stuck")}
    told = require_both_told(cluster, groups, found)

    ticks = [next(cluster.groups_of(part, "tick")) for part in range(LOG_PARTITIONS)]
    for _ in range(8):
        for tick in ticks:
            groups.commit(tick)
        time.sleep(0.25)  # longer than segment.ms: the next commit rolls
    cluster.wait_for(
        lambda: all(len(cluster.records(tick, A)) < len(cluster.records(tick, C)) for tick in ticks), "A has cleaned"
    )
    starts = {part: min(one.start_offset for one in opened if one.log_partition == part) for part in (0, 1)}
    assert {row.log_partition: row.last_stable_offset for row in cluster.probe() if row.broker == C} == starts
    blocked = [group for one in opened for group in one.offsets]
    expected = {group: found.by_c[group] for group in blocked}
    told += require_told(cluster.answers(blocked), expected)

    commands = list(dict.fromkeys(one for key in kinds for one in printed_commands(found.rows[key]["advice"])))
    assert len(commands) == len(opened)
    for command in commands:
        run_printed(command, cluster, java=java, jars=kafka_jars)
    cluster.wait_for(lambda: not cluster.open_transactions(C), "the transactions have ended")
    told += require_told(cluster.answers(blocked), {group: found.by_a[group] for group in blocked})
    cluster.wait_until_in_sync()
    assert comparison(copied(cluster, tmp_path / "repaired")).differences.num_rows == 0
    assert {row.broker for row in cluster.probe() if not row.suspicion} == {*NODES}
    print(f"{told} answers as predicted; {len(kinds)} offsets stuck, free after {len(commands)} commands")
