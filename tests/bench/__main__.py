"""The figures that docs/performance.md states (`make bench-all`) or the README alone (`make bench`), on this machine.

For every log (see `sets`), one at a time, in a scratch folder that is removed:

- a real Kafka 4.3.1 broker loads it, twice and more (see `broker`),
- the compiled kernels replay it on one core, loaded before (see `kernel`),
- `sexton audit` runs on it, its start, checks and report included; its memory is watched (see `watch`).

Besides, each also by itself with the option of its name:

- `--increment`: one log is archived and replayed in full and from a checkpoint on (see `increment`),
- `--planning`: the tombstones of one log are planned, whose offsets are all due (see `planning`),
- `--one-record`: an audit of a log of one record, which is what any audit takes at least.

Only by themselves, for they are no part of a full run:

- `--cluster`: the jobs on a Spark standalone cluster, and the audit of the same log (see `cluster`),
- `--replicas`: three replicas of a log are compared, and one is audited (see `replicas`).

What a run of the DAG takes is measured apart, by `python -m tests.bench.dag_run`.

Kafka's `kafka-dump-log --offsets-decoder` reads one segment for comparison. The log is read into memory before each of
these; loads and kernel runs of up to a few million records, the replays from the archive and the audit of one record
are repeated, and the fastest counts. Prints what
docs/performance.md says of them.

A full run writes figures.json to docs/bench, the figures of the README and docs/performance.md, the
sizes in docs/operations.md and the model of load times that fits. A partial one, with any of these options, `--sets` or
`--records`, writes below var/bench; with `--merge` it replaces its part of the figures in docs/bench, and all that is
written of them, if they are of the same machine. For a row by itself:

    python -m tests.bench --sets many-keys --records 3000000 --merge
    python -m tests.bench --readme --merge      # the rows of the README

A full run in pieces, as on a machine of which docs/bench has nothing yet:

    python -m tests.bench --sets plain,lz4 --merge --out var/bench     # and so on, until nothing is missing
    cp var/bench/figures.json docs/bench && python -m tests.bench --render

Everything that is started is stopped, also on Ctrl-C.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sexton.settings import PROJECT_ROOT, settings
from tests.bench import load_model, readme, sizing
from tests.bench.cluster import measure_on_cluster
from tests.bench.figures import DOCS, FILE, MILLION, Measured, keep_figures, read_figures, this_machine
from tests.bench.generate import write
from tests.bench.increment import measure_increment
from tests.bench.one_log import Kafka, audit_of_one_record, dump_rate, kafka_in, measure, read_through
from tests.bench.planning import measure_planning
from tests.bench.replicas import measure_replicas
from tests.bench.sets import SETS
from tests.bench.tasks import FIGURES, PARTS, Task, chosen_tasks, full_tasks, room_bytes

TABLE_WIDTH = 170
ONE_RECORD_REPEATS = 3
DUMPED_SET = "plain"
"""Of its first log it is measured how quickly kafka-dump-log reads."""


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all is stopped, too
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some shells set it: every start would compile all modules again
    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
    if options.readme:
        options.sets, options.records = (
            ",".join((*readme.SHORT_SETS, readme.WEAKEST)),
            str(readme.SHORT_MILLIONS * MILLION),
        )
    is_partial = bool(options.sets or options.records or options.one_record or _asked_parts(options))
    is_for_docs = options.merge or options.render or not is_partial
    out = options.out or (DOCS if is_for_docs else settings().var / "bench")
    if options.render:
        measured = read_figures(out)
    else:
        tasks = _tasks(options)
        before = _to_merge_into(out, tasks) if options.merge else None
        measured = _measure_all(tasks, options, is_partial=is_partial, console=console)
        console.print(readme.section(measured), soft_wrap=True, markup=False, highlight=False)
        measured = before.with_newer(measured) if before else measured
    out.mkdir(parents=True, exist_ok=True)
    keep_figures(measured, out)
    if out == DOCS:
        write_pages(measured, sizing.Prices(core_hour=options.core_hour, gb_month=options.gb_month))
    console.print(f"written to {out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="", help=f"of {', '.join(log_set.name for log_set in SETS)}")
    parser.add_argument("--records", default="", help="records of each log, instead of the sizes of its set")
    parser.add_argument("--readme", action="store_true", help="nothing but the logs that the README tells of")
    parser.add_argument("--increment", action="store_true", help="nothing but a delta of 1 %% of a log")
    parser.add_argument("--planning", action="store_true", help="nothing but the plan of a log's offsets, all due")
    parser.add_argument("--one-record", action="store_true", help="nothing but the audit of a log of one record")
    parser.add_argument("--cluster", action="store_true", help="nothing but the jobs on a Spark standalone cluster")
    parser.add_argument("--replicas", action="store_true", help="nothing but the comparison of three replicas")
    parser.add_argument("--scratch", type=Path, help="where logs are made; needs 12 GB for a full run")
    parser.add_argument("--out", type=Path, help="folder of figures.json (see above)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--merge", action="store_true", help="replace what is measured in the figures of --out")
    how.add_argument("--render", action="store_true", help="measure nothing: write what figures.json says")
    prices = sizing.Prices()
    parser.add_argument("--core-hour", type=float, default=prices.core_hour, help="price, for the table of sizes")
    parser.add_argument("--gb-month", type=float, default=prices.gb_month, help="price, for the table of sizes")
    return parser.parse_args()


def _tasks(options: argparse.Namespace) -> list[Task]:
    known = [log_set.name for log_set in SETS]
    parts = _asked_parts(options)
    names = options.sets.split(",") if options.sets else [] if parts or options.one_record else known
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no such set: {', '.join(unknown)} (there are {', '.join(known)})")
    sizes = [int(size) for size in options.records.split(",") if size]
    return chosen_tasks(names, sizes, parts)


def _asked_parts(options: argparse.Namespace) -> list[str]:
    return [name for name in PARTS if getattr(options, name)]


def _to_merge_into(out: Path, tasks: Sequence[Task]) -> Measured:
    """The figures in `out`, none where no run has left any; SystemExit if those of `tasks` have no place among them."""
    if not (out / FILE).exists():
        return Measured(machine=this_machine())
    before, full = read_figures(out), {task.place for task in [*full_tasks(), *chosen_tasks([], [], list(PARTS))]}
    if before.machine != this_machine():
        raise SystemExit(f"{out / FILE} is of another machine: measure all on this one, or merge into another --out")
    if out == DOCS and (odd := [task.label for task in tasks if task.place not in full]):
        raise SystemExit(f"a full run has no {', '.join(odd)}: give another --out")
    return before


def write_pages(measured: Measured, prices: sizing.Prices) -> None:
    """Write the figures into README, documentation and the model of load times."""
    readme.update(PROJECT_ROOT / "README.md", readme.short_section(measured))
    readme.update(PROJECT_ROOT / "docs" / "performance.md", readme.section(measured))
    readme.update(PROJECT_ROOT / "docs" / "operations.md", sizing.section(measured.logs, measured.machine, prices))
    readme.update(load_model.PAGE, load_model.section(load_model.fit(measured.logs)))


def _measure_all(tasks: Sequence[Task], options: argparse.Namespace, *, is_partial: bool, console: Console) -> Measured:
    """Every task, and the audit of one record in a full run or where it is asked for."""
    with tempfile.TemporaryDirectory(prefix="sexton-bench-", dir=options.scratch) as folder:
        scratch = Path(folder)
        _require_room(scratch, tasks)
        found: dict[str, Any] = {"logs": []}
        if options.one_record or not is_partial:
            with console.status("one record: measuring"):
                found["one_record_s"] = min(audit_of_one_record(scratch) for _ in range(ONE_RECORD_REPEATS))
        kafka = kafka_in(scratch) if any(FIGURES in task.parts for task in tasks) else None
        for task in tasks:
            with tempfile.TemporaryDirectory(dir=scratch) as place:
                _measure(task, kafka, Path(place), found, console)
    return Measured(machine=this_machine(), **found)


def _measure(task: Task, kafka: Kafka | None, scratch: Path, found: dict[str, Any], console: Console) -> None:
    """Make the log of a task and put what is measured of it into `found`, by fields of Measured."""
    shape, log = task.log_set.at(task.records), scratch / "log"
    with console.status(f"{task.label}: generating"):
        written = write(shape, log)
    with console.status(f"{task.label}: measuring"):
        if kafka and FIGURES in task.parts:
            if task.log_set.name == DUMPED_SET and "dump_rate" not in found:
                found["dump_rate"] = dump_rate(kafka, log, written.records)
            one = measure(kafka, task, written, scratch)
            found["logs"].append(one)
            console.print(
                f"{task.label}: broker {one.broker_started_s:.1f} / {one.broker_warm_s:.1f} s, kernel "
                f"{one.kernel_s:.2f} s, audit {one.audit_s:.1f} s"
            )
        if "increment" in task.parts:
            found["increment"] = measure_increment(shape, log, scratch)
        if "planning" in task.parts:
            found["planning"] = measure_planning(shape, log, scratch)
        if "replicas" in task.parts:
            found["replicas"] = measure_replicas(shape, log, scratch)
        if "cluster" in task.parts:
            read_through(log)
            found["clustered"] = measure_on_cluster(log, scratch, records=written.records)


def _require_room(scratch: Path, tasks: Sequence[Task]) -> None:
    needed = max((room_bytes(task) for task in tasks), default=0)
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise SystemExit(f"{free / 1e9:.0f} GB are free below {scratch}, {needed / 1e9:.0f} are needed: --scratch DIR")


if __name__ == "__main__":
    main()
