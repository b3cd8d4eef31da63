"""What all files of spark_jobs/ share: options, one-line errors, exit codes and the job's outcome.

spark-submit passes on a Python program's exit code, but what a scheduler gets of it depends on the master and the
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.distributions import require_fit
from sexton.errors import SextonError, printable, printable_traceback
from sexton.numbers import whole_number
from sexton.process_id import TASK, ProcessId, has_ended, host
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings, variable
from sexton.uris import with_login_of, without_login

if TYPE_CHECKING:
    from sexton.kafka.client import ClientConfig

Run = Callable[[argparse.Namespace], dict[str, object]]
_POLL_S, _INTERRUPT_S = 2, 10


def parser(stage: str, description: str, example: str) -> argparse.ArgumentParser:
    """An option parser with what all jobs have in common: --run-dir, --json, --debug."""
    options = argparse.ArgumentParser(
        prog=f"{stage}.py",
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.register("action", None, _Once)
    options.register("type", int, whole_number)
    options.add_argument("--run-dir", required=True, type=whole, metavar="URI", help="folder or URI of the run")
    options.add_argument("--json", action="store_true", help="print the outcome as one JSON line")
    options.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return options


class _Once(argparse._StoreAction):
    """Stores a value, and refuses a second one, which would replace it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if self.option_strings and getattr(namespace, self.dest) is not self.default:
            parser.error(f"argument {option}: given more than once")
        super().__call__(parser, namespace, values, option)


def whole(place: str) -> str:
    """A path made absolute, since a Spark worker has another working directory; a URI as it is."""
    return place if "://" in place else str(Path(place).absolute())


def add_kafka_options(options: argparse.ArgumentParser) -> None:
    """Add the options of jobs that talk to a live cluster."""
    from sexton.kafka.topics import OFFSETS_TOPIC  # late: most jobs talk to no broker, and the client takes a second

    options.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="default: what --client-config says")
    options.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="Kafka client properties, in Java's or librdkafka's names; secrets belong here, not in options",
    )
    options.add_argument("--topic", default=OFFSETS_TOPIC, metavar="NAME", help="default: %(default)s")


def kafka_config(arguments: argparse.Namespace) -> "ClientConfig":
    """Return the client configuration of the options of `add_kafka_options`."""
    from sexton.kafka.client import client_config, read_properties

    file = arguments.client_config
    properties = read_properties(file) if file else {}
    return client_config(properties, bootstrap_servers=arguments.bootstrap_servers, where=file)


def main(stage: str, options: argparse.ArgumentParser, run: Run, argv: Sequence[str] | None = None) -> int:
    """Run one stage and return its exit code; the result is printed in one line and written to the outcome file.

    `run` returns what to report (counts, places). It may set "exit_code": 5, everything was written but some input
    could not be decoded.
    """
    if task := variable(TASK):
        _end_with_task(**json.loads(task))
    began = time.monotonic()
    arguments = options.parse_args(argv)
    _complete(arguments)
    try:
        require_fit()
        outcome: dict[str, object] = {"exit_code": 0, **run(arguments)}
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
    RunFolder(arguments.run_dir).write(text.encode(), "outcome", f"{stage}.json")
    if arguments.json:
        sys.stdout.write(text + "\n")
    elif "error" not in outcome:
        summary = ", ".join(f"{name} {value}" for name, value in outcome.items() if name != "exit_code")
        sys.stdout.write(f"{stage}: {printable(summary)}\n")
    sys.stdout.flush()
    return int(str(outcome["exit_code"]))


def _end_with_task(where: str, processes: Sequence[dict[str, Any]]) -> None:
    """Stop when the task is cancelled, and when a process of it has died that can cancel nothing any more.

    In Spark's cluster mode the job runs elsewhere: the operator's hook ends it.
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
    """End at once, as a crash would, with what Spark still does for this process. A server would go on for minutes."""

    def interrupt() -> None:
        with suppress(Exception):  # whatever answers: the process ends
            if Engine.newest is not None:
                Engine.newest.interruptAll()

    # Not in the main thread, which may hold a lock of the client just now.
    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    interrupting.join(_INTERRUPT_S)
    os._exit(128 + signal.SIGTERM)


def _complete(arguments: argparse.Namespace) -> None:
    """Give URIs the login that the settings have, since arguments are visible; make paths absolute."""
    arguments.run_dir = with_login_of(settings().runs_uri, arguments.run_dir)
    if getattr(arguments, "archive", None):
        arguments.archive = whole(with_login_of(settings().archive_uri, arguments.archive))
    if getattr(arguments, "segments", None):
        arguments.segments = [whole(place) for place in arguments.segments]


def _print_error(arguments: argparse.Namespace, line: str) -> None:
    if arguments.debug:
        sys.stderr.write(printable_traceback())
    sys.stderr.write(f"error: {line}\n")
