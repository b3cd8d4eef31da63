"""From the archive to the lake: a run is published with what its interval changed, and leaves the next one's base."""

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sexton.errors import DataQualityFailure, NoCoverage
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.pipeline import find_expired, plan_tombstones, publish_tables, validate_tables
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from tests.archived import Archive
from tests.lake_session import check_by_duckdb, use_lake
from tests.pipeline.archive_runs import instant, run, three_minutes
from tests.tiers import later


@pytest.fixture(autouse=True)
def _own_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use_lake(monkeypatch, lake)
    check_by_duckdb(monkeypatch)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def judged(engine: Engine, out: Path, archive: Archive, number: int, **options: object) -> RunRecord:
    record = run(engine, out, archive, instant(number), **options)
    find_expired.run(engine, RunFolder(out))
    plan_tombstones.run(engine, RunFolder(out))
    return record


def published(engine: Engine, out: Path) -> PublishedRun:
    validate_tables.run(engine, RunFolder(out))
    return publish_tables.run(engine, RunFolder(out))


def checkpoints(archive: Archive) -> list[str]:
    folder = Path(archive.root) / "cluster" / "checkpoints" / "topic"
    return sorted(path.parent.name for path in folder.glob("*/checkpoint.json"))


@pytest.mark.thorough
def test_each_run_goes_on_from_the_one_before(iceberg: Engine, lake: Lake, tmp_path: Path, archive: Archive) -> None:
    # Before the first minute there was nothing to begin with, not even a batch: that is an instant, too.
    for since, number in pairwise((0, 1, 3)):
        record = judged(iceberg, tmp_path / f"r{number}", archive, number, since_ms=instant(since))
        assert record.base_as_of_ms == (instant(since) if since else None)
        found = published(iceberg, tmp_path / f"r{number}")
        assert found.row["checkpoint_sha256"] == record.checkpoint_sha256
        assert found.row["changes_since_ms"] == instant(since)
    assert checkpoints(archive) == [f"{instant(number)}-r{number}" for number in (1, 3)]
    newest = published_runs(lake, "cluster")[-1]
    rows = read_published(lake, newest, "offset_changes").to_pylist()
    assert {(row["group_id"], row["kind"], row["new_committed_offset"]) for row in rows} == {
        ("a", "set", 8), ("b", "ambiguous", None), ("c", "set", 9)
    }  # fmt: skip
    again = published(iceberg, tmp_path / "r3")
    assert again.key == newest.key
    assert len(checkpoints(archive)) == 2


@pytest.mark.thorough
def test_a_run_that_tells_no_changes_publishes_none(iceberg: Engine, tmp_path: Path, archive: Archive) -> None:
    judged(iceberg, tmp_path / "alone", archive, 2)
    found = published(iceberg, tmp_path / "alone")
    assert found.row["changes_since_ms"] is None
    assert "offset_changes" not in found.snapshots


@pytest.mark.thorough
@pytest.mark.parametrize("harm", later(pytest.mark.full, ["wrong", "missing"], but=["wrong"]))
def test_changes_that_break_a_law_stop_the_run(iceberg, lake, tmp_path, archive, harm):
    before = published_runs(lake, "cluster")
    judged(iceberg, tmp_path / harm, archive, 3, since_ms=instant(2))
    file = tmp_path / harm / "offset_changes" / "0.parquet"
    if harm == "missing":
        file.unlink()
    else:
        rows = pq.read_table(file, partitioning=None)
        at = rows.schema.get_field_index("new_committed_offset")
        pq.write_table(rows.set_column(at, rows.schema.field(at), rows["old_committed_offset"]), file)
    with pytest.raises(DataQualityFailure, match="offset_changes"):
        published(iceberg, tmp_path / harm)
    with pytest.raises(DataQualityFailure):
        publish_tables.run(iceberg, RunFolder(tmp_path / harm))
    assert published_runs(lake, "cluster") == before
    assert checkpoints(archive) == []


def test_without_coverage_nothing_is_published(iceberg: Engine, lake: Lake, tmp_path: Path, archive: Archive) -> None:
    iceberg.session.sql(f"CREATE NAMESPACE IF NOT EXISTS `{lake.name}`.`{lake.namespace}`")
    before = published_runs(lake, "cluster")
    with pytest.raises(NoCoverage):
        judged(iceberg, tmp_path / "later", archive, 9)
    assert published_runs(lake, "cluster") == before
    assert checkpoints(archive) == []
