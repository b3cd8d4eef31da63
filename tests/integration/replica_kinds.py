"""What the tests of kinds of differences share: groups of a new cluster, what the bytes of a replica say that it would
answer, and how that is held against what its broker answers."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer

from sexton.as_text import now_ms
from sexton.cli import main
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.listing import listed_group
from sexton.java import JavaHome
from sexton.kafka.session import ClusterSession
from sexton.kafka_commands import SERVERS
from sexton.log.batch import Record, read_records
from sexton.records import decode_key
from sexton.replicas import ReplicaComparison, archived_logs, compare, open_replicas
from sexton.replicas.copy import copy_replicas
from sexton_dev.broker import run_tool
from tests.clients import commit_when_ready, joined
from tests.environment import with_settings
from tests.integration.stages import snapshot
from tests.replicas.recordings import coordinator_of
from tests.replicas_cluster import (
    LOG_PARTITIONS,
    NODES,
    PARTITIONS,
    RECORD_LIMIT_BYTES,
    TOPIC,
    A,
    C,
    GroupAnswer,
    OffsetAnswers,
    ThreeBrokers,
)

SEEDS = (1, 2, 3)
STAYING = 3
"""So many groups of each log partition have nothing to do with the case."""
SETTLED_MS = 2 * 3_600_000
PATIENCE_MS = 15_000
"""With a broker that is down: enough for the others, also on a busy machine."""
CLASSIC, CONSUMER = "classic", "consumer"
Answers = Mapping[str, GroupAnswer]
Key = tuple[str | None, str | None, int | None]


@contextmanager
def new_cluster(folder: Path, java: JavaHome, jars: Sequence[Path]) -> Iterator[ThreeBrokers]:
    # What a disk says of its high watermark is then no older than that.
    settings = {"replica.high.watermark.checkpoint.interval.ms": "300"}
    with ThreeBrokers(folder, java=java, jars=jars, settings=settings) as cluster:
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
        """A few offsets for some partitions."""
        some = self._rng.sample(range(PARTITIONS), self._rng.randint(1, PARTITIONS))
        self.put(group, {(TOPIC, number): self._rng.randrange(1_000_000) for number in some})

    def put(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets. A client that knew brokers which are down since would look for them: this is a new one."""
        wanted = {place: (offset, None, "") for place, offset in offsets.items()}
        with ClusterSession(self._cluster.config) as session:
            commit_when_ready(session, group, wanted)

    def join(self, group: str, protocol: str) -> Consumer:
        """A member with an assignment, which has committed."""
        return joined(self._cluster.config, group, TOPIC, protocol=protocol)

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


def keys_in_conflict(cluster: ThreeBrokers) -> dict[Key, set[int]]:
    """By the bytes of A and C: keys of the records at log_offsets where they have others, with these log_offsets."""
    found: dict[Key, set[int]] = {}
    for part in range(LOG_PARTITIONS):
        of_a, of_c = (_keys_by_offset(cluster, part, node) for node in (A, C))
        for log_offset in of_a.keys() & of_c.keys():
            if of_a[log_offset] != of_c[log_offset]:
                for _, key in (of_a[log_offset], of_c[log_offset]):
                    found.setdefault(key, set()).add(log_offset)
    return found


def _keys_by_offset(cluster: ThreeBrokers, log_partition: int, node: int) -> dict[int, tuple[tuple[object, ...], Key]]:
    """Each record by its log_offset: what it is, and its key."""
    found: dict[int, tuple[tuple[object, ...], Key]] = {}
    for batch in cluster.batches(log_partition, node):
        for record in read_records(batch, cap_bytes=RECORD_LIMIT_BYTES):
            assert isinstance(record, Record)
            assert record.key is not None
            _, key = decode_key(record.key)
            place = key.group_id, getattr(key, "topic", None), getattr(key, "partition", None)
            what = batch.leader_epoch, record.key, record.value, record.timestamp_ms
            found[record.log_offset] = what, place
    return found


def rows_of(found: ReplicaComparison) -> dict[Key, dict[str, Any]]:
    return {(row["group_id"], row["topic"], row["partition"]): row for row in found.differences.to_pylist()}


def offsets_in(rows: Mapping[Key, object]) -> set[Key]:
    return {key for key in rows if key[1] is not None}


def copied(cluster: ThreeBrokers, folder: Path) -> list[Path]:
    """A copy of the replicas of each broker that runs."""
    connect = partial(ClusterSession, request_timeout_ms=PATIENCE_MS, retry_for_s=PATIENCE_MS / 1000)
    copy_replicas(cluster.config, folder, taken_at_ms=1_800_000_000_000, connect=connect)
    return [folder / f"broker-{node}" for node in NODES]


def comparison(
    folders: Sequence[Path], *, archive: Path | None = None, cluster_id: str | None = None
) -> ReplicaComparison:
    """The comparison of brokers' disks or copies, with an archive as a witness or without one."""
    witness = None if archive is None else archived_logs(str(archive), cluster_id)
    return compare(open_replicas([str(folder) for folder in folders], []), archived=witness)


# --- printed


CLASS_OF = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""What Kafka's scripts start."""


def printed_commands(advice: str) -> list[str]:
    """Kafka's commands in an advice, in their order."""
    return re.findall(r"`(kafka-[^`]+)`", advice)


def run_printed(command: str, cluster: ThreeBrokers, *, java: JavaHome, jars: Sequence[Path]) -> str:
    """Run a printed command by the class that its script starts, and return what it prints."""
    script, *arguments = shlex.split(command.replace(SERVERS, cluster.config.bootstrap_servers))
    return run_tool(java, jars, CLASS_OF[script], *arguments)


def replace_copy_as_printed(rows: Mapping[Key, Mapping[str, Any]], cluster: ThreeBrokers, aside: Path) -> None:
    """Carry out the first step of every advice on C, which is wrong in all of them: A leads, C fetches its log anew."""
    names = sorted({f"__consumer_offsets-{row['log_partition']}" for row in rows.values()})
    steps = {
        f"broker-3: make sure that it does not lead {name} and that a right replica does, stop the broker, move its "
        f"folder {name} away, start the broker: it fetches the log anew"
        for name in names
    }
    assert {row["advice"].split("; ")[0] for row in rows.values()} == steps
    cluster.elect(A)
    cluster.brokers[C].stop()
    aside.mkdir()
    for name in names:
        (cluster.brokers[C].data / name).rename(aside / name)
    cluster.start(C)


def require_alike(cluster: ThreeBrokers, groups: Sequence[str], right: Answers, folder: Path) -> int:
    """Whichever broker leads answers what is right, and a comparison finds nothing; how many answers that were."""
    told = 0
    for node in NODES:
        cluster.elect(node)
        told += require_told(cluster.answers(groups), right)
    assert comparison(copied(cluster, folder)).differences.num_rows == 0
    return told


def archive_log(cluster: ThreeBrokers, archive: Path) -> None:
    """A snapshot, as if taken two hours from now: every instant of today has settled."""
    snapshot(cluster.config, archive, now_ms=lambda: now_ms() + SETTLED_MS)


def restore_as_printed(advice: str, cluster: ThreeBrokers, *, archive: Path, as_of_ms: int) -> None:
    """Run the `sexton restore` of an advice, first as it is printed, which only shows, then with --apply."""
    (printed,) = re.findall(r"`(sexton restore [^`]+)`", advice)
    _, *arguments = shlex.split(printed.replace("INSTANT", str(as_of_ms)).replace("URI", str(archive)))
    with with_settings(SEXTON_BOOTSTRAP_SERVERS=cluster.config.bootstrap_servers):
        assert main(arguments) == 0
        assert main([*arguments, "--apply", "--approved-by", "ann"]) == 0
