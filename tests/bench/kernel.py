"""One core, from bytes to Arrow tables: what the compiled kernels need for a log; prints seconds and records as JSON.

    python -m tests.bench.kernel LOG REPEATS

The kernels are loaded before. The fastest run is told.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from pyarrow import fs

from sexton.kernels.fold import PartialFold, fold_task
from sexton.kernels.results import finish
from sexton.kernels.warm_up import warm_up
from sexton.log.segment import list_segments, plan_fold_tasks
from sexton.settings import settings


def replay(log: Path) -> int:
    """Fold and finish every log partition of `log`; the count of records, markers included."""
    config = settings()
    segments = list_segments(fs.LocalFileSystem(), str(log))
    records = 0
    for log_partition, files in segments.items():
        fold: PartialFold | None = None
        for task in plan_fold_tasks(files, target_bytes=config.fold_task_bytes):
            slices = [np.memmap(span.path, dtype=np.uint8, mode="r") for span in task.slices]
            cap_bytes = config.inflated_cap_bytes
            fold = fold_task(slices, task=task, cap_bytes=cap_bytes, as_of_ms=None, taken_at_ms=None, onto=fold)
        assert fold is not None, "there is a task"
        records += fold.counters["records"]
        finish(fold, log_partition=log_partition, partition_count=len(segments))
    return records


def main() -> None:
    log, repeats = Path(sys.argv[1]), int(sys.argv[2])
    warm_up()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        records = replay(log)
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": min(times), "records": records}))


if __name__ == "__main__":
    main()
