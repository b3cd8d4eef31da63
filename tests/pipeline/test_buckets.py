"""A run whose log partitions are divided into buckets writes what any run writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sexton.errors import DataQualityFailure
from sexton.job_params import ReplayRequest
from sexton.maintenance.check_checkpoint import compare_checkpoint
from sexton.pipeline import find_expired, plan_tombstones, replay_groups, validate_tables
from sexton.plans.read_plan import own_plan
from sexton.report.plan_page import render_plan
from sexton.runs import fold_log
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.processes import SerialEngine
from sexton.tables import TABLES
from tests.archived import Archive
from tests.coordinator.golden import GOLDEN
from tests.environment import with_settings
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import LATER_MS, SETTLE_MS, instant, minute, passed_over, publish, run
from tests.tiers import later

pytestmark = pytest.mark.thorough

PROFILES = {
    "kafka-4.3.1-plain": "group_coordinator:4.3.1",
    "kafka-4.2.2": "group_coordinator:4.2",
    "kafka-3.9.1": "group_metadata_manager:3.9",
}
OF_THE_ATTEMPT = {"run_id", "bounds", "checkpoint_sha256", "base_as_of_ms", "warnings"}

ORDERED_BY_BUCKET = ("pending_offsets", "offset_verdicts")
"""What a transaction holds, and what no client can fetch, come last in a bucket."""


class Spread(SerialEngine):
    """Nothing is handed on in memory, and every task of the log is one of its own, as on Spark."""

    cores = None

    def works_here(self, work_bytes: int) -> bool:  # however few
        return False


FEW, UNDIVIDED = 32, 1_000_000


@pytest.fixture(params=[FEW, UNDIVIDED])
def bucket_keys(request: pytest.FixtureRequest) -> Iterator[int]:
    with with_settings(SEXTON_BUCKET_KEYS=str(request.param), SEXTON_FOLD_TASK_BYTES="65536"):
        yield int(request.param)


def whole_run(out: Path, *, engine: Engine | None = None, **options: Any) -> tuple[RunFolder, RunRecord]:
    """All stages but publishing."""
    folder, engine = RunFolder(out), engine or Spread(quiet=True)
    replay_groups.run(engine, folder, ReplayRequest(run_id=out.name, taken_at_ms=LATER_MS, **options))
    find_expired.run(engine, folder)
    plan_tombstones.run(engine, folder, page=render_plan)
    return folder, validate_tables.check_folder(folder)


def written(folder: RunFolder) -> dict[str, Any]:
    """Every table and the plan's bytes; the rows in the order of its files, but for tables that have another one."""
    found: dict[str, Any] = {}
    for name in TABLES:
        files = sorted((folder.local / name).glob("*.parquet"), key=lambda file: [*map(int, file.stem.split("-"))])
        rows = (
            pa.concat_tables([pq.read_table(file) for file in files]).drop_columns(["run_id"]).to_pylist()
            if files
            else []
        )
        if name == "dq_results":  # what was observed counts files, and shows the first of several rows
            rows = [(row["table"], row["expectation"], row["success"]) for row in rows]
        found[name] = sorted(rows, key=repr) if name in ORDERED_BY_BUCKET else rows
    for top in ("batches", "plan"):
        for file in sorted((folder.local / top).rglob("*")):
            if file.is_file():
                found[file.relative_to(folder.local).as_posix()] = file.read_bytes()
    return found


def told(record: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in record.model_dump().items() if name not in OF_THE_ATTEMPT}


@pytest.mark.parametrize(
    ("recording", "bucket_keys"),
    later(
        pytest.mark.full,
        [(recording, keys) for recording in PROFILES for keys in (FEW, UNDIVIDED)],
        but=[("kafka-4.3.1-plain", FEW), ("kafka-4.2.2", UNDIVIDED), ("kafka-3.9.1", FEW)],
    ),
    indirect=["bucket_keys"],
)
def test_recordings_in_buckets(recording: str, bucket_keys: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "segments": str(GOLDEN / recording / "before"),
        "retention_minutes": 0,
        "profile": PROFILES[recording],
    }
    folder, record = whole_run(tmp_path / "buckets", **options)
    assert bool(record.bounds) == (bucket_keys < 100 and recording != "kafka-3.9.1")
    plain, expected = whole_run(tmp_path / "whole", engine=SerialEngine(quiet=True), **options)
    assert told(record) == told(expected)
    assert record.plan_id is not None
    left, right = written(folder), written(plain)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []
    assert own_plan(folder).record == own_plan(plain).record


@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
@pytest.mark.parametrize(
    "recording", later(pytest.mark.full, ["kafka-4.3.1-plain", "kafka-3.9.1"], but=["kafka-4.3.1-plain"])
)
def test_without_a_checkpoint_the_same_is_written(
    recording: str, memory_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folds that nobody goes on from stay in memory, or in files without a name; where there are many keys, the records
    are divided instead of a fold."""
    monkeypatch.setattr(fold_log, "_MEMORY_BYTES", memory_bytes)
    segments, engine, found = str(GOLDEN / recording / "before"), SerialEngine(quiet=True), []
    for keeps_fold in (True, False):
        folder = RunFolder(tmp_path / str(keeps_fold))
        asked = ReplayRequest(run_id="r", taken_at_ms=LATER_MS, segments=segments, profile=PROFILES[recording])
        if not keeps_fold:
            monkeypatch.setattr(fold_log, "_hand_on", lambda *_: pytest.fail("a partial fold is handed on"))
        with with_settings(SEXTON_BUCKET_KEYS=str(FEW)):
            record = replay_groups.run(engine, folder, asked, keeps_fold=keeps_fold)
        found.append((told(record), written(folder)))
        assert ("fold" in [path.name for path in folder.local.iterdir()]) == keeps_fold
        assert bool(record.bounds) == (recording != "kafka-3.9.1")
    assert found[0] == found[1]


def busy_archive(folder: Path) -> Archive:
    """Three minutes of commits and removals of a hundred groups, some with very many offsets; in another log partition
    of commits in the first minute alone."""
    archive, random, first = Archive(folder, partitions=2), Random(7), 0
    for number in (1, 2, 3):
        entries = []
        for _ in range(120):
            group = f"g{min(int(random.expovariate(0.1)), 99):02d}"
            entry = tombstone if random.random() < 0.2 else commit
            key: dict[str, Any] = {"topic": random.choice("tuv"), "partition": random.randrange(9)}
            entries.append(commit(group, number, **key) if entry is commit else tombstone(group, **key))
        quiet = {1: minute(1, *(commit(f"q{n}") for n in range(30)), first=0)} if number == 1 else {}
        archive.snapshot(instant(number) + 2_000, {0: minute(number, *entries, first=first), **quiet})
        first += len(entries)
    return archive


def test_increments_of_buckets_are_the_full_replay(bucket_keys: int, tmp_path: Path) -> None:
    archive = busy_archive(tmp_path / "archive")
    options: dict[str, Any] = {"archive": archive.root, "settle_ms": SETTLE_MS, "retention_minutes": 1}
    before = None
    for number in (1, 2, 3):
        folder, record = whole_run(tmp_path / f"r{number}", as_of_ms=instant(number), **options)
        full_folder, full = whole_run(tmp_path / f"f{number}", as_of_ms=instant(number), is_full=True, **options)
        assert (record.base_as_of_ms, full.base_as_of_ms) == (before, None)
        assert passed_over(record) == []
        assert bool(record.bounds) == (bucket_keys < 100)
        assert told(record) == told(full)
        assert written(folder) == written(full_folder)
        publish(tmp_path / f"r{number}", record, archive)
        compare_checkpoint(
            Spread(quiet=True), RunFolder(tmp_path / f"c{number}"), archive=archive.root, settle_ms=SETTLE_MS
        )
        before = instant(number)


def test_changes_start_from_buckets(bucket_keys: int, tmp_path: Path) -> None:
    archive = busy_archive(tmp_path / "archive")
    options: dict[str, Any] = {"archive": archive.root, "settle_ms": SETTLE_MS, "since_ms": instant(1)}
    found = []
    for name, is_full in (("increment", False), ("full", True)):
        folder, record = whole_run(tmp_path / name, as_of_ms=instant(3), is_full=is_full, **options)
        found.append(written(folder))
        if not is_full:
            publish(folder.local, record, archive)
    assert bucket_keys
    assert found[0] == found[1]
    assert found[0]["offset_changes"]


CHANGED_BOUNDS = {
    "out of order": {"0": ["g03", "g01"]},
    "twice": {"0": ["g01", "g01"]},
    "of no log partition": {"7": ["g01"]},
}


def test_a_checkpoint_that_somebody_changed_is_passed_over(tmp_path: Path) -> None:
    """One whose bounds are not those of a fold; and one with a damaged bucket, which is named."""
    archive, engine = busy_archive(tmp_path / "archive"), Spread(quiet=True)

    def complaint_of(name: str) -> str:
        later = run(engine, tmp_path / name, archive, instant(2))
        (warning,) = passed_over(later)
        assert later.base_as_of_ms is None
        return warning

    with with_settings(SEXTON_BUCKET_KEYS=str(FEW)):
        record = run(engine, tmp_path / "r1", archive, instant(1))
        kept = publish(tmp_path / "r1", record, archive)
        manifest = kept / "checkpoint.json"
        whole = manifest.read_text()
        for name, bounds in CHANGED_BOUNDS.items():
            told = json.loads(whole)
            manifest.write_text(json.dumps({**told, "bounds": {**told["bounds"], **bounds}}))
            assert complaint_of(name)
            with pytest.raises(DataQualityFailure, match="not those of a fold"):
                compare_checkpoint(engine, RunFolder(tmp_path / "c"), archive=archive.root)
        manifest.write_text(whole)
        (kept / "0-0001" / "groups.parquet").write_bytes(b"x")
        assert "0-0001/" in complaint_of("damaged")
