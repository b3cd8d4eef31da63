"""The README's section of figures: written by runs of the bench, so that it says what was measured and nothing else."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.figures import Measured
from tests.bench.sets import SETS
from tests.bench.targets import Target, targets

BEGIN = "<!-- figures: written by `make bench` -->"
END = "<!-- end of figures -->"
_HEAD = """\
Seconds on {cores} cores ({processor}): a real Kafka 4.3.1 broker loads the very same segments, just started and again
in the same JVM (its own loading times, one thread); the compiled kernels replay them on one core, bytes to tables;
`sexton audit` does everything on both cores, its start, checks and report included. Memory is that of the audit: the
largest process that runs its tasks, the largest of all, and all together, with pages that they share counted once.

![Records a second of each log](docs/bench/figures.svg)

| log | MB | broker | kernel | kernel / broker | audit | broker / audit | memory, MB |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """\
`make bench` makes the logs and measures again (`python -m tests.bench --help` for a part of it).
"""


def section(measured: Measured) -> str:
    """Markdown between the marks, which are part of it."""
    machine = measured.machine
    rows = [
        f"| {one.label} | {one.size_bytes / 1e6:,.0f} | {one.broker_started_s:.1f} / {one.broker_warm_s:.1f} "
        f"| {one.kernel_s:.2f} | {one.kernel_per_started:.0f} / {one.kernel_per_warm:.0f} | {one.audit_s:.1f} "
        f"| {one.audit_per_started:.1f} / {one.audit_per_warm:.1f} | {one.audit_memory} |\n"
        for one in measured.logs
    ]
    head = _HEAD.format(cores=machine.cores, processor=machine.processor)
    sets = "; ".join(f"{log_set.name}: {log_set.about}" for log_set in SETS)
    about = f"Millions of records of 4 log partitions. {sets[0].upper()}{sets[1:]}."
    besides = "".join(f"{text}\n" for text in (about, " ".join(_besides(measured))) if text)
    return f"{BEGIN}\n{head}{''.join(rows)}\n{besides}{_TAIL}{_held_against(targets(measured))}{END}"


def _besides(measured: Measured) -> Iterator[str]:
    """What was measured besides the rows of the table."""
    if measured.dump_rate:
        yield f"`kafka-dump-log --offsets-decoder` reads {measured.dump_rate / 1000:,.0f} thousand records a second."
    if one := measured.increment:
        yield (
            f"From the archive, {one.label} on top of a checkpoint is replayed in {one.increment_s:.2f} s, "
            f"{100 * one.ratio:.1f} % of the {one.full_s:.1f} s that all of it takes."
        )
    if measured.one_record_s:
        yield f"An audit of one record takes {measured.one_record_s:.1f} s."
    if plan := measured.planning:
        yield f"In an audit, the plan of {plan.label} takes {plan.seconds:.1f} s."
    if there := measured.clustered:
        yield (
            f"{there.label[0].upper()}{there.label[1:]}, submitted from the same two cores: the stages of an audit "
            f"take {there.stages_s:.1f} s in a Spark session that is there, the five jobs from replay_groups to "
            f"publish_tables {there.jobs_s:.1f} s with the start of each, and the audit itself {there.audit_s:.1f} s."
        )


def _held_against(wanted: Sequence[Target]) -> str:
    """What is wanted of the figures and what they are: a paragraph of what is reached, and one of the rest."""
    text = ""
    for title, is_reached in (("Targets reached", True), ("Targets not reached", False)):
        found: dict[str, list[str]] = defaultdict(list)
        for one in wanted:
            if one.is_reached == is_reached:
                found[f"{one.what} {one.wanted}"].append(f"{one.of} {one.measured}")
        if found:
            count = sum(map(len, found.values()))
            items = "; ".join(f"{what} ({', '.join(some)})" for what, some in found.items())
            text += f"\n{title}, {count} of {len(wanted)}: {items}.\n"
    return text


def update(page: Path, text: str) -> None:
    """Put `text`, which begins and ends with its marks, in place of what is between them; ValueError without them."""
    first, last = text.splitlines()[0], text.splitlines()[-1]
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: {first} ... {last}")
    page.write_text(before + text + after, encoding="utf-8")
