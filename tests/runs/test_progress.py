"""A job that works for long says how far it is, whoever works; one that is quick says nothing."""

import time

import pytest

from sexton.runs import progress
from sexton.runs.engine import Engine
from sexton.runs.processes import ProcessEngine
from sexton.runs.progress import EVERY_S, ProgressLines


def test_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    lines = ProgressLines("Folding the log", 3_200_000_000, clock=lambda: now[0])
    for ended, seconds in ((1, 1), (10, EVERY_S), (11, 1), (0, EVERY_S), (50, EVERY_S)):
        now[0] += seconds
        lines.at(ended, 50)
    assert capsys.readouterr().err.splitlines() == [
        "Folding the log: 10 of 50 tasks, 20% of 3,200 MB, about 24 s left",
        "Folding the log: 0 of 50 tasks, 0% of 3,200 MB",
    ]
    lines = ProgressLines("Building history", items="instants", clock=lambda: now[0])
    now[0] += EVERY_S
    lines.at(340, 720)
    assert capsys.readouterr().err == "Building history: 340 of 720 instants, 47%, about 6 s left\n"


def slow(number: int) -> int:
    time.sleep(0.2)
    return number


def test_tasks_of_spark(engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.1)
    assert engine.session  # which is that of another engine, too
    assert Engine().map("Waiting", range(8), slow) == [*range(8)]
    assert " of 8 tasks, " in capsys.readouterr().err


def test_tasks_of_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.1)
    for logs in (False, True):
        with ProcessEngine(cores=2, starts_early=False, logs=logs) as here:
            assert here.map("Waiting", range(6), slow, work_bytes=1) == [*range(6)]
        assert (" of 6 tasks, " in capsys.readouterr().err) == logs
