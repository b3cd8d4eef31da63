"""Snapshots of clusters in memory, and what must be true of an archive after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, newest_metadata
from sexton.archive.lineages import ArchivedLineage, list_lineages
from sexton.kafka.client import ClientConfig
from sexton.pipeline import archive_transactions, snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest, TakenSnapshot
from sexton.records import kafka_uuid
from sexton.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from sexton.transactions.reading import transactions_archive
from tests.kafka.fake_cluster import FakeCluster, batches_in

LOCAL = pafs.LocalFileSystem()
START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
CONFIG = ClientConfig(bootstrap_servers="fake:1")


class InlineEngine:
    """In the place of Spark: the work in any order, as tasks of a cluster run."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def map(self, label: str, items: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
        results: dict[int, Any] = {}
        for index in self._rng.sample(range(len(items)), len(items)):
            results[index] = work(items[index])
        return [results[index] for index in range(len(items))]


@dataclass
class Archivist:
    """Takes snapshots of one cluster into one archive, an hour apart, the larger ones by parallel work."""

    cluster: FakeCluster
    archive: Path
    now_ms: int = START_MS
    taken: list[TakenSnapshot] = field(default_factory=list)

    def snapshot(self, *, tell: Callable[[Sequence[str]], None] | None = None) -> TakenSnapshot:
        self.now_ms += HOUR_MS
        self.taken.append(self._take(tell))
        return self.taken[-1]

    def _take(self, tell: Callable[[Sequence[str]], None] | None) -> TakenSnapshot:
        return snapshot_log.run(
            InlineEngine(self.cluster.rng),  # type: ignore[arg-type]
            SnapshotRequest(config=CONFIG, archive=str(self.archive)),
            now_ms=lambda: self.now_ms,
            connect=self.cluster.connect,
            notify=tell,
        )

    @property
    def facts(self) -> ClusterMetadata:
        facts = newest_metadata(LOCAL, str(self.archive), cluster_id=self.cluster.cluster_id)
        assert facts is not None
        return facts

    def lineages(self) -> dict[int, list[ArchivedLineage]]:
        topic_id = kafka_uuid(self.cluster.topic_id)
        assert topic_id is not None
        return list_lineages(LOCAL, str(self.archive), cluster_id=self.cluster.cluster_id, topic_id=topic_id)

    def newest(self) -> dict[int, ArchivedLineage]:
        return {log_partition: found[-1] for log_partition, found in self.lineages().items()}

    def no_longer_the_log(self) -> set[int]:
        """Log partitions whose archived bytes the log does not go on from, told from the bytes themselves.

        What lies below the log's start is gone. Where the archive holds no batch above it there is nothing to compare,
        and the leader epochs have to tell.
        """
        assert self.facts.log_partitions is not None
        broken = set()
        for log_partition, lineage in self.newest().items():
            log, reached = self.cluster.logs[log_partition], lineage.next_log_offset
            held = dict(batches_in(archived(lineage)))
            left = {at: batch for at, batch in held.items() if at >= log.start}
            is_prefix = left.items() <= log.history.items()
            if lineage.segments and not left:
                told = self.facts.log_partitions[log_partition].leader_epoch
                if held:
                    told = int.from_bytes(held[max(held)][12:16], "big")
                epoch, end = log.end_of(told)
                is_prefix = epoch in (told, -1) and (end < 0 or end >= reached)
            if not is_prefix or not log.start <= reached <= log.end:
                broken.add(log_partition)
        return broken

    def assert_is_the_log(self) -> None:
        """The newest lineages hold what the logs hold, from their start to the end: nothing else, nothing less."""
        newest = self.newest()
        assert set(newest) == {log.log_partition for log in self.cluster.logs}
        for log in self.cluster.logs:
            lineage = newest[log.log_partition]
            held = dict(batches_in(archived(lineage)))
            start = lineage.lineage.start_log_offset
            kept = dict(batches_in(b"".join(log.batches)))
            assert lineage.next_log_offset == log.end
            assert {at: batch for at, batch in kept.items() if at >= start}.items() <= held.items()
            assert {at: batch for at, batch in held.items() if at >= log.start}.items() <= log.history.items()
            assert self.facts.log_partitions is not None
            told = self.facts.log_partitions[log.log_partition]
            assert (told.lineage, told.high_watermark) == (lineage.lineage.name, log.end)


class StateArchivist(Archivist):
    """Archives `__transaction_state` instead; what breaks in its log is among the alerts of each snapshot."""

    def _take(self, tell: Callable[[Sequence[str]], None] | None) -> TakenSnapshot:
        taken = archive_transactions.run(
            InlineEngine(self.cluster.rng),  # type: ignore[arg-type]
            SnapshotRequest(config=CONFIG, archive=str(self.archive.parents[1])),
            cluster_id=self.cluster.cluster_id,
            now_ms=lambda: self.now_ms,
            connect=self.cluster.connect,
            notify=tell,
        )
        assert taken is not None
        return taken


def archived(lineage: ArchivedLineage) -> bytes:
    """The bytes of a lineage, its segments one after the other."""
    return b"".join(Path(segment.segment_path).read_bytes() for segment in lineage.segments)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Story:
    """Three snapshots of a cluster that grows, breaks, and gets a log partition more; the same for the same seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.cluster = FakeCluster(seed)
        self.cluster.is_even = True
        self.archivist = Archivist(self.cluster, folder / "archive")
        self._alerts = folder / "alerts"
        self._alerts.parent.mkdir(parents=True)

    def chapter(self, number: int) -> None:
        rng = self.cluster.rng
        if number == 1:
            self.cluster.logs[0].elect(cut_at=rng.randint(0, self.cluster.logs[0].end - 1))
            self.cluster.logs[1].delete_below(rng.randint(0, self.cluster.logs[1].end))
        if number == 2:
            self.cluster.add_log_partitions(1)
        for log in self.cluster.logs:
            log.append(rng.randint(8, 20))
            log.elect()
            log.append(rng.randint(1, 8))

    def snapshot(self) -> None:
        """At the instant of its chapter, however often it is run."""
        now_ms = self.archivist.now_ms
        try:
            self.archivist.snapshot(tell=self._tell)
        finally:
            self.archivist.now_ms = now_ms

    def _tell(self, lines: list[str]) -> None:
        with self._alerts.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    @property
    def alerts(self) -> list[str]:
        return self._alerts.read_text().splitlines() if self._alerts.exists() else []


class StateStory(Story):
    """The same of `__transaction_state`."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.cluster.topic = TRANSACTIONS_TOPIC
        place = transactions_archive(str(self.archivist.archive), self.cluster.cluster_id)
        self.archivist = StateArchivist(self.cluster, Path(place))


def disk_of(cluster: FakeCluster, folder: Path) -> None:
    """The logs of a cluster as a broker keeps them, two files each."""
    for log in cluster.logs:
        home = folder / f"{OFFSETS_TOPIC}-{log.log_partition}"
        home.mkdir(parents=True, exist_ok=True)
        for old in home.glob("*.log"):
            old.unlink()
        half = len(log.batches) // 2
        for batches in filter(None, (log.batches[:half], log.batches[half:])):
            base_offset = int.from_bytes(batches[0][:8], "big")
            (home / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
        entries = "".join(f"{epoch} {at}\n" for epoch, at in log.epochs)
        (home / "leader-epoch-checkpoint").write_text(f"0\n{len(log.epochs)}\n{entries}")
        (home / "partition.metadata").write_text(f"version: 0\ntopic_id: {kafka_uuid(cluster.topic_id)}\n")
    (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster.cluster_id}\n")


def topics_of(cluster: FakeCluster, folder: Path) -> str:
    ends = ", ".join(f"[{log.start}, {log.end}]" for log in cluster.logs)
    file = folder / "topics.jsonl"
    file.write_text(f'{{"topic": "{OFFSETS_TOPIC}", "id": "{kafka_uuid(cluster.topic_id)}", "partitions": [{ends}]}}\n')
    return str(file)
