"""What a run folder keeps in memory is what a reader of its files gets."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from sexton.runs.folder import RunFolder, RunRecord, Shard

RECORD = RunRecord(
    as_of_ms=1, taken_at_ms=1, profile="group_coordinator:4.3.1", retention_ms=1, retention_source="asked for",
    source="log", partition_count=1, log_partitions=[0], run_id="r",
)  # fmt: skip
ROWS = pa.table({"log_partition": pa.array([0], pa.int32()), "producer_id": pa.array([7], pa.int64())})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    kept = RunFolder(tmp_path, keeps_tables=True)
    kept.write_internal("rows", ROWS, Shard(0))
    kept.write_table(RECORD, "undecodable_records", ROWS.slice(0, 0), 0)
    return kept


def test_what_is_kept_is_what_the_files_have(folder: RunFolder, tmp_path: Path) -> None:
    others = RunFolder(tmp_path)
    assert folder.read_internal("rows", Shard(0)).equals(others.read_internal("rows", Shard(0)))
    assert folder.read_internal("rows", Shard(0), ["producer_id"]).column_names == ["producer_id"]
    assert folder.read_table("undecodable_records", 0).equals(others.read_table("undecodable_records", 0))


def test_what_is_kept_needs_no_file_and_travels_to_no_other_process(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "internal" / "rows" / "0.parquet").unlink()
    assert folder.read_internal("rows", Shard(0)).num_rows == 1
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(folder)).read_internal("rows", Shard(0))


def test_what_is_written_again_or_removed_is_not_kept(folder: RunFolder) -> None:
    folder.write_internal("rows", ROWS.slice(0, 0), Shard(0))
    assert folder.read_internal("rows", Shard(0)).num_rows == 0
    folder.reset()
    with pytest.raises(FileNotFoundError):
        folder.read_internal("rows", Shard(0))
