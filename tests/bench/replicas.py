"""What it costs to compare three replicas of a log, each compacted in its own way, beside the audit of one of them.

The first has every record. Of each of the others batches are gone whose keys have all been committed again since, as a
log cleaner may have left it: so most batches are on one or two replicas alone, and have to be read. No answer differs.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from sexton.log.framing import POSITION, SIZE, frames
from sexton.log.headers import BatchHeaders
from tests.bench.figures import Replicas
from tests.bench.generate import Shape, write
from tests.bench.one_log import read_through
from tests.bench.watch import Watched, run_watched, watch_audit

OTHERS = 2
CLEANED = (0.35, 0.9)
"""The part of the log's span that a cleaner has been at: before it are the last commits of what has retired, after it
there is one of every other key."""
GONE_SHARE = 0.5
"""Of the batches in that part, on each replica others."""
SMALLER = 3
"""The peak of memory is compared with that of logs of so many times fewer records and the same keys."""


def measure_replicas(shape: Shape, log: Path, scratch: Path) -> Replicas:
    """Compare `log` with two replicas of it, and then smaller ones; RuntimeError when that finds a difference."""
    read_through(log)
    audit = watch_audit(log, scratch / "audited")
    shutil.rmtree(scratch / "audited")
    compared = _compared(shape, log, scratch / "replicas")
    smaller = replace(shape, records=shape.records // SMALLER)
    write(smaller, scratch / "smaller")
    small = _compared(smaller, scratch / "smaller", scratch / "smaller-replicas")
    return Replicas(
        records=shape.records, audit_s=audit.seconds, compare_s=compared.seconds,
        process_bytes=compared.process_bytes, tree_bytes=compared.tree_bytes,
        smaller_process_bytes=small.process_bytes,
    )  # fmt: skip


def _compared(shape: Shape, log: Path, folder: Path) -> Watched:
    """`sexton replicas diff` of the log and the others, its start included."""
    replicas = [log]
    for number in range(OTHERS):
        replicas.append(folder / f"broker-{number}")
        _clean(shape, log, replicas[-1], np.random.default_rng(number))
    for each in replicas:
        read_through(each)
    command = [str(Path(sys.executable).with_name("sexton")), "replicas", "diff", "--json"]
    done = run_watched([*command, *(f"--segments={each}" for each in replicas)])
    shutil.rmtree(folder)
    return done


def _clean(shape: Shape, log: Path, replica: Path, rng: np.random.Generator) -> None:
    begin_ms, end_ms = (shape.first_timestamp_ms + int(part * shape.span_ms) for part in CLEANED)
    for segment in sorted(log.rglob("*.log")):
        data = np.fromfile(segment, np.uint8)
        kept = [data[:0]]
        for rows in frames(data):
            timestamp_ms = BatchHeaders(data, rows).max_timestamp_ms
            is_gone = (timestamp_ms >= begin_ms) & (timestamp_ms < end_ms) & (rng.random(len(rows)) < GONE_SHARE)
            first, last = rows[0, POSITION], rows[-1, POSITION] + rows[-1, SIZE]
            kept.append(data[first:last][np.repeat(~is_gone, rows[:, SIZE])])
        place = replica / segment.relative_to(log)
        place.parent.mkdir(parents=True, exist_ok=True)
        np.concatenate(kept).tofile(place)
