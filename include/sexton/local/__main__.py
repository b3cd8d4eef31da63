"""`python -m sexton.local up | down | demo`: what `make up`, `make down` and `make demo` run."""

import argparse
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from sexton.errors import SextonError
from sexton.local.airflow_home import APPROVER, USER
from sexton.local.system import System
from sexton.settings import settings

TERMINATING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BY_SIGNAL = 128
"""A process that a signal ended has this plus the signal's number as its exit code."""


def main() -> int:
    """Run one command; every error is told in one line, and nothing that was started here is left running."""
    parser = argparse.ArgumentParser(prog="python -m sexton.local", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "demo"))
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        return {"up": up, "down": down, "demo": demo}[arguments.command](console)
    except SextonError as error:
        if arguments.debug:
            traceback.print_exc()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return BY_SIGNAL + signal.SIGINT


def up(console: Console) -> int:
    """Start what is not running yet and leave it running."""
    system = System(settings(), console)
    if system.is_running():
        console.print("It is running already.")
    else:
        system.stop_airflow()  # what is left of a start that went wrong
        with _stopping(system, only_after_failure=True):
            system.start()
    home = system.home
    console.print(
        f"\nAirflow  {home.started_url()}  user {USER}, password {home.password()}\n"
        f"         and user {APPROVER}, password {home.password(APPROVER)}, who approves what {USER} asks\n"
        f"Kafka    {system.broker_address()}\n\n"
        "Unpause offset_retention there to have it run on its schedule (the run of the last\n"
        "hour ends as skipped: nothing was archived yet), or trigger it. `make down` stops everything.",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def down(console: Console) -> int:
    """Stop whatever is running."""
    if not System(settings(), console).stop():
        console.print("Nothing was running.")
    return 0


def demo(console: Console) -> int:
    """Run the demo and stop what it started, however it ends."""
    from sexton.local.demo import require_nothing_running, run_demo

    system = System(settings(), console)
    require_nothing_running(system)
    with _stopping(system):
        return run_demo(system, console)


@contextmanager
def _stopping(system: System, *, only_after_failure: bool = False) -> Iterator[None]:
    """Stop the system after the block, also after Ctrl-C, SIGTERM and SIGHUP; further signals wait until it is done."""
    # Also SIGINT by hand: in a shell's background job Python finds it ignored.
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


if __name__ == "__main__":
    sys.exit(main())
