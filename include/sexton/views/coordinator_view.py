"""Opens a log, an archive or a run folder as a `CoordinatorView`, which answers as a coordinator would.

Log partitions are read when they are needed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sexton.coordinator.api.configs import Recorded
from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard
from sexton.coordinator.api.topics import Topics
from sexton.coordinator.api.view import PartitionView
from sexton.coordinator.endless_load import NEVER_ENDS
from sexton.coordinator.profile import LEADERSHIP_LOST, LOADED
from sexton.errors import NoCoverage, UsageError
from sexton.numbers import ranges_text

if TYPE_CHECKING:  # a view of a run needs no rules of expiry, nor what they load
    from sexton.coordinator.expiry import SweepBlock
    from sexton.job_params import ReplayRequest

AUTO = "auto"
"""As the requested profile: the one that the log or the archive proves, or that the run used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """A log partition that was read."""

    held: PartitionView
    load_failure: str | None = None
    """Why a coordinator's load of it would fail."""
    load_outcome: str = LOADED
    """What a coordinator serves after the load; values as in Loaded.load_outcome."""
    undecodable: int = 0
    """Records, batches or byte ranges that could not be decoded."""
    out_of_order: int = 0
    """Batches among these whose base offset contradicts the batches around them."""
    is_covered: bool = True
    """False if the log partition has bytes, but no record from before the requested instant."""
    next_log_offset: int = 0
    """Where the next batch would be appended."""
    sweep_block: Callable[[int, int], "SweepBlock | None"] = lambda _retention_ms, _now_ms: None
    """What makes its sweep fail, for a retention and an instant (`coordinator.expiry.sweep_block`)."""
    open_transactions: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """Rows of the table open_transactions."""
    max_timestamp_ms: int = -1
    """The newest timestamp of a batch that was read."""
    group_ids: tuple[str, ...] = ()
    """Groups with offsets, if they may be needed to infer the number of log partitions."""


class LazyShards(Mapping[int, CoordinatorShard]):
    """Shards by log partition, each created when it is first read."""

    def __init__(self, log_partitions: Iterable[int], make: Callable[[int], CoordinatorShard]) -> None:
        self._made: dict[int, CoordinatorShard | None] = dict.fromkeys(log_partitions)
        self._make = make

    def __getitem__(self, log_partition: int) -> CoordinatorShard:
        shard = self._made[log_partition]
        if shard is None:
            shard = self._made[log_partition] = self._make(log_partition)
        return shard

    def __contains__(self, log_partition: object) -> bool:
        return log_partition in self._made

    def __iter__(self) -> Iterator[int]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """An opened log, archive or run. Log partitions are read when they are needed; `read` has the ones read so far."""

    where: str
    as_of_ms: int | None
    coordinator: Coordinator
    topics: Topics
    read: Mapping[int, LoadedPartition]
    recorded: Recorded = field(default_factory=Recorded)
    unknown_count: str = ""
    """Text about the available log partitions, if their total number is not known: a missing group may then be
    elsewhere."""
    doubts: list[str] = field(default_factory=list)
    """Evidence against the profile."""
    warnings: list[str] = field(default_factory=list)
    load_until: Callable[[int, int], CoordinatorShard] | None = None
    """Loads a log partition while the broker loses the leadership before a log_offset; None without a log."""

    def losing_leadership(self, group_id: str, leads_until: int) -> "CoordinatorView":
        """This broker, losing the leadership of the group's log partition while it loads that partition.

        UsageError if there is no log to load, or the group's log partition is not known.
        """
        shards, home = self.coordinator.shards, self.coordinator.log_partition_of(group_id)
        if self.load_until is None or home is None:
            raise UsageError(
                "no log partition to load in part", where="--leads-until", fix="give --segments or --archive with a log"
            )
        lost = self.load_until(home, leads_until)
        others = LazyShards(shards, lambda number: lost if number == home else shards[number])
        return replace(self, coordinator=replace(self.coordinator, shards=others))

    def check_coverage(self, group_ids: Iterable[str]) -> None:
        """Raise NoCoverage if the log partition of a group is missing, not known, or has no record from before the
        instant."""
        for group_id in group_ids:
            home = self.coordinator.log_partition_of(group_id)
            if self.unknown_count:
                self.check_read()
                self._check_is_in_one(group_id)
            elif home is None:
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

    def _check_is_in_one(self, group_id: str) -> None:
        for log_partition in self.coordinator.shards:
            _ = self.coordinator.shards[log_partition]
        # Check what was read: a shard whose load failed shows nothing.
        held = {number: part.held for number, part in sorted(self.read.items())}
        holders = [number for number, part in held.items() if part.group(group_id) or part.offsets(group_id)]
        if len(holders) == 1:
            return
        from sexton.runs.partition_count import SETTLES

        found = f"is in log partitions {', '.join(map(str, holders))}" if holders else "is not here"
        raise NoCoverage(
            f"group {group_id!r} {found}, and where it belongs is not known: {self.unknown_count}",
            where=self.where,
            fix=f"give {SETTLES}",
        )

    def check_read(self) -> None:
        """Raise NoCoverage if no log partition that was read has a record from before the requested instant."""
        if not any(part.is_covered for part in self.read.values()):
            for log_partition in self.read:
                self._check(log_partition)

    def _check(self, log_partition: int) -> None:
        if not self.read[log_partition].is_covered:
            raise NoCoverage(
                f"no record of log partition {log_partition} was written before {self.as_of_ms} ms",
                where=self.where,
                fix="choose a later as-of",
            )

    def notes(self) -> list[str]:
        """Notes on the profile and on the log partitions that were read."""
        profile, notes = self.coordinator.profile, [*self.doubts]
        if not profile.is_proven:
            notes.append(f"{profile.text} is unproven: its rules follow Kafka's sources, no such broker was recorded")
        for number, part in sorted(self.read.items()):
            if part.load_outcome == NEVER_ENDS:
                notes.append(f"log partition {number}: no coordinator could load it: {part.load_failure}")
            elif part.load_failure is not None:
                notes.append(f"log partition {number}: a coordinator's load would fail: {part.load_failure}")
            elif part.undecodable:
                notes.append(f"log partition {number}: {part.undecodable} undecodable records")
            if part.load_outcome == LEADERSHIP_LOST:
                notes.append(
                    f"log partition {number}: read up to log_offset {part.next_log_offset} before another broker "
                    "became the leader; kept until it is unloaded"
                )
            if part.out_of_order:
                batches = f"{part.out_of_order} {'batch' if part.out_of_order == 1 else 'batches'}"
                notes.append(
                    f"log partition {number}: {batches} out of order: a broker replays them where "
                    "they lie, and so does this answer; a run leaves them out"
                )
        return notes

    @property
    def has_undecodable(self) -> bool:
        return any(part.undecodable for part in self.read.values())


def missing_text(missing: Collection[int]) -> list[str]:
    """A list with one warning about the missing log partitions; empty if none is missing."""
    return [f"log partitions not here: {ranges_text(missing)}"] if missing else []


def open_view(request: "ReplayRequest", run: str | None = None) -> CoordinatorView:
    """Open the segments or the archive of a request, or a run folder, to which only the request's instant, profile and
    topics apply; UsageError if its options contradict each other."""
    given = [place for place in (request.segments, request.archive, run) if place is not None]
    if len(given) != 1:
        raise UsageError(
            "give one of --segments DIR, --archive URI and --run DIR", fix="a run is what `sexton audit --out` has left"
        )
    # Imported here: a run does not need the modules that read a log, which take longest to load.
    if run is not None:
        from sexton.views.run_view import view_of_run

        return view_of_run(request, run)
    if request.archive is not None and request.topics_file is None:
        from sexton.runs.admin_tables import admin_snapshot_for

        if found := admin_snapshot_for(request.archive, cluster_id=request.cluster_id, as_of_ms=request.as_of_ms):
            from sexton.views.admin_view import view_of_snapshots

            return view_of_snapshots(request, *found)
    from sexton.views.log_view import view_of_log

    return view_of_log(request)
