"""What an increment costs: one log in an archive, its last hundredth brought by a snapshot of its own.

    python -m tests.bench.increment ARCHIVE AS_OF_MS OUT [--full | --publish]

replays an instant in a process of its own, from no checkpoint on (--full) or leaving one (--publish), with the kernels
loaded before, and prints seconds and records as JSON. The
processes over which a full replay spreads are there and have loaded the kernels, too, when it begins; an increment as
small as this one is made by threads of the first one alone.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import fs

from sexton.job_params import ReplayRequest
from sexton.kernels.warm_up import warm_up
from sexton.log.framing import POSITION, frames
from sexton.log.segment import Segment, list_segments
from sexton.pipeline import replay_groups
from sexton.runs.checkpoint import publish_checkpoint
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_here
from tests.archived import Archive
from tests.bench.figures import Increment
from tests.bench.generate import Shape
from tests.bench.watch import run_watched

DELTA_SHARE = 0.01
SETTLE_MS = 60_000
REPEATS = 3
"""The fastest of so many counts, for both."""


def measure_increment(shape: Shape, log: Path, scratch: Path) -> Increment:
    """Archive `log` in two snapshots, replay the first and keep its checkpoint, then the second both ways.

    RuntimeError when the increment is not the full replay, byte for byte.
    """
    archive = scratch / "archive"
    base_ms, end_ms = archive_log(shape, log, archive)
    _replay(archive, base_ms, scratch / "base", "--publish")
    full = _fastest(archive, end_ms, scratch / "full", "--full")
    increment = _fastest(archive, end_ms, scratch / "increment")
    base = _replay(archive, base_ms, scratch / "base-again")
    if increment["checkpoint"] != full["checkpoint"] or increment["base_as_of_ms"] != base_ms:
        raise RuntimeError(f"the increment is not the full replay: {increment}, {full}")
    shutil.rmtree(archive)
    return Increment(
        records=full["records"],
        delta_records=full["records"] - base["records"],
        full_s=full["seconds"],
        increment_s=increment["seconds"],
    )


def archive_log(shape: Shape, log: Path, root: Path) -> tuple[int, int]:
    """Copy the log of a broker's disk into an archive, as two snapshots would have; the instants that they settle."""
    end_ms = shape.first_timestamp_ms + shape.span_ms + 1
    base_ms = end_ms - round(DELTA_SHARE * shape.span_ms)
    parts = list_segments(fs.LocalFileSystem(), str(log))
    archive = Archive(root, cluster_id="bench", topic_id="bench", partitions=len(parts))
    for taken_at_ms, is_base in ((base_ms + SETTLE_MS, True), (end_ms + SETTLE_MS, False)):
        for part, segments in parts.items():
            for segment in segments:
                data = np.memmap(segment.path, dtype=np.uint8, mode="r").view(np.ndarray)
                cut, split, end = _split(data, segment, base_ms)
                start, stop, chunk = (segment.base_offset, split, data[:cut]) if is_base else (split, end, data[cut:])
                if start < stop:
                    archive.append(part, chunk.tobytes(), stop, taken_at_ms=taken_at_ms)
        archive.snapshot(taken_at_ms)
    return base_ms, end_ms


def _split(data: np.ndarray, segment: Segment, base_ms: int) -> tuple[int, int, int]:
    """Byte and log_offset of the first batch that the second snapshot brought, and the log_offset after the last."""
    cut, split, end = len(data), None, segment.base_offset
    for rows in frames(data, floor_offset=segment.base_offset):
        at = rows[:, POSITION]
        base_offsets = _field(data, at, 0, ">i8")
        late = np.flatnonzero(_field(data, at, 35, ">i8") >= base_ms)
        if len(late) and split is None:
            cut, split = int(at[late[0]]), int(base_offsets[late[0]])
        end = int(base_offsets[-1] + _field(data, at[-1:], 23, ">i4")[0]) + 1
    return cut, end if split is None else split, end


def _field(data: np.ndarray, at: np.ndarray, shift: int, dtype: str) -> np.ndarray:
    """One big-endian header field of the batches at `at`."""
    raw = data[at[:, None] + np.arange(shift, shift + np.dtype(dtype).itemsize)]
    return np.ascontiguousarray(raw).view(dtype).reshape(-1).astype(np.int64)


def _replay(archive: Path, as_of_ms: int, out: Path, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.increment", str(archive), str(as_of_ms), str(out), *flags]
    told: dict[str, Any] = json.loads(run_watched(command).output.splitlines()[-1])
    shutil.rmtree(out)
    return told


def _fastest(archive: Path, as_of_ms: int, out: Path, *flags: str) -> dict[str, Any]:
    return min(
        (_replay(archive, as_of_ms, out, *flags) for _ in range(REPEATS)), key=lambda told: float(told["seconds"])
    )


def main() -> None:
    archive, as_of_ms, out, *flags = sys.argv[1:]
    folder = RunFolder(Path(out))
    warm_up()
    request = ReplayRequest(
        run_id=Path(out).name, archive=archive, as_of_ms=int(as_of_ms), taken_at_ms=int(as_of_ms),
        settle_ms=SETTLE_MS, is_full="--full" in flags,
    )  # fmt: skip
    with engine_here(quiet=True) as engine:
        engine.map("Loading kernels", range(os.cpu_count() or 1), lambda _: warm_up())
        start = time.perf_counter()
        record = replay_groups.run(engine, folder, request)
        seconds = time.perf_counter() - start
    if "--publish" in flags:
        publish_checkpoint(folder, record, archive)
    told = {
        "seconds": seconds,
        "records": sum(record.cuts.values()),
        "base_as_of_ms": record.base_as_of_ms,
        "checkpoint": record.checkpoint_sha256,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
