"""Which worker of one run takes which test file.

A file with a broker or an Airflow mostly waits; the others compute. One worker takes the waiting files from the front
of the queue, longest first. The others take the computing files from its end, longest first, at a lower priority: they
use what the waiting one leaves of the processor and do not slow it down. Each goes on with files of the other kind when
its own are done, so that all workers end together.
"""

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from xdist.scheduler import LoadFileScheduling

WAITING_WORKERS = 1
"""It may have an Airflow, a broker and a browser; a second Airflow beside it would slow both, on two cores."""
NICENESS = 5
"""About a quarter of a core that others want as well, a whole one else."""

WAITING = ("integration",)
"""The folders of the files that wait."""
LONG_WAITING = (
    "integration/test_walks.py",
    "integration/test_apply_dag.py",
    "integration/test_first_hour.py",
    "integration/test_cluster.py",
    "integration/test_secrets.py",
    "integration/test_replicas.py",
    "integration/test_forecast.py",
    "integration/test_pipeline.py",
)
"""The longest files that wait, longest first."""
LONG_COMPUTING = (
    "ui/test_browser.py",
    "campaign/test_broker.py",
    "kernels/test_fold.py",
    "kernels/test_inflate.py",
    "faults/test_kills.py",
    "faults/test_hostile_names.py",
)
"""The longest files that compute, longest first."""


class Lanes(LoadFileScheduling):
    """As pytest-xdist's `--dist loadfile`, with a queue that has two ends."""

    def _assign_work_unit(self, node: Any) -> None:
        if _computes(node.gateway.id, self.numnodes):
            last = next(reversed(self.workqueue))
            self.workqueue.move_to_end(last, last=False)
        super()._assign_work_unit(node)


def place_of(path: PurePath) -> tuple[int, int]:
    """Where a test file is in the queue: long waiting ones, waiting ones, short ones, long computing ones."""
    name = "/".join(path.parts[-2:])
    if name in LONG_WAITING:
        return 0, LONG_WAITING.index(name)
    if name in LONG_COMPUTING:
        return 3, -LONG_COMPUTING.index(name)
    return (1 if path.parent.name in WAITING else 2), 0


def give_way(worker: Mapping[str, Any]) -> None:
    """Lower the priority of this process and of all that it starts if it is a worker that computes."""
    if worker and _computes(worker["workerid"], worker["workercount"]):
        os.nice(NICENESS)


def _computes(worker_id: str, count: int) -> bool:
    """With one worker alone, it computes."""
    return int(worker_id.removeprefix("gw")) >= min(WAITING_WORKERS, count - 1)
