"""`sexton history build`: what it asks for and prints. What it builds is tested in pipeline/test_build_history.py."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import main
from sexton.job_params import HistoryRequest
from sexton.pipeline import build_history
from sexton.pipeline.build_history import History
from sexton.settings import settings
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

FIRST = "2026-11-20T00:00:00Z"
FIRST_MS = 1_795_132_800_000


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[HistoryRequest]:
    """What was asked for; two instants are published, one is not covered."""
    asked: list[HistoryRequest] = []

    def run(_engine: Any, _lake: Any, _root: Any, request: HistoryRequest, **_more: Any) -> History:
        asked.append(request)
        assert Path(request.archive).exists() or request.archive == "archive"
        return History(published=[1, 2], published_before=[3], not_covered={4: "no record"})

    monkeypatch.setattr(build_history, "run", run)
    monkeypatch.setattr("sexton.lake.catalog.open_lake", lambda: None)
    return asked


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(encode_log([BatchSpec(entries=(commit("g"),), timestamp_ms=BASE_MS)]))
    return tmp_path / "disk"


def test_a_range_of_an_archive(built: list[HistoryRequest], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--archive", "archive", "--from", FIRST, "--to", str(FIRST_MS + 7_200_000), "--retention-minutes", "60"]
    assert main(["history", "build", *options, "--json"]) == 0
    (request,) = built
    assert (request.from_ms, request.to_ms, request.step_minutes) == (FIRST_MS, FIRST_MS + 7_200_000, 60)
    assert (request.archive, request.retention_minutes, request.profile) == ("archive", 60, "auto")
    found = json.loads(capsys.readouterr().out)
    assert found == {"published": [1, 2], "published_before": [3], "not_covered": {"4": "no record"}, "failed": {}}
    assert main(["history", "build", *options]) == 0
    assert "2 instants published, 1 already were" in capsys.readouterr().out


def test_a_disk_is_archived_until_it_is_published(built: list[HistoryRequest], disk: Path) -> None:
    assert main(["history", "build", "--segments", str(disk), "--from", FIRST, "--partition-count", "1"]) == 0
    assert not Path(built[0].archive).exists()
    assert Path(built[0].archive).is_relative_to(settings().runs_uri)


@pytest.mark.parametrize(
    ("history", "code"),
    [
        (History(published=[1], failed={2: "1 critical expectations failed"}), 3),
        (History(not_covered={1: "no record"}), 4),
        (History(published_before=[1]), 0),
    ],
    ids=["a check failed", "nothing is covered", "all are published"],
)
def test_exit_codes(built: list[HistoryRequest], monkeypatch: pytest.MonkeyPatch, history: History, code: int) -> None:
    answer: Callable[..., History] = lambda *_, **__: history  # noqa: E731
    monkeypatch.setattr(build_history, "run", answer)
    assert main(["history", "build", "--archive", "archive", "--from", FIRST]) == code
    assert not built


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--from", FIRST], "either --segments DIR or --archive URI"),
        (["--archive", "a", "--segments", "b", "--from", FIRST], "either --segments DIR or --archive URI"),
        (["--archive", "a", "--from", "yesterday"], "not an instant"),
        (["--archive", "a", "--from", FIRST, "--partition-count", "3"], "has its own count"),
        (["--archive", "a", "--from", FIRST, "--step-minutes", "0"], "--step-minutes"),
        (["--segments", "a", "--segments", "b", "--from", FIRST], "one log directory at a time"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(
    built: list[HistoryRequest], capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    assert main(["history", "build", *options]) == 2
    assert why in capsys.readouterr().err
    assert not built
