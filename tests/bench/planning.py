"""What the plan of a log costs of which every offset is due: the stage plan_tombstones by itself.

    python -m tests.bench.planning LOG AS_OF_MS OUT

replays and judges LOG as an audit does, plans its tombstones, and prints seconds of the latter and their count as JSON.
Kernels are loaded and processes started before, as they are in an audit when it comes to its plan.
"""

import json
import sys
import time
from pathlib import Path

from sexton.job_params import ReplayRequest
from sexton.kernels.warm_up import warm_up
from sexton.pipeline import find_expired, plan_tombstones, replay_groups
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_here
from tests.bench.figures import Planning
from tests.bench.generate import DAY_MS, Shape
from tests.bench.watch import run_watched

LATER_MS = 365 * DAY_MS
"""After the last commit: no retention is as long."""


def measure_planning(shape: Shape, log: Path, scratch: Path) -> Planning:
    """Plan the tombstones of all offsets in `log`."""
    as_of_ms = shape.first_timestamp_ms + shape.span_ms + LATER_MS
    out = str(scratch / "planned")
    done = run_watched([sys.executable, "-m", "tests.bench.planning", str(log), str(as_of_ms), out])
    return Planning(**json.loads(done.output.splitlines()[-1]))


def main() -> None:
    log, as_of_ms, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    warm_up()
    request = ReplayRequest(run_id=out.name, segments=log, as_of_ms=as_of_ms, taken_at_ms=as_of_ms)
    folder = RunFolder(out)
    with engine_here(quiet=True) as engine:
        replay_groups.run(engine, folder, request)
        find_expired.run(engine, folder)
        start = time.perf_counter()
        record = plan_tombstones.run(engine, folder)
        seconds = time.perf_counter() - start
    print(json.dumps({"tombstones": record.counts[plan_tombstones.TABLE], "seconds": seconds}))


if __name__ == "__main__":
    main()
