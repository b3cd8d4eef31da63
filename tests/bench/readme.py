"""The README's section of figures: written by a full run, so that it says what was measured and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import MIB, Figures, Increment, Machine
from tests.bench.sets import SETS

BEGIN = "<!-- figures: written by `make bench` -->"
END = "<!-- end of figures -->"
_HEAD = """\
Seconds on {cores} cores ({processor}): a real Kafka 4.3.1 broker loads the very same segments, just started and again
in the same JVM (its own loading times, one thread); the compiled kernels replay them on one core, bytes to tables;
`sexton audit` does everything on both cores, its start, checks and report included.

![Records a second of each log](docs/bench/figures.svg)

| log | MB | broker | kernel | kernel / broker | audit | broker / audit | memory of a task, MB |
|---|---|---|---|---|---|---|---|
"""


def section(
    all_figures: Sequence[Figures], dump_rate: float | None, machine: Machine, increment: Increment | None = None
) -> str:
    """Markdown between the marks, which are part of it."""
    rows = [
        f"| {one.label} | {one.size_bytes / 1e6:,.0f} | {one.broker_started_s:.1f} / {one.broker_warm_s:.1f} "
        f"| {one.kernel_s:.2f} | {one.kernel_per_started:.0f} / {one.kernel_per_warm:.0f} | {one.audit_s:.1f} "
        f"| {one.audit_per_started:.1f} / {one.audit_per_warm:.1f} | {one.task_bytes / MIB:,.0f} |\n"
        for one in all_figures
    ]
    about = "; ".join(f"{log_set.name}: {log_set.about}" for log_set in SETS)
    tail = f"\nMillions of records of 4 log partitions. {about[0].upper()}{about[1:]}.\n"
    if dump_rate:
        tail += f"`kafka-dump-log --offsets-decoder` reads {dump_rate / 1000:,.0f} thousand records a second.\n"
    if increment:
        tail += (
            f"From the archive, {increment.label} on top of a checkpoint is replayed in {increment.increment_s:.2f} s, "
            f"{100 * increment.ratio:.1f} % of the {increment.full_s:.1f} s that all of it takes.\n"
        )
    tail += "`make bench` makes the logs and measures again (`python -m tests.bench --help` for a part of it).\n"
    return f"{BEGIN}\n{_HEAD.format(cores=machine.cores, processor=machine.processor)}{''.join(rows)}{tail}{END}"


def update(page: Path, text: str) -> None:
    """Put `text`, which begins and ends with its marks, in place of what is between them; ValueError without them."""
    first, last = text.splitlines()[0], text.splitlines()[-1]
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: {first} ... {last}")
    page.write_text(before + text + after, encoding="utf-8")
