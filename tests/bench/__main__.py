"""`make bench`: the figures that the README states, measured on this machine.

One log of 3 million plain offset commits (60,000 keys, 4 log partitions) is made, folded by the kernels on one core,
and audited by the command line, start of Python and Spark included. Kafka's own decoder reads one of its segments for
comparison. Everything is written below a scratch folder, which is removed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pyarrow import fs
from rich.console import Console
from rich.table import Table

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.broker import dump_log
from sexton.kernels.fold import fold_chunk, merge_all
from sexton.kernels.state import finish
from sexton.log.segment import list_segments, plan_chunks
from sexton.settings import settings, variable
from tests.bench.generate import Shape, write

CAP_BYTES = 64 << 20
LOG_PARTITIONS = 4


def fold_seconds(log: Path) -> float:
    """Seconds that one core needs from bytes to Arrow tables; the compiled kernels are loaded before."""
    segments = list_segments(fs.LocalFileSystem(), str(log))

    def fold() -> float:
        start = time.perf_counter()
        for part, files in segments.items():
            chunks = plan_chunks(files, target_bytes=settings().chunk_bytes)
            folds = [
                fold_chunk(
                    [np.memmap(piece.path, dtype=np.uint8, mode="r") for piece in chunk.pieces],
                    chunk=chunk,
                    cap_bytes=CAP_BYTES,
                    as_of_ms=None,
                    taken_at_ms=None,
                )
                for chunk in chunks
            ]
            finish(merge_all(folds), log_partition=part, partition_count=LOG_PARTITIONS)
        return time.perf_counter() - start

    fold()
    return fold()


def audit_seconds(log: Path, out: Path) -> float:
    """Wall seconds of `sexton audit` as a user starts it."""
    start = time.perf_counter()
    command = [str(Path(sys.executable).with_name("sexton")), "audit", "--segments", str(log), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def dump_seconds(log: Path) -> float:
    """Wall seconds of kafka-dump-log over one log partition, a quarter of the records."""
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    start = time.perf_counter()
    files = sorted((log / "__consumer_offsets-0").glob("*.log"))
    dump_log(files, java=java, jars=jars.ensure(settings().cache, "kafka"))
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--records", type=int, default=3_000_000)
    records = options.parse_args().records
    with tempfile.TemporaryDirectory(prefix="sexton-bench-") as scratch:
        log = Path(scratch) / "log"
        files = write(Shape(records=records, log_partitions=LOG_PARTITIONS, records_per_batch=3), log)
        size_mb = sum(file.stat().st_size for file in files) / 1e6
        folded, audited, dumped = fold_seconds(log), audit_seconds(log, Path(scratch) / "out"), dump_seconds(log)
    table = Table(title=f"{records:,} offset commits, {size_mb:.0f} MB, {os.cpu_count()} cores")
    for name in ("what", "seconds", "records/s"):
        table.add_column(name, justify="left" if name == "what" else "right")
    table.add_row("kernels, one core: bytes to tables", f"{folded:.2f}", f"{records / folded:,.0f}")
    table.add_row("sexton audit, start, checks and report included", f"{audited:.1f}", f"{records / audited:,.0f}")
    quarter = records / LOG_PARTITIONS
    table.add_row("kafka-dump-log --offsets-decoder, a quarter of it", f"{dumped:.1f}", f"{quarter / dumped:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
