"""Sexton's command line as a child process of a task. Its stderr goes to the task's log.

    0                          success, with the JSON that it printed
    1, death by a signal       failed, retried: the command continues where it stopped
    2, 3, 4, 5, 6              failed, no retry

A child process spares Airflow's processes the import of a Kafka client and of Arrow. The child gets none of Airflow's
environment variables, because they may contain connections and keys. It gets the client configuration of a connection
in a private file (brokers.py).
"""

import json
import logging
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sexton.errors import EXIT_MEANINGS, SextonError, printable
from sexton.settings import environment, program

log = logging.getLogger(__name__)

ANY_ERROR = 1
EMPTY_OPTION = re.compile(r"--[a-z-]+=")
PATIENCE_S = 30
"""Seconds for a child to end after SIGTERM: it finishes its current step and records the outcome."""


class _CommandError(AirflowException):
    """A failed command. `public` names no group; `message` goes to the log and defaults to `public`."""

    def __init__(self, public: str, *, message: str | None = None) -> None:
        super().__init__(message or public)
        self.public = public


class CommandFailed(_CommandError):
    """The command may succeed in a retry."""


class CommandRefused(_CommandError, AirflowFailException):
    """The command would fail again in a retry."""


class Command:
    """Runs `sexton`, one process at a time. `stop` may be called from a signal handler."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], *, variables: Mapping[str, str]) -> dict[str, Any]:
        """Run `sexton ARGUMENTS` with these environment variables; return the JSON that it printed, empty if none.

        CommandFailed or CommandRefused if the command failed. Options with an empty value (`--name=`) are dropped.

        An exception in this call ends the child, too: a task that timed out must not continue to delete.
        """
        given = [text for text in arguments if text and not EMPTY_OPTION.fullmatch(text)]
        log.info("running: sexton %s", printable(" ".join(given)))
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            self._child = subprocess.Popen(
                [program("sexton"), *given],
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
        if code:
            raise _failure(arguments[0], code if code > 0 else ANY_ERROR, answer, error)
        return answer

    def stop(self) -> None:
        """Ask the child to end. `run` returns once the child has ended."""
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
    """Return the counts of a command's answer in one line, empty if it has none."""
    counts = answer.get("counts")
    found = counts.items() if isinstance(counts, dict) else ()
    return ", ".join(f"{str(name).replace('_', ' ')} {number}" for name, number in found if isinstance(number, int))


def _failure(name: str, code: int, answer: Mapping[str, Any], error: str) -> CommandFailed | CommandRefused:
    """Return what to raise after `sexton NAME` ended with `code`; `error` is its last error line."""
    said = EXIT_MEANINGS.get(code)
    more = counted(answer) or "the log of the task says more"
    public = f"`sexton {name}` ended with {code} ({said or 'it may be tried again'}): {more}"
    message = f"sexton {name}: {error or f'ended with {code}'}"
    if said is None:
        return CommandFailed(public, message=message)
    return CommandRefused(public, message=f"{said}: {message}")


def _follow(child: "subprocess.Popen[str]") -> str:
    """Copy the child's stderr to the task's log line by line; return its last error, which is a line of JSON."""
    error = ""
    assert child.stderr is not None
    for line in child.stderr:
        text = printable(line.rstrip("\n"))
        log.info("%s", text)
        if "exit_code" in (failure := _answer(text)):
            error = str(SextonError(failure["error"], where=failure["where"], fix=failure["fix"]))
    return error


def _answer(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _environment() -> dict[str, str]:
    return environment(**{name: None for name in environment() if name.startswith(("AIRFLOW_", "_AIRFLOW_"))})
