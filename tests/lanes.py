"""Which worker of one run takes which test file.

A file with a broker or an Airflow mostly waits; the others compute. One worker takes the waiting files from the front
of the queue, longest first. The others take the computing files from its end, longest first, at a lower priority: they
use what the waiting one leaves of the processor and do not slow it down. Each goes on with files of the other kind when
its own are done, so that all workers end together. How long a file takes is in durations.tsv.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

WAITING_WORKERS = 1
"""It may have an Airflow, a broker and a browser; a second Airflow beside it would slow both, on two cores."""
NICENESS = 5
"""About a quarter of a core that others want as well, a whole one else."""
WAITING = ("broker", "airflow")
"""The markers of what mostly waits."""
TESTS = Path(__file__).parent


class Lanes(LoadFileScheduling):
    """As pytest-xdist's `--dist loadfile`, with a queue that has two ends."""

    def _assign_work_unit(self, node: Any) -> None:
        if _computes(node.gateway.id, self.numnodes):
            last = next(reversed(self.workqueue))
            self.workqueue.move_to_end(last, last=False)
        super()._assign_work_unit(node)


def in_order(items: Iterable[pytest.Item], seconds: Mapping[str, float]) -> list[pytest.Item]:
    """Long waiting files, short ones, short computing ones, long ones; the tests of a file as they are in it.

    `seconds` by file below tests; one that has none is taken for a short one.
    """
    items = list(items)
    waiting = {item.path for item in items if any(item.get_closest_marker(name) for name in WAITING)}

    def order(item: pytest.Item) -> tuple[bool, float]:
        took = seconds.get(item.path.relative_to(TESTS).as_posix(), 0.0)
        return (False, -took) if item.path in waiting else (True, took)

    return sorted(items, key=order)


def give_way(worker: Mapping[str, Any]) -> None:
    """Lower the priority of this process and of all that it starts if it is a worker that computes."""
    if worker and _computes(worker["workerid"], worker["workercount"]):
        os.nice(NICENESS)


def _computes(worker_id: str, count: int) -> bool:
    """With one worker alone, it computes."""
    return int(worker_id.removeprefix("gw")) >= min(WAITING_WORKERS, count - 1)
