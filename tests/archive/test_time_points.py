"""Points in time in the archive: written once, read for an instant, refused when they are not what was written."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sexton.archive import time_points
from sexton.archive.partition_index import PartitionIndex
from sexton.archive.time_points import Key, TimePoint, known_points, lookup_instants, read_lookup, write_lookup
from sexton.archive.verify import verify
from sexton.errors import UsageError
from tests.archived import CLUSTER, Archive

START_MS = 1_790_000_000_000
KEY: Key = ("orders", 0)


def point(offset: int, timestamp_ms: int | None = START_MS, **rest: Any) -> TimePoint:
    return TimePoint(
        offset=offset, timestamp_ms=timestamp_ms, source="list_offsets", asked_ms=START_MS, log_start_offset=0, **rest
    )


def write(
    archive: Archive, asked_at_ms: int, *points: TimePoint, topic_id: str | None = "id"
) -> time_points.OffsetLookup:
    instants = {"as_of_ms": asked_at_ms - 5, "asked_at_ms": asked_at_ms, "rounds": 3}
    topics = {"topic_ids": {"orders": topic_id}, "topics": {"orders": {"retention.ms": "1"}}}
    return write_lookup(archive.fs, archive.root, cluster_id=CLUSTER, points={KEY: points}, **instants, **topics)


def known(archive: Archive, as_of_ms: int, *offsets: int) -> list[TimePoint]:
    """The points of partition 0, which is numbered 1."""
    places = pa.table({"topic": ["orders"] * 2, "topic_id": ["id"] * 2, "partition": pa.array([1, 0], pa.int32())})
    asked = {"number": np.ones(len(offsets), np.int64), "offset": np.array(offsets, np.int64)}
    partitions = PartitionIndex(places)
    found = known_points(
        archive.fs, archive.root, cluster_id=CLUSTER, as_of_ms=as_of_ms, partitions=partitions, **asked
    )
    assert set(found.points["number"].to_pylist()) <= {1}
    return [TimePoint(**row) for row in found.points.drop_columns("number").to_pylist()]


def test_written_and_read(archive: Archive) -> None:
    look_up = write(archive, START_MS, point(7), point(9, None))
    found, table = read_lookup(archive.fs, archive.root, CLUSTER, START_MS)
    assert found == look_up
    assert (found.points, found.topics) == (2, {"orders": {"retention.ms": "1"}})
    assert table.schema.names[:6] == ["topic", "topic_id", "partition", "offset", "timestamp_ms", "source"]
    assert known(archive, START_MS, 7) == [point(7), point(9, None)]


def test_two_snapshots_at_one_instant(archive: Archive) -> None:
    write(archive, START_MS, point(1))
    assert write(archive, START_MS, point(2)).asked_at_ms == START_MS + 1
    assert lookup_instants(archive.fs, archive.root, CLUSTER) == [START_MS, START_MS + 1]
    assert [each.offset for each in known(archive, START_MS, 0)] == [1, 2]


def test_points_without_a_manifest_do_not_exist(archive: Archive) -> None:
    write(archive, START_MS, point(1))
    (archive.folder / CLUSTER / "time_points" / f"{START_MS}.json").unlink()
    assert known(archive, START_MS, 0) == []
    assert write(archive, START_MS, point(2)).asked_at_ms == START_MS + 1


def test_points_of_another_topic_of_that_name(archive: Archive) -> None:
    write(archive, START_MS, point(1), topic_id="another")
    assert known(archive, START_MS, 0) == []
    write(archive, START_MS, point(2), topic_id=None)
    assert known(archive, START_MS, 0) == [point(2)]


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_points_that_are_not_those_of_the_manifest(archive: Archive, damage: str) -> None:
    write(archive, START_MS, point(1))
    path = archive.folder / CLUSTER / "time_points" / f"{START_MS}.parquet"
    path.unlink()
    if damage == "changed":
        path.write_bytes(b"other")
    with pytest.raises(UsageError, match=r"SHA-256|this file is missing"):
        known(archive, START_MS, 0)


def test_the_nearest_snapshots_are_read(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_points, "LOOKUPS_READ", 2)
    for number in range(8):
        write(archive, START_MS + number * 1_000, point(number))
    assert [each.offset for each in known(archive, START_MS + 3_500, 0)] == [2, 3, 4, 5]


def test_the_snapshots_around_an_offset(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two hundred a few are read, and both neighbours are among them."""
    for number in range(200):
        archive.topics = [{"topic": "orders", "id": "id", "partitions": [[0, number * 10]]}]
        archive.snapshot(START_MS + number * 60_000)
    read = []
    original = time_points.metadata_at
    monkeypatch.setattr(time_points, "metadata_at", lambda *where: read.append(where[-1]) or original(*where))
    points = known(archive, START_MS + 150 * 60_000, 333)
    seen = {each.offset: each.timestamp_ms for each in points}
    assert {each.source for each in points} == {"snapshot"}
    assert seen[330] == START_MS + 33 * 60_000
    assert seen[340] == START_MS + 34 * 60_000
    assert seen[1_500] == START_MS + 150 * 60_000
    assert len(read) <= 12


def test_an_end_that_is_not_known_is_no_point(archive: Archive) -> None:
    archive.topics = [{"topic": "orders", "id": "id", "partitions": [[-1, -1]]}]
    archive.snapshot(START_MS)
    assert known(archive, START_MS, 0) == []


def test_verify_finds_points_that_changed(archive: Archive) -> None:
    write(archive, START_MS, point(1))
    assert verify(archive.fs, archive.root).findings == []
    path = archive.folder / CLUSTER / "time_points" / f"{START_MS}.parquet"
    path.chmod(0o644)
    path.write_bytes(b"other")
    (found,) = verify(archive.fs, archive.root).findings
    assert (found.kind, found.where) == ("corrupt", str(path))
