"""Logs that cost more than they are long: seconds and memory of an audit, at some size and at four times that."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.bench.watch import watch_audit
from tests.faults.hostile_logs import LOGS, Hostile, of
from tests.strategies import commit

MOST_GROWTH = 6
MOST_BYTES = 1 << 30
_UNDECODABLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an audit of one log took: seconds on the wall and of the processor, and the peak of all its processes."""

    size_bytes: int
    seconds: float
    processor_s: float
    peak_bytes: int


def audit(log: bytes, scratch: Path, *, profile: str) -> Cost:
    """An audit of a log partition that is `log`."""
    with TemporaryDirectory(dir=scratch) as folder:
        segment = Path(folder) / "log" / "__consumer_offsets-0" / f"{0:020d}.log"
        segment.parent.mkdir(parents=True)
        segment.write_bytes(log)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = watch_audit(Path(folder) / "log", Path(folder) / "out", "--profile", profile, codes=(0, _UNDECODABLE))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(
        size_bytes=len(log),
        seconds=done.seconds,
        processor_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        peak_bytes=done.tree_bytes,
    )


def audit_of_one_record(scratch: Path) -> Cost:
    """The least that an audit takes: one of no record at all is refused."""
    return audit(of([commit("g")], 0), scratch, profile="group_coordinator")


def measure_hostile(names: Sequence[str], scratch: Path, console: Console) -> bool:
    """Print a row for each log; whether all stay within MOST_GROWTH and MOST_BYTES, the latter above an idle audit."""
    idle = audit_of_one_record(scratch)
    table = Table(title=f"an audit of one record: {idle.processor_s:.1f} s, {idle.peak_bytes >> 20:,} MiB")
    for column in ("log", "of its kind", "MiB", "s", "processor s", "MiB above idle", "times s", "times MiB"):
        table.add_column(column, justify="left" if column == "log" else "right")
    is_good = True
    for name in names:
        small, large = (_of_kind(LOGS[name], times, scratch) for times in (1, 4))
        for times, cost in ((1, small), (4, large)):
            longer = _times(large.processor_s - idle.processor_s, small.processor_s - idle.processor_s, least=1.0)
            bigger = _times(large.peak_bytes - idle.peak_bytes, small.peak_bytes - idle.peak_bytes, least=32 << 20)
            is_good &= cost.peak_bytes - idle.peak_bytes < MOST_BYTES and max(longer, bigger) <= MOST_GROWTH
            table.add_row(
                name,
                f"{times * LOGS[name].many:,}",
                f"{cost.size_bytes / (1 << 20):.2f}",
                f"{cost.seconds:.1f}",
                f"{cost.processor_s:.1f}",
                f"{max(cost.peak_bytes - idle.peak_bytes, 0) >> 20:,}",
                f"{longer:.1f}" if times == 4 else "",
                f"{bigger:.1f}" if times == 4 else "",
            )
    console.print(table)
    return is_good


def _of_kind(log: Hostile, times: int, scratch: Path) -> Cost:
    return audit(log.make(times * log.many), scratch, profile=log.profile)


def _times(large: float, small: float, *, least: float) -> float:
    """How many times as much; what is below `least` is noise."""
    return max(large, least) / max(small, least)
