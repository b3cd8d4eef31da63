"""What a newcomer touches first: the Makefile, the installer's refusals, the files that say what this is."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    *("help", "install", "demo", "up", "down", "bench", "bench-all", "lint", "docs", "lock"),
    *("check", "test", "test-all", "test-long"),
}


def make(*arguments: str) -> str:
    return subprocess.run(["make", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def test_make_lists_every_target_in_one_line() -> None:
    listed = re.findall(r"^  make ([\w-]+) +\S.*$", make("help"), flags=re.MULTILINE)
    assert set(listed) == TARGETS
    assert len(listed) == len(TARGETS)
    assert make() == make("help")


def test_ci_runs_what_people_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[-1] == "exec make test test-all"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


@pytest.fixture
def fresh(tmp_path):
    """The files that the installer reads, in a folder of their own."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/install.sh", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def install(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(folder / "scripts" / "install.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def fake_python(folder: Path, name: str, *, version: str, has_venv: bool = True) -> Path:
    """Answers the three questions that the installer asks before it does anything."""
    program = folder / name
    program.parent.mkdir(exist_ok=True)
    fits = version in ("3.11", "3.12", "3.13")
    program.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"*sys.exit*) exit {0 if fits else 1};;\n"
        f"*print*) echo {version}; exit 0;;\n"
        f"*venv*) exit {0 if has_venv else 1};;\n"
        "esac\n"
        "exit 9\n"
    )
    program.chmod(0o755)
    return program


def test_a_python_that_does_not_fit_is_refused(fresh) -> None:
    python = fake_python(fresh, "old", version="3.9")
    done = install(fresh, PATH="/usr/bin:/bin", PYTHON=str(python))
    assert done.returncode == 2
    assert "is not a Python 3.11, 3.12 or 3.13" in done.stderr


def test_no_python_at_all(fresh) -> None:
    for name in ("dirname", "cksum", "cat"):
        (fresh / "bin").mkdir(exist_ok=True)
        (fresh / "bin" / name).symlink_to(shutil.which(name))
    done = install(fresh, PATH=str(fresh / "bin"))
    assert done.returncode == 2
    assert "make install PYTHON=" in done.stderr


def test_a_missing_venv_module_names_its_package(fresh) -> None:
    python = fake_python(fresh, "bin/python3", version="3.12", has_venv=False)
    done = install(fresh, PATH=f"{python.parent}:/usr/bin:/bin")
    assert done.returncode == 2
    assert "apt install python3.12-venv" in done.stderr


def test_the_next_python_is_tried(fresh) -> None:
    fake_python(fresh, "bin/python3", version="3.9")
    python = fake_python(fresh, "bin/python3.13", version="3.13", has_venv=False)
    done = install(fresh, PATH=f"{python.parent}:/usr/bin:/bin")
    assert "apt install python3.13-venv" in done.stderr


def test_the_lock_is_complete_and_names_no_host() -> None:
    lock = (ROOT / "requirements.txt").read_text()
    assert "://" not in lock
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", lock, flags=re.MULTILINE)
    assert lock.count(" \\\n    --hash=sha256:") >= len(pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"]
    names = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower().replace("_", "-") for line in wanted}
    assert names <= {name for name, _ in pins}


def test_pyspark_and_its_client_are_one_release() -> None:
    """Both wheels ship the same files; of two releases the later install would overwrite half of the other."""
    lock = (ROOT / "requirements.txt").read_text()
    found = dict(re.findall(r"^(pyspark(?:-client)?)==(\S+)", lock, flags=re.MULTILINE))
    assert found["pyspark"] == found["pyspark-client"]


def test_the_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_guards_name_what_is_there() -> None:
    """The place that each of them breaks, and the test that has to fail then: scripts/guards.py."""
    for name, guard in tomllib.loads((ROOT / "tests" / "guards.toml").read_text("utf-8")).items():
        file, _, test = guard["test"].partition("::")
        assert (ROOT / guard["file"]).read_text("utf-8").count(guard["old"]) == 1, name
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text("utf-8"), name


ASKS_FOR_THE_KIND = re.compile(
    r"\bis_admin\b|\.admin_snapshot is (not )?None"
    r'|"(log|admin_snapshots)" (not )?in [\w.]*\borigins\b|== (ADMIN\b|"admin")'
    r"|import .*\b(AdminSnapshots|LogWatch|AdminWatch)\b"
)
ASKING = {
    "execution/delete/recorded.py", "pipeline/snapshot_log.py", "plans/check_content.py", "runs/admin_tables.py",
}  # fmt: skip
"""Modules that ask whether a run is by the log or by Admin API, or import one of both. Everything else uses what the
run recorded."""


def test_no_other_module_asks_which_kind_of_evidence_a_run_has() -> None:
    package = ROOT / "include" / "sexton"
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".html")]
    texts = {str(path.relative_to(package)): path.read_text("utf-8") for path in files}
    asking = {name for name, text in texts.items() if ASKS_FOR_THE_KIND.search(text)}
    assert asking == ASKING, "use a fact of the run; a module that no longer asks leaves this list"
