"""docs/plan.md: every command in it runs, on an archive, a disk, two policies and a run that are called as there."""

import re
import shlex
from pathlib import Path

import pytest

from sexton.analysis import forecast_result
from sexton.cli import main
from sexton.lake import catalog as lake_catalog
from sexton.plans.plan import PlanRecord
from tests.cli.test_plan_forecast import POLICY
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.plans.plan_runs import archive_of_commits

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (sexton .*)$", PAGE, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with what the page's commands name."""
    folder = tmp_path_factory.mktemp("page")
    archive_of_commits(folder / "archive")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "old-policy.yaml").write_text(POLICY.replace("1m", "1d"))
    disk = folder / "disk" / "__consumer_offsets-0"
    disk.mkdir(parents=True)
    log = encode_log([BatchSpec(entries=(commit("g", commit_timestamp_ms=BASE_MS),), timestamp_ms=BASE_MS)])
    (disk / f"{0:020d}.log").write_bytes(log)
    return folder


def test_the_commands_of_the_page_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(lake_catalog, "open_lake", lambda: None)
    monkeypatch.setattr("sexton.cli.forecast.published", lambda _: (None, None))
    own = forecast_result.FolderTables
    monkeypatch.setattr(forecast_result, "LakeTables", lambda *_: own(*_run(place)))
    assert len(COMMANDS) == 13
    for command in COMMANDS:
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        assert code == 0, (command, told.err)
        assert told.out, command


def _run(where: Path) -> tuple[object, object]:
    from sexton.runs.folder import RunFolder

    folder = RunFolder(where / "plan")
    return folder, folder.read_run()


def test_the_page_names_every_file_and_limit() -> None:
    for word in (
        "plan.json", "tombstones/<N>.parquet", "undo/<N>.parquet", "plan.html", "batches/<N>.log", "over_limits",
    ):
        assert word in PAGE
    assert {"over_limits", "files", "plan_id"} <= PlanRecord.model_fields.keys()
