"""The figures of the README and of docs/performance.md: written by the bench, so that they say what was measured."""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import MILLION, Measured
from tests.bench.sets import SETS

BEGIN = "<!-- figures: written by `make bench-all` -->"
END = "<!-- end of figures -->"
_HEAD = """\
Seconds on {cores} cores ({processor}). *broker*: a real Kafka 4.3.1 broker loads the same segments, first right after
its start, then again in the same JVM (the load times that it logs; one thread). *kernel*: the compiled kernels replay
them on one core, from bytes to tables. *audit*: a whole `sexton audit` on all cores, including its start, checks and
report: elapsed seconds, then processor seconds. *memory*: that of the audit, for the largest process, then for all
processes, with shared pages counted once.

| log | MB | broker | kernel | kernel / broker | audit | broker / audit | memory, MB |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """\
`make bench` measures the figures of the README, `make bench-all` all of these (a part: `python -m tests.bench --help`).
"""


SHORT_SETS, WEAKEST, SHORT_MILLIONS = ("plain", "lz4", "transactional", "many-keys"), "most-keys", 30
_SHORT_HEAD = """\
| {millions} million records | a Kafka 4.3.1 broker loads them | kernels, one core | `sexton audit`, {cores} cores |
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
        text += f"The slowest, compared with a broker: `sexton audit` of {worst.label} takes {worst.audit_s:.0f} s, "
        text += f"the broker's load {worst.broker_started_s:.0f} s.\n"
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
    sets = "; ".join(f"{log_set.name}: {log_set.about}" for log_set in SETS)
    about = f"M is a million records, in 4 log partitions. The logs: {sets}."
    besides = "".join(f"{text}\n" for text in (about, " ".join(_besides(measured))) if text)
    return f"{BEGIN}\n{head}{''.join(rows)}\n{besides}{_TAIL}{END}"


def _besides(measured: Measured) -> Iterator[str]:
    """What was measured besides the rows of the table."""
    if measured.dump_rate:
        yield f"`kafka-dump-log --offsets-decoder` reads {measured.dump_rate / 1000:,.0f} thousand records a second."
    if one := measured.increment:
        yield (
            f"From the archive, {one.label} on top of a checkpoint is replayed in {one.increment_s:.2f} s, "
            f"{100 * one.ratio:.1f} % of the {one.full_s:.1f} s that a full replay takes."
        )
    if measured.one_record_s:
        yield f"An audit of one record takes {measured.one_record_s:.1f} s."
    if plan := measured.planning:
        yield f"In an audit, the plan of {plan.label} takes {plan.seconds:.1f} s."
    if there := measured.clustered:
        yield (
            f"{there.label[0].upper()}{there.label[1:]}, submitted from the same two cores: the stages of an audit "
            f"take {there.stages_s:.1f} s in a running Spark session, the five jobs from replay_groups to "
            f"publish_tables {there.jobs_s:.1f} s with the start of each, and the audit itself {there.audit_s:.1f} s."
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
