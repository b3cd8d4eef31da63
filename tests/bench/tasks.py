"""Which logs a run of the bench makes, and what it measures of each."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.figures import MILLION, millions
from tests.bench.sets import SETS, LogSet

FIGURES = "figures"
"""Loads, kernels and audit: a row of the table."""
PARTS = {
    "increment": ("plain", 30 * MILLION),
    "planning": ("many-keys", 30 * MILLION),
    "cluster": ("plain", 100 * MILLION),
    "replicas": ("plain", 30 * MILLION),
}
"""What else is measured, and of which log."""
FULL_PARTS = ("increment", "planning")
BYTES_PER_RECORD = 120
BYTES_PER_KEY = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A log, and which `parts` are measured of it: FIGURES, or a key of PARTS."""

    log_set: LogSet
    records: int
    parts: frozenset[str]

    @property
    def place(self) -> tuple[str, int]:
        return self.log_set.name, self.records

    @property
    def label(self) -> str:
        return f"{self.log_set.name} {millions(self.records)}"


def full_tasks() -> list[Task]:
    """What a full run measures, small logs first."""
    found = []
    for log_set in SETS:
        for records in log_set.sizes:
            parts = {name for name in FULL_PARTS if PARTS[name] == (log_set.name, records)}
            found.append(Task(log_set=log_set, records=records, parts=frozenset({FIGURES, *parts})))
    return sorted(found, key=lambda task: task.records)


def chosen_tasks(sets: Sequence[str], sizes: Sequence[int], parts: Sequence[str]) -> list[Task]:
    """The logs of `sets` in all that a full run measures of them, and `parts` of the logs that PARTS says, small logs
    first. `sizes` are counts of records instead of those of the full run. KeyError where there is no such set.
    """
    known = {log_set.name: log_set for log_set in SETS}
    full = {task.place: task.parts for task in full_tasks()}
    asked: dict[tuple[str, int], set[str]] = defaultdict(set)
    for name in sets:
        for size in sizes or known[name].sizes:
            asked[name, size] |= full.get((name, size), {FIGURES})
    for part in parts:
        name, records = PARTS[part]
        for size in sizes or [records]:
            asked[name, size].add(part)
    found = [Task(log_set=known[name], records=size, parts=frozenset(some)) for (name, size), some in asked.items()]
    return sorted(found, key=lambda task: task.records)


def room_bytes(task: Task) -> int:
    """Of the log, of a copy in an archive or of its replicas, and of the largest run folder."""
    logs = 3 if "replicas" in task.parts else 2 if "increment" in task.parts else 1
    return logs * BYTES_PER_RECORD * task.records + BYTES_PER_KEY * min(task.log_set.shape.keys, task.records)
