"""The archive: what was written is listed, what is not whole does not exist, and damage is found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.archive.manifest import Lineage, Manifest
from sexton.archive.verify import verify
from sexton.archive.writer import ArchiveEnd, SegmentRange, archive_ends, write_segment
from sexton.errors import UsageError
from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from sexton.log.segment import Segment
from tests.archived import list_archived, read_manifest, segment_range
from tests.log.samples import STAMP_MS, pairs

FIRST = Lineage(ordinal=0, start_log_offset=0)
STORES = ["local", "memory"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[pafs.FileSystem, str]:
    """A local folder, and a filesystem that is none."""
    if request.param == "memory":
        memory = pafs._MockFileSystem()
        memory.create_dir("bucket")
        return memory, "bucket/archive"
    return pafs.LocalFileSystem(), str(tmp_path / "archive")


def batch(base_offset: int, *, stamp_ms: int = STAMP_MS, epoch: int = 0) -> bytes:
    return encode_batch(pairs(2), base_offset=base_offset, timestamp_ms=stamp_ms, leader_epoch=epoch)


def range_of(first: int, end: int, **places: Any) -> SegmentRange:
    where = {"cluster_id": "c", "topic_id": "t", "log_partition": 3, "lineage": FIRST, "taken_at_ms": 9, **places}
    bounds = {"first_log_offset": first, "end_log_offset": end, "high_watermark": end, "last_stable_offset": first}
    return segment_range(**bounds, **where)


def archive(fs: pafs.FileSystem, root: str, first: int, end: int, *chunks: bytes, **places: Any) -> Manifest:
    return write_segment(fs, root, chunks, range_of(first, end, **places))


def names(found: dict[int, list[Segment]]) -> dict[int, list[int]]:
    return {part: [segment.base_offset for segment in segments] for part, segments in found.items()}


def test_a_segment_is_kafkas_bytes_and_its_manifest_tells_of_them(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    chunks = [batch(0, epoch=1) + batch(2, stamp_ms=STAMP_MS - 5, epoch=1), batch(4, stamp_ms=STAMP_MS + 7, epoch=4)]
    manifest = archive(fs, root, 0, 10, *chunks, taken_at_ms=77)
    (segment,) = list_archived(fs, root)[3]
    with fs.open_input_stream(segment.path) as file:
        assert file.read() == b"".join(chunks)
    assert segment.path == f"{root}/c/t/3/000000-00000000000000000000/00000000000000000000.log"
    assert read_manifest(fs, segment) == manifest
    assert verify(fs, root).findings == []
    assert (manifest.first_log_offset, manifest.next_log_offset, manifest.batch_count) == (0, 10, 3)
    assert (manifest.first_timestamp_ms, manifest.last_timestamp_ms) == (STAMP_MS - 5, STAMP_MS + 7)
    assert manifest.leader_epochs == [[1, 0], [4, 4]]
    assert (manifest.size_bytes, manifest.taken_at_ms, manifest.high_watermark) == (len(b"".join(chunks)), 77, 10)
    assert archive_ends(fs, root, cluster_id="c", topic_id="t") == {
        3: ArchiveEnd(log_partition=3, lineage=FIRST, next_log_offset=10, leader_epoch=4, taken_at_ms=77)
    }


@pytest.mark.parametrize(
    "magic, stamps, epochs", [(0, (None, None), -1), (1, (STAMP_MS, STAMP_MS), -1)], ids=["v0", "v1"]
)
def test_old_formats(tmp_path: Path, magic: int, stamps: tuple[int | None, int | None], epochs: int) -> None:
    fs, root = pafs.LocalFileSystem(), str(tmp_path)
    log = encode_message_set(pairs(3), base_offset=0, magic=magic, timestamp_ms=STAMP_MS)
    manifest = archive(fs, root, 0, 3, log)
    assert ((manifest.first_timestamp_ms, manifest.last_timestamp_ms), manifest.batch_count) == (stamps, 3)
    assert archive_ends(fs, root, cluster_id="c", topic_id="t")[3].leader_epoch == epochs


def test_a_range_that_compaction_emptied_is_archived_too(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    archive(fs, root, 0, 5, batch(0, epoch=2))
    manifest = archive(fs, root, 5, 9)
    assert (manifest.batch_count, manifest.size_bytes, manifest.first_timestamp_ms) == (0, 0, None)
    archive(fs, root, 9, 12, batch(10, epoch=2))
    assert names(list_archived(fs, root)) == {3: [0, 5, 9]}
    end = archive_ends(fs, root, cluster_id="c", topic_id="t")[3]
    assert (end.next_log_offset, end.leader_epoch) == (12, 2)


def test_a_segment_without_manifest_does_not_exist_and_is_overwritten(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store

    def dies() -> Iterator[bytes]:
        yield batch(0)
        raise ConnectionError("the broker went away")

    with pytest.raises(ConnectionError):
        write_segment(fs, root, dies(), range_of(0, 4))
    assert list_archived(fs, root) == {}
    assert archive_ends(fs, root, cluster_id="c", topic_id="t") == {}
    archive(fs, root, 0, 2, batch(0, epoch=5))
    assert names(list_archived(fs, root)) == {3: [0]}
    assert verify(fs, root).findings == []


def test_half_a_manifest_is_none(tmp_path: Path) -> None:
    fs, root = pafs.LocalFileSystem(), str(tmp_path)
    archive(fs, root, 0, 2, batch(0))
    (manifest,) = tmp_path.glob("c/t/3/*/*.json")
    manifest.rename(manifest.with_name(f"{manifest.name}.part"))
    assert list_archived(fs, root) == {}


def test_what_is_archived_is_never_rewritten(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    first = archive(fs, root, 0, 4, batch(0) + batch(2))
    again = archive(fs, root, 0, 9, batch(0, epoch=9))
    assert again == first
    assert names(list_archived(fs, root)) == {3: [0]}
    assert verify(fs, root).findings == []


def test_a_gap_that_a_dead_writer_left_is_not_read_over(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    archive(fs, root, 0, 10, batch(0))
    archive(fs, root, 20, 30, batch(20))
    assert names(list_archived(fs, root)) == {3: [0]}
    assert archive_ends(fs, root, cluster_id="c", topic_id="t")[3].next_log_offset == 10
    archive(fs, root, 10, 20, batch(10))
    assert names(list_archived(fs, root)) == {3: [0, 10, 20]}


def test_a_segment_that_overlaps_the_chain_is_left_out(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    archive(fs, root, 20, 30, batch(20))
    archive(fs, root, 0, 25, batch(0) + batch(20))
    archive(fs, root, 25, 40, batch(26))
    assert names(list_archived(fs, root)) == {3: [0, 25]}


def test_nothing_before_the_start_of_a_lineage_is_missing(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    archive(fs, root, 50, 60, batch(50))
    assert list_archived(fs, root) == {}


def test_the_newest_lineage_is_read_once_it_has_a_segment(store: tuple[pafs.FileSystem, str]) -> None:
    fs, root = store
    second = Lineage(ordinal=1, start_log_offset=40)
    archive(fs, root, 0, 10, batch(0))
    archive(fs, root, 50, 60, batch(50), lineage=second)
    assert names(list_archived(fs, root)) == {3: [0]}
    archive(fs, root, 40, 50, batch(40), lineage=second)
    assert names(list_archived(fs, root)) == {3: [40, 50]}
    assert archive_ends(fs, root, cluster_id="c", topic_id="t")[3].lineage == second


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda text: "{", "not JSON"),
        (lambda text: "[]", "expected a JSON object"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: "{}", "without batch_count, cluster_id"),
        (lambda text: text.replace('"log_partition": 3', '"log_partition": "3"'), "log_partition is '3'"),
        (lambda text: text.replace('"taken_at_ms": 9', '"taken_at_ms": null'), "taken_at_ms is None"),
        (lambda text: text.replace('"leader_epochs": [', '"leader_epochs": [7, '), r"leader_epochs\.0 is 7"),
        (lambda text: text.replace('"next_log_offset": 10', '"next_log_offset": 11'), "of another segment"),
    ],
    ids=["cut", "a list", "deep", "empty", "text for a number", "null", "no pair", "other range"],
)
def test_manifests_are_not_trusted(tmp_path: Path, change: Any, said: str) -> None:
    fs, root = pafs.LocalFileSystem(), str(tmp_path)
    archive(fs, root, 0, 10, batch(0))
    (segment,) = list_archived(fs, root)[3]
    (manifest,) = tmp_path.glob("c/t/3/*/*.json")
    changed = change(manifest.read_text())
    assert changed != manifest.read_text()
    manifest.write_text(changed)
    with pytest.raises(UsageError, match=said):
        read_manifest(fs, segment)


def test_a_manifest_of_a_later_release_may_say_more(tmp_path: Path) -> None:
    fs, root = pafs.LocalFileSystem(), str(tmp_path)
    written = archive(fs, root, 0, 10, batch(0))
    (manifest,) = tmp_path.glob("c/t/3/*/*.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "more": 1}))
    assert read_manifest(fs, list_archived(fs, root)[3][0]) == written


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "a\\b", "a\0"])
def test_ids_cannot_leave_the_archive(tmp_path: Path, name: str) -> None:
    for ids in ({"cluster_id": name}, {"topic_id": name}):
        with pytest.raises(UsageError, match="cannot name a folder"):
            archive(pafs.LocalFileSystem(), str(tmp_path), 0, 10, batch(0), **ids)


@pytest.mark.parametrize("first, end", [(5, 5), (5, 4), (-1, 4)])
def test_a_range_must_hold_something(tmp_path: Path, first: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        archive(pafs.LocalFileSystem(), str(tmp_path), first, end)
