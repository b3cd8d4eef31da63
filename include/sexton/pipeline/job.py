"""What all files of spark_jobs/ share: options, one-line errors, exit codes and the job's outcome.

spark-submit passes on a Python program's exit code, but whether a scheduler gets it depends on the master and the
deploy mode. So a job also writes `<run-dir>/outcome/<stage>.json`: exit code, message and the run's counts.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args

from pydantic.fields import FieldInfo

from sexton.distributions import require_fit
from sexton.errors import SextonError, printable, printable_traceback
from sexton.job_params import INPUT, REQUESTS, JobRequest, Option
from sexton.numbers import whole_number
from sexton.process_id import TASK, ProcessId, has_ended, host
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings, variable
from sexton.uris import with_login_of, without_login

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CONFIG = "config"
"""The request's field for the client configuration of the connection."""
Asked = TypeVar("Asked", bound=JobRequest)
_POLL_S, _INTERRUPT_S = 2, 10


def parser(stage: str, description: str, request: type[JobRequest]) -> argparse.ArgumentParser:
    """An option parser with the options of all jobs (--run-dir, --json, --debug) and of `request`."""
    options = argparse.ArgumentParser(
        prog=f"{stage}.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.register("action", None, _Once)
    options.register("type", int, whole_number)
    options.add_argument("--run-dir", required=True, type=whole, metavar="URI", help="folder or URI of the run")
    options.add_argument("--json", action="store_true", help="print the outcome as one JSON line")
    options.add_argument("--debug", action="store_true", help="show the traceback of an error")
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    example = f"spark-submit spark_jobs/{stage}.py"
    for name, option, field in request.options():
        if name == CONFIG:
            _add_connection(options)
            example += " --bootstrap-servers 127.0.0.1:19092"
        elif option.help is not None:
            flag = f"--{(option.name or name).replace('_', '-')}"
            how = {"dest": name, "help": option.help, **_reading(option, field)}
            if option.one_of is not None and option.one_of not in groups:
                groups[option.one_of] = options.add_mutually_exclusive_group(required=option.one_of == INPUT)
            groups.get(option.one_of or "", options).add_argument(flag, **how)
            if name == "archive" and (field.is_required() or option.one_of):
                example += " --archive var/archive"
    options.epilog = f"example:\n  {example} --run-dir var/runs/manual"
    return options


def _reading(option: Option, field: FieldInfo) -> dict[str, Any]:
    """Return argparse's arguments for an option, derived from the type of its field."""
    kinds = get_args(field.annotation) or (field.annotation,)
    if bool in kinds:
        return {"action": "store_true"}
    found: dict[str, Any] = {"metavar": option.metavar, "required": field.is_required()}
    if not field.is_required():
        found["default"] = field.get_default(call_default_factory=True)
    if option.read is not None:
        return {**found, "type": option.read}
    if list[str] in kinds:
        return {**found, "action": "append"}
    return {**found, "type": next((kind for kind in (int, Path) if kind in kinds), str)}


class _Once(argparse._StoreAction):
    """Stores a value, and rejects a second one, which would silently replace it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if self.option_strings and getattr(namespace, self.dest) is not self.default:
            parser.error(f"argument {option}: given more than once")
        super().__call__(parser, namespace, values, option)


def whole(place: str) -> str:
    """A path made absolute, because a Spark worker has another working directory; a URI unchanged."""
    return place if "://" in place else str(Path(place).absolute())


def _add_connection(options: argparse.ArgumentParser) -> None:
    options.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="default: what --client-config says")
    options.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="Kafka client properties, in Java's or librdkafka's names; secrets belong here, not in options",
    )


def _request(arguments: argparse.Namespace, kind: type[Asked]) -> Asked:
    """Return the request that the options describe."""
    given = {name: getattr(arguments, name) for name in kind.model_fields if hasattr(arguments, name)}
    if CONFIG in kind.model_fields:
        from sexton.kafka.client import client_config, read_properties  # late: most jobs use no broker

        file = arguments.client_config
        properties = read_properties(file) if file else {}
        given[CONFIG] = client_config(properties, bootstrap_servers=arguments.bootstrap_servers, where=file)
    return kind(**given)


def program(stage: str, description: str | None, run: "Callable[[Any, RunFolder], Any]") -> NoReturn:
    """Run a stage with `main` and its request class, and exit with its exit code."""
    sys.exit(main(stage, description, REQUESTS[stage], run))


def main(
    stage: str,
    description: str | None,
    request: type[Asked],
    run: "Callable[[Asked, RunFolder], dict[str, object] | DataclassInstance]",
    argv: Sequence[str] | None = None,
) -> int:
    """Run one stage and return its exit code; the result is printed in one line and written to the outcome file.

    `run` gets the request and the run folder. It returns the values to report (counts, paths), as a dataclass or a
    dict. "exit_code": 5 in them means that everything was written but some input could not be decoded.
    """
    if task := variable(TASK):
        _end_with_task(**json.loads(task))
    began = time.monotonic()
    arguments = parser(stage, description or "", request).parse_args(argv)
    _complete(arguments)
    folder = RunFolder(arguments.run_dir)
    try:
        require_fit()
        done = run(_request(arguments, request), folder)
        outcome: dict[str, object] = {"exit_code": 0, **(done if isinstance(done, dict) else asdict(done))}
        outcome["seconds"] = round(time.monotonic() - began, 1)
    except SextonError as error:
        outcome = {"exit_code": error.exit_code, "error": printable(str(error))}
        _print_error(arguments, printable(str(error)))
    except KeyboardInterrupt:
        outcome = {"exit_code": 130, "error": "interrupted"}
        _print_error(arguments, "interrupted")
    except Exception as error:
        line = printable(without_login(next(iter(str(error).strip().splitlines()), "")))
        outcome = {"exit_code": 1, "error": f"{type(error).__name__}: {line}"}
        _print_error(arguments, f"{type(error).__name__}: {line} (--debug shows where)")
    text = json.dumps({"stage": stage, **outcome}, default=str)
    folder.write(text.encode(), "outcome", f"{stage}.json")
    if arguments.json:
        sys.stdout.write(text + "\n")
    elif "error" not in outcome:
        summary = ", ".join(f"{name} {value}" for name, value in outcome.items() if name != "exit_code")
        sys.stdout.write(f"{stage}: {printable(summary)}\n")
    sys.stdout.flush()
    return int(str(outcome["exit_code"]))


def _end_with_task(where: str, processes: Sequence[dict[str, Any]]) -> None:
    """Stop this job when its Airflow task is cancelled, or when one of the task's `processes` has died and can no
    longer cancel the job.

    In Spark's cluster mode the job runs on another host than the task (`where`): there the operator's hook ends it.
    """
    if where != host():
        return

    def watch() -> None:
        while not any(has_ended(ProcessId(**process)) for process in processes):
            time.sleep(_POLL_S)
        _stop()

    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=watch, daemon=True).start()


def _stop(*_: object) -> None:
    """End without cleanup, as in a crash, once this process's Spark jobs are interrupted: a Spark Connect server would
    otherwise run them for minutes."""

    def interrupt() -> None:
        with suppress(Exception):  # whatever happens, the process ends
            if Engine.newest is not None:
                Engine.newest.interruptAll()

    # Not in the main thread, which may currently hold a lock of the client.
    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    interrupting.join(_INTERRUPT_S)
    os._exit(128 + signal.SIGTERM)


def _complete(arguments: argparse.Namespace) -> None:
    """Add the login from the settings to URIs (other users can see arguments), and make paths absolute."""
    arguments.run_dir = with_login_of(settings().runs_uri, arguments.run_dir)
    if getattr(arguments, "archive", None):
        arguments.archive = whole(with_login_of(settings().archive_uri, arguments.archive))
    if getattr(arguments, "segments", None):
        arguments.segments = [whole(place) for place in arguments.segments]


def _print_error(arguments: argparse.Namespace, line: str) -> None:
    if arguments.debug:
        sys.stderr.write(printable_traceback())
    sys.stderr.write(f"error: {line}\n")
