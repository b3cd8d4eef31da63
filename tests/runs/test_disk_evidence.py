"""What a disk shows besides its offsets log is used where it goes with it, and reported."""

import shutil
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from sexton.coordinator.api.topics import Topics
from sexton.job_params import ReplayRequest
from sexton.pipeline.standalone import run_audit
from sexton.records.uuids import parse_kafka_uuid
from sexton.runs.folder import RunRecord
from sexton.runs.processes import SerialEngine
from sexton.runs.source import LogSource, open_segments
from tests.log_builder import BASE_MS, commit
from tests.views.worlds import log_of, write_log

GOLDEN = Path(__file__).parents[1] / "golden" / "cluster-metadata"
METADATA = "__cluster_metadata-0"
FIRST_ANEW_MS, LAST_MS = 1_795_826_914_000, 1_795_826_922_410
OLD_ID, NEW_ID = UUID(int=3), parse_kafka_uuid("Zu17zEa5SxOBHz6nptnNCA")


def source_of(root: Path, **request: object) -> LogSource:
    return open_segments(str(root), topics_file=None, **request)


def disk_with(tmp_path: Path, logs: dict[int, bytes], release: str = "4.3.1") -> Path:
    """Offsets of one's own beside the metadata of a recording."""
    write_log(tmp_path / "disk", logs)
    shutil.copytree(GOLDEN / release / METADATA, tmp_path / "disk" / METADATA)
    return tmp_path / "disk"


def audit(segments: Path, out: Path, **request: object) -> RunRecord:
    replay = ReplayRequest(run_id="test", segments=str(segments), taken_at_ms=LAST_MS + 1_000, **request)
    return run_audit(SerialEngine(quiet=True), replay, out)


def test_a_disk_of_4_3_1() -> None:
    source = source_of(GOLDEN / "4.3.1")
    rows = {row["topic"]: row for row in source.topics or []}
    assert set(rows) == {"__consumer_offsets", "anew", "grown", "keep"}
    assert rows["keep"]["partitions"] == [[0, 7], [0, 0]]
    assert rows["anew"] == {
        "topic": "anew", "id": "Zu17zEa5SxOBHz6nptnNCA", "partitions": [[0, 0], [0, 0], [0, 3], [0, 0]],
    }  # fmt: skip
    assert (source.partition_count, source.broker_version, source.sees_all_topics) == (4, "4.3", True)
    assert source.topics_at_ms == LAST_MS + 1
    assert source.recorded.topic_settings["segment.bytes"] == "1048576"
    assert source.recorded.max_message_bytes == 2_000_000
    assert source.warnings == [
        "by __cluster_metadata, read up to offset 100 (2026-11-28T00:48:42.410+00:00): 4 topics, 4 log partitions, "
        "metadata.version 30, broker 1 of Kafka 4.3"
    ]


def test_where_logs_end_is_not_known_of_an_earlier_instant() -> None:
    source = source_of(GOLDEN / "4.3.1", as_of_ms=LAST_MS)
    assert source.topics_at_ms == LAST_MS
    assert {tuple(span) for row in source.topics or [] for span in row["partitions"]} == {(-1, -1)}
    assert Topics.from_rows(source.topics).log_end_offset("keep", 0) is None
    assert Topics.from_rows(source_of(GOLDEN / "4.3.1").topics).log_end_offset("keep", 0) == 7


@pytest.mark.parametrize(
    ("hurt", "why"),
    [
        (lambda disk: (disk / "__consumer_offsets-9").mkdir(), None),
        (lambda disk: write_log(disk, {9: log_of(commit("g"))}), "but there is a folder for 9"),
        (lambda disk: (disk / "__consumer_offsets-0/partition.metadata").write_text(f"topic_id: {'A' * 22}\n"),
         "has the id uQC4kOxQRkyoILtjFz-oGQ, the folders have AAAAAAAAAAAAAAAAAAAAAA"),
        (lambda disk: (disk / METADATA / f"{0:020d}.log").write_bytes(bytes(range(200))), f"{METADATA}/{0:020d}.log: "),
        (lambda disk: (disk / METADATA / f"{56:020d}-0000000001.checkpoint").write_bytes(b""), "snapshot has no end"),
    ],
    ids=["no", "count", "id", "log", "snapshot"],
)  # fmt: skip
def test_metadata_of_strangers_is_not_used(tmp_path: Path, hurt, why: str | None) -> None:
    shutil.copytree(GOLDEN / "4.3.1", tmp_path / "disk")
    hurt(tmp_path / "disk")
    source = source_of(tmp_path / "disk")
    assert (source.partition_count, source.topics is None) == ((4, False) if why is None else (None, True))
    note, *_ = source.warnings  # of the empty folder, too
    assert note.startswith("by __cluster_metadata" if why is None else "__cluster_metadata is not used: ")
    assert str(why or "") in note
    assert source.release_bounds.lowest == (4, 3)  # bootstrap.checkpoint still shows it


def test_orphans_and_recreated_topics_without_a_topics_file(tmp_path: Path) -> None:
    ids = {"version": 4, "commit_timestamp_ms": FIRST_ANEW_MS}
    log = log_of(
        commit("g", 1, "gone", 0, version=3, commit_timestamp_ms=FIRST_ANEW_MS),
        commit("g", 1, "anew", 0, topic_id=OLD_ID, **ids),
        commit("g", 1, "anew", 1, topic_id=NEW_ID, **ids),
        commit("g", 1, "keep", 9, version=3, commit_timestamp_ms=FIRST_ANEW_MS),
        commit("g", 1, "later", 0, version=3, commit_timestamp_ms=LAST_MS + 1),
        timestamp_ms=FIRST_ANEW_MS,
    )
    disk = disk_with(tmp_path, {3: log})
    record = audit(disk, tmp_path / "now")
    assert (record.partition_count, record.missing_log_partitions) == (4, [0, 1, 2])
    assert orphans(tmp_path / "now") == {
        ("gone", 0): "topic_gone", ("anew", 0): "topic_recreated", ("anew", 1): None, ("keep", 9): "partition_gone",
        ("later", 0): None,
    }  # fmt: skip
    audit(disk, tmp_path / "then", as_of_ms=FIRST_ANEW_MS + 200)
    assert orphans(tmp_path / "then")["gone", 0] is None
    topics = tmp_path / "topics.jsonl"
    topics.write_text('{"topic": "gone", "id": null, "partitions": [[0, 5]]}\n')
    record = audit(disk, tmp_path / "file", topics_file=str(topics))
    assert orphans(tmp_path / "file")["anew", 1] == "topic_gone"
    assert (record.partition_count, record.topics_at_ms) == (4, None)


def orphans(out: Path) -> dict[tuple[str, int], str | None]:
    rows = pq.read_table(out / "offset_verdicts").to_pylist()
    return {(row["topic"], row["partition"]): row["orphan"] for row in rows}


def test_log_ends_are_found_behind_the_index_and_without_it(tmp_path: Path) -> None:
    """As a broker that runs leaves it, the index ends in zeros; one that does not fit is not believed."""
    disk = disk_with(tmp_path, {3: log_of(commit("g"))})
    folder = disk / "keep-1"
    folder.mkdir()
    log = log_of(*(commit("g", n) for n in range(50)))
    (folder / f"{0:020d}.log").write_bytes(log + log[:40])
    size = len(log) // 50
    for index in (None, entry(20, 20 * size) + bytes(80), entry(20, 20 * size + 1), entry(3, 20 * size), b"\xff" * 16):
        if index is not None:
            (folder / f"{0:020d}.index").write_bytes(index)
        rows = {row["topic"]: row["partitions"] for row in source_of(disk).topics or []}
        assert rows["keep"] == [[-1, -1], [0, 50]]
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nkeep 1 7\n")
    rows = {row["topic"]: row["partitions"] for row in source_of(disk).topics or []}
    assert rows["keep"] == [[-1, -1], [7, 50]]


def entry(relative: int, position: int) -> bytes:
    return relative.to_bytes(4, "big") + position.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [
        ("version=0\nbroker.id=1001\n", None, (3, 9)),
        ("version=1\nnode.id=1\n", (2, 8), None),
        ("version=0\nnode.id=1\n", None, None),
        ("", None, None),
    ],
)
def test_meta_properties_tell_zookeeper_from_kraft(tmp_path: Path, text: str, lowest, highest) -> None:
    disk = write_log(tmp_path, {0: log_of(commit("g"), timestamp_ms=BASE_MS)})
    (disk / "meta.properties").write_text(text)
    source = source_of(disk)
    assert (source.release_bounds.lowest, source.release_bounds.highest) == (lowest, highest)
    assert (source.topics, source.warnings) == (None, [])
