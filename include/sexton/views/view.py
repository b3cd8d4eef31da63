"""Where questions are asked: a log, an archive or a run that is open, and the coordinators of its log partitions."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sexton.coordinator.api.broker_settings import Recorded
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.topics import Topics
from sexton.errors import NoCoverage
from sexton.views.part import Part

AUTO = "auto"
"""The profile that the log or the archive proves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """What to open: exactly one of `segments`, `archive` and `run`; the other options are not for a run."""

    segments: str | None = None
    archive: str | None = None
    run: str | None = None
    as_of_ms: int | None = None
    taken_at_ms: int
    profile: str | None = None
    """A profile's name; AUTO or None for the one that something proves; of a run, None or AUTO for its own."""
    topics_file: str | None = None
    load_buffer_bytes: int | None = None
    """The coordinator's load buffer; None for what the archive recorded, else Kafka's default. Not of a run."""


class Parts(Protocol):
    """The log partitions that a view reads."""

    @property
    def read(self) -> Mapping[int, Part]:
        """Those that have been read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """Everything that questions need. Log partitions are read when they are asked about, `parts.read` has those."""

    where: str
    as_of_ms: int | None
    coordinator: Coordinator
    topics: Topics
    parts: Parts
    recorded: Recorded = field(default_factory=Recorded)
    doubts: list[str] = field(default_factory=list)
    """What speaks against the profile."""
    warnings: list[str] = field(default_factory=list)

    def check_coverage(self, group_ids: Iterable[str]) -> None:
        """NoCoverage where a group's log partition is not here, or nothing of it from before the instant asked for."""
        for group_id in group_ids:
            home = self.coordinator.log_partition_of(group_id)
            if home is None:
                self.check_read()
            elif home not in self.coordinator.shards:
                raise NoCoverage(
                    f"log partition {home}, where group {group_id!r} belongs, is not here",
                    where=self.where,
                    fix="ask where the broker that leads it has its logs",
                )
            else:
                _ = self.coordinator.shards[home]
                self._check(home)

    def check_read(self) -> None:
        """NoCoverage where log partitions were read, and none had anything from before the instant asked for."""
        if not any(part.is_covered for part in self.parts.read.values()):
            for log_partition in self.parts.read:
                self._check(log_partition)

    def _check(self, log_partition: int) -> None:
        if not self.parts.read[log_partition].is_covered:
            raise NoCoverage(
                f"no record of log partition {log_partition} was written before {self.as_of_ms} ms",
                where=self.where,
                fix="choose a later as-of",
            )

    def notes(self) -> list[str]:
        """What there is to say of the rules, and of the log partitions that were read."""
        profile, told = self.coordinator.profile, [*self.doubts]
        if not profile.is_proven:
            told.append(f"{profile.text} is unproven: its rules follow Kafka's sources, no such broker was recorded")
        for number, part in sorted(self.parts.read.items()):
            if part.never_ends:
                told.append(f"log partition {number}: no coordinator could load it: {part.load_failure}")
            elif part.load_failure is not None:
                told.append(f"log partition {number}: a coordinator's load would fail: {part.load_failure}")
            elif part.undecodable:
                told.append(f"log partition {number}: {part.undecodable} undecodable records")
        return told

    @property
    def has_undecodable(self) -> bool:
        return any(part.undecodable for part in self.parts.read.values())


def doubts_of(count: int | None, missing: Collection[int]) -> list[str]:
    """What an answer has to be read with, where not all is known or here."""
    doubts = []
    if count is None:
        doubts.append("the number of log partitions could not be told from the group ids: a group is where it is found")
    if missing:
        doubts.append(f"log partitions not here: {', '.join(map(str, missing))}")
    return doubts
