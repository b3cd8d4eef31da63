"""Listing a broker's log folders, cutting the work, and the ids a broker notes beside its logs."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as pafs

from sexton.errors import UsageError
from sexton.log.segment import Segment, disk_identity, list_segments, plan_fold_tasks

LOCAL = pafs.LocalFileSystem()


def put(root: Path, *names: str, size: int = 3) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


PLACES = [(10, 0), (2, 985), (2, 0)]


def test_segments_are_listed_by_log_partition_and_base_offset(tmp_path: Path) -> None:
    put(tmp_path, *(f"__consumer_offsets-{part}/{base_offset:020d}.log" for part, base_offset in PLACES))
    found = list_segments(LOCAL, str(tmp_path))
    bases = {part: [segment.base_offset for segment in segments] for part, segments in found.items()}
    assert bases == {2: [0, 985], 10: [0]}
    assert list(found) == [2, 10]
    (_, last) = found[2]
    assert (last.log_partition, last.size_bytes, Path(last.path).read_bytes()) == (2, 3, b"xxx")


def test_what_is_no_part_of_the_log_is_left_out(tmp_path: Path) -> None:
    name = "00000000000000000000.log"
    put(
        tmp_path,
        f"__consumer_offsets-1/{name}",
        *(f"__consumer_offsets-1/{name}{suffix}" for suffix in (".deleted", ".cleaned", ".swap")),
        "__consumer_offsets-1/00000000000000000000.index",
        "__consumer_offsets-1/00000000000000000000.timeindex",
        "__consumer_offsets-1/0.log",
        *(f"__consumer_offsets-2.4f1e-{state}/{name}" for state in ("delete", "future", "stray")),
        f"__consumer_offsets-3-delete/{name}",
        f"orders-0/{name}",
        f"__transaction_state-0/{name}",
        "__consumer_offsets-4/leader-epoch-checkpoint",
    )
    assert [len(segments) for segments in list_segments(LOCAL, str(tmp_path)).values()] == [1]


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda root: None, "no such folder"),
        (lambda root: root.write_bytes(b""), "not a folder"),
        (lambda root: root.mkdir(), "no segment"),
        (lambda root: put(root, "orders-0/00000000000000000000.log"), "no segment"),
        (lambda root: put(root, "__consumer_offsets-0/00000000000000000000.log.deleted"), "no segment"),
    ],
    ids=["missing", "a file", "empty", "other topics", "all deleted"],
)
def test_nothing_to_read_is_a_usage_error_with_its_place(tmp_path, make, said):
    root = tmp_path / "data"
    make(root)
    with pytest.raises(UsageError, match=said) as failure:
        list_segments(LOCAL, str(root))
    assert failure.value.where == str(root)


def segments(*sizes: int) -> list[Segment]:
    return [
        Segment(log_partition=7, path=f"{number}", size_bytes=size, base_offset=100 * number)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    "sizes, expected",
    [
        ([0], [[("0", 0, 0)]]),
        ([10], [[("0", 0, 10)]]),
        ([25], [[("0", 0, 8)], [("0", 8, 16)], [("0", 16, 25)]]),
        ([4, 4, 4], [[("0", 0, 4), ("1", 0, 4)], [("2", 0, 4)]]),
        ([0, 0], [[("0", 0, 0), ("1", 0, 0)]]),
        ([3, 20, 3], [[("0", 0, 3)], [("1", 0, 10)], [("1", 10, 20)], [("2", 0, 3)]]),
    ],
    ids=["empty log", "one", "split", "joined", "empty segments", "both"],
)
def test_chunks(sizes: list[int], expected: list[list[tuple[str, int, int]]]) -> None:
    tasks = plan_fold_tasks(segments(*sizes), target_bytes=10)
    assert [[(p.path, p.start_byte, p.end_byte) for p in task.slices] for task in tasks] == expected
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert [task.is_last for task in tasks] == [False] * (len(tasks) - 1) + [True]
    assert {task.log_partition for task in tasks} == {7}


@settings(max_examples=100)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(1, 200))
def test_chunks_hold_every_byte_once_and_are_about_the_size_asked_for(sizes: list[int], target_bytes: int) -> None:
    tasks = plan_fold_tasks(segments(*sizes), target_bytes=target_bytes)
    slices = [span for task in tasks for span in task.slices]
    for segment in segments(*sizes):
        own = [span for span in slices if span.path == segment.path]
        assert {(span.size_bytes, span.base_offset) for span in own} == {(segment.size_bytes, segment.base_offset)}
        assert [span.start_byte for span in own] == [0, *(span.end_byte for span in own)][:-1]
        assert own[-1].end_byte == segment.size_bytes
    assert [int(span.path) for span in slices] == sorted(int(span.path) for span in slices)
    for task in tasks:
        assert sum(span.end_byte - span.start_byte for span in task.slices) <= target_bytes


def test_a_log_of_no_segment_has_no_chunk() -> None:
    assert plan_fold_tasks([], target_bytes=10) == []


@pytest.mark.parametrize("where", ["data", "."], ids=["in the folder", "above it"])
def test_identity_of_a_brokers_disk(tmp_path: Path, where: str) -> None:
    root = tmp_path / "data"
    put(root, "__consumer_offsets-0/00000000000000000000.log", "__consumer_offsets-1/00000000000000000000.log")
    (tmp_path / where / "meta.properties").write_text(
        "#\n#Sat\nnode.id=1\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
    )
    (root / "__consumer_offsets-1" / "partition.metadata").write_text("version: 0\ntopic_id: bd6ns0y1R6qT-0MZ1sXF5Q\n")
    assert disk_identity(LOCAL, str(root)) == ("MkU3OEVBNTcwNTJENDM2Qk", "bd6ns0y1R6qT-0MZ1sXF5Q")


def test_identity_of_a_backup_without_notes(tmp_path: Path) -> None:
    put(tmp_path, "__consumer_offsets-0/00000000000000000000.log", "__consumer_offsets-0/partition.metadata")
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe broken =\ncluster.id=\n")
    assert disk_identity(LOCAL, str(tmp_path)) == (None, None)
