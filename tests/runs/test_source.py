"""What the archive can answer for, and whose facts speak for an instant."""

from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.archive import cuts
from sexton.archive.cluster_metadata import ClusterMetadata, LogPartitionMetadata, write_metadata
from sexton.archive.folder import filesystem
from sexton.archive.manifest import Lineage
from sexton.archive.writer import write_segment
from sexton.errors import NoCoverage, UsageError
from sexton.runs.source import METADATA_SLACK_MS, open_archive
from tests.archived import segment_range
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

FIRST_MS = BASE_MS + 60_000
SECOND_MS = FIRST_MS + 2 * METADATA_SLACK_MS


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """One segment, and facts of two snapshots: the retention was a day, and is a week."""
    fs, root = pafs.LocalFileSystem(), str(tmp_path / "archive")
    write_segment(
        fs,
        root,
        [encode_log([BatchSpec(entries=(commit("a"),))])],
        segment_range(
            cluster_id="cluster", topic_id="topic", log_partition=0, lineage=Lineage(ordinal=0, start_log_offset=0),
            first_log_offset=0, end_log_offset=1, taken_at_ms=FIRST_MS, high_watermark=1, last_stable_offset=1,
        ),
    )  # fmt: skip
    for taken_at_ms, minutes in ((FIRST_MS, "1440"), (SECOND_MS, "10080")):
        record = ClusterMetadata(
            taken_at_ms=taken_at_ms,
            cluster_id="cluster",
            broker_version=None,
            settings={"offsets.retention.minutes": minutes},
            topic_id="topic",
            partition_count=1,
            topics=[],
            log_partitions={
                0: LogPartitionMetadata(
                    lineage=Lineage(ordinal=0, start_log_offset=0).name, log_start_offset=0, high_watermark=1,
                    last_stable_offset=1, leader=1, leader_epoch=0,
                )
            },
        )  # fmt: skip
        write_metadata(fs, root, record)
    return root


@pytest.mark.parametrize(
    "as_of_ms, minutes",
    [
        (None, 10_080),
        (SECOND_MS, 10_080),
        (SECOND_MS - 1, 1_440),
        (FIRST_MS - 1, 1_440),  # the snapshot that settled it came after it
        (FIRST_MS - METADATA_SLACK_MS - 1, None),
    ],
)
def test_the_cluster_of_today_does_not_speak_for_yesterday(archive: str, as_of_ms: int | None, minutes: int) -> None:
    source = open_archive(archive, as_of_ms=as_of_ms, settle_ms=0)
    assert source.retention_minutes == minutes
    assert bool(source.warnings) == (minutes is None)
    assert source.segments.keys() == {0}


def test_an_instant_after_the_newest_snapshot_has_no_coverage(archive: str) -> None:
    with pytest.raises(NoCoverage, match="1 ms before as_of"):
        open_archive(archive, as_of_ms=SECOND_MS + 1)


def test_an_instant_settles_some_time_after_it(archive: str) -> None:
    """By default the time of the settings, a minute."""
    assert open_archive(archive, as_of_ms=SECOND_MS - 60_000).taken_at_ms == SECOND_MS
    with pytest.raises(NoCoverage, match=f"at {SECOND_MS + 1} ms or later"):
        open_archive(archive, as_of_ms=SECOND_MS - 59_999)


def test_an_archive_that_may_only_be_read_is_read(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(cuts, "write_whole", refuse)
    source = open_archive(archive, as_of_ms=FIRST_MS, settle_ms=0)
    assert source.warnings == ["the cuts could not be stored in the archive: read-only"]
    assert source.positions[0].cut == 1


def test_nothing_archived_is_no_coverage(tmp_path: Path) -> None:
    with pytest.raises(NoCoverage, match="no segment"):
        open_archive(str(tmp_path))


def test_a_lineage_that_was_cut_off_behind_a_settled_cut_is_told(archive: str) -> None:
    open_archive(archive, as_of_ms=FIRST_MS, settle_ms=0)
    (manifest,) = Path(archive).rglob(f"{0:020d}-*.json")
    manifest.unlink()
    with pytest.raises(UsageError, match="does not reach log_offset 1, where the cut of"):
        open_archive(archive, as_of_ms=FIRST_MS)


def test_a_location_that_cannot_be_used_is_told_without_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        filesystem("nonsense://user:secret@place/x")
    assert "secret" not in str(caught.value)
