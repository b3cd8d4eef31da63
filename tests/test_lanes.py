"""The order of the test files, and the durations that it comes from."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import durations, lanes

TESTS = Path(__file__).parent
DYING = """
import os
def test_first(): pass
def test_second(): os.kill(os.getpid(), 9)
def test_third(): pass
"""


class Item:
    """Of a test what decides its place."""

    def __init__(self, name: str, *markers: str) -> None:
        self.path, self._markers = TESTS / name, markers

    def get_closest_marker(self, name: str) -> bool:
        return name in self._markers


def test_waiting_files_come_first_and_the_longest_of_either_kind_at_the_ends() -> None:
    items = [Item("new"), Item("d"), Item("a"), Item("b", "broker"), Item("b"), Item("c", "airflow")]
    placed = lanes.in_order(items, {"a": 7.0, "b": 3.0, "c": 9.0, "d": 1.0})  # type: ignore[arg-type]
    assert [item.path.name for item in placed] == ["c", "b", "b", "new", "d", "a"]


def test_durations_are_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "durations.tsv"
    kept = {("x/test_a.py", "test-all"): {"setup": 1.5, "call": 20.0, "teardown": 0.1}}
    durations.write(kept, file)
    assert durations.read(file) == kept
    assert durations.by_file({**kept, ("x/test_a.py", "test"): dict.fromkeys(durations.PHASES, 1.0)}) == {
        "x/test_a.py": pytest.approx(24.6)
    }


def test_seconds_are_counted_by_file_and_tier() -> None:
    test = "tests/x/test_a.py::test_b[c::d]"
    assert durations.part_of(test, {"thorough": 1}) == ("x/test_a.py", "test-all")
    assert durations.part_of(test, {}) == ("x/test_a.py", "test")


def test_long_files_are_left_out_by_what_make_test_runs_of_them() -> None:
    took = {("a.py", "test"): 3.0, ("a.py", "test-all"): 90.0, ("b.py", "test"): 7.0}
    seconds = {part: {"setup": 1.0, "call": call, "teardown": 0.0} for part, call in took.items()}
    assert durations.longer(seconds, 5.0) == {TESTS / "b.py"}


def test_every_file_with_a_duration_is_there() -> None:
    kept = durations.read()
    assert [name for name, _ in kept if not (TESTS / name).exists()] == []


def test_a_worker_that_dies_fails_one_test_and_ends_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text(DYING)
    command = [sys.executable, "-m", "pytest", "-n", "1", "--rootdir", tmp_path, "-p", "tests.durations", tmp_path]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert "crashed while running 'test_dying.py::test_second'" in done.stdout
    assert "1 failed, 2 passed" in done.stdout
