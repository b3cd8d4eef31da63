"""The first expiry sweeps of a broker against the plans of their instants."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.coordinator.profile import Profile
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import decode_key
from tests.campaign.broker.known import Keys
from tests.campaign.broker.logs import RETENTION_MS, Place
from tests.kernels.compare import CAP_BYTES

ROUNDS = 2
"""So many sweeps of each log partition are compared."""
_TAKES_MS = 5_000
"""The longest time from when a sweep looks at a group to the stamp of its records, on a machine that is busy with other
things; up to 3.9 from its begin."""


@dataclass
class Sweep:
    """What one sweep wrote to a log partition, from when on, and the bytes."""

    stamp_ms: int
    keys: dict[str, set[bytes]] = field(default_factory=dict)
    appended: bytes = b""


@dataclass(frozen=True)
class Clock:
    """When a broker sweeps: each log partition `interval_s` after its load and again after as long, up to 3.9 all
    together by the start of the broker. All loads are within the first interval after that start."""

    started_s: float
    interval_s: int

    def begins_ms(self, number_of_round: int) -> int:
        """No sweep of that round, the first being 1, is earlier; those before are."""
        return int((self.started_s + number_of_round * self.interval_s) * 1_000)

    def round_of(self, stamp_ms: int) -> int:
        return max(1, int((stamp_ms / 1_000 - self.started_s) // self.interval_s))


Round = Mapping[int, Sweep]
"""The sweeps of all log partitions at one time, of those where they wrote anything."""


def rounds(appended: Mapping[int, bytes], *, clock: Clock) -> list[Round]:
    """What each round of sweeps wrote, from what was appended to the logs; AssertionError at all but tombstones."""
    found: list[dict[int, Sweep]] = [{} for _ in range(ROUNDS)]
    for number, data in appended.items():
        for batch in read_batches(data) if data else ():
            if isinstance(batch, Batch) and (at := clock.round_of(batch.max_timestamp_ms)) <= ROUNDS:
                sweep = found[at - 1].setdefault(number, Sweep(batch.max_timestamp_ms))
                _take(sweep, batch)
                sweep.appended += data[batch.position : batch.position + batch.size_bytes]
    return list(found)


def _take(sweep: Sweep, batch: Batch) -> None:
    for record in read_records(batch, cap_bytes=CAP_BYTES):
        assert isinstance(record, Record)
        assert record.key is not None
        assert record.value is None, record
        _, key = decode_key(record.key)
        keys = sweep.keys.setdefault(key.group_id, set())
        assert record.key not in keys, f"twice in one sweep: {record.key!r}"
        keys.add(record.key)


def instants(sweeps: Round, log_partition: int, *, begins_ms: int, place: Place, profile: Profile) -> Iterator[int]:
    """When the sweep of a log partition may have looked at a group, of a round that begins no earlier than `begins_ms`.

    That is at its stamp, or just before what fell due while it ran; up to 3.9 one sweep is of all log partitions. Where
    it wrote nothing, it was at any time of the round. Offsets fall due at an instant of their history, where they say
    so themselves, or a retention after one, which is no whole number of steps.
    """
    own = sweeps.get(log_partition)
    end_ms = own.stamp_ms if own else max((one.stamp_ms for one in sweeps.values()), default=begins_ms)
    if own is not None and not profile.one_cache:
        begins_ms = own.stamp_ms - _TAKES_MS
    yield end_ms
    for phase_ms in {first_ms % place.step_ms for first_ms in (place.base_ms, place.base_ms + RETENTION_MS)}:
        last_ms = end_ms - (end_ms - phase_ms) % place.step_ms
        yield from (due_ms - 1 for due_ms in range(last_ms, begins_ms, -place.step_ms))


def unlike(keys: Mapping[str, set[bytes]], plans: Sequence[Keys]) -> Iterator[tuple[str, set[bytes], frozenset[bytes]]]:
    """Each group of which a sweep wrote something else than all plans: its id, the keys that were written, those
    planned at the stamp."""
    for group_id in sorted(set(keys).union(*plans)):
        written = keys.get(group_id, set())
        if all(written != one.get(group_id, frozenset()) for one in plans):
            yield group_id, written, plans[0].get(group_id, frozenset())
