"""A published run of the archive keeps its plan there, and `runs` names it; wherever it dies, a rerun completes it."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.analysis.forecast_result import FolderTables, LakeTables, forecast_of, offsets_of
from sexton.analysis.what_if import RetentionRules, published_folder, what_if
from sexton.errors import Refused, SextonError
from sexton.failpoints import FAILPOINTS
from sexton.lake.catalog import Lake
from sexton.lake.read import published_runs
from sexton.pipeline import publish_tables, validate_tables
from sexton.plans.read_plan import own_plan, read_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from tests.archived import CLUSTER, Archive
from tests.faults.snapshots import files
from tests.fork import ended
from tests.killed import Killed
from tests.lake_session import check_by_duckdb, use_lake
from tests.log_builder import commit
from tests.pipeline.archive_runs import instant, minute
from tests.plans.plan_runs import archive_of_commits, planned, plans_of

LOCAL = pafs.LocalFileSystem()
POINTS = sorted(name for name in FAILPOINTS if name.startswith("plan."))


@pytest.fixture(autouse=True)
def _own_lake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lake" in request.fixturenames:
        lake = request.getfixturevalue("lake")
        use_lake(monkeypatch, lake)
        check_by_duckdb(monkeypatch)


def published(engine: Engine, lake: Lake, out: Path) -> dict[str, object]:
    """The row of `runs`."""
    validate_tables.run(engine, RunFolder(out))
    publish_tables.run(engine, RunFolder(out))
    as_of_ms = RunFolder(out).read_run().as_of_ms
    return next(run.row for run in published_runs(lake, CLUSTER) if run.key.as_of_ms == as_of_ms)


def test_the_plan_is_kept_and_named(iceberg: Engine, lake: Lake, tmp_path: Path) -> None:
    archive = archive_of_commits(tmp_path / "archive")
    planned(iceberg, tmp_path / "run", archive)
    assert plans_of(archive.root, CLUSTER) == []
    row = published(iceberg, lake, tmp_path / "run")
    kept = read_plan(LOCAL, archive.root, None, str(row["plan_id"]))
    assert kept.sha256 == row["plan_sha256"]
    before = files(archive.folder)
    publish_tables.run(iceberg, RunFolder(tmp_path / "run"))
    assert files(archive.folder) == before


@pytest.mark.thorough
def test_a_run_that_is_in_runs_and_nowhere_else_is_completed(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of_commits(tmp_path / "archive")
    planned(iceberg, tmp_path / "run", archive)

    def die(point: str) -> None:
        assert point in FAILPOINTS
        if point == "publish.named":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publish_tables, "failpoint", die)
        with pytest.raises(Killed):
            published(iceberg, lake, tmp_path / "run")
    assert (plans_of(archive.root, CLUSTER), list(archive.folder.rglob("checkpoint.json"))) == ([], [])
    publish_tables.run(iceberg, RunFolder(tmp_path / "run"))
    assert plans_of(archive.root, CLUSTER) == [RunFolder(tmp_path / "run").read_run().plan_id]
    assert len(list(archive.folder.rglob("checkpoint.json"))) == 1


def test_the_published_tables_answer_as_the_run_folder(iceberg: Engine, lake: Lake, tmp_path: Path) -> None:
    planned(iceberg, tmp_path / "run", archive_of_commits(tmp_path / "archive"))
    published(iceberg, lake, tmp_path / "run")
    folder, record = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run").read_run()
    run = next(run for run in published_runs(lake, CLUSTER) if run.key.as_of_ms == record.as_of_ms)
    tables = FolderTables(folder, record), LakeTables(lake, run)
    here, there = map(forecast_of, tables)
    assert (there.groups(), there.horizons()) == (here.groups(), here.horizons())
    assert len(here.groups()) == 3
    assert offsets_of(tables[0], "c") == offsets_of(tables[1], "c")
    rules = RetentionRules(retention_ms=record.retention_ms, policy=None, source="")
    longer = replace(rules, retention_ms=1_000 * record.retention_ms)
    again = what_if(*published_folder(lake, run, tmp_path / "again"), in_force=rules, proposed=longer)
    assert again == what_if(folder, record, in_force=rules, proposed=longer)
    assert again.counts()["offsets_spared"] == 4


@pytest.mark.thorough
def test_an_empty_plan_is_not_kept(iceberg: Engine, lake: Lake, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    young = commit("young", commit_timestamp_ms=instant(5))
    archive.snapshot(instant(5) + 2_000, {0: minute(5, young, first=0)})
    planned(iceberg, tmp_path / "run", archive, at=5)
    row = published(iceberg, lake, tmp_path / "run")
    assert (row["plan_sha256"], plans_of(archive.root, CLUSTER)) == (None, [])
    assert row["plan_id"] is not None


def damaged(run: RunFolder) -> None:
    (run.local / "plan" / "undo" / "0.parquet").write_bytes(b"x")


def of_another(run: RunFolder) -> None:
    run.write_run(run.read_run().model_copy(update={"plan_id": "0" * 64}))


@pytest.mark.parametrize(("change", "error"), [(damaged, Refused), (of_another, SextonError)])
def test_a_plan_that_is_not_the_runs_is_not_published(
    small: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[RunFolder], None],
    error: type[Exception],
) -> None:
    planned(small, tmp_path / "run", archive_of_commits(tmp_path / "archive"))
    validate_tables.check_folder(RunFolder(tmp_path / "run"))
    change(RunFolder(tmp_path / "run"))
    monkeypatch.setattr(publish_tables, "publish", lambda *_: pytest.fail("published"))
    with pytest.raises(error):
        publish_tables.run(small, RunFolder(tmp_path / "run"))


def story(archive: Path, out: Path) -> None:
    """A run whose plan is kept."""
    told = Archive(archive, partitions=3)
    with SerialEngine(quiet=True) as engine:
        planned(engine, out, told)
        keep_plan(RunFolder(out), own_plan(RunFolder(out)).record, told.root)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """What is left by a run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    archive = archive_of_commits(folder / "archive")
    story(archive.folder, folder / "run")
    return archive


@pytest.mark.thorough
@pytest.mark.parametrize("name", POINTS)
def test_killed_anywhere(name: str, whole: Archive, tmp_path: Path) -> None:
    archive = archive_of_commits(tmp_path / "archive")
    assert ended(lambda: story(archive.folder, tmp_path / "run"), failpoint=name) == -signal.SIGKILL
    (plan_id,) = plans_of(whole.root, CLUSTER)
    for plan in plans_of(archive.root, CLUSTER):
        assert read_plan(LOCAL, archive.root, None, plan).record.plan_id == plan_id
    assert ended(lambda: story(archive.folder, tmp_path / "run")) == 0
    left = {name: data for name, data in files(archive.folder).items() if not name.endswith(".part")}
    assert left == files(whole.folder)
