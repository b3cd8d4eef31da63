"""Which process one is: the same whatever the clock is set to, on Linux by /proc and where there is none by ps."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sexton import process_id as module
from sexton.process_id import ProcessId, has_ended, host, process_id

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture(params=["proc", "ps"])
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a process is looked at; a machine without /proc is one whose /proc is an empty folder."""
    if request.param == "ps":
        assert shutil.which("ps")
        monkeypatch.setattr(module, "PROC", tmp_path)
    return str(request.param)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER) as started:
        yield started
        started.kill()


def step_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What setting the clock does to psutil: the boot's instant, as the kernel tells it, moves along."""
    from psutil import _pslinux

    boot_s = _pslinux.boot_time()
    monkeypatch.setattr(_pslinux, "boot_time", lambda: boot_s + seconds)


def test_a_process_is_the_same_after_the_clock_was_set(
    way: str, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, created_s = process_id(child.pid), psutil.Process(child.pid).create_time()
    step_clock(monkeypatch, 3_600)
    assert psutil.Process(child.pid).create_time() - created_s > 3_000, "by that clock it is another process"
    assert process_id(child.pid) == before
    assert not has_ended(before)


def test_a_number_that_was_given_again_is_another_process(way: str, child: subprocess.Popen[bytes]) -> None:
    assert has_ended(ProcessId(pid=child.pid, started=f"{process_id(child.pid).started}0"))


def test_what_has_ended(way: str, child: subprocess.Popen[bytes]) -> None:
    noted = process_id(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(noted), "nobody has waited for it yet"
    child.wait()
    assert has_ended(noted)
    with pytest.raises(ProcessLookupError):
        process_id(child.pid)


def test_what_may_not_be_looked_at_has_not_ended(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's process, where /proc shows only one's own."""
    noted = process_id(child.pid)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    monkeypatch.setattr(module, "PROC", tmp_path)
    assert not has_ended(noted)


def test_a_name_can_be_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(["S", *map(str, range(4, 22)), "777", "0"])
    for folder in ("self", str(os.getpid())):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stat").write_text(f"1 (a) Z 1 (b c) {fields}")
    monkeypatch.setattr(module, "PROC", tmp_path)
    assert process_id(os.getpid()).started == "777"


def test_a_host_is_one_boot_of_it() -> None:
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() in host()
