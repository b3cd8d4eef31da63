"""The first expiry sweep of a broker against the plan of its instant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import Tombstone
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import decode_key
from sexton.verdicts.expiry import held_offsets, judge, plan, sweep_block
from tests.campaign.broker.logs import RETENTION_MS, SCALE
from tests.campaign.checks import Tables
from tests.kernels.compare import CAP_BYTES

CHECK_INTERVAL_MS = 6_000
_ONE_SWEEP_MS = CHECK_INTERVAL_MS // 2
"""What is stamped no later than that after a sweep's first record is of that sweep."""
_TAKES_MS = 3_000
"""The longest time from when a sweep looks at a group to the stamp of its records."""
STEP_MS = 1_000 * SCALE
"""Instants of histories are so far apart."""

Keys = dict[str, frozenset[bytes]]
"""Keys of tombstones by group id."""


@dataclass(frozen=True)
class Sweep:
    """What one sweep wrote to a log partition, and when."""

    stamp_ms: int
    keys: Keys


def first_sweep(appended: bytes) -> Sweep | None:
    """What the first sweep wrote, from what was appended to a log; AssertionError at anything but tombstones."""
    batches = [batch for batch in read_batches(appended) if isinstance(batch, Batch)]
    if not batches:
        return None
    stamp_ms = batches[0].max_timestamp_ms
    found: dict[str, set[bytes]] = {}
    for batch in batches:
        if batch.max_timestamp_ms <= stamp_ms + _ONE_SWEEP_MS:
            for record in read_records(batch, cap_bytes=CAP_BYTES):
                assert isinstance(record, Record)
                assert record.key is not None
                assert record.value is None, record
                _, key = decode_key(record.key)
                keys = found.setdefault(key.group_id, set())
                assert record.key not in keys, f"twice in one sweep: {record.key!r}"
                keys.add(record.key)
    return Sweep(stamp_ms, {group_id: frozenset(keys) for group_id, keys in found.items()})


def instants(stamp_ms: int, base_ms: int) -> Iterator[int]:
    """When the sweep may have looked at a group: at its stamp, or just before what fell due while it ran."""
    yield stamp_ms
    due_ms = stamp_ms - (stamp_ms - base_ms) % STEP_MS
    while due_ms > stamp_ms - _TAKES_MS:
        yield due_ms - 1
        due_ms -= STEP_MS


def planned(tables: Tables, now_ms: int, profile: Profile) -> Keys:
    """What Sexton plans for one log partition at that instant."""
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    state = offsets, tables["groups"], tables["pending_offsets"]
    block = sweep_block(*state, retention_ms=RETENTION_MS, now_ms=now_ms, profile=profile)
    if block is not None and block.is_on(now_ms):
        return {}
    verdicts = judge(*state, retention_ms=RETENTION_MS, now_ms=now_ms, profile=profile)
    expires = pc.equal(verdicts["broker_verdict"], "expire")
    found: dict[str, set[bytes]] = {}
    for row in plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile).to_pylist():
        tombstone = Tombstone(**row)
        found.setdefault(tombstone.group_id, set()).add(tombstone.key)
    return {group_id: frozenset(keys) for group_id, keys in found.items()}


def unlike(sweep: Sweep, plans: Sequence[Keys]) -> Iterator[tuple[str, frozenset[bytes], frozenset[bytes]]]:
    """Each group of which a sweep wrote something else than all plans: its id, the keys that were written, those
    planned at the stamp."""
    for group_id in sorted(set(sweep.keys).union(*plans)):
        written = sweep.keys.get(group_id, frozenset())
        if all(written != one.get(group_id, frozenset()) for one in plans):
            yield group_id, written, plans[0].get(group_id, frozenset())
