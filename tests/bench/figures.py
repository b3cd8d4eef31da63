"""What was measured, the ratios that follow from it, and the file that keeps it."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sexton.settings import PROJECT_ROOT

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
    Kernel seconds are those of one core. Audit seconds are the wall's, and of all cores together. `process_bytes` is
    the largest process of the audit, `tree_bytes` all of them together; None was not measured (see `watch`).
    """

    name: str
    commits: int
    records: int
    size_bytes: int
    broker_started_s: float
    broker_warm_s: float
    kernel_s: float
    audit_s: float
    audit_core_s: float | None = None
    process_bytes: int | None = None
    tree_bytes: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name} {millions(self.commits)}"

    @property
    def audit_seconds(self) -> str:
        """On the wall, and of all cores together."""
        return f"{self.audit_s:.1f} / {'–' if self.audit_core_s is None else format(self.audit_core_s, '.1f')}"

    @property
    def audit_memory(self) -> str:
        """MiB of the largest process and of all processes."""
        return " / ".join(f"{size / MIB:,.0f}" if size else "–" for size in (self.process_bytes, self.tree_bytes))

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
        return f"the last {100 * self.delta_records / self.records:.1f} % of {millions(self.records)}"

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
        return f"{millions(self.records)} on a standalone cluster of 2 one-core workers"


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
        return f"Three replicas of {millions(self.records)}"


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


KEPT = TypeAdapter(Measured)


def millions(count: int) -> str:
    """A count in the words of a label."""
    return f"{count / MILLION:.0f} M" if count >= MILLION else f"{count / 1000:.0f} k"


def this_machine() -> Machine:
    """What this process runs on."""
    return Machine(cores=os.cpu_count() or 1, processor=_processor(), python=platform.python_version())


def read_figures(folder: Path) -> Measured:
    """What a run of the bench has written to `folder`."""
    return KEPT.validate_json((folder / FILE).read_bytes())


def keep_figures(measured: Measured, folder: Path) -> None:
    """Write what `read_figures` reads."""
    (folder / FILE).write_bytes(KEPT.dump_json(measured, indent=2) + b"\n")


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
