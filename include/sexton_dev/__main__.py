"""`python -m sexton_dev up | down | demo`, which `make` runs under these names; `up` itself runs `clients`."""

import argparse
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from sexton.errors import SextonError
from sexton.local.compose_init import APPROVER, USER
from sexton.settings import settings
from sexton_dev.system import MAIN_DAG, System

TERMINATING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BY_SIGNAL = 128
"""The exit code of a process that a signal has ended is this plus the signal's number."""


def main() -> int:
    """Run one command. Print an error as one line; each command stops what it started before the error."""
    parser = argparse.ArgumentParser(prog="python -m sexton_dev", description=__doc__)
    parser.add_argument("command", choices=tuple(COMMANDS))
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        return COMMANDS[arguments.command](console)
    except SextonError as error:
        if arguments.debug:
            traceback.print_exc()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return BY_SIGNAL + signal.SIGINT


def up(console: Console) -> int:
    """Start what is not running yet, leave it running, and publish some runs."""
    from sexton_dev.up import ensure_clients, exclusive, publish_first_runs, start

    system = System(settings(), console)
    with exclusive(system.config.var):
        if system.is_running():
            console.print("It is running already.")
            ensure_clients(system)
        else:
            with _stopping(system, only_after_failure=True):
                start(system)
        _print_addresses(system, console)
        return publish_first_runs(system, console)  # after an interrupt the system keeps running


def _print_addresses(system: System, console: Console) -> None:
    """Print what to open, and who may log in."""
    home = system.home
    url = home.started_url()
    spark = f"Spark      {ui}  its jobs, while they run and after\n" if (ui := system.spark_ui()) else ""
    console.print(
        f"\nAirflow    {url}  user {USER}, password {home.password()}\n"
        f"           and user {APPROVER}, password {home.password(APPROVER)}, who approves what {USER} triggers\n"
        f"Dashboard  {url}/plugin/sexton  the consumer groups, run by run\n"
        f"DAG        {url}/dags/{MAIN_DAG}  trigger it, or backfill past intervals\n"
        f"Kafka      {system.broker_address()}\n"
        f"{spark}\n"
        "`make down` stops everything.",
        highlight=False,
        soft_wrap=True,
    )


def down(console: Console) -> int:
    """Stop whatever is running."""
    if not System(settings(), console).stop():
        console.print("Nothing was running.")
    return 0


def clients(_console: Console) -> int:
    """Run the example clients until this process is ended; `up` starts it as a process."""
    from sexton.kafka.client import client_config
    from sexton_dev import example_clients

    for number in TERMINATING:
        signal.signal(number, _leave)
    example_clients.run(client_config({}, bootstrap_servers=settings().bootstrap_servers))
    return 0


def demo(console: Console) -> int:
    """Run the demo and stop what it started, however the demo ends."""
    from sexton_dev.demo import require_nothing_running, run_demo

    system = System(settings(), console)
    require_nothing_running(system)
    with _stopping(system):
        return run_demo(system, console)


@contextmanager
def _stopping(system: System, *, only_after_failure: bool = False) -> Iterator[None]:
    """Stop the system after the block, also after Ctrl-C, SIGTERM and SIGHUP; further signals are ignored meanwhile."""
    # SIGINT, too: a shell starts background jobs with SIGINT ignored, and Python leaves that as it is.
    before = {number: signal.signal(number, _leave) for number in TERMINATING}
    succeeded = False
    try:
        yield
        succeeded = True
    finally:
        for number in TERMINATING:
            signal.signal(number, signal.SIG_IGN)
        try:
            if not (succeeded and only_after_failure):
                system.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Turn a signal into an exit, so that what was started is stopped on the way out."""
    sys.exit(BY_SIGNAL + number)


COMMANDS = {"up": up, "down": down, "demo": demo, "clients": clients}

if __name__ == "__main__":
    sys.exit(main())
