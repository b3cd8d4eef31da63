"""Bad bytes in one log partition: it is told where and why, nothing is planned there, and everything else comes out."""

import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sexton.coordinator.partitioner import partition_of
from sexton.errors import NoCoverage, UsageError
from sexton.job_params import ReplayRequest
from sexton.log import codec as codecs
from sexton.log.batch import encode_batch
from sexton.pipeline.standalone import run_audit
from sexton.report import write_report
from sexton.runs.engine import Engine
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_batches, offset_key, offset_value, sealed

LOG_PARTITIONS = 8
RETENTION_MINUTES = 1
LATER_MS = BASE_MS + 3_600_000
GOOD, CUT, FLIPPED, BAD_CODEC, FUTURE_VERSION, BOMB, GARBAGE, EMPTY = range(LOG_PARTITIONS)


def group_of(log_partition: int) -> str:
    names = map("group-{}".format, range(1000))
    return next(name for name in names if partition_of(name, LOG_PARTITIONS) == log_partition)


def healthy(log_partition: int) -> list[bytes]:
    """Three batches of commits; the last log_offset is 2."""
    entries = [commit(group_of(log_partition), number, partition=number) for number in range(3)]
    return encode_batches([BatchSpec(entries=(entry,)) for entry in entries])


def with_attributes(batch: bytes, attributes: int) -> bytes:
    """The batch with other attributes and a CRC that fits."""
    return sealed(batch[:21] + struct.pack(">h", attributes) + batch[23:])


def damaged(log_partition: int) -> bytes:
    batches = healthy(log_partition)
    group = group_of(log_partition)
    match log_partition:
        case kind if kind == CUT:
            return b"".join(batches)[:-7]
        case kind if kind == FLIPPED:
            at = len(batches[1]) - 5  # in the commit timestamp
            batches[1] = batches[1][:at] + bytes([batches[1][at] ^ 1]) + batches[1][at + 1 :]
        case kind if kind == BAD_CODEC:
            batches[1] = with_attributes(batches[1], 7)
        case kind if kind == FUTURE_VERSION:
            value = struct.pack(">h", 9) + offset_value(5)[2:]
            batches[1] = encode_batch([(offset_key(group, partition=1), value)], base_offset=1, timestamp_ms=BASE_MS)
        case kind if kind == BOMB:
            huge = offset_value(5, metadata="\0" * 30_000)
            entries = [(offset_key(group, partition=1), huge)] * 4_000
            batches[1] = encode_batch(entries, base_offset=1, timestamp_ms=BASE_MS, codec=codecs.ZSTD)
            batches[2] = encode_batch([(offset_key(group), None)], base_offset=4_001, timestamp_ms=BASE_MS)
        case kind if kind == GARBAGE:
            return b"this is no segment of Kafka's. " * 100
        case kind if kind == EMPTY:
            return b""
    return b"".join(batches)


@pytest.fixture(scope="module")
def audited(small: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bad")
    for part in range(LOG_PARTITIONS):
        folder = root / "log" / f"__consumer_offsets-{part}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(damaged(part))
    replay = ReplayRequest(
        run_id="bad", segments=str(root / "log"), as_of_ms=LATER_MS, taken_at_ms=LATER_MS, partition_count=8,
        retention_minutes=RETENTION_MINUTES,
    )  # fmt: skip
    record = run_audit(small, replay, root / "out")
    assert record.partition_count == LOG_PARTITIONS
    return root / "out"


def column(out: Path, table: str, *names: str) -> list[tuple[object, ...]]:
    files = sorted((out / table).glob("*.parquet"))
    return [tuple(row[name] for name in names) for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def test_every_fault_is_a_row_with_its_place(audited: Path) -> None:
    told = {(part, reason) for part, reason in column(audited, "undecodable_records", "log_partition", "reason")}
    assert told == {
        (FLIPPED, "bad_crc"), (BAD_CODEC, "bad_codec"), (FUTURE_VERSION, "unknown_value_version"),
        (BOMB, "inflated_too_large"), (GARBAGE, "malformed_batch"),
    }  # fmt: skip
    rows = column(audited, "undecodable_records", "log_partition", "base_offset", "log_offset", "detail")
    assert (FUTURE_VERSION, 1, 1) in {row[:3] for row in rows}
    assert all(detail for *_, detail in rows)


def test_everything_else_comes_out(audited: Path) -> None:
    found = {(group, partition) for group, partition in column(audited, "committed_offsets", "group_id", "partition")}
    whole, without_the_middle = {0, 1, 2}, {0, 2}
    assert {partition for group, partition in found if group == group_of(GOOD)} == whole
    assert {partition for group, partition in found if group == group_of(CUT)} == {0, 1}
    assert {partition for group, partition in found if group == group_of(FLIPPED)} == whole
    assert {partition for group, partition in found if group == group_of(BAD_CODEC)} == without_the_middle
    assert {partition for group, partition in found if group == group_of(FUTURE_VERSION)} == without_the_middle


def test_nothing_is_planned_where_something_could_not_be_read(audited: Path) -> None:
    assert {part for (part,) in column(audited, "tombstones", "log_partition")} == {GOOD, CUT}
    assert {int(file.stem) for file in (audited / "batches").glob("*.log")} == {GOOD, CUT}


def test_the_profile_says_whose_load_would_fail(audited: Path) -> None:
    failing = {part for part, fails in column(audited, "load_profile", "log_partition", "load_would_fail") if fails}
    assert failing == {BAD_CODEC, FUTURE_VERSION, BOMB, GARBAGE}


def test_the_summary_ends_with_5_and_says_why(audited: Path) -> None:
    summary = write_report(audited)
    assert summary.exit_code == 5
    assert {int(found.log_partition) for found in summary.log_partitions if found.undecodable} == {
        FLIPPED, BAD_CODEC, FUTURE_VERSION, BOMB, GARBAGE,
    }  # fmt: skip


@pytest.mark.parametrize("make", ["missing", "empty", "a file"])
def test_a_folder_without_a_log_is_told_in_one_line(small: Engine, tmp_path: Path, make: str) -> None:
    root = tmp_path / "log"
    if make == "empty":
        root.mkdir()
    elif make == "a file":
        root.write_text("x")
    replay = ReplayRequest(run_id="bad", segments=str(root), taken_at_ms=LATER_MS)
    with pytest.raises(UsageError) as caught:
        run_audit(small, replay, tmp_path / "out")
    assert str(root) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_instant_before_everything_has_no_coverage(small: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(damaged(GOOD))
    replay = ReplayRequest(run_id="bad", segments=str(tmp_path / "log"), as_of_ms=BASE_MS, taken_at_ms=LATER_MS)
    with pytest.raises(NoCoverage):
        run_audit(small, replay, tmp_path / "out")
