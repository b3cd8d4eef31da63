"""Starts jobs with everything imported, as forks of their task.

Importing takes the six jobs of a run 15 s of processor time, 4 s of them Great Expectations. LocalExecutor forks its
workers from the scheduler, and the workers fork every task: modules that the scheduler has imported are not imported
again. With another executor, or if tasks are not forks, a job is a separate program.

Only modules are shared: a thread or a connection of Arrow, gRPC or a Kafka client would be missing in the forks.
"""

import logging
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from airflow.listeners import hookimpl
from airflow.providers.standard.hooks.subprocess import SubprocessHook, SubprocessResult

from sexton.job_params import STAGES
from sexton.settings import set_variables, settings

log = logging.getLogger(__name__)

MODULES = (
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.functions",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "great_expectations",
    "sexton.kafka.session",
    "sexton.pipeline.job",
    *(f"sexton.pipeline.{stage}" for stage in STAGES),
    "sexton.runs.processes",
    "sexton.maintenance.check_checkpoint",
    "sexton.audits.due_audits",
    "sexton.report.plan_page",
    "sexton.report.run_page",
    "sexton.airflow.spark_tasks",
)
"""Modules that the jobs of a run and the DAG files import."""
_imported: list[str] = []
_before: list[Any] = []
"""In a job: the output streams of its task. If they were garbage-collected, they would close the job's output."""


@hookimpl
def on_starting(component: Any) -> None:  # noqa: ARG001  # Airflow passes by name
    """Import MODULES in a scheduler, before it forks anything."""
    if "scheduler" not in sys.argv or not settings().preload or is_warm():
        return
    from sexton.runs.spark_session import compiler_environment

    logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it logs a line for each of its functions
    set_variables({"GX_ANALYTICS_ENABLED": "false", **compiler_environment()})
    try:
        for name in MODULES:
            import_module(name)
            _imported.append(name)
    except Exception:  # if something is missing, the job reports it
        log.exception("jobs of this scheduler import for themselves")


def is_warm() -> bool:
    """Whether a job can start as a fork of this process."""
    return len(_imported) >= len(MODULES)


class ForkedJob(SubprocessHook):
    """A SubprocessHook that forks this process, calls `first` in the fork, and then runs a Python program there."""

    def __init__(self, first: Callable[[], None]) -> None:
        super().__init__()
        self._first = first
        self._pid = 0

    def run_command(
        self,
        command: list[str],
        env: dict[str, str] | None = None,
        output_encoding: str = "utf-8",
        cwd: str | None = None,  # noqa: ARG002  # the fork has the task's
    ) -> SubprocessResult:
        self.log.info("Running in a fork: %s", command)
        reading, writing = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _become(command[1:], env or {}, writing, self._first)
        os.close(writing)
        line = ""
        with os.fdopen(reading, encoding=output_encoding, errors="backslashreplace") as lines:
            for text in lines:
                line = text.rstrip()
                self.log.info("%s", line)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return SubprocessResult(exit_code=code, output=line)

    def send_sigterm(self) -> None:
        if self._pid:
            os.killpg(self._pid, signal.SIGTERM)


def _become(program: Sequence[str], environment: Mapping[str, str], output: int, first: Callable[[], None]) -> NoReturn:
    """Turn this process into a Python program: without Airflow's signal handlers, logging and exit handlers."""
    code: object = 1
    with suppress(BaseException):
        try:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _before.extend((sys.stdout, sys.stderr))
            sys.stdout, sys.stderr = (
                os.fdopen(os.dup2(output, descriptor), "w", buffering=1, closefd=False) for descriptor in (1, 2)
            )
            logging.captureWarnings(False)
            logging.basicConfig(level=logging.WARNING, force=True)
            set_variables(environment)
            first()
            sys.argv = [*program]
            runpy.run_path(program[0], run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
