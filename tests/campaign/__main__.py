"""Random histories against every way of reading them.

    python -m tests.campaign --histories 1000000 --processes 2
    python -m tests.campaign --seed 5 --only 1234
    python -m tests.campaign --broker --release 4.2.2 --jars FOLDER --histories 100000 --processes 4

Without a seed one is drawn and printed. Exits with 1 when the ways of reading differ on any history.
"""

import argparse
import signal
import sys
import time
from pathlib import Path
from random import SystemRandom

from tests.campaign.broker.command import PINNED_RELEASE, campaign, clean
from tests.campaign.narrow import ONLY_TRIES, Failure, failures_of
from tests.campaign.run import run

_MAX_FAILURES = 10
_TOLD_EVERY_S = 30.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=20_000, metavar="COUNT")
    parser.add_argument("--processes", type=int, default=1, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", metavar="INDEX,INDEX,...", help="check these histories, together in one log")
    parser.add_argument("--broker", action="store_true", help="let a real broker judge them")
    parser.add_argument("--release", default=PINNED_RELEASE, help="of that broker (default: %(default)s)")
    parser.add_argument("--jars", type=Path, metavar="FOLDER", help="the jars of another release, with slf4j-simple")
    parser.add_argument("--clean", action="store_true", help="before and after that broker's log cleaner")
    asked = parser.parse_args(arguments)
    only = None if asked.only is None else [int(index) for index in asked.only.split(",")]
    if asked.broker:
        indices = range(asked.histories) if only is None else only
        broker = {"release": asked.release, "jars": asked.jars}
        if asked.clean:
            return 1 if clean(asked.seed, indices, **broker) else 0
        return 1 if campaign(asked.seed, indices, **broker, processes=asked.processes) else 0
    if only is None:
        failures = _campaign(asked.seed, asked.histories, processes=asked.processes)
    else:
        failures = failures_of(only, asked.seed, tries=ONLY_TRIES)
        print(*failures, sep="\n", end="\n" if failures else "")
    print(f"{len(failures)} failures" if failures else "no difference")
    return 1 if failures else 0


def _campaign(seed: int, count: int, *, processes: int) -> list[Failure]:
    """The failures, told as they come, and now and then how far it is."""
    print(f"seed {seed}", flush=True)
    started = told = time.monotonic()
    failures: list[Failure] = []
    for done, found in run(seed, count, processes=processes):
        failures += found
        print(*found, sep="\n", end="\n" if found else "", flush=True)
        now = time.monotonic()
        if now - told > _TOLD_EVERY_S or done == count or len(failures) >= _MAX_FAILURES:
            told = now
            print(f"{done} histories in {now - started:.1f} s, {done / (now - started):.0f} a second", flush=True)
        if len(failures) >= _MAX_FAILURES:
            break
    return failures


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of what stops the other processes
    sys.exit(main())
