"""What the metadata log of a disk proves, and that nothing of a damaged one is taken."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest
from pyarrow import fs as pafs

from sexton.archive.metadata_log import MetadataLog, read_bootstrap, read_metadata_log
from sexton.errors import LogError
from sexton.log.batch import encode_batch
from sexton.records import cluster_metadata as records
from sexton.records import wire
from sexton.records.schema import Schema

GOLDEN = Path(__file__).parents[1] / "golden" / "cluster-metadata"
LOCAL, CAP = pafs.LocalFileSystem(), 1 << 20
GONE_MS, ANEW_MS = 1_795_826_919_100, 1_795_826_920_188
NUMBERS = {"Topic": 2, "Partition": 3, "Config": 4, "RemoveTopic": 9, "BeginTransaction": 23, "EndTransaction": 24,
           "AbortTransaction": 25}  # fmt: skip
A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def read(root: Path, as_of_ms: int | None = None) -> MetadataLog | None:
    return read_metadata_log(LOCAL, str(root), as_of_ms=as_of_ms, cap_bytes=CAP)


def copy(tmp_path: Path, release: str = "4.3.1") -> Path:
    shutil.copytree(GOLDEN / release / "__cluster_metadata-0", tmp_path / "disk" / "__cluster_metadata-0")
    return tmp_path / "disk"


def log_file(disk: Path) -> Path:
    return disk / "__cluster_metadata-0" / f"{0:020d}.log"


def snapshot_file(disk: Path) -> Path:
    (found,) = (disk / "__cluster_metadata-0").glob("*.checkpoint")
    return found


def value(record: object) -> tuple[None, bytes]:
    """A record of version 0 in its frame."""
    out = bytearray([1])
    wire.write_uvarint(NUMBERS[type(record).__name__], out)
    out.append(0)
    Schema(type(record), flexible_since=0).writer(0)(record, out)
    return None, bytes(out)


def partition(number: int, topic_id: UUID) -> records.Partition:
    nobody = {"replicas": (), "isr": (), "removing_replicas": (), "adding_replicas": ()}
    return records.Partition(
        partition_id=number, topic_id=topic_id, leader=-1, leader_epoch=0, partition_epoch=0, **nobody
    )


def written(tmp_path: Path, *batches: tuple[object, ...], first_ms: int = 1_000) -> Path:
    """A log with a batch a second."""
    data, at = b"", 0
    for number, batch in enumerate(batches):
        data += encode_batch([value(one) for one in batch], base_offset=at, timestamp_ms=first_ms + 1_000 * number)
        at += len(batch)
    log_file(tmp_path).parent.mkdir(parents=True)
    log_file(tmp_path).write_bytes(data)
    return tmp_path


def topics(found: MetadataLog | None) -> dict[str, int]:
    assert found is not None
    return {name: len(topic.partitions) for name, topic in sorted(found.topics.items())}


def test_a_disk_of_4_3_1() -> None:
    found = read(GOLDEN / "4.3.1")
    assert topics(found) == {"__consumer_offsets": 4, "anew": 4, "grown": 3, "keep": 2}
    assert found is not None
    assert set(found.deleted.values()) >= {"gone", "anew", "temporary-9"}
    assert found.topics["anew"].topic_id == "Zu17zEa5SxOBHz6nptnNCA"
    assert found.settings_of_topic("__consumer_offsets")["segment.bytes"] == "1048576"
    assert found.settings_of_topic("gone") == {}
    assert (found.features["metadata.version"], found.brokers) == (30, {1: 30})
    assert (found.next_offset, found.is_cut) == (100, False)


def test_the_releases_of_a_disk_that_was_upgraded() -> None:
    """4.2.0, then 4.2.1 and 4.3.1: the newest registration counts, at the instant."""
    found, before = read(GOLDEN / "4.2.0"), read(GOLDEN / "4.2.0", 1_795_793_400_000)
    assert found is not None
    assert before is not None
    assert (found.features["metadata.version"], found.brokers, before.brokers) == (29, {1: 30}, {1: 29})


def test_a_snapshot_and_the_rest_are_the_whole_log(tmp_path: Path) -> None:
    disk = copy(tmp_path)
    by_snapshot = read(disk)
    snapshot_file(disk).unlink()
    whole = read(disk)
    assert by_snapshot is not None
    assert whole is not None
    assert len(whole.deleted) == 12
    for name in ("topics", "settings", "features", "brokers", "next_offset", "last_ms"):
        assert getattr(by_snapshot, name) == getattr(whole, name)


def test_it_is_read_up_to_the_instant() -> None:
    """The snapshot is of after the first instants: then the log is read from its beginning."""
    root = GOLDEN / "4.3.1"
    assert topics(read(root, 1_795_826_913_915)) == {"anew": 2, "gone": 3, "grown": 1, "keep": 2}
    before, at = read(root, ANEW_MS), read(root, ANEW_MS + 1)
    assert topics(before) == {"__consumer_offsets": 4, "grown": 3, "keep": 2}
    assert topics(at) == {"__consumer_offsets": 4, "anew": 4, "grown": 3, "keep": 2}
    assert before is not None
    assert before.is_cut
    assert read(root, 1_000) is None
    assert read(root.parent) is None


def test_segments_that_begin_after_the_snapshot_are_a_gap(tmp_path: Path) -> None:
    disk = copy(tmp_path)
    log_file(disk).rename(log_file(disk).with_name(f"{60:020d}.log"))
    data = log_file(disk).with_name(f"{60:020d}.log")
    whole = data.read_bytes()
    start = next(at for at in range(len(whole)) if whole[at : at + 8] == (60).to_bytes(8, "big"))
    data.write_bytes(whole[start:])
    with pytest.raises(LogError, match="expected offset 56 at byte 0, got 60"):
        read(disk)
    snapshot_file(disk).unlink()
    with pytest.raises(LogError, match="expected offset 0"):
        read(disk)


def test_a_log_that_ends_in_half_a_batch_is_read_up_to_it(tmp_path: Path) -> None:
    disk = copy(tmp_path)
    log_file(disk).write_bytes(log_file(disk).read_bytes()[:-30])
    found = read(disk)
    assert found is not None
    assert 56 < found.next_offset < 100


@pytest.mark.parametrize(
    ("end", "there"),
    [
        ([(records.EndTransaction(),)], {"a": 1, "b": 1, "c": 1}),
        ([(records.AbortTransaction(),)], {"a": 1, "c": 1}),
        ([], {"a": 1}),
    ],
)
def test_a_transaction_counts_when_it_ends(tmp_path: Path, end: list[tuple[object]], there: dict[str, int]) -> None:
    begun = (records.BeginTransaction(), records.Topic(name="b", topic_id=B), partition(0, B))
    last = (records.Topic(name="c", topic_id=C), partition(0, C))
    disk = written(tmp_path, (records.Topic(name="a", topic_id=A), partition(0, A)), begun, *end, last)
    assert topics(read(disk)) == there


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ((records.RemoveTopic(topic_id=B),), "offset 2: no topic has id"),
        ((partition(0, B),), "offset 2: no topic has id"),
        ((records.Topic(name="a", topic_id=B),), "offset 2: topic 'a' has no id, or exists already"),
        ((records.Topic(name="b", topic_id=UUID(int=0)),), "offset 2: topic 'b' has no id"),
        ((records.Topic(name="b", topic_id=B),), "topic 'b' lacks partitions"),
        ((partition(2, A),), "topic 'a' lacks partitions"),
        ((partition(-1, A),), "topic 'a' lacks partitions"),
    ],
)
def test_a_record_that_contradicts_the_others_is_a_fault(tmp_path: Path, batch: tuple[object, ...], why: str) -> None:
    disk = written(tmp_path, (records.Topic(name="a", topic_id=A), partition(0, A)), batch)
    with pytest.raises(LogError, match=why):
        read(disk)
    assert topics(read(disk, 2_000)) == {"a": 1}


def test_a_setting_can_be_taken_away(tmp_path: Path) -> None:
    def setting(text: str | None) -> records.Config:
        return records.Config(resource_type=2, resource_name="a", name="x", value=text)

    disk = written(tmp_path, (setting("1"), setting("2")), (setting(None),))
    before, after = read(disk, 2_000), read(disk)
    assert before is not None
    assert after is not None
    assert (before.settings_of_topic("a"), after.settings_of_topic("a")) == ({"x": "2"}, {})


def test_a_snapshot_without_its_end_is_a_fault(tmp_path: Path) -> None:
    disk = copy(tmp_path)
    snapshot_file(disk).write_bytes(snapshot_file(disk).read_bytes()[:-80])
    with pytest.raises(LogError, match="the snapshot has no end"):
        read(disk)
    snapshot_file(disk).write_bytes(log_file(disk).read_bytes())
    with pytest.raises(LogError, match="the snapshot has no header"):
        read(disk)


def test_mutants_are_faults_and_never_crash(tmp_path: Path) -> None:
    """Each byte that is changed is covered by a CRC, or lies before it in a header."""
    disk = copy(tmp_path)
    faults: list[str] = []
    for path in (log_file(disk), snapshot_file(disk)):
        whole = path.read_bytes()
        for at in range(0, len(whole), 23):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            try:
                read(disk)
            except LogError as error:
                faults.append(error.detail)
        path.write_bytes(whole)
    assert len(faults) > 200
    assert all(str(disk) in fault for fault in faults)


def test_what_a_disk_was_formatted_with() -> None:
    found = [read_bootstrap(LOCAL, str(GOLDEN / release), cap_bytes=CAP) for release in ("3.9.1", "4.2.0", "4.3.1")]
    assert [one.features["metadata.version"] for one in found if one is not None] == [21, 29, 30]
    assert read_bootstrap(LOCAL, str(GOLDEN), cap_bytes=CAP) is None
