"""What was measured, the ratios that follow from it, and what they are held against."""

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table

MILLION = 1_000_000
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where was measured."""

    cores: int
    processor: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The measurements of one log. `records` are its `commits` and the markers; all seconds are of this machine.

    Broker seconds are the work of its one loading thread, right after its start and in a JVM that has loaded before.
    Kernel seconds are those of one core. Audit seconds are the wall's. `task_bytes` is the largest process that ran
    tasks of the audit.
    """

    name: str
    commits: int
    records: int
    size_bytes: int
    broker_started_s: float
    broker_warm_s: float
    kernel_s: float
    kernel_bytes: int
    audit_s: float
    audit_bytes: int
    task_bytes: int

    @property
    def label(self) -> str:
        return f"{self.name} {millions(self.commits)}"

    @property
    def kernel_per_started(self) -> float:
        return self.broker_started_s / self.kernel_s

    @property
    def kernel_per_warm(self) -> float:
        return self.broker_warm_s / self.kernel_s

    @property
    def audit_per_started(self) -> float:
        return self.broker_started_s / self.audit_s

    @property
    def audit_per_warm(self) -> float:
        return self.broker_warm_s / self.audit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """A log in an archive: replayed from its beginning, and from the checkpoint before its last `delta_records` on."""

    records: int
    delta_records: int
    full_s: float
    increment_s: float

    @property
    def label(self) -> str:
        return f"a delta of {100 * self.delta_records / self.records:.1f} % of {millions(self.records)}"

    @property
    def ratio(self) -> float:
        return self.increment_s / self.full_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is wanted of a ratio and what it is; `is_ceiling` when it should not be above `bar`."""

    text: str
    bar: float
    value: float
    is_ceiling: bool = False

    @property
    def is_reached(self) -> bool:
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar


def targets(
    all_figures: Sequence[Figures], dump_rate: float | None, increment: Increment | None = None
) -> list[Target]:
    """Every target that the measured logs can tell of; the broker is the one just started, unless said otherwise."""
    by_place = {(one.name, one.commits // MILLION): one for one in all_figures}
    found = list(_targets(by_place, dump_rate))
    if increment:
        text = f"replay of {increment.label} / of all of it"
        found.append(Target(text=text, bar=0.1, value=increment.ratio, is_ceiling=True))
    return found


def _targets(by_place: dict[tuple[str, int], Figures], dump_rate: float | None) -> Iterator[Target]:
    for (name, size), one in by_place.items():
        if name in ("plain", "lz4", "transactional"):
            bar = 20 if name == "transactional" else 10
            yield Target(text=f"kernel per core / broker, {one.label}", bar=bar, value=one.kernel_per_started)
            yield Target(text=f"kernel per core / warm broker, {one.label}", bar=bar, value=one.kernel_per_warm)
        if size >= 30:
            bar = 3 if size >= 100 else 1.5
            yield Target(text=f"audit (wall) / broker, {one.label}", bar=bar, value=one.audit_per_started)
            if dump_rate:
                rate = one.records / one.audit_s
                yield Target(text=f"audit / kafka-dump-log, {one.label}", bar=100, value=rate / dump_rate)
        if size >= 100 and (name, 30) in by_place:
            ratio = one.task_bytes / max(by_place[name, 30].task_bytes, 1)
            text = f"memory of a task, {name}: 100 / 30 million records"
            yield Target(text=text, bar=1.1, value=ratio, is_ceiling=True)
        if name == "hot" and ("plain", size) in by_place:
            ratio = one.audit_s / by_place["plain", size].audit_s
            text = f"audit of {one.label} / of the balanced log"
            yield Target(text=text, bar=1.5, value=ratio, is_ceiling=True)


def millions(count: int) -> str:
    """A count in the words of a label."""
    return f"{count / MILLION:.0f} M" if count >= MILLION else f"{count / 1000:.0f} k"


def figures_table(all_figures: Sequence[Figures]) -> Table:
    """Seconds, millions of records a second and peaks, a row for each log."""
    table = Table(title="M/s: million records a second. Broker: its own loading time, just started / warm.")
    heads = (
        "log", "MB", "broker s", "M/s", "kernel s", "M/s", "audit s", "M/s", "kernel/broker", "broker/audit",
        "kernel MB", "audit MB", "task MB",
    )  # fmt: skip
    for head in heads:
        table.add_column(head, justify="left" if head == "log" else "right")
    for one in all_figures:
        rates = [one.records / seconds / MILLION for seconds in (one.broker_started_s, one.broker_warm_s)]
        table.add_row(
            one.label,
            f"{one.size_bytes / 1e6:,.0f}",
            f"{one.broker_started_s:.1f} / {one.broker_warm_s:.1f}",
            f"{rates[0]:.2f} / {rates[1]:.2f}",
            f"{one.kernel_s:.2f}",
            f"{one.records / one.kernel_s / MILLION:.1f}",
            f"{one.audit_s:.1f}",
            f"{one.records / one.audit_s / MILLION:.2f}",
            f"{one.kernel_per_started:.1f} / {one.kernel_per_warm:.1f}",
            f"{one.audit_per_started:.2f} / {one.audit_per_warm:.2f}",
            *(f"{size / MIB:,.0f}" for size in (one.kernel_bytes, one.audit_bytes, one.task_bytes)),
        )
    return table


def targets_table(wanted: Sequence[Target]) -> Table:
    """A row for each target."""
    table = Table(title="Targets")
    for head in ("what", "target", "measured", ""):
        table.add_column(head, justify="right" if head in ("target", "measured") else "left")
    for target in wanted:
        sign = "≤" if target.is_ceiling else "≥"
        reached = "[green]reached" if target.is_reached else "[red]missed"
        table.add_row(target.text, f"{sign} {target.bar:g}", f"{target.value:.2f}", reached)
    return table


def this_machine() -> Machine:
    """What this process runs on."""
    return Machine(cores=os.cpu_count() or 1, processor=_processor(), python=platform.python_version())


def as_json(
    all_figures: Sequence[Figures], dump_rate: float | None, machine: Machine, increment: Increment | None = None
) -> dict[str, Any]:
    """Everything measured and derived, and the machine that it was measured on."""
    return {
        "machine": asdict(machine),
        "dump_log_records_per_second": dump_rate,
        "logs": [
            asdict(one)
            | {
                "kernel_per_started": one.kernel_per_started,
                "kernel_per_warm": one.kernel_per_warm,
                "audit_per_started": one.audit_per_started,
                "audit_per_warm": one.audit_per_warm,
            }
            for one in all_figures
        ],
        "increment": None if increment is None else asdict(increment) | {"ratio": increment.ratio},
        "targets": [asdict(t) | {"is_reached": t.is_reached} for t in targets(all_figures, dump_rate, increment)],
    }


def from_json(told: dict[str, Any]) -> tuple[list[Figures], float | None, Machine]:
    """What `as_json` was made of."""
    names = [field.name for field in fields(Figures)]
    logs = [Figures(**{name: log[name] for name in names}) for log in told["logs"]]
    return logs, told["dump_log_records_per_second"], Machine(**told["machine"])


def increment_of(told: dict[str, Any]) -> Increment | None:
    """The increment that `as_json` was told of; None where none was measured."""
    found = told.get("increment")
    return None if found is None else Increment(**{field.name: found[field.name] for field in fields(Increment)})


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
