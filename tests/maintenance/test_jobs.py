"""Options and outcomes of the five maintenance jobs."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from sexton.as_text import DAY_MS
from sexton.job_params import REQUESTS
from sexton.lake.catalog import Lake
from sexton.maintenance.compact_tables import CompactedTables
from sexton.maintenance.group_answers import AnswerDifference
from sexton.maintenance.reconcile import Reconciliation
from sexton.pipeline import job
from sexton.settings import Settings
from tests.archived import CLUSTER, Archive
from tests.jobs import load_job
from tests.lake_session import lake_at
from tests.pipeline.archive_runs import three_minutes

Run = Callable[..., tuple[int, dict]]
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Loads a job as spark-submit does, with the default settings and a lake in which nothing was published."""
    return cache(lambda task: job_module(task, monkeypatch, tmp_path))


def job_module(task: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    found = load_job(task)
    lake: Lake = lake_at(tmp_path / "lake")
    monkeypatch.setattr(found, "settings", lambda: Settings(home=tmp_path))
    monkeypatch.setattr(found, "open_lake", lambda: lake, raising=False)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


@pytest.fixture
def run(load: Load, archive: Archive, tmp_path: Path) -> Run:
    def step(name: str, *more: str) -> tuple[int, dict]:
        source = [] if name == "compact_tables" else [f"--archive={archive.root}"]
        arguments = [*source, f"--run-dir={tmp_path / 'run'}", *more]
        code = job.main(name, "", REQUESTS[name], load(name).run, arguments)
        return code, json.loads((tmp_path / "run" / "outcome" / f"{name}.json").read_text())

    return step


def test_each_run_reads_the_next_part(run: Run) -> None:
    """Whenever it comes: once a week is a part a week."""
    subsets = [run("verify", f"--now={week * 7 * DAY_MS}")[1]["subsets"] for week in range(8)]
    assert subsets == [{CLUSTER: f"{number}/7"} for number in (1, 2, 3, 4, 5, 6, 7, 1)]
    assert run("verify", "--subset=1/1")[1]["read"] == 5


@pytest.mark.parametrize("subset", ["0/3", "4/3", "a/b", "1"])
def test_no_part(run: Run, subset: str) -> None:
    code, told = run("verify", f"--subset={subset}")
    assert code == 2
    assert "no part" in told["error"]


def test_a_rotten_archive_ends_the_day(run: Run, archive: Archive) -> None:
    segment = next(Path(archive.root).rglob("*.log"))
    segment.unlink()
    code, told = run("verify", "--subset=1/1")
    assert code == 3
    assert "no run expires" in told["error"]
    assert any(segment.name in alert for alert in told["alerts"])


@pytest.mark.parametrize("step", ["expire_runs", "compact_tables"])
def test_where_nothing_was_published_there_is_nothing_to_keep(run: Run, step: str) -> None:
    assert run(step, "--delete")[0] == 4


def compacted(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    found = CompactedTables(snapshots=1, branches=0, tags=0, small_files=0, new_files=0)
    monkeypatch.setattr(load("compact_tables").compact_tables, "run", lambda *_, **__: found)


def test_compact_tables_ends_with_the_run_folders(
    run: Run, load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compacted(load, monkeypatch)
    old = tmp_path / "var" / "runs" / "offset_retention" / "old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    told = {"snapshots": 1, "run_folders": 1, "run_folder_bytes": 0}
    early = {"deleted": False, "snapshots": 1, "run_folders": 0}
    assert run("compact_tables", f"--now={30 * DAY_MS}")[1].items() >= early.items()
    assert run("compact_tables", f"--now={30 * DAY_MS + 1}")[1].items() >= {"deleted": False, **told}.items()
    assert old.is_dir()
    assert run("compact_tables", f"--now={30 * DAY_MS + 1}", "--delete")[1].items() >= {"deleted": True, **told}.items()
    assert not old.exists()


def test_what_drifts_is_written_down_and_no_alert_names_it(
    run: Run, load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    differs = AnswerDifference(
        group_id="secret-name", log_partition=3, log_offset=9, topic="t", partition=0, by_log=(1, None, ""),
        by_broker=(2, 5, "m"),
    )  # fmt: skip
    numbers = dict.fromkeys(
        ("rounds", "groups", "compared", "offsets", "drifted", "unsettled", "refused", "unloadable"), 1
    )
    found = Reconciliation(cluster_id="c", **numbers, differences=[differs], alerts=["drift: 1"])
    seen = []

    def reconciled(_engine: object, request: object, **options: object) -> Reconciliation:
        seen.append((request, options["seed"], options["most_groups"]))
        return found

    monkeypatch.setattr(load("reconcile").reconcile, "run", reconciled)
    code, told = run("reconcile", "--bootstrap-servers=a:1", "--now=77")
    assert code == 0
    assert told["alerts"] == ["drift: 1"]
    assert "secret-name" not in json.dumps(told)
    ((request, seed, most_groups),) = seen
    assert (request.config.bootstrap_servers, seed, most_groups) == ("a:1", 77, 1_000)
    (line,) = json.loads((tmp_path / "run" / "drift.json").read_text())
    assert line["group_id"] == "secret-name"
    assert line["by_broker"] == [2, 5, "m"]


def test_held_instants_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_MAINTENANCE_HOLDS", '["2026-11-21T06:00:00Z", "2026-11-21T08:00:00+02:00"]')
    assert {round(instant.timestamp() * 1000) for instant in Settings().maintenance_holds} == {1795240800000}
