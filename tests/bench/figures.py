"""What was measured, the ratios that follow from it, and how both are kept. What they are held against: `targets`."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from sexton.settings import PROJECT_ROOT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

MILLION = 1_000_000
MIB = 1 << 20
DOCS = PROJECT_ROOT / "docs" / "bench"
FILE = "figures.json"


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
    tasks of the audit, 0 without any, `process_bytes` the largest of all its processes, `tree_bytes` all of them
    together; None was not measured (see `watch`).
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
    task_bytes: int
    process_bytes: int | None = None
    tree_bytes: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name} {millions(self.commits)}"

    @property
    def audit_memory(self) -> str:
        """MiB of a task, of the largest process and of all processes."""
        return " / ".join(_mib(size) for size in (self.task_bytes, self.process_bytes, self.tree_bytes))

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
class Planning:
    """The stage plan_tombstones of a log whose offsets are all due."""

    tombstones: int
    seconds: float

    @property
    def label(self) -> str:
        return f"{millions(self.tombstones)} tombstones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """A log on a Spark standalone cluster of two workers with a core each, and its audit on the same two cores.

    `jobs_s` are the jobs that compute, one after the other, each with its start; `stages_s` their stages in one session
    that is there.
    """

    records: int
    audit_s: float
    jobs_s: float
    stages_s: float

    @property
    def label(self) -> str:
        return f"{millions(self.records)} on a cluster of 2 one-core workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """A log audited, and compared with two replicas of it; memory of the largest process, also with fewer records of as
    many keys, and of all processes."""

    records: int
    audit_s: float
    compare_s: float
    process_bytes: int
    tree_bytes: int
    smaller_process_bytes: int

    @property
    def label(self) -> str:
        return f"three replicas of {millions(self.records)}"

    @property
    def ratio(self) -> float:
        return self.compare_s / self.audit_s

    @property
    def memory_ratio(self) -> float:
        return self.process_bytes / self.smaller_process_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was measured on a machine; None was not. `one_record_s` is an audit of a log of one record."""

    machine: Machine
    logs: Sequence[Figures] = ()
    dump_rate: float | None = None
    increment: Increment | None = None
    one_record_s: float | None = None
    planning: Planning | None = None
    clustered: Clustered | None = None
    replicas: Replicas | None = None

    def with_newer(self, newer: "Measured") -> "Measured":
        """This, but for what `newer` has; ValueError when that is of another machine."""
        if newer.machine != self.machine:
            raise ValueError(f"measured on another machine: {newer.machine}, not {self.machine}")
        by_place = {(one.name, one.commits): one for one in (*self.logs, *newer.logs)}
        logs = sorted(by_place.values(), key=lambda one: one.commits)
        names = [field.name for field in fields(self) if field.name not in ("machine", "logs")]
        rest: dict[str, Any] = {name: getattr(newer, name) or getattr(self, name) for name in names}
        return Measured(machine=self.machine, logs=logs, **rest)


def millions(count: int) -> str:
    """A count in the words of a label."""
    return f"{count / MILLION:.0f} M" if count >= MILLION else f"{count / 1000:.0f} k"


def figures_table(all_figures: Sequence[Figures]) -> Table:
    """Seconds, millions of records a second and peaks, a row for each log."""
    table = Table(title="M/s: million records a second. Broker: its own loading time, just started / warm.")
    heads = (
        "log", "MB", "broker s", "M/s", "kernel s", "M/s", "audit s", "M/s", "kernel/broker", "broker/audit",
        "kernel MB", "audit MB: task / process / all",
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
            _mib(one.kernel_bytes),
            one.audit_memory,
        )
    return table


def _mib(size_bytes: int | None) -> str:
    return f"{size_bytes / MIB:,.0f}" if size_bytes else "–"


def this_machine() -> Machine:
    """What this process runs on."""
    return Machine(cores=os.cpu_count() or 1, processor=_processor(), python=platform.python_version())


def as_json(measured: Measured) -> dict[str, Any]:
    """Everything measured and derived, and the machine that it was measured on."""
    increment = measured.increment
    return {
        "machine": asdict(measured.machine),
        "dump_log_records_per_second": measured.dump_rate,
        "logs": [
            asdict(one)
            | {
                "kernel_per_started": one.kernel_per_started,
                "kernel_per_warm": one.kernel_per_warm,
                "audit_per_started": one.audit_per_started,
                "audit_per_warm": one.audit_per_warm,
            }
            for one in measured.logs
        ],
        "increment": None if increment is None else asdict(increment) | {"ratio": increment.ratio},
        "audit_of_one_record_s": measured.one_record_s,
        "planning": None if measured.planning is None else asdict(measured.planning),
        "cluster": None if measured.clustered is None else asdict(measured.clustered),
        "replicas": None if measured.replicas is None else asdict(measured.replicas),
    }


def from_json(told: dict[str, Any]) -> Measured:
    """What `as_json` was made of; what an earlier one did not tell of was not measured."""
    names = ("increment", "planning", "cluster", "replicas")
    increment, planning, clustered, replicas = (told.get(name) for name in names)
    return Measured(
        machine=_read(Machine, told["machine"]),
        logs=[_read(Figures, log) for log in told["logs"]],
        dump_rate=told["dump_log_records_per_second"],
        increment=None if increment is None else _read(Increment, increment),
        one_record_s=told.get("audit_of_one_record_s"),
        planning=None if planning is None else _read(Planning, planning),
        clustered=None if clustered is None else _read(Clustered, clustered),
        replicas=None if replicas is None else _read(Replicas, replicas),
    )


def read_figures(folder: Path) -> Measured:
    """What a run of the bench has written to `folder`."""
    return from_json(json.loads((folder / FILE).read_text(encoding="utf-8")))


def _read(kind: type[T], told: dict[str, Any]) -> T:
    return kind(**{field.name: told[field.name] for field in fields(kind) if field.name in told})


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
