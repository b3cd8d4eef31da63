"""What is wanted of the figures: every target that those measured can tell of, and whether it is reached."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.bench.figures import MILLION, Figures, Measured

GB = 1_000_000_000
KERNEL_BARS = {"plain": 10, "lz4": 10, "transactional": 20, "many-keys": 6}
AUDIT_BARS = {("plain", 30): 4, ("many-keys", 3): 1, ("many-keys", 30): 3}
"""By set and millions of records; any other log of 30 millions or more has to be audited in LARGE_BARS."""
LARGE_BARS = ((100, 3), (30, 1.5))
BALANCED = {"hot": ("plain", 1.5), "hot-keys": ("many-keys", 1.2)}
"""A set, the one of the same keys in balance, and how much longer its audit may take."""
PROCESS_BARS = {("most-keys", 30): 1}
TREE_BARS = {("many-keys", 3): 1.2, ("most-keys", 30): 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is wanted of a ratio, or of so many of a `unit`, and what it is for the log `of`.

    `is_ceiling` when it should not be above `bar`. Ratios are of speeds unless they say that they are of seconds.
    """

    what: str
    of: str
    bar: float
    value: float
    is_ceiling: bool = False
    unit: str = ""

    @property
    def text(self) -> str:
        return f"{self.what}: {self.of}"

    @property
    def is_reached(self) -> bool:
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.is_ceiling else '≥'} {self.bar:g} {self.unit}".strip()

    @property
    def measured(self) -> str:
        return f"{self.value:.2f} {self.unit}".strip()


def targets(measured: Measured) -> list[Target]:
    """Every target that was measured; the broker is the one just started, unless said otherwise."""
    by_place = {(one.name, one.commits // MILLION): one for one in measured.logs}
    found = [target for place, one in by_place.items() for target in _of_log(place, one, by_place, measured.dump_rate)]
    if one := measured.increment:
        found.append(
            Target(what="seconds of a replay / of all of it", of=one.label, bar=0.1, value=one.ratio, is_ceiling=True)
        )
    if seconds := measured.one_record_s:
        found.append(Target(what="audit", of="one record", bar=2.5, value=seconds, is_ceiling=True, unit="s"))
    if plan := measured.planning:
        found.append(
            Target(what="plan in an audit", of=plan.label, bar=5, value=plan.seconds, is_ceiling=True, unit="s")
        )
    if there := measured.clustered:
        for what, seconds in (("the jobs' stages", there.stages_s), ("the jobs with their starts", there.jobs_s)):
            ratio = seconds / there.audit_s
            found.append(
                Target(what=f"seconds of {what} / of the audit", of=there.label, bar=1.5, value=ratio, is_ceiling=True)
            )
    if those := measured.replicas:
        what = "seconds of a comparison / of the audit of one"
        found.append(Target(what=what, of=those.label, bar=3.2, value=those.ratio, is_ceiling=True))
        what = "largest process of a comparison / with a third of the records"
        found.append(Target(what=what, of=those.label, bar=1.1, value=those.memory_ratio, is_ceiling=True))
    return found


def _of_log(
    place: tuple[str, int], one: Figures, by_place: dict[tuple[str, int], Figures], dump_rate: float | None
) -> Iterator[Target]:
    name, size = place
    if bar := KERNEL_BARS.get(name):
        yield Target(what="kernel per core / broker", of=one.label, bar=bar, value=one.kernel_per_started)
        yield Target(what="kernel per core / warm broker", of=one.label, bar=bar, value=one.kernel_per_warm)
    if audit_bar := AUDIT_BARS.get(place, next((bar for least, bar in LARGE_BARS if size >= least), None)):
        yield Target(what="audit (wall) / broker", of=one.label, bar=audit_bar, value=one.audit_per_started)
    if size >= 30 and dump_rate:
        rate = one.records / one.audit_s
        yield Target(what="audit / kafka-dump-log", of=one.label, bar=100, value=rate / dump_rate)
    yield from _memory(place, one, by_place)
    balanced, most = BALANCED.get(name, ("", 0.0))
    if beside := by_place.get((balanced, size)):
        ratio = one.audit_s / beside.audit_s
        yield Target(
            what="seconds of an audit / of the balanced log", of=one.label, bar=most, value=ratio, is_ceiling=True
        )


def _memory(place: tuple[str, int], one: Figures, by_place: dict[tuple[str, int], Figures]) -> Iterator[Target]:
    name, size = place
    if size >= 100 and (name, 30) in by_place:
        ratio = one.task_bytes / max(by_place[name, 30].task_bytes, 1)
        what = "memory of a task, 100 / 30 million records"
        yield Target(what=what, of=name, bar=1.1, value=ratio, is_ceiling=True)
    for what, bars, size_bytes in (
        ("largest process", PROCESS_BARS, one.process_bytes),
        ("all processes", TREE_BARS, one.tree_bytes),
    ):
        if place in bars and size_bytes is not None:
            value = size_bytes / GB
            yield Target(
                what=f"{what} of an audit", of=one.label, bar=bars[place], value=value, is_ceiling=True, unit="GB"
            )


def targets_table(wanted: Sequence[Target]) -> Table:
    """A row for each target."""
    table = Table(title="Targets")
    for head in ("what", "target", "measured", ""):
        table.add_column(head, justify="right" if head in ("target", "measured") else "left")
    for target in wanted:
        reached = "[green]reached" if target.is_reached else "[red]missed"
        table.add_row(target.text, target.wanted, target.measured, reached)
    return table
