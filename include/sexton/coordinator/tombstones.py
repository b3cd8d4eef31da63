"""The plan: the record batches that a coordinator would write for its tombstones, and the plan's identity."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from sexton.coordinator.batches import MAX_BATCH_BYTES, LogEnd, TopicSettings, encode_append
from sexton.coordinator.profile import Profile
from sexton.log import codec as codecs
from sexton.log.entry import HEADER_BYTES, TOMBSTONE_OVERHEAD_BYTES

OFFSET_TYPE = 1  # also for offsets that were written with the old key type 0
GROUP_EMPTY = "group_empty"


def encode_batches(
    keys: Sequence[tuple[str, bytes]],
    *,
    base_offset: int,
    as_of_ms: int,
    profile: Profile,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    codec: int = codecs.NONE,
    magic: int | None = None,
) -> bytes:
    """Batches of tombstones as the profile's coordinator writes them, with offsets from `base_offset` on.

    `keys` are (group_id, key of the record). Each batch is within `max_batch_bytes` before it is compressed; a key too
    large for any batch still gets a batch. `magic` is by default the release's record format. Formats 0 and 1
    have no batches: there each record is a message, unless one compressed message wraps them all.
    """
    batches = []
    topic = TopicSettings(codec=codec, message_format=magic)
    groups = [list(run) for _, run in groupby(keys, itemgetter(0))] if profile.batch_per_group else [keys]
    for some in (fitting for run in groups for fitting in _fitting([key for _, key in run], max_batch_bytes)):
        encoded = encode_append(
            [(key, None) for key in some],
            profile=profile,
            topic=topic,
            end=LogEnd(log_offset=base_offset),
            now_ms=as_of_ms,
            base_sequence=profile.base_sequence,
        )
        batches.append(encoded)
        base_offset += len(some)
    return b"".join(batches)


def plan_id(
    *,
    cluster_id: str,
    topic_id: str,
    as_of_ms: int,
    cuts: Mapping[int, int],
    profile: str,
    retention_ms: int,
    policy_sha256: str | None,
    tombstones: Mapping[int, str],
) -> str:
    """SHA-256 of a plan: its cluster, instant, rules and tombstones.

    `tombstones` has the `tombstones_sha256` of each log partition with tombstones, which separate tasks can compute.
    The run, the version of the code and the compressor are not included. The hashed text is JSON without spaces.
    """
    plan = {
        "as_of_ms": as_of_ms,
        "cluster_id": cluster_id,
        "cuts": sorted(cuts.items()),
        "policy_sha256": policy_sha256,
        "profile": profile,
        "retention_ms": retention_ms,
        "tombstones": sorted(tombstones.items()),
        "topic_id": topic_id,
    }
    return hashlib.sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def tombstones_sha256(tables: Iterable[pa.Table]) -> str:
    """SHA-256 of the tombstones of one log partition in order of position, however they are split into tables
    (`TombstonesHash`)."""
    found = TombstonesHash()
    for table in tables:
        found.add(table)
    return found.hexdigest()


class TombstonesHash:
    """SHA-256 of the tombstones of one log partition, added in order of position.

    It hashes four SHA-256s: of the sizes of all values of `key` (int64, little-endian), of these values one after the
    other, and the same two for `cause`.
    """

    def __init__(self) -> None:
        self._columns = {name: (hashlib.sha256(), hashlib.sha256()) for name in ("key", "cause")}

    def add(self, table: pa.Table) -> None:
        for name, (sizes, values) in self._columns.items():
            for chunk in table[name].cast(pa.large_binary()).chunks:
                _, offsets, data = chunk.buffers()
                if len(chunk):
                    ends = np.frombuffer(offsets, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
                    sizes.update(np.diff(ends).astype("<i8").tobytes())
                    values.update(memoryview(data)[ends[0] : ends[-1]] if data else b"")

    def hexdigest(self) -> str:
        return hashlib.sha256(b"".join(each.digest() for both in self._columns.values() for each in both)).hexdigest()


def _fitting(keys: Sequence[bytes], max_batch_bytes: int) -> Iterator[list[bytes]]:
    """Runs of keys that fit into a batch, according to the upper bound of the size of their records."""
    some: list[bytes] = []
    size_bytes = HEADER_BYTES
    for key in keys:
        record_bytes = len(key) + TOMBSTONE_OVERHEAD_BYTES
        if some and size_bytes + record_bytes > max_batch_bytes:
            yield some
            some, size_bytes = [], HEADER_BYTES
        some.append(key)
        size_bytes += record_bytes
    if some:
        yield some
