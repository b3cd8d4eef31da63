"""Record comparison, compiled: a fingerprint for each record, and a search for tombstones and markers.

A fingerprint covers what replication must preserve: timestamp, key, value, headers, producer id and epoch, the
transactional and control bits, and the leader epoch. It does not cover what the log cleaner rewrites: the bounds of
batches, their CRCs, and the base timestamp, which the cleaner may replace with a delete horizon (KIP-534); timestamp
deltas are relative to it in either case.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, be32, hash_bytes, hash_pair, pointer
from sexton.kernels import layout as L
from sexton.kernels import scan
from sexton.kernels.decoding import read_head, read_varint
from sexton.kernels.fold import NO_INSTANT, read_only
from sexton.kernels.inflate import inflate_blocks
from sexton.kernels.layout import Bytes, Int64s, batches_of
from sexton.log.entry import LEADER_EPOCH_AT

_SECRET_1, _SECRET_2 = secrets.randbits(62) | 1, secrets.randbits(62) | 1
F_LOG_OFFSET, F_HASH = range(2)
# columns of a sighting; S_SOURCE says which bytes contain its key (IN_PLACE or IN_ARENA)
S_LOG_OFFSET, S_TIMESTAMP, S_KIND, S_PRODUCER, S_SOURCE, S_KEY, S_KEY_SIZE = range(7)
SIGHTING_COLUMNS = 7
TOMBSTONE, MARKER_ABORT, MARKER_COMMIT = range(3)


@compiled
def _fingerprints(source: Any, arena_bytes: Any, batch_rows: Any, secret_1: int, secret_2: int, out: Any) -> int:
    """Fill `out` (int64: log_offset, fingerprint) for the batches; return the number of records.

    The first record that cannot be decoded ends its batch; the fold reports such records.
    """
    in_place, inflated, batches = pointer(source), pointer(arena_bytes), batches_of(batch_rows)
    filled = 0
    for row in range(len(batch_rows)):
        if batches[row, L.B_SOURCE] == L.BY_READER:
            continue
        data = inflated if batches[row, L.B_SOURCE] == L.IN_ARENA else in_place
        bits = batches[row, L.B_ATTRIBUTES] & (L.TRANSACTIONAL | L.CONTROL | L.APPEND_TIME)
        epoch = np.int64(be32(in_place, batches[row, L.B_POSITION] + LEADER_EPOCH_AT))
        of_batch = hash_pair(
            secret_1, secret_2, batches[row, L.B_PRODUCER], (batches[row, L.B_EPOCH] << 40) ^ (epoch << 8) ^ bits
        )
        pos, end = batches[row, L.B_BODY], batches[row, L.B_BODY_END]
        for _ in range(batches[row, L.B_COUNT]):
            stop, shift_ms, delta, at = read_head(data, pos, end)
            if at < 0:
                break
            time_ms = batches[row, L.B_BASE_MS] + shift_ms
            if bits & L.APPEND_TIME:
                time_ms = batches[row, L.B_MAX_MS]
            content = hash_bytes(secret_1, secret_2, data, at, stop - at)
            out[filled, F_LOG_OFFSET] = batches[row, L.B_BASE_OFFSET] + delta
            out[filled, F_HASH] = hash_pair(secret_2, secret_1, content ^ of_batch, time_ms)
            filled += 1
            pos = stop
    return filled


@compiled
def _find(
    source: Any, arena_bytes: Any, batch_rows: Any, secret_1: int, secret_2: int, groups: Any, producers: Any, out: Any
) -> int:
    """Fill `out` with tombstones whose group is in `groups` (sorted hashes) and markers of `producers` (sorted); return
    their number."""
    in_place, inflated, batches = pointer(source), pointer(arena_bytes), batches_of(batch_rows)
    filled = 0
    for row in range(len(batch_rows)):
        if batches[row, L.B_SOURCE] == L.BY_READER:
            continue
        is_control = batches[row, L.B_ATTRIBUTES] & L.CONTROL != 0
        if is_control and not _has(producers, batches[row, L.B_PRODUCER]):
            continue
        data = inflated if batches[row, L.B_SOURCE] == L.IN_ARENA else in_place
        pos, end = batches[row, L.B_BODY], batches[row, L.B_BODY_END]
        for _ in range(batches[row, L.B_COUNT]):
            stop, shift_ms, delta, at = read_head(data, pos, end)
            if at < 0:
                break
            pos = stop
            key_size, key = read_varint(data, at, stop)
            if key < 0 or key_size < 4 or key + key_size > stop:
                continue
            value_size, value = read_varint(data, key + key_size, stop)
            kind = np.int64(TOMBSTONE)
            if is_control:
                kind = np.int64(be16(data, key + 2)) + 1
                if kind > 2:
                    continue
            else:
                group_size = np.int64(be16(data, key + 2))
                if value < 0 or value_size >= 0 or group_size < 0 or group_size + 4 > key_size:
                    continue
                if not _has(groups, hash_bytes(secret_1, secret_2, data, key + 2, group_size + 2)):
                    continue
            time_ms = batches[row, L.B_BASE_MS] + shift_ms
            if batches[row, L.B_ATTRIBUTES] & L.APPEND_TIME:
                time_ms = batches[row, L.B_MAX_MS]
            out[filled, S_LOG_OFFSET] = batches[row, L.B_BASE_OFFSET] + delta
            out[filled, S_TIMESTAMP] = time_ms
            out[filled, S_KIND] = kind
            out[filled, S_PRODUCER] = batches[row, L.B_PRODUCER]
            out[filled, S_SOURCE] = batches[row, L.B_SOURCE]
            out[filled, S_KEY] = key
            out[filled, S_KEY_SIZE] = key_size
            filled += 1
    return filled


@compiled
def _has(values: Any, wanted: int) -> bool:
    at = np.searchsorted(values, wanted)
    return at < len(values) and values[at] == wanted


@compiled
def _hash(source: Any, secret_1: int, secret_2: int) -> int:
    return hash_bytes(secret_1, secret_2, pointer(source), 0, len(source))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Groups whose tombstones, and producers whose markers, are searched for."""

    groups: Int64s
    producers: Int64s

    @classmethod
    def of(cls, groups: Sequence[str], producers: Sequence[int]) -> "Wanted":
        hashes = []
        for group_id in groups:
            name = group_id.encode("utf-8", "replace")
            raw = read_only((len(name) & 0xFFFF).to_bytes(2, "big") + name)
            hashes.append(_hash(raw, _SECRET_1, _SECRET_2))
        return cls(np.array(sorted(hashes), np.int64), np.array(sorted(set(producers)), np.int64))


def runs_of(data: Bytes, frames: Int64s, *, cap_bytes: int) -> Iterator[tuple[Int64s, Bytes]]:
    """The good batches of format 2 among `frames`, in runs of consecutive batches: (rows as in `kernels.layout`, their
    inflated records)."""
    batches = np.empty((len(frames), L.BATCH_COLUMNS), np.int64)
    begin, filled = 0, 0
    while begin < len(frames):
        more, stopped, status = scan.open_batches(
            data, frames, begin, len(frames), NO_INSTANT, NO_INSTANT, scan.new_batch_counters(), batches[filled:]
        )
        filled, begin = filled + more, stopped + (status != L.ALL_READ)
    yield from inflate_blocks(data, batches[:filled], cap_bytes=cap_bytes)


def fingerprints(data: Bytes, frames: Int64s, *, cap_bytes: int) -> Int64s:
    """Rows (log_offset, fingerprint) of every record of the batches in `frames`, in log order."""
    found = []
    for run, arena in runs_of(data, frames, cap_bytes=cap_bytes):
        out = np.empty((_most_records(run), 2), np.int64)
        found.append(out[: _fingerprints(data, arena, run, _SECRET_1, _SECRET_2, out)])
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def find(
    data: Bytes, frames: Int64s, wanted: Wanted, *, cap_bytes: int
) -> Iterator[tuple[tuple[int, int, int, int], bytes]]:
    """((log_offset, timestamp, kind, producer id), key) of every wanted tombstone and marker."""
    for run, arena in runs_of(data, frames, cap_bytes=cap_bytes):
        out = np.empty((_most_records(run), SIGHTING_COLUMNS), np.int64)
        count = _find(data, arena, run, _SECRET_1, _SECRET_2, wanted.groups, wanted.producers, out)
        for log_offset, time_ms, kind, producer, source, key, size in out[:count].tolist():
            place = arena if source == L.IN_ARENA else data
            yield (log_offset, time_ms, kind, producer), place[key : key + size].tobytes()


def _most_records(run: Int64s) -> int:
    """The maximum number of records that fit into the batches: a damaged record count must not decide how much memory
    is allocated."""
    most = np.minimum(run[:, L.B_COUNT], (run[:, L.B_BODY_END] - run[:, L.B_BODY]) // 4 + 1)
    return int(np.maximum(most, 0).sum())
