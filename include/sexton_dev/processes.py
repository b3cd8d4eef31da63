"""Starts background processes, finds them again and stops all of them, with their descendants.

Each process is started in a new session, so that Ctrl-C in a terminal reaches only this process, which stops the others
in order. A pid file identifies each started process. Descendants are found by a mark in the environment, which each
inherits, whatever its session or parent.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from sexton.process_id import ProcessId, has_ended, host, process_id

MARK = "SEXTON_SYSTEM"
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait after SIGTERM to the started processes, then after each signal to whatever is left, such as a
    task that Airflow's scheduler would wait for."""

    polite_s: float = 6.0
    firm_s: float = 8.0


class Processes:
    """The background processes of one system: `directory` has their pid files, `mark` identifies the system."""

    def __init__(self, directory: Path, *, mark: str) -> None:
        self._directory = directory
        self._mark = mark
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> int:
        """Start `command` as `name` with its output in `log`; returns its pid."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**environment, MARK: self._mark},
                start_new_session=True,
                preexec_fn=_default_signals,
            )
        self._children.append(child)
        self._directory.mkdir(parents=True, exist_ok=True)
        record = {**asdict(process_id(child.pid)), "host": host()}
        (self._directory / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
        return child.pid

    def running(self) -> dict[str, psutil.Process]:
        """Started processes that still run, by name; a process id that was reused does not count."""
        found = {}
        for note in sorted(self._directory.glob("*.json")):
            try:
                said = json.loads(note.read_text(encoding="utf-8"))
                noted = ProcessId(pid=said["pid"], started=said["started"])
                if said["host"] == host() and not has_ended(noted):
                    found[note.stem] = psutil.Process(noted.pid)
            except (OSError, ValueError, KeyError, TypeError, psutil.Error):
                continue
        return found

    def descendants(self) -> list[psutil.Process]:
        """Every live process with our mark, whatever its parent."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.pid != os.getpid():
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def stop(self, patience: Patience | None = None) -> bool:
        """End everything: SIGTERM to the started processes, then to whatever is left, then SIGKILL. True if any ran.

        OSError if a process survives SIGKILL.
        """
        patience = patience or Patience()
        named, was_there = list(self.running().values()), bool(self.descendants())
        # A process that overwrites its environment with a title (Airflow's workers do) has lost the mark.
        children = [child for process in named for child in _children(process)]
        _signal(named, signal.SIGTERM)
        if not self._wait(children, patience.polite_s):
            _signal(self._left(children), signal.SIGTERM)
            if not self._wait(children, patience.firm_s):
                _signal(self._left(children), signal.SIGKILL)
                if not self._wait(children, patience.firm_s):
                    left = ", ".join(str(process.pid) for process in self._left(children))
                    raise OSError(f"processes that cannot be ended: {left}")
        for child in self._children:
            child.wait()  # ended, but maybe not collected yet
        self._children.clear()
        for note in self._directory.glob("*.json"):
            note.unlink(missing_ok=True)
        return was_there or bool(named)

    def _left(self, children: Sequence[psutil.Process]) -> list[psutil.Process]:
        """Processes with our mark, and those of `children` that still run."""
        return [*self.descendants(), *(child for child in children if _is_alive(child))]

    def _wait(self, children: Sequence[psutil.Process], seconds: float) -> bool:
        """True as soon as nothing is left; False after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            self._reap()
            if not self._left(children):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)

    def _reap(self) -> None:
        """Collect our ended children, which would stay as zombies."""
        self._children = [child for child in self._children if child.poll() is None]


def _default_signals() -> None:
    """Restore signals that a shell ignores for background jobs: ignored signals stay ignored across exec."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.Error:
        return []
    return found


def _is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs: its id was not reused, and it is not a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue
