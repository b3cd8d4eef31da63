"""The remaining tombstones and transaction markers on replicas, and in the archive, which keeps all of them."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import itemgetter

from sexton.errors import LogError
from sexton.kernels.fold import read_only
from sexton.log.framing import GOOD, KIND, frames
from sexton.log.segment import slice_bytes
from sexton.records import OFFSET_TYPES, decode_key
from sexton.replicas.fingerprints import MARKER_ABORT, MARKER_COMMIT, TOMBSTONE, Wanted, find
from sexton.replicas.folders import ReplicaLog

GroupKey = tuple[str, str | None, int | None]
"""(group_id, topic, partition); for the group itself topic and partition are None."""
_KINDS = {TOMBSTONE: "tombstone", MARKER_COMMIT: "COMMIT", MARKER_ABORT: "ABORT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A tombstone or a marker at a log_offset; `held_by` names the replicas that have it, or the archive."""

    log_offset: int
    timestamp_ms: int
    kind: str
    held_by: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} at log_offset {self.log_offset} ({', '.join(self.held_by)})"

    def with_known(self, known: "Sighting | None", *, is_later: bool) -> "Sighting":
        """The later (without `is_later` the earlier) of this sighting and the known one; if both are the same record,
        one sighting with the replicas of both."""
        if known is None or (known.log_offset != self.log_offset and (self.log_offset > known.log_offset) == is_later):
            return self
        if known.log_offset == self.log_offset:
            return replace(known, held_by=tuple(dict.fromkeys((*known.held_by, *self.held_by))))
        return known


@dataclass(slots=True, kw_only=True)
class ReplicaEvidence:
    """Tombstones by key and markers by producer id, in log order; only those that `collect` keeps."""

    tombstones: dict[GroupKey, list[Sighting]] = field(default_factory=dict)
    markers: dict[int, list[Sighting]] = field(default_factory=dict)

    def tombstone_after(self, key: GroupKey, log_offset: int) -> Sighting | None:
        """The last tombstone of a key after a log_offset."""
        return next((found for found in reversed(self.tombstones.get(key, ())) if found.log_offset > log_offset), None)

    def marker_after(self, producer_id: int, log_offset: int) -> Sighting | None:
        """The first marker of a producer after a log_offset."""
        return next((found for found in self.markers.get(producer_id, ()) if found.log_offset > log_offset), None)


def collect(
    logs: Sequence[ReplicaLog],
    *,
    groups: Sequence[str],
    values: Mapping[int, Set[int]],
    stop: int,
    cap_bytes: int,
) -> ReplicaEvidence:
    """The remaining tombstones of `groups` in `logs`, and the markers after `values`.

    `values` are log_offsets by producer id. Only the last tombstone of each key below `stop` and the first marker after
    each value are kept: a log may have millions of tombstones and markers.
    """
    places = {producer_id: sorted(log_offsets) for producer_id, log_offsets in values.items()}
    wanted = Wanted.of(groups, [*places])
    tombstones: dict[bytes, Sighting] = {}
    markers: dict[tuple[int, int], Sighting] = {}
    for log in logs:
        for (log_offset, timestamp_ms, kind, producer_id), key in _found_in(log, wanted, cap_bytes):
            if log_offset >= stop:
                continue  # above the high watermark
            seen = Sighting(log_offset=log_offset, timestamp_ms=timestamp_ms, kind=_KINDS[kind], held_by=(log.replica,))
            if kind == TOMBSTONE:
                tombstones[key] = seen.with_known(tombstones.get(key), is_later=True)
            elif after := bisect_left(places[producer_id], log_offset):
                slot = producer_id, after
                markers[slot] = seen.with_known(markers.get(slot), is_later=False)
    evidence = ReplicaEvidence()
    for raw, sighting in sorted(tombstones.items(), key=lambda one: one[1].log_offset):
        if (of_key := key_of(raw)) is not None:
            evidence.tombstones.setdefault(of_key, []).append(sighting)
    for (producer_id, _), sighting in sorted(markers.items(), key=itemgetter(0)):
        evidence.markers.setdefault(producer_id, []).append(sighting)
    return evidence


def _found_in(log: ReplicaLog, wanted: Wanted, cap_bytes: int) -> Iterable[tuple[tuple[int, int, int, int], bytes]]:
    for segment in log.segments:
        data = read_only(slice_bytes(log.fs, segment))
        for rows in frames(data, end=segment.stop_byte, floor_offset=segment.base_offset):
            yield from find(data, rows[rows[:, KIND] == GOOD], wanted, cap_bytes=cap_bytes)


def key_of(raw: bytes) -> GroupKey | None:
    """The group or offset of a record's key; None for a key that cannot be decoded."""
    try:
        record_type, key = decode_key(raw)
    except LogError:
        return None
    if record_type in OFFSET_TYPES:
        return key.group_id, getattr(key, "topic", None), getattr(key, "partition", None)
    return key.group_id, None, None
