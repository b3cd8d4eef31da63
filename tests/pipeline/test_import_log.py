"""A broker's disk taken into the archive: every byte once, again nothing, and never another log's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, newest_metadata, write_metadata
from sexton.archive.lineages import list_lineages
from sexton.archive.verify import verify
from sexton.errors import NoCoverage, Refused, UsageError
from sexton.job_params import ReplayRequest
from sexton.log.message_set import encode_message_set
from sexton.pipeline import import_log, replay_groups
from sexton.pipeline.import_log import Imported, ImportRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.source import open_archive, open_segments
from tests.archived import list_archived, read_manifest
from tests.coordinator.golden import GOLDEN
from tests.faults.snapshots import START_MS, Archivist, disk_of, files, topics_of
from tests.kafka.fake_cluster import FakeCluster
from tests.log.samples import STAMP_MS, pairs
from tests.log_builder import commit
from tests.pipeline.archive_runs import minute, tables
from tests.views.worlds import log_of, view, write_log

LOCAL = pafs.LocalFileSystem()
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_log, "SEGMENT_BYTES", 400)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(3)
    for log in cluster.logs:
        log.append(20)
        log.elect()
        log.append(5)
    return cluster


def take(folder: Path, cluster: FakeCluster | None = None, *, now_ms: int = START_MS, **changes: Any) -> Imported:
    """Import the disk, as that of `cluster` is now."""
    if cluster is not None:
        disk_of(cluster, folder / "disk")
    request = ImportRequest(source=str(folder / "disk"), archive=str(folder / "archive"), taken_at_ms=now_ms, **changes)
    return import_log.run(request)


def archived(folder: Path, part: int) -> bytes:
    return b"".join(
        Path(segment.path).read_bytes() for segment in list_archived(LOCAL, str(folder / "archive")).get(part, [])
    )


def test_every_byte_once_and_then_only_the_new_ones(cluster: FakeCluster, tmp_path: Path) -> None:
    first = take(tmp_path, cluster, topics_file=topics_of(cluster, tmp_path))
    assert (first.cluster_id, first.topic_id) == ("fake", newest_topic(tmp_path))
    assert (first.batches, first.lineages, first.warnings) == (50, 2, [])
    assert first.segments > 10
    before = files(tmp_path / "archive")
    assert take(tmp_path, now_ms=START_MS + 5, topics_file=topics_of(cluster, tmp_path)).segments == 0
    assert files(tmp_path / "archive") == before

    cluster.logs[0].append(7)
    second = take(tmp_path, cluster, now_ms=START_MS + HOUR_MS, topics_file=topics_of(cluster, tmp_path))
    assert (second.batches, second.lineages) == (7, 0)
    for log in cluster.logs:
        assert archived(tmp_path, log.log_partition) == b"".join(log.batches)
    assert verify(LOCAL, str(tmp_path / "archive")).findings == []
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert facts is not None
    assert facts.log_partitions is not None
    assert (facts.taken_at_ms, facts.partition_count) == (START_MS + HOUR_MS, 2)
    assert facts.log_partitions[0].high_watermark == cluster.logs[0].end


def test_a_disk_with_cluster_metadata_needs_no_topics(tmp_path: Path) -> None:
    """The archive then knows what the disk shows, and is whole without another look at the cluster."""
    disk = GOLDEN / "cluster-metadata" / "4.3.1"
    shown = open_segments(str(disk), topics_file=None)
    after_ms = 2 * (shown.topics_at_ms or 0)
    request = ImportRequest(source=str(disk), archive=str(tmp_path / "archive"), taken_at_ms=after_ms)
    assert import_log.run(request).warnings == shown.warnings
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert facts is not None
    assert (facts.topics, facts.partition_count) == (shown.topics, shown.partition_count)
    assert (facts.broker_version, facts.max_message_bytes) == (shown.broker_version, shown.recorded.max_message_bytes)
    assert facts.topic_settings == shown.recorded.topic_settings
    assert import_log.run(request).segments == 0


def test_the_number_of_log_partitions_alone(cluster: FakeCluster, tmp_path: Path) -> None:
    """Also when the same disk is in the archive already: then it is all that is added. Topics stay unknown."""
    take(tmp_path, cluster)
    archive = str(tmp_path / "archive")
    assert open_archive(archive).partition_count is None
    for _ in range(2):
        added = take(tmp_path, now_ms=START_MS + 1, partition_count=50)
        source = open_archive(archive)
        assert (added.segments, source.partition_count, source.topics) == (0, 50, None)
    with pytest.raises(NoCoverage, match="log partition 3, where group 'g' belongs, is not here"):
        view(archive=archive).check_coverage(["g"])
    cluster.logs[0].append(3)
    assert take(tmp_path, cluster, now_ms=START_MS + 2, partition_count=50).segments
    assert open_archive(archive).positions[0].cut == cluster.logs[0].end
    for count, wrong in ((1, "on the disk there is a folder for 1"), (40, "had 50 log partitions and has 40")):
        with pytest.raises((UsageError, Refused), match=wrong):
            take(tmp_path, now_ms=START_MS + 3, partition_count=count)


def newest_topic(folder: Path) -> str:
    (cluster,) = (folder / "archive").iterdir()
    return next(child.name for child in cluster.iterdir() if child.name != "cluster_metadata")


def test_snapshots_go_on_from_an_import_and_imports_from_snapshots(cluster: FakeCluster, tmp_path: Path) -> None:
    archivist = Archivist(cluster, tmp_path / "archive")
    for number in range(2):
        disk_of(cluster, tmp_path / "disk")
        now_ms = archivist.now_ms + HOUR_MS // 2
        assert take(tmp_path, now_ms=now_ms, topics_file=topics_of(cluster, tmp_path)).batches
        cluster.logs[number].append(4)
        assert archivist.snapshot().alerts == []
        cluster.logs[1 - number].append(4)
    archivist.snapshot()
    archivist.assert_is_the_log()
    assert [len(found) for found in archivist.lineages().values()] == [1, 1]


def gap(cluster: FakeCluster) -> None:
    cluster.logs[0].append(5)
    cluster.logs[0].delete_below(cluster.logs[0].end - 2)


def unclean(cluster: FakeCluster) -> None:
    cluster.logs[0].elect(cut_at=10)
    cluster.logs[0].append(40)


def shorter(cluster: FakeCluster) -> None:
    unclean(cluster)
    cluster.logs[0].elect(cut_at=14)


@pytest.mark.parametrize(
    "change, said, reason",
    [
        (gap, "it begins at .*, the archive ends at", "gap"),
        (unclean, "it left leader epoch 0 at|it does not know the archived leader epoch", "imported"),
        (shorter, "it ends at .*, the archive at", "imported"),
    ],
    ids=["gap", "unclean election", "shorter"],
)
def test_what_does_not_go_on_is_refused(cluster, tmp_path, change, said, reason):
    take(tmp_path, cluster)
    before = files(tmp_path / "archive")
    change(cluster)
    cluster.logs[1].append(3)
    disk_of(cluster, tmp_path / "disk")
    with pytest.raises(Refused, match=f"not the same log: log partition 0: ({said})") as failure:
        take(tmp_path, now_ms=START_MS + 1)
    assert "--new-lineage" in str(failure.value)
    assert files(tmp_path / "archive") == before

    taken = take(tmp_path, now_ms=START_MS + 1, new_lineage=True)
    assert taken.lineages == 1
    found = list_lineages(LOCAL, str(tmp_path / "archive"), cluster_id="fake", topic_id=taken.topic_id)
    assert [len(found[part]) for part in (0, 1)] == [2, 1]
    origin = found[0][1].origin
    assert origin is not None
    assert (origin.reason, origin.previous) == (reason, found[0][0].lineage.name)
    assert archived(tmp_path, 0) == b"".join(cluster.logs[0].batches)
    assert take(tmp_path, now_ms=START_MS + 1, new_lineage=True).segments == 0
    assert verify(LOCAL, str(tmp_path / "archive")).findings == []


def test_an_earlier_copy_adds_nothing(cluster: FakeCluster, tmp_path: Path) -> None:
    disk_of(cluster, tmp_path / "disk")
    cluster.logs[0].append(9)
    disk_of(cluster, tmp_path / "later")
    import_log.run(
        ImportRequest(source=str(tmp_path / "later"), archive=str(tmp_path / "archive"), taken_at_ms=START_MS)
    )
    assert take(tmp_path, now_ms=START_MS - HOUR_MS).segments == 0


def test_a_copy_made_long_after_may_lack_tombstones(cluster: FakeCluster, tmp_path: Path) -> None:
    take(tmp_path, cluster)
    cluster.logs[0].append(2)
    disk_of(cluster, tmp_path / "disk")
    with pytest.raises(Refused, match="tombstones may be missing"):
        take(tmp_path, now_ms=START_MS + 25 * HOUR_MS)
    assert take(tmp_path, now_ms=START_MS + 23 * HOUR_MS).batches == 2


def test_another_number_of_log_partitions(cluster: FakeCluster, tmp_path: Path) -> None:
    take(tmp_path, cluster, topics_file=topics_of(cluster, tmp_path))
    cluster.add_log_partitions(1)
    cluster.logs[2].append(2)
    disk_of(cluster, tmp_path / "disk")
    with pytest.raises(Refused, match="the topic had 2 log partitions and has 3"):
        take(tmp_path, topics_file=topics_of(cluster, tmp_path))


def test_the_number_of_log_partitions_by_the_facts_where_the_lineage_does_not_tell(cluster, tmp_path):
    take(tmp_path, cluster)
    take(tmp_path, now_ms=START_MS + 1, topics_file=topics_of(cluster, tmp_path))
    cluster.add_log_partitions(1)
    disk_of(cluster, tmp_path / "disk")
    with pytest.raises(Refused, match="the topic had 2 log partitions and has 3"):
        take(tmp_path, now_ms=START_MS + 2, topics_file=topics_of(cluster, tmp_path))


def with_settings(cluster: FakeCluster, folder: Path, **changes: Any) -> tuple[Archivist, ClusterMetadata]:
    """An archive of one snapshot of a broker that keeps offsets for 30 days, and its facts."""
    archivist = Archivist(cluster, folder / "archive")
    archivist.snapshot()
    settings = {"offsets.retention.minutes": "43200", "offsets.load.buffer.size": "7000000"}
    told = {"settings": settings, "broker_version": "3.9", "max_message_bytes": 2_000_000, "delete_retention_ms": 5}
    facts = replace(archivist.facts, **{**told, **changes})
    write_metadata(LOCAL, str(folder / "archive"), facts)
    return archivist, facts


def test_what_a_disk_cannot_tell_is_as_it_was_last_seen(cluster: FakeCluster, tmp_path: Path) -> None:
    """Else a run behind the import takes the retention to be Kafka's default, and plans what the broker keeps."""
    _, before = with_settings(cluster, tmp_path, delete_retention_ms=2 * HOUR_MS)
    cluster.logs[0].append(5)
    disk_of(cluster, tmp_path / "disk")
    now_ms = before.taken_at_ms + HOUR_MS
    topics = topics_of(cluster, tmp_path)
    assert take(tmp_path, now_ms=now_ms, topics_file=topics).batches == 5

    source = open_archive(str(tmp_path / "archive"), as_of_ms=now_ms, settle_ms=0)
    assert (source.retention_minutes, source.load_buffer_bytes) == (43_200, 7_000_000)
    assert (source.recorded.max_message_bytes, source.broker_version) == (2_000_000, "3.9")
    assert source.topics_at_ms == now_ms
    assert source.topics == [json.loads(Path(topics).read_text())]
    assert source.sees_all_topics is None  # the snapshot saw them all, nobody did since
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert facts is not None
    assert facts.delete_retention_ms == 2 * HOUR_MS
    written = files(tmp_path / "archive")
    assert take(tmp_path, now_ms=now_ms + 1, topics_file=topics).segments == 0
    assert files(tmp_path / "archive") == written


def test_nothing_is_known_of_settings_before_they_were_seen(cluster: FakeCluster, tmp_path: Path) -> None:
    _, later = with_settings(cluster, tmp_path)
    take(tmp_path, cluster, now_ms=later.taken_at_ms - HOUR_MS, topics_file=topics_of(cluster, tmp_path))
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"), at_ms=later.taken_at_ms - 1)
    assert facts is not None
    assert (facts.settings, facts.broker_version, facts.max_message_bytes) == ({}, None, None)


def test_a_topic_recreated_has_settings_of_its_own(cluster: FakeCluster, tmp_path: Path) -> None:
    _, before = with_settings(cluster, tmp_path)
    cluster.make_anew()
    for log in cluster.logs:
        log.append(2)
    take(tmp_path, cluster, now_ms=before.taken_at_ms + HOUR_MS, topics_file=topics_of(cluster, tmp_path))
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert facts is not None
    assert (facts.settings, facts.broker_version) == (before.settings, "3.9")
    assert (facts.max_message_bytes, facts.delete_retention_ms) == (None, None)


@pytest.mark.parametrize("tail", [b"\0" * 100, b""], ids=["zeros", "half a batch"])
def test_a_torn_tail_is_left(cluster: FakeCluster, tmp_path: Path, tail: bytes) -> None:
    disk_of(cluster, tmp_path / "disk")
    file = max((tmp_path / "disk" / "__consumer_offsets-0").glob("*.log"))
    whole = file.read_bytes()
    cluster.logs[0].append(1)
    half_written = cluster.logs[0].batches.pop()[:50]
    file.write_bytes(whole + (tail or half_written))
    taken = take(tmp_path)
    assert archived(tmp_path, 0) == b"".join(cluster.logs[0].batches)
    assert take(tmp_path).segments == 0
    assert taken.batches == 50
    assert any("log partition 0: 100 zeros after the last batch" in text for text in taken.warnings) == bool(tail)


def test_an_empty_log_partition_is_there_once_it_is_imported(tmp_path: Path) -> None:
    write_log(tmp_path / "disk", {0: log_of(commit("g")), 1: b""})
    take(tmp_path)
    source = open_archive(str(tmp_path / "archive"))
    assert (source.here, set(source.segments)) == ({0, 1}, {0})


def test_damage_is_taken_as_it_is(cluster: FakeCluster, tmp_path: Path) -> None:
    disk_of(cluster, tmp_path / "disk")
    for place in (0, 100, 700):
        file = min((tmp_path / "disk" / "__consumer_offsets-0").glob("*.log"))
        data = bytearray(file.read_bytes())
        data[place : place + 5] = b"\xff" * 5
        file.write_bytes(data)
    take(tmp_path)
    whole = b"".join(path.read_bytes() for path in sorted((tmp_path / "disk" / "__consumer_offsets-0").glob("*.log")))
    assert archived(tmp_path, 0) == whole


JUNK = b"\xff" * 300
FIRST, SECOND = (minute(n, commit("a", n), commit("b", n), first=2 * n - 2) for n in (1, 2))


def replayed(engine: Engine, out: Path, **source: str) -> tuple[RunRecord, dict[str, Any]]:
    request = ReplayRequest(run_id=out.name, as_of_ms=START_MS, taken_at_ms=START_MS, settle_ms=0, **source)
    record = replay_groups.run(engine, RunFolder(out), request)
    return record, tables(out)


@pytest.mark.parametrize(
    "contents",
    [
        {0: FIRST, 2: JUNK, 4: minute(3, commit("a", 3), first=4)},
        {0: FIRST, 2: FIRST, 4: minute(3, commit("a", 3), first=4)},
        {0: FIRST, 2: SECOND[:90], 4: minute(3, commit("a", 3), first=4)},
        {0: JUNK, 2: SECOND},
        {0: FIRST, 2: SECOND, 4: JUNK},
        {0: FIRST, 2: SECOND + JUNK},
        {0: FIRST, 2: SECOND[: len(SECOND) // 2] + JUNK + SECOND[len(SECOND) // 2 :]},
        {0: FIRST, 2: JUNK, 4: b""},
        {7: JUNK},
        {0: JUNK, 2: JUNK},
    ],
    ids=[
        *("middle", "middle-of-old-batches", "middle-of-half-a-batch", "first", "last", "tail", "between"),
        *("last-with-bytes", "only", "all"),
    ],
)
def test_a_replay_of_the_archive_tells_damage_as_one_of_the_disk(small, tmp_path, monkeypatch, contents):
    monkeypatch.setattr(import_log, "SEGMENT_BYTES", 1 << 20)  # places are told from where a file begins
    for part, kept in ((0, contents), (1, {0: FIRST})):
        home = tmp_path / "disk" / f"__consumer_offsets-{part}"
        home.mkdir(parents=True)
        for base_offset, data in kept.items():
            (home / f"{base_offset:020d}.log").write_bytes(data)
    taken = take(tmp_path)
    assert archived(tmp_path, 0) == b"".join(contents.values())
    written = files(tmp_path / "archive")
    assert take(tmp_path, now_ms=START_MS + 1).segments == 0
    assert files(tmp_path / "archive") == written

    found = verify(LOCAL, str(tmp_path / "archive")).findings
    assert {finding.kind for finding in found} == {"damaged"}
    of_disk, disk_tables = replayed(small, tmp_path / "of-disk", segments=str(tmp_path / "disk"))
    of_archive, archive_tables = replayed(small, tmp_path / "of-archive", archive=str(tmp_path / "archive"))
    assert of_archive.blocked == of_disk.blocked
    assert set(of_disk.blocked) == {0}
    for name, rows in disk_tables.items():
        if name.startswith(("undecodable_records/", "offsets/", "groups/")):
            assert archive_tables[name] == rows
    told_tail = [warning for warning in taken.warnings if "its last file ends in bytes that are not a batch" in warning]
    last = contents[max(contents)]
    assert bool(told_tail) == last.endswith(JUNK)


def test_a_disk_without_a_readable_batch_is_not_an_archive_with_some(cluster: FakeCluster, tmp_path: Path) -> None:
    take(tmp_path, cluster)
    for log in cluster.logs:
        log.batches.clear()
    disk_of(cluster, tmp_path / "disk")
    (tmp_path / "disk" / "__consumer_offsets-0" / f"{0:020d}.log").write_bytes(JUNK)
    with pytest.raises(Refused, match="log partition 0: it ends at 1, the archive at"):
        take(tmp_path)


def test_a_snapshot_goes_on_behind_a_damaged_last_file(cluster: FakeCluster, tmp_path: Path) -> None:
    """Its broker has found the file damaged too, and cut it off: that is another log, and told."""
    disk_of(cluster, tmp_path / "disk")
    last = max((tmp_path / "disk" / "__consumer_offsets-0").glob("*.log"))
    last.write_bytes(JUNK)
    take(tmp_path)
    (end, *_) = (segment.base_offset for segment in reversed(list_archived(LOCAL, str(tmp_path / "archive"))[0]))
    assert end == int(last.stem)
    cluster.logs[0].elect(cut_at=end)
    cluster.logs[0].append(5)
    archivist = Archivist(cluster, tmp_path / "archive")
    (alert,) = archivist.snapshot().alerts
    assert "log partition 0: the log diverged from the archived leader epoch" in alert
    archivist.assert_is_the_log()


def test_old_formats_go_on_by_their_bytes(tmp_path: Path) -> None:
    def entry(offset: int, salt: str = "") -> bytes:
        return encode_message_set(pairs(1, salt=salt), base_offset=offset, magic=1, timestamp_ms=STAMP_MS)

    home = tmp_path / "disk" / "__consumer_offsets-0"
    home.mkdir(parents=True)
    file = home / f"{0:020d}.log"
    file.write_bytes(entry(0) + entry(1))
    taken = take(tmp_path)
    assert (taken.cluster_id, taken.topic_id) == ("unknown", "unknown")
    assert any("`unknown`" in warning for warning in taken.warnings)
    file.write_bytes(entry(0) + entry(1) + entry(2))
    assert take(tmp_path).batches == 1
    file.write_bytes(entry(0) + entry(1) + entry(2, "other") + entry(3))
    with pytest.raises(Refused, match="its log does not have the last archived batch"):
        take(tmp_path)


def test_epochs_by_the_batches_alone(cluster: FakeCluster, tmp_path: Path) -> None:
    def disk() -> None:
        disk_of(cluster, tmp_path / "disk")
        for file in (tmp_path / "disk").rglob("leader-epoch-checkpoint"):
            file.write_text("1\nnonsense\n")

    disk()
    take(tmp_path)
    cluster.logs[0].append(3)
    disk()
    assert take(tmp_path).batches == 3
    unclean(cluster)
    disk()
    with pytest.raises(Refused, match="leader epoch"):
        take(tmp_path)


def test_the_log_start_that_the_broker_notes(cluster: FakeCluster, tmp_path: Path) -> None:
    disk_of(cluster, tmp_path / "disk")
    start = int.from_bytes(cluster.logs[0].batches[4][:8], "big")
    lines = f"0\n2\n__consumer_offsets 0 {start}\nother 0 99\n"
    (tmp_path / "disk" / "log-start-offset-checkpoint").write_text(lines)
    take(tmp_path)
    assert archived(tmp_path, 0) == b"".join(cluster.logs[0].batches[4:])


def test_two_disks_of_one_cluster(cluster: FakeCluster, tmp_path: Path) -> None:
    topics = topics_of(cluster, tmp_path)
    for part in (0, 1):
        disk_of(cluster, tmp_path / "disk")
        for file in (tmp_path / "disk" / f"__consumer_offsets-{1 - part}").iterdir():
            file.unlink()
        assert take(tmp_path, topics_file=topics).log_partitions == 1
    facts = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert facts is not None
    assert list(facts.log_partitions or {}) == [0, 1]


def test_manifests_of_an_import(cluster: FakeCluster, tmp_path: Path) -> None:
    take(tmp_path, cluster)
    segment = list_archived(LOCAL, str(tmp_path / "archive"))[0][-1]
    manifest = read_manifest(LOCAL, segment)
    assert (manifest.taken_at_ms, manifest.last_stable_offset) == (START_MS, -1)
    assert manifest.high_watermark == manifest.next_log_offset == cluster.logs[0].end


def test_what_cannot_be_taken(cluster: FakeCluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        take(tmp_path)
    disk_of(cluster, tmp_path / "disk")
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "orders", "id": None, "partitions": [[0, 1]]}) + "\n")
    with pytest.raises(UsageError, match="no line for __consumer_offsets"):
        take(tmp_path, topics_file=str(topics))
    topics.write_text(json.dumps({"topic": "__consumer_offsets", "id": None, "partitions": [[0, 1]]}) + "\n")
    with pytest.raises(UsageError, match="1 log partitions here, on the disk there is a folder for 1"):
        take(tmp_path, topics_file=str(topics))
    assert not (tmp_path / "archive").exists()
