"""`make bench`: the figures that the README states, measured on this machine.

For every log (see `sets`), one at a time, in a scratch folder that is removed:

- a real Kafka 4.3.1 broker loads it, twice and more (see `broker`),
- the compiled kernels replay it on one core, loaded before (see `kernel`),
- `sexton audit` runs on it, its start, checks and report included.

`--hostile` measures logs that cost more than they are long instead (see `hostile`; `--sets` picks some of them).

One log is archived, too, and replayed in full and from a checkpoint on (see `increment`; `--increment` for that alone).

Kafka's `kafka-dump-log --offsets-decoder` reads one segment for comparison. The log is read into memory before each of
these; loads and kernel runs of up to a few million records, and the replays from the archive, are repeated, and the
fastest counts, for both alike. Prints tables; a full run writes figures.json and figures.svg to docs/bench, the
README's section of figures, the one of sizes in docs/operations.md and the model of load times that fits, a partial one
below var/bench. Everything that is started is stopped, also on Ctrl-C.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sexton.java import JavaHome, find_java
from sexton.kafka import jars
from sexton.settings import PROJECT_ROOT, settings, variable
from tests.bench import load_model, readme, sizing
from tests.bench.broker import Cluster, Load, LoadingBroker
from tests.bench.chart import DUMPED_SET, chart
from tests.bench.figures import (
    MILLION,
    Figures,
    Increment,
    as_json,
    figures_table,
    from_json,
    increment_of,
    millions,
    targets,
    targets_table,
    this_machine,
)
from tests.bench.generate import Shape, write
from tests.bench.hostile import LOGS, measure_hostile
from tests.bench.increment import measure_increment
from tests.bench.segments import Written
from tests.bench.sets import LOG_PARTITIONS, QUICK_RECORDS, SETS, LogSet
from tests.bench.watch import run_watched

REPEATED_BELOW = 10 * MILLION
BYTES_PER_RECORD = 120
TABLE_WIDTH = 170
READ_BYTES = 8 << 20
INCREMENT_SET, INCREMENT_RECORDS = "plain", 30 * MILLION
DOCS = PROJECT_ROOT / "docs" / "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """What runs Kafka's own programs, and the node from which loading brokers are made."""

    java: JavaHome
    jars: Sequence[Path]
    cluster: Cluster


def measure(kafka: Kafka, shape: Shape, written: Written, name: str, scratch: Path) -> Figures:
    """Everything about one log, which lies in `scratch`/log. RuntimeError where a count of records is wrong."""
    log = scratch / "log"
    repeat = 3 if written.records < REPEATED_BELOW else 1
    started, warm = broker_loads(kafka.cluster, log, scratch / "broker", again=max(repeat - 1, 1))
    read_through(log)
    kernel = run_watched([sys.executable, "-m", "tests.bench.kernel", str(log), "--repeat", str(repeat)])
    told = json.loads(kernel.output)
    for who, count in (("broker", started.records), ("warm broker", warm.records), ("kernel", told["records"])):
        if count != written.records:
            raise RuntimeError(f"{name}: {written.records:,} records were written, the {who} read {count:,}")
    sexton = str(Path(sys.executable).with_name("sexton"))
    read_through(log)
    audit = run_watched([sexton, "audit", "--segments", str(log), "--out", str(scratch / "out")])
    return Figures(
        name=name,
        commits=shape.records,
        records=written.records,
        size_bytes=written.size_bytes,
        broker_started_s=started.seconds,
        broker_warm_s=warm.seconds,
        kernel_s=told["seconds"],
        kernel_bytes=kernel.tree_bytes,
        audit_s=audit.seconds,
        audit_bytes=audit.tree_bytes,
        task_bytes=audit.task_bytes,
    )


def broker_loads(cluster: Cluster, log: Path, directory: Path, *, again: int) -> tuple[Load, Load]:
    """The first load of a broker that just started, and the fastest of `again` further ones."""
    read_through(log)
    with LoadingBroker(cluster, log, directory) as broker:
        started = broker.first_load()
        loads = []
        for _ in range(again):
            read_through(log)
            loads.append(broker.load_again())
    shutil.rmtree(directory)
    return started, min(loads, key=lambda load: load.seconds)


def read_through(log: Path) -> None:
    """Read all segments once, so that whoever is measured next finds them in memory.

    Some systems drop what was not read for a minute, and the disk would be measured then.
    """
    block = bytearray(READ_BYTES)
    for file in sorted(log.rglob("*.log")):
        with file.open("rb", buffering=0) as segment:
            while segment.readinto(block):
                pass


def dump_rate(kafka: Kafka, log: Path, records: int) -> float:
    """Records a second of kafka-dump-log over one log partition of a balanced log, its start included."""
    segment = log / "__consumer_offsets-0" / f"{0:020d}.log"
    size_bytes = sum(file.stat().st_size for file in log.rglob("*.log"))
    classes = os.pathsep.join(map(str, kafka.jars))
    command = [str(kafka.java.java), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)]
    seconds = run_watched(command, keeps_output=False).seconds
    return records * segment.stat().st_size / size_bytes / seconds


def chosen_logs(options: argparse.Namespace) -> Iterator[tuple[LogSet, int]]:
    """Every log to measure, small ones first."""
    names = options.sets.split(",") if options.sets else [log_set.name for log_set in SETS]
    known = {log_set.name: log_set for log_set in SETS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no such set: {', '.join(unknown)} (there are {', '.join(known)})")
    sizes = [QUICK_RECORDS] if options.quick else [int(size) for size in options.records.split(",") if size]
    pairs = [(known[name], size) for name in names for size in sizes or known[name].sizes]
    yield from sorted(pairs, key=lambda pair: pair[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="", help=f"of {', '.join(log_set.name for log_set in SETS)}")
    parser.add_argument("--records", default="", help="records of each log, instead of the sizes of its set")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RECORDS:,} records of each set")
    parser.add_argument("--increment", action="store_true", help="nothing but a delta of 1 %% of a log")
    parser.add_argument("--hostile", action="store_true", help="nothing but logs that cost more than they are long")
    parser.add_argument("--scratch", type=Path, help="where logs are made; needs 12 GB for a full run")
    parser.add_argument("--out", type=Path, help="folder of figures.json and figures.svg")
    parser.add_argument("--render", action="store_true", help="measure nothing: draw what docs/bench/figures.json says")
    prices = sizing.Prices()
    parser.add_argument("--core-hour", type=float, default=prices.core_hour, help="price, for the table of sizes")
    parser.add_argument("--gb-month", type=float, default=prices.gb_month, help="price, for the table of sizes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all is stopped, too
    is_partial = bool(options.sets or options.records or options.quick or options.increment)
    out = options.out or (settings().var / "bench" if is_partial else DOCS)
    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
    if options.hostile:
        with tempfile.TemporaryDirectory(prefix="sexton-bench-", dir=options.scratch) as scratch:
            names = options.sets.split(",") if options.sets else list(LOGS)
            raise SystemExit(0 if measure_hostile(names, Path(scratch), console) else 1)
    if options.increment:
        measure_only_increment(options, console)
        return
    if options.render:
        told = json.loads((DOCS / "figures.json").read_text(encoding="utf-8"))
        (figures, rate, machine), increment = from_json(told), increment_of(told)
    else:
        logs = list(chosen_logs(options))
        with tempfile.TemporaryDirectory(prefix="sexton-bench-", dir=options.scratch) as scratch:
            _require_room(Path(scratch), max(records for _, records in logs))
            figures, rate, increment = _measure_all(logs, Path(scratch), console)
        machine = this_machine()
    console.print(figures_table(figures))
    if rate:
        console.print(f"kafka-dump-log --offsets-decoder: {rate:,.0f} records a second")
    if wanted := targets(figures, rate, increment):
        console.print(targets_table(wanted))
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_json(figures, rate, machine, increment), indent=2)
    (out / "figures.json").write_text(text + "\n", encoding="utf-8")
    (out / "figures.svg").write_text(chart(figures, rate), encoding="utf-8")
    if out == DOCS:
        prices = sizing.Prices(core_hour=options.core_hour, gb_month=options.gb_month)
        readme.update(PROJECT_ROOT / "README.md", readme.section(figures, rate, machine, increment))
        readme.update(PROJECT_ROOT / "docs" / "operations.md", sizing.section(figures, machine, prices))
        readme.update(load_model.PAGE, load_model.section(load_model.fit(figures)))
    console.print(f"written to {out}")


def _measure_all(
    logs: Sequence[tuple[LogSet, int]], scratch: Path, console: Console
) -> tuple[list[Figures], float | None, Increment | None]:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    classes = jars.ensure(settings().cache, "kafka")
    cluster = Cluster(scratch / "cluster", java=java, jars=classes, log_partitions=LOG_PARTITIONS)
    kafka = Kafka(java=java, jars=classes, cluster=cluster)
    figures: list[Figures] = []
    rate: float | None = None
    increment: Increment | None = None
    for log_set, records in logs:
        name = f"{log_set.name} {millions(records)}"
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            with console.status(f"{name}: generating"):
                written = write(log_set.at(records), Path(folder) / "log")
            with console.status(f"{name}: measuring"):
                if rate is None and log_set.name == DUMPED_SET:
                    rate = dump_rate(kafka, Path(folder) / "log", written.records)
                figures.append(measure(kafka, log_set.at(records), written, log_set.name, Path(folder)))
                if (log_set.name, records) == (INCREMENT_SET, INCREMENT_RECORDS):
                    increment = measure_increment(log_set.at(records), Path(folder) / "log", Path(folder))
        one = figures[-1]
        console.print(
            f"{name}: broker {one.broker_started_s:.1f} / {one.broker_warm_s:.1f} s, kernel {one.kernel_s:.2f} s, "
            f"audit {one.audit_s:.1f} s"
        )
    return figures, rate, increment


def measure_only_increment(options: argparse.Namespace, console: Console) -> None:
    """What `--increment` asks for, at the records asked for; prints it."""
    records = QUICK_RECORDS if options.quick else int(options.records or INCREMENT_RECORDS)
    shape = next(log_set for log_set in SETS if log_set.name == INCREMENT_SET).at(records)
    with tempfile.TemporaryDirectory(prefix="sexton-bench-", dir=options.scratch) as scratch:
        _require_room(Path(scratch), 2 * records)
        with console.status("generating"):
            write(shape, Path(scratch) / "log")
        with console.status("measuring"):
            one = measure_increment(shape, Path(scratch) / "log", Path(scratch))
    console.print(f"{one.label}: {one.increment_s:.2f} s, all of it {one.full_s:.2f} s")
    console.print(targets_table(targets([], None, one)))


def _require_room(scratch: Path, records: int) -> None:
    needed, free = BYTES_PER_RECORD * records, shutil.disk_usage(scratch).free
    if free < needed:
        raise SystemExit(f"{free / 1e9:.0f} GB are free below {scratch}, {needed / 1e9:.0f} are needed: --scratch DIR")


if __name__ == "__main__":
    main()
