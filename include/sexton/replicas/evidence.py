"""Tombstones and transaction markers that are left somewhere: on a replica, or in the archive, which keeps them all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sexton.errors import LogError
from sexton.kernels.fold import read_only
from sexton.log.framing import GOOD, KIND, frames
from sexton.log.segment import file_bytes
from sexton.records import OFFSET_TYPES, decode_key
from sexton.replicas.fingerprints import MARKER_COMMIT, TOMBSTONE, Wanted, find
from sexton.replicas.folders import ReplicaLog

GroupKey = tuple[str, str | None, int | None]
"""(group_id, topic, partition); without topic and partition the group itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A tombstone or a marker at a log_offset; `held_by` are the replicas that have it, the archive among them."""

    log_offset: int
    timestamp_ms: int
    kind: str
    held_by: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} at log_offset {self.log_offset} ({', '.join(self.held_by)})"


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Tombstones by key and markers by producer id, in log order."""

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
    producers: Sequence[int],
    cap_bytes: int,
) -> Evidence:
    """What is left of the tombstones of `groups` and the markers of `producers` in some logs."""
    wanted = Wanted.of(groups, producers)
    found: dict[tuple[bytes | int, int, int, int], list[str]] = {}
    for log in logs:
        for (log_offset, timestamp_ms, kind, producer_id), key in _found_in(log, wanted, cap_bytes):
            what = key if kind == TOMBSTONE else producer_id
            found.setdefault((what, log_offset, timestamp_ms, kind), []).append(log.replica)
    evidence = Evidence()
    for (what, log_offset, timestamp_ms, kind), names in sorted(found.items(), key=lambda item: item[0][1]):
        word = "tombstone" if kind == TOMBSTONE else "COMMIT" if kind == MARKER_COMMIT else "ABORT"
        held_by = tuple(dict.fromkeys(names))
        seen = Sighting(log_offset=log_offset, timestamp_ms=timestamp_ms, kind=word, held_by=held_by)
        if isinstance(what, int):
            evidence.markers.setdefault(what, []).append(seen)
        elif (of_key := key_of(what)) is not None:
            evidence.tombstones.setdefault(of_key, []).append(seen)
    return evidence


def _found_in(log: ReplicaLog, wanted: Wanted, cap_bytes: int) -> Iterable[tuple[tuple[int, int, int, int], bytes]]:
    for segment in log.segments:
        is_archived = segment.manifest_path is not None
        data = read_only(file_bytes(log.fs, segment.path, segment.size_bytes, is_archived=is_archived))
        for rows in frames(data, end=segment.stop_byte, floor_offset=segment.base_offset):
            yield from find(data, rows[rows[:, KIND] == GOOD], wanted, cap_bytes=cap_bytes)


def key_of(raw: bytes) -> GroupKey | None:
    """What a record's key is about; None for one that cannot be decoded."""
    try:
        record_type, key = decode_key(raw)
    except LogError:
        return None
    if record_type in OFFSET_TYPES:
        return key.group_id, getattr(key, "topic", None), getattr(key, "partition", None)
    return key.group_id, None, None
