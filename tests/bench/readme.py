"""The figures of the README and of docs/performance.md: written by the bench, so that they say what was measured."""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import MILLION, Measured
from tests.bench.sets import SETS

BEGIN = "<!-- figures: written by `make bench-all` -->"
END = "<!-- end of figures -->"
_HEAD = """\
Seconds on {cores} cores ({processor}). *broker*: a real Kafka 4.3.1 broker loads the same segments, first right after
its start, then again in the same JVM (the load times that it logs; one thread). *kernel*: Sexton's compiled replay
code (the kernels) on one core, from bytes to tables. *audit*: a whole `sexton audit` on all cores, including its start,
checks and report: elapsed seconds, then processor seconds. *broker / kernel* and *broker / audit*: how many times as
long the broker takes, at its first and its second load. *memory*: the resident memory of the audit's largest process,
then the proportional set size (PSS) of all its processes, which may be smaller because it divides shared pages.

| log | MB | broker | kernel | broker / kernel | audit | broker / audit | memory, MiB |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """\
`make bench` measures the figures of the README, `make bench-all` all of these (a part: `python -m tests.bench --help`).
"""


SHORT_SETS, WEAKEST, SHORT_MILLIONS = ("plain", "lz4", "transactional", "many-keys"), "most-keys", 30
_SHORT_HEAD = """\
| {millions} million records | a Kafka 4.3.1 broker loads them | replay alone, 1 core | `sexton audit`, {cores} cores |
|---|---|---|---|
"""


def short_section(measured: Measured) -> str:
    """The README's few rows and the weakest figure, as `section`."""
    rows = [
        f"| {one.name} | {one.broker_started_s:.1f} s | {one.kernel_s:.1f} s | {one.audit_s:.1f} s |\n"
        for name in SHORT_SETS
        for one in measured.logs
        if one.name == name and one.commits == SHORT_MILLIONS * MILLION
    ]
    head = _SHORT_HEAD.format(millions=SHORT_MILLIONS, cores=measured.machine.cores)
    text = f"{BEGIN}\n{head}{''.join(rows)}\n"
    if measured.logs:
        worst = min(measured.logs, key=lambda one: one.audit_per_started)
        text += f"Compared with the broker, `sexton audit` is slowest for {worst.name} with "
        text += f"{worst.commits / MILLION:g} million records: it takes {worst.audit_s:.0f} s, the broker's load "
        text += f"{worst.broker_started_s:.0f} s.\n"
    return text + END


def section(measured: Measured) -> str:
    """Markdown of everything between the marks, which are part of it."""
    machine = measured.machine
    rows = [
        f"| {one.label} | {one.size_bytes / 1e6:,.0f} | {one.broker_started_s:.1f} / {one.broker_warm_s:.1f} "
        f"| {one.kernel_s:.2f} | {one.kernel_per_started:.0f} / {one.kernel_per_warm:.0f} | {one.audit_seconds} "
        f"| {one.audit_per_started:.1f} / {one.audit_per_warm:.1f} | {one.audit_memory} |\n"
        for one in measured.logs
    ]
    head = _HEAD.format(cores=machine.cores, processor=machine.processor)
    sets = "".join(f"- {log_set.name}: {log_set.about}\n" for log_set in SETS)
    about = f"M is a million records, in 4 log partitions. The logs:\n\n{sets}\n"
    besides = "".join(f"- {text}\n" for text in _besides(measured))
    others = f"Other measurements:\n\n{besides}\n" if besides else ""
    return f"{BEGIN}\n{head}{''.join(rows)}\n{about}{others}{_TAIL}{END}"


def _besides(measured: Measured) -> Iterator[str]:
    """What was measured besides the rows of the table."""
    if measured.dump_rate:
        yield f"`kafka-dump-log --offsets-decoder` reads {measured.dump_rate / 1000:,.0f} thousand records per second."
    if one := measured.increment:
        yield (
            f"From the archive, {one.label} is replayed on top of a checkpoint in {one.increment_s:.2f} s, "
            f"{100 * one.ratio:.1f} % of the {one.full_s:.1f} s that a full replay takes."
        )
    if measured.one_record_s:
        yield f"An audit of one record takes {measured.one_record_s:.1f} s."
    if plan := measured.planning:
        yield f"In an audit, the plan of {plan.label} takes {plan.seconds:.1f} s."
    if there := measured.clustered:
        yield (
            f"For {there.label}, with the driver on the same two cores, the stages of an audit take "
            f"{there.stages_s:.1f} s in a running Spark session. The five jobs from `replay_groups` to "
            f"`publish_tables`, each with its own session, take {there.jobs_s:.1f} s, and `sexton audit` takes "
            f"{there.audit_s:.1f} s."
        )
    if those := measured.replicas:
        yield (
            f"{those.label}, each compacted in its own way, are compared in {those.compare_s:.0f} s; an "
            f"audit of one takes {those.audit_s:.0f} s. The largest process has {those.process_bytes / 1e9:.1f} GB, "
            f"{those.process_bytes / those.smaller_process_bytes - 1:.0%} more than with a third of the records."
        )


def update(page: Path, text: str) -> None:
    """Put `text`, which begins and ends with its marks, in place of what is between them; ValueError without them."""
    first, last = text.splitlines()[0], text.splitlines()[-1]
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: {first} ... {last}")
    page.write_text(before + text + after, encoding="utf-8")
