"""Sexton's command line as a task's child process: what it says goes to the task's log, its end means what it means.

    0  the answer that it printed      1 and deaths by a signal  failed, retried: it goes on where it was
    2, 3, 4, 5, 6                      failed, no retry

A child of its own, because what it imports (Kafka clients, Arrow) is nothing that Airflow's processes should load. It
gets nothing of Airflow's environment, in which connections and keys may lie: what it needs of a connection comes by a
private file (brokers.py).
"""

import json
import logging
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sexton.airflow.spark_tasks import ANY_ERROR
from sexton.errors import DataQualityFailure, NoCoverage, Refused, UndecodableInput, UsageError
from sexton.settings import environment

log = logging.getLogger(__name__)

SAID_BY_CODE = {
    UsageError.exit_code: "usage or input is wrong or missing",
    DataQualityFailure.exit_code: "a critical check failed",
    NoCoverage.exit_code: "the archive cannot answer for that instant",
    UndecodableInput.exit_code: "some bytes could not be decoded",
    Refused.exit_code: "a guard said no",
}
"""Exit codes that no retry mends."""
EMPTY_OPTION = re.compile(r"--[a-z-]+=")
PATIENCE_S = 30
"""How long a child may take to end after SIGTERM: it finishes the step it is in, and notes its outcome."""


class CommandFailed(AirflowException):
    """The command may succeed when it is run again. `public` names no group."""

    def __init__(self, message: str, *, public: str) -> None:
        super().__init__(message)
        self.public = public


class CommandRefused(AirflowFailException):
    """The command will not succeed when it is run again. `public` names no group."""

    def __init__(self, message: str, *, public: str) -> None:
        super().__init__(message)
        self.public = public


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended: `answer` is the JSON that it printed, empty where that is none, `error` its last word."""

    exit_code: int
    answer: dict[str, Any]
    error: str

    def require_success(self, name: str) -> dict[str, Any]:
        """The answer; else what Airflow should make of this end."""
        code = self.exit_code
        if code == 0:
            return self.answer
        said = SAID_BY_CODE.get(code)
        done = counted(self.answer)
        public = f"`sexton {name}` ended with {code} ({said or 'it may be tried again'}): " + (
            done or "the log of the task says more"
        )
        message = f"sexton {name}: {self.error or f'ended with {code}'}"
        if said is None:
            raise CommandFailed(message, public=public)
        raise CommandRefused(f"{said}: {message}", public=public)


class Command:
    """One `sexton` at a time, which `stop` reaches from a signal handler."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], *, variables: Mapping[str, str]) -> Done:
        """Run `sexton ARGUMENTS` with these variables set. Options that come out empty (`--name=`) are left out.

        Whatever ends this early ends the child, too: a task that timed out must not go on deleting unseen.
        """
        given = [text for text in arguments if text and not EMPTY_OPTION.fullmatch(text)]
        log.info("running: sexton %s", printable(" ".join(given)))
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            self._child = subprocess.Popen(
                [_sexton(), *given],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="backslashreplace",
                env={**_environment(), **variables},
                start_new_session=True,
            )
            try:
                error = _follow(self._child)
                code = self._child.wait()
            except BaseException:
                self._end()
                raise
            finally:
                self._child = None
            output.seek(0)
            answer = _answer(output.read())
        log.info("sexton ended with %s", code)
        return Done(exit_code=code if code >= 0 else ANY_ERROR, answer=answer, error=error)

    def stop(self) -> None:
        """Ask the child to end; the call of `run` that started it returns once it has."""
        if self._child is not None and self._child.poll() is None:
            log.warning("asking sexton to end")
            with suppress(ProcessLookupError):
                self._child.send_signal(signal.SIGTERM)

    def _end(self) -> None:
        child = self._child
        if child is None:
            return
        self.stop()
        try:
            child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def counted(answer: Mapping[str, Any]) -> str:
    """The counts that a command told, in one line; empty where it told none."""
    counts = answer.get("counts")
    found = counts.items() if isinstance(counts, dict) else ()
    return ", ".join(f"{str(name).replace('_', ' ')} {number}" for name, number in found if isinstance(number, int))


def printable(text: str) -> str:
    """`text` as one line of a log that nothing in it can break, recolour or reorder."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _follow(child: "subprocess.Popen[str]") -> str:
    """Tell the task's log what the child tells people, as it tells it; its last error, without the word."""
    error = ""
    assert child.stderr is not None
    for line in child.stderr:
        told = printable(line.rstrip("\n"))
        log.info("%s", told)
        if told.startswith("error: "):
            error = told.removeprefix("error: ")
    return error


def _answer(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _environment() -> dict[str, str]:
    return environment(**{name: None for name in environment() if name.startswith(("AIRFLOW_", "_AIRFLOW_"))})


def _sexton() -> str:
    """The sexton command of this very environment, whatever the path says."""
    return str(Path(sys.executable).parent / "sexton")
