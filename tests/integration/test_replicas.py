"""The replicas of a cluster of three brokers, asked and copied one by one, held against the brokers' own disks.

The last tests make C differ: while it is away a group is deleted and a transaction aborted, and A and B clean the
tombstones and the marker away. What C's copy shows is what C answers once it leads.
"""

import json
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from sexton.archive.broker_disk import disk_logs
from sexton.audits import audit_replicas
from sexton.audits.audit_replicas import ReplicaRequest
from sexton.cli import main
from sexton.errors import Refused
from sexton.java import JavaHome
from sexton.job_params import ReplayRequest
from sexton.kafka.replicas import ReplicaFault, ReplicaProbe, ReplicaReader, describe_replicas, probe_replicas
from sexton.kafka.session import ClusterSession, Connect
from sexton.lake.read import load
from sexton.log.batch import Batch, read_batches
from sexton.pipeline import replay_groups
from sexton.replicas import compare, open_replicas
from sexton.replicas.copy import ReplicaCopy, copy_replicas
from sexton.runs.checkpoint import publish_checkpoint
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from tests.lake_session import engine_of, iceberg_session, lake_at
from tests.replicas_cluster import LOG_PARTITIONS, NODES, TOPIC, A, B, C, GroupAnswer, ThreeBrokers

GONE, PENDING, KEPT = "gone", "pending", "kept"
LOAD_S = 5.0
SETTLE_MS = 500
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
PATIENCE_S = 6
"""With a broker that stalls: enough for the others, also on a busy machine."""
impatient = partial(ClusterSession, request_timeout_ms=PATIENCE_S * 1000, retry_for_s=PATIENCE_S)

pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("three"), java=java, jars=kafka_jars) as cluster:
        cluster.commit(KEPT, {(TOPIC, 0): 5, (TOPIC, 1): 6})
        cluster.transaction("done", KEPT, {(TOPIC, 2): 7}).commit_transaction()
        cluster.wait_for(lambda: not cluster.open_transactions(A), "the marker")
        cluster.wait_until_in_sync()
        yield cluster


def probe(cluster: ThreeBrokers, *, connect: Connect = ClusterSession) -> dict[tuple[int, int], ReplicaProbe]:
    """By log partition and broker."""
    with connect(cluster.config) as session:
        return {(row.log_partition, row.broker): row for row in probe_replicas(session)}


def copy(cluster: ThreeBrokers, folder: Path, *, connect: Connect = ClusterSession) -> ReplicaCopy:
    return copy_replicas(cluster.config, folder, taken_at_ms=1_800_000_000_000, connect=connect)


def copied_log(folder: Path, broker: int, log_partition: int) -> bytes:
    place = folder / f"broker-{broker}" / f"__consumer_offsets-{log_partition}"
    return b"".join(file.read_bytes() for file in sorted(place.glob("*.log")))


def below(log: bytes, log_offset: int) -> bytes:
    """The batches of a log that begin below a log_offset."""
    return b"".join(
        bytes(batch.data) for batch in read_batches(log) if isinstance(batch, Batch) and batch.base_offset < log_offset
    )


def test_a_copy_is_what_each_broker_has_on_its_disk(cluster: ThreeBrokers, tmp_path: Path) -> None:
    copied = copy(cluster, tmp_path / "copy")
    assert [(one.log_partition, one.broker, one.is_leader, one.in_isr) for one in copied.replicas] == [
        (part, node, node == A, True) for node in NODES for part in range(LOG_PARTITIONS)
    ]
    for one in copied.replicas:
        assert (one.fault, one.reassignment) == (None, None)
        end = one.high_watermark or 0
        own = below(cluster.log(one.log_partition, one.broker), end)
        assert own
        assert copied_log(tmp_path / "copy", one.broker, one.log_partition) == own
    for node, broker in cluster.brokers.items():
        folder = tmp_path / "copy" / f"broker-{node}"
        assert f"node.id={node}\n" in (folder / "meta.properties").read_text("utf-8")
        ours, theirs = (disk_logs(pafs.LocalFileSystem(), str(place)) for place in (folder, broker.data))
        assert {part: (log.start, log.end, log.epochs) for part, log in ours.items()} == {
            part: (log.start, log.end, log.epochs) for part, log in theirs.items()
        }
    states = json.loads((tmp_path / "copy" / "replicas.json").read_text("utf-8"))
    assert states["cluster_id"] == cluster.cluster_id


@pytest.mark.thorough
def test_under_load_nothing_is_suspicious(cluster: ThreeBrokers) -> None:
    """Commits and transactions that end, one open for all the time, cleaners at work, followers behind the leader."""
    waiting = cluster.transaction("waiting", "waits", {(TOPIC, 3): 1})
    is_over = threading.Event()

    def commit() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            cluster.commit(f"load-{number % 7}", {(TOPIC, number % 8): number})

    def transact() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            producer = cluster.transaction("load", f"load-{number % 5}", {(TOPIC, 4): number})
            producer.commit_transaction() if number % 3 else producer.abort_transaction()

    threads = [threading.Thread(target=work) for work in (commit, transact)]
    for thread in threads:
        thread.start()
    try:
        deadline, probes, lags = time.monotonic() + LOAD_S, 0, 0
        while time.monotonic() < deadline:
            rows = probe(cluster)
            assert {key: row for key, row in rows.items() if row.suspicion or row.fault} == {}
            probes += 1
            lags += sum(len({row.high_watermark for (part, _), row in rows.items() if part == p}) > 1 for p in (0, 1))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        waiting.abort_transaction()
        cluster.wait_for(lambda: not cluster.open_transactions(A), "the markers")
    assert probes
    assert lags, "the load never made a follower differ from its leader"


def test_a_follower_that_stalls_is_named_and_the_others_are_copied(
    cluster: ThreeBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where kafka-python, which begins with a random one of the brokers, always draws the one that stalls."""
    monkeypatch.setattr("kafka.net.manager.random.choice", lambda brokers: brokers[-1])
    cluster.freeze(C)
    try:
        rows = probe(cluster, connect=impatient)
        copied = copy(cluster, tmp_path / "copy", connect=impatient)
    finally:
        cluster.thaw(C)
    assert {node for (_, node), row in rows.items() if row.fault == "unreachable"} == {C}
    assert {one.broker for one in copied.replicas if one.fault == "unreachable" and one.fix and not one.folder} == {C}
    assert {one.broker for one in copied.replicas if one.fault is None and one.folder} == {A, B}
    assert not (tmp_path / "copy" / f"broker-{C}").exists()
    cluster.wait_until_in_sync()


@pytest.mark.thorough
def test_an_archive_that_paused_brings_nothing_back(
    cluster: ThreeBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hazard of replicas is also ours: values, tombstones and markers are gone when the snapshots go on, and the
    archive and a checkpoint still have the values. The archive begins the log anew, and no run goes on from before."""
    archive, groups = tmp_path / "archive", ("removed", "trimmed", "undone", "renewed")
    for group in ("removed", "trimmed"):
        cluster.commit(group, {(TOPIC, 0): 10, (TOPIC, 1): 11})
    undone, renewed = (cluster.transaction(group, group, {(TOPIC, 0): 777}) for group in ("undone", "renewed"))
    producers = {one.producer_id for one in cluster.open_transactions(A)}
    cluster.wait_until_in_sync()
    before = Replayed(cluster, archive, tmp_path / "before")
    assert before.offsets(groups) == {
        **{(group, 0): 10 for group in ("removed", "trimmed")},
        **{(group, 1): 11 for group in ("removed", "trimmed")},
        **{(group, 0): UNSTABLE for group in ("undone", "renewed")},
    }
    publish_checkpoint(RunFolder(before.folder), before.record, str(archive))

    cluster.delete_groups("removed")
    cluster.delete_offsets("trimmed", [0])
    undone.abort_transaction()
    renewed.commit_transaction()
    cluster.wait_for(lambda: not cluster.open_transactions(A), "the markers")
    cluster.commit("renewed", {(TOPIC, 0): 900})
    left = {"removed": 0, "trimmed": 1, "undone": 0, "renewed": 1}
    cluster.clean(
        A,
        until=lambda node: (
            {group: len(cluster.records(group, node)) for group in groups} == left
            and not any(cluster.markers(producer, node) for producer in producers)
        ),
    )
    after = Replayed(cluster, archive, tmp_path / "after")
    answers = {
        (group, partition): error or offset
        for group, answer in cluster.answers(groups).items()
        for (_, partition), (offset, _, _, error) in answer.stable.items()
    }
    assert after.offsets(groups) == answers == {("trimmed", 1): 11, ("renewed", 0): 900}
    assert after.record.base_as_of_ms is None
    assert any("has left lineage" in warning for warning in after.record.warnings)
    origins = [json.loads(file.read_text("utf-8")) for file in archive.rglob("origin.json")]
    assert "unobserved" in {origin["reason"] for origin in origins}
    for group in groups:
        capsys.readouterr()
        main(["fetch", group, "--archive", str(archive), "--require-stable", "--json"])
        offsets = json.loads(capsys.readouterr().out)["offsets"]
        assert {(group, one["partition"]): one["committed_offset"] for one in offsets} == {
            key: offset for key, offset in answers.items() if key[0] == group
        }


class Replayed:
    """A snapshot of the cluster, and a run of the instant before it, which goes on from a checkpoint if it can."""

    def __init__(self, cluster: ThreeBrokers, archive: Path, folder: Path) -> None:
        as_of_ms = time.time_ns() // 1_000_000
        time.sleep(2 * SETTLE_MS / 1000)
        servers = cluster.config.bootstrap_servers
        assert main(["snapshot", "--bootstrap-servers", servers, "--archive", str(archive), "--json"]) == 0
        request = ReplayRequest(
            archive=str(archive),
            as_of_ms=as_of_ms,
            settle_ms=SETTLE_MS,
            run_id=folder.name,
            taken_at_ms=time.time_ns() // 1_000_000,
        )
        self.folder = folder
        with SerialEngine(quiet=True) as engine:
            self.record = replay_groups.run(engine, RunFolder(folder), request)

    def offsets(self, groups: Collection[str]) -> dict[tuple[str, int], int | str]:
        """What is committed of these groups, UNSTABLE where something is pending."""
        found: dict[tuple[str, int], int | str] = {}
        for name in ("committed_offsets", "unreachable_offsets", "pending_offsets"):
            for file in (self.folder / name).glob("*.parquet"):
                for row in pq.read_table(file, partitioning=None).to_pylist():
                    if row["group_id"] in groups:
                        key = row["group_id"], row["partition"]
                        found[key] = UNSTABLE if name == "pending_offsets" else row["committed_offset"]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """What was seen while C was away, when it was back, and of its copy; what A answers, and C once it leads."""

    without_c: dict[tuple[int, int], ReplicaProbe]
    with_c: dict[tuple[int, int], ReplicaProbe]
    exit_code: int
    folder: Path
    led_by_a: dict[str, GroupAnswer]
    led_by_c: dict[str, GroupAnswer]
    while_c_leads: dict[tuple[int, int], ReplicaProbe]


@pytest.fixture(scope="module")
def diverged(cluster: ThreeBrokers, tmp_path_factory: pytest.TempPathFactory) -> Diverged:
    groups = (GONE, PENDING, KEPT)
    cluster.commit(GONE, {(TOPIC, 0): 10, (TOPIC, 1): 11})
    transaction = cluster.transaction("aborted", PENDING, {(TOPIC, 0): 777})
    (opened,) = cluster.open_transactions(A)
    cluster.wait_until_in_sync()
    cluster.kill(C)
    without_c = probe(cluster)
    cluster.delete_groups(GONE)
    transaction.abort_transaction()
    cluster.wait_for(lambda: not any(cluster.open_transactions(node) for node in (A, B)), "the marker")
    cluster.clean(A, B, until=lambda node: not cluster.records(GONE, node) and not cluster.records(PENDING, node))
    cluster.clean(A, B, until=lambda node: not cluster.markers(opened.producer_id, node))
    cluster.start(C)
    with_c = probe(cluster)
    folder = tmp_path_factory.mktemp("diverged") / "copy"
    code = main(["replicas", "probe", "--bootstrap-servers", cluster.config.bootstrap_servers, "--json"])
    copy(cluster, folder)
    led_by_a = cluster.answers(groups)
    cluster.elect(C)
    led_by_c = cluster.answers(groups)
    return Diverged(
        without_c=without_c,
        with_c=with_c,
        exit_code=code,
        folder=folder,
        led_by_a=led_by_a,
        led_by_c=led_by_c,
        while_c_leads=probe(cluster),
    )


def test_a_broker_that_is_down_is_named(diverged: Diverged) -> None:
    assert {(part, node) for (part, node), row in diverged.without_c.items() if row.fault} == {(0, C), (1, C)}
    assert {row.in_isr for (_, node), row in diverged.without_c.items() if node == C} == {False}


def test_a_snapshot_finds_the_transaction_that_is_open_on_one_replica(
    cluster: ThreeBrokers, diverged: Diverged
) -> None:
    part = cluster.log_partition_of(PENDING)
    assert {key for key, row in diverged.with_c.items() if row.suspicion} == {(part, C)}
    row = diverged.with_c[part, C]
    assert [one.start_offset for one in row.open_transactions or ()] == [row.last_stable_offset]
    assert diverged.exit_code == 3
    assert {key for key, row in diverged.while_c_leads.items() if row.suspicion} == {(part, C)}


def test_the_copies_show_what_a_has_cleaned_and_c_has_kept(cluster: ThreeBrokers, diverged: Diverged) -> None:
    for group in (GONE, PENDING):
        part = cluster.log_partition_of(group)
        held = {
            node: [
                record.value is None for record in cluster.records_in(copied_log(diverged.folder, node, part), group)
            ]
            for node in NODES
        }
        assert held[A] == held[B] == []
        assert held[C]
        assert not any(held[C])


def test_c_as_leader_answers_what_its_copy_holds(diverged: Diverged) -> None:
    of_a, of_c = diverged.led_by_a, diverged.led_by_c
    assert of_a[KEPT].offsets == of_c[KEPT].offsets != {}
    assert (of_a[GONE].listed, of_a[GONE].offsets) == (None, {})
    assert of_c[GONE].listed == ("classic", "Empty")
    assert {place: answer[0] for place, answer in of_c[GONE].offsets.items()} == {(TOPIC, 0): 10, (TOPIC, 1): 11}
    assert of_a[PENDING].stable == {}
    assert {place: answer[3] for place, answer in of_c[PENDING].stable.items()} == {
        (TOPIC, 0): "UNSTABLE_OFFSET_COMMIT"
    }


def test_the_comparison_of_the_copies_predicts_what_c_answers(diverged: Diverged) -> None:
    """Every key and group that C answers otherwise than A, and no other."""
    found = compare(open_replicas([str(diverged.folder / f"broker-{node}") for node in NODES], []))
    rows = {(row["group_id"], row["topic"], row["partition"]): row for row in found.differences.to_pylist()}
    differing = {
        (group, *place)
        for group, by_c in diverged.led_by_c.items()
        for place in by_c.stable
        if by_c.stable[place] != diverged.led_by_a[group].stable.get(place)
    }
    assert {key for key in rows if key[1] is not None} == differing
    assert {key[0] for key in rows if key[1] is None} == {GONE, PENDING}
    assert {tuple(row["wrong_replicas"]) for row in rows.values()} == {("broker-3",)}
    assert {tuple(row["right_replicas"]) for row in rows.values()} == {("broker-1", "broker-2")}
    for (group, topic, partition), row in rows.items():
        if topic is not None:
            answer = next(one for one in row["answers"] if one["replica"] == "broker-3")
            offset, _, _, error = diverged.led_by_c[group].stable[topic, partition]
            assert answer["error"] == error
            assert error is not None or answer["committed_offset"] == offset


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_spark")
def test_the_job_publishes_what_differs_and_raises_alerts(
    cluster: ThreeBrokers, diverged: Diverged, tmp_path: Path
) -> None:
    """A second attempt replaces the rows of the first; copies of log partitions without a difference are removed."""
    lake = lake_at(tmp_path / "lake")
    engine = engine_of(iceberg_session(lake))
    request = ReplicaRequest(run_id="attempt-1", config=cluster.config, archive=str(tmp_path / "archive"))
    folder = RunFolder(tmp_path / "run")
    for attempt in (1, 2):
        done = audit_replicas.run(
            engine,
            folder,
            lake,
            request.model_copy(update={"run_id": f"attempt-{attempt}"}),
            as_of_ms=5,
            connect=impatient,
        )
    assert (done.replicas, done.left_out, done.behind) == (6, 0, 0)
    assert done.differences == sum(done.kinds.values()) > 0
    (alarm,) = (line for line in done.alerts if "wrongly" in line)
    assert alarm.startswith(f"broker-3 would serve {done.differences} groups and offsets wrongly if it led")
    assert not any(group in line for line in done.alerts for group in (GONE, PENDING))
    rows = load(lake, "replica_differences").scan().to_arrow().to_pylist()
    assert {(row["run_id"], row["as_of_ms"], row["cluster_id"]) for row in rows} == {("attempt-2", 5, done.cluster_id)}
    assert {(row["group_id"], row["topic"], row["partition"]) for row in rows} >= {
        (GONE, TOPIC, 0),
        (PENDING, TOPIC, 0),
    }
    states = load(lake, "replica_state").scan().to_arrow().to_pylist()
    wrong = {(row["log_partition"], row["replica"]) for row in states if row["status"] == "differs"}
    assert wrong == {(cluster.log_partition_of(group), "broker-3") for group in (GONE, PENDING)}
    kept = {place.name for place in (tmp_path / "run" / "replicas" / "broker-3").glob("__consumer_offsets-*")}
    assert kept == {f"__consumer_offsets-{part}" for part, _ in wrong}
    another = request.model_copy(update={"cluster_id": "another"})
    with pytest.raises(Refused, match="expected another"):
        audit_replicas.run(engine, folder, lake, another, as_of_ms=6, connect=impatient)


def test_a_copy_is_imported_into_an_archive_of_its_own(
    diverged: Diverged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next copy adds what is new; an audit of it has what C would serve, and not what A would."""
    archives = {node: str(tmp_path / f"archive-{node}") for node in (A, C)}
    for _ in range(2):
        capsys.readouterr()
        for node, archive in archives.items():
            assert (
                main(["archive", "import", str(diverged.folder / f"broker-{node}"), "--archive", archive, "--json"])
                == 0
            )
    assert '"segments": 0' in capsys.readouterr().out
    for node, archive in archives.items():
        count = str(LOG_PARTITIONS)
        assert main(["fetch", GONE, "--archive", archive, "--partition-count", count, "--json"]) == 0
        offsets = json.loads(capsys.readouterr().out)["offsets"]
        assert {(one["topic"], one["partition"]): one["committed_offset"] for one in offsets} == {
            place: answer[0]
            for place, answer in (diverged.led_by_c if node == C else diverged.led_by_a)[GONE].offsets.items()
        }


def test_a_damaged_batch_is_copied_and_named(
    cluster: ThreeBrokers, diverged: Diverged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = cluster.log_partition_of(GONE)
    segment = min((cluster.brokers[C].data / f"__consumer_offsets-{part}").glob("*.log"))
    with segment.open("r+b") as file:
        file.seek(70)  # within the records of the first batch
        byte = file.read(1)
        file.seek(70)
        file.write(bytes([byte[0] ^ 1]))
    servers = cluster.config.bootstrap_servers
    code = main(["replicas", "copy", "--bootstrap-servers", servers, "--out", str(tmp_path / "copy"), "--json"])
    states = json.loads(capsys.readouterr().out)["replicas"]
    assert code == 5
    assert [(one["log_partition"], one["broker"]) for one in states if one["fault"]] == [(part, C)]
    assert copied_log(tmp_path / "copy", C, part) == cluster.log(part, C)


def fault_of(reader: ReplicaReader) -> str | None:
    try:
        reader.begin()
    except ReplicaFault as error:
        return error.fault
    return None


@pytest.mark.thorough
def test_a_replica_that_is_made_anew_agrees_again(cluster: ThreeBrokers, diverged: Diverged) -> None:
    """C loses its replicas: asked for them it says so; it gets new ones, without what it had kept."""
    cluster.elect(A)
    with ClusterSession(cluster.config, retry_for_s=PATIENCE_S) as session:
        before = describe_replicas(session)
        cluster.assign(A, B)
        cluster.wait_for(lambda: {row.broker for row in cluster.probe()} == {A, B}, "C has no replica")
        readers = [ReplicaReader(session, before, one) for one in before.of_broker(C)]
        # C hears of it later than the controller decides it.
        cluster.wait_for(lambda: {fault_of(reader) for reader in readers} == {"no_replica"}, "C says so")
    cluster.assign(A, B, C)
    cluster.wait_until_in_sync()
    assert {key: row for key, row in probe(cluster).items() if row.suspicion or row.fault} == {}
    assert cluster.records(GONE, C) == []
