"""A log partition as a question reads it, and the mapping that reads it when it is first asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.coordinator.api.coordinator import Shard
from sexton.coordinator.api.view import PartitionView

if TYPE_CHECKING:  # a question to a run needs no rules of expiry, nor what they load
    from sexton.coordinator.expiry import SweepBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What was read of a log partition."""

    held: PartitionView
    load_failure: str | None = None
    """Why a coordinator's load of it would fail."""
    never_ends: bool = False
    """Whether no load of it ever ends; `load_failure` says why."""
    undecodable: int = 0
    """Records, batches or stretches of bytes that could not be decoded."""
    is_covered: bool = True
    """False where there are bytes, but none from before the instant that was asked for."""
    next_log_offset: int = 0
    """Where the next batch would be appended."""
    sweep_block: Callable[[int, int], "SweepBlock | None"] = lambda _retention_ms, _now_ms: None
    """By a retention, at an instant: what makes the sweep of it fail (`coordinator.expiry.sweep_block`)."""
    group_ids: tuple[str, ...] = ()
    """Groups with offsets, where that may be needed to tell the number of log partitions."""


class LazyShards(Mapping[int, Shard]):
    """Shards by log partition, each made when it is first asked for."""

    def __init__(self, log_partitions: Iterable[int], make: Callable[[int], Shard]) -> None:
        self._made: dict[int, Shard | None] = dict.fromkeys(log_partitions)
        self._make = make

    def __getitem__(self, log_partition: int) -> Shard:
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
