"""Listing a broker's log folders, cutting the work, and the ids a broker notes beside its logs."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as pafs

from sexton.errors import UsageError
from sexton.log.message_set import encode_message_set
from sexton.log.segment import Segment, disk_identity, list_segments, plan_fold_tasks, zero_tail
from tests.log_builder import BatchSpec, commit, encode_log

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


def dump(root: Path, folder: str) -> Path:
    root.write_text(f"Dumping {folder}__consumer_offsets-3/{0:020d}.log\nLog starting", "utf-8")
    return root


def packed(root: Path, name: str, mode: str) -> Path:
    with tarfile.open(root, mode) as archive:  # type: ignore[call-overload]  # a mode is one of literals
        archive.addfile(tarfile.TarInfo(f"{name}__consumer_offsets-3/{0:020d}.log"))
    return root


LOG_FILE = "__consumer_offsets-3/00000000000000000000.log"


def put_one(root: Path, name: str) -> Path:
    put(root, name)
    return root / name


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (lambda at: put_one(at, LOG_FILE).parent, "give {at}"),
        (lambda at: put_one(at, LOG_FILE), "give the folder {at}"),
        (lambda at: (put_one(at, f"data/{LOG_FILE}"), at)[1], "give {at}/data"),
        (lambda at: (put_one(at, f"a/data-0/{LOG_FILE}"), put_one(at, f"a/data-1/{LOG_FILE}"), at)[2],
         "give {at}/a/data-0 and {at}/a/data-1"),
        (lambda at: packed(at / "x.tgz", "backup/data/", "w:gz"), "unpack it, and give the folder backup/data in it"),
        (lambda at: packed(at / "x.tar", "", "w"), "unpack it, and give the folder . in it"),
        (lambda at: dump(at / "dump.txt", "/var/kafka/"), "give the folder that was dumped, /var/kafka,"),
        (lambda at: dump(at / "dump.txt", ""), "give the folder that was dumped, ., or a copy"),
    ],
    ids=["too low", "a segment", "too high", "two too high", "tar.gz", "tar", "dump", "relative dump"],
)  # fmt: skip
def test_the_folder_that_would_do_is_named(tmp_path, given, fix):
    path = given(tmp_path)
    with pytest.raises(UsageError) as failure:
        list_segments(LOCAL, str(path))
    assert fix.format(at=tmp_path) in str(failure.value.fix)


@pytest.mark.parametrize("cut", [20, 60])
def test_a_tar_that_breaks_off_names_no_folder(tmp_path, cut):
    path = packed(tmp_path / "x.tgz", "backup/", "w:gz")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UsageError) as failure:
        list_segments(LOCAL, str(path))
    assert "backup" not in str(failure.value.fix)


BATCH = encode_log([BatchSpec(entries=(commit("g", 5, version=1, commit_timestamp_ms=0, expire_timestamp_ms=0),))])
OLD_BATCH = encode_message_set(
    [commit("g", version=1, commit_timestamp_ms=0, expire_timestamp_ms=0)], base_offset=0, magic=1, timestamp_ms=0
)


@pytest.mark.parametrize(
    ("data", "zeros"),
    [(BATCH, 0), (BATCH + bytes(11), 0), (BATCH + bytes(12), 12), (BATCH + bytes(1 << 20), 1 << 20),
     (OLD_BATCH, 0), (OLD_BATCH + bytes(99), 99), (BATCH + BATCH[:30] + bytes(99), 0), (bytes(99), 0), (b"", 0)],
    ids=["none", "too few", "a head", "many", "a batch ends so", "after such", "half a batch", "no batch", "empty"],
)  # fmt: skip
def test_zeros_after_the_last_batch(tmp_path, data, zeros):
    path = put_one(tmp_path, LOG_FILE)
    path.write_bytes(data)
    assert zero_tail(LOCAL, Segment(log_partition=3, path=str(path), size_bytes=len(data), base_offset=0)) == zeros


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
