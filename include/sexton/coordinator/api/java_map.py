"""The iteration order of Java's HashMap, in which a 4.x coordinator writes members into group records."""

from collections.abc import Iterable

from sexton.coordinator.partitioner import java_hash

_FIRST_BUCKETS = 16
_LOAD_FACTOR = 0.75


def iteration_order(keys: Iterable[str]) -> list[str]:
    """Distinct `keys` in the iteration order of a new HashMap into which they are put in this order.

    The order is by bucket, and within a bucket by insertion. (A bucket of eight or more keys becomes a tree, which
    keeps that order except for its root; member ids do not collide that often.)
    """
    found = list(keys)
    buckets = _FIRST_BUCKETS
    while len(found) > _LOAD_FACTOR * buckets:
        buckets *= 2
    return sorted(found, key=lambda key: _spread(java_hash(key)) & (buckets - 1))


def _spread(value: int) -> int:
    """HashMap.hash: mixes the upper half of a hash into the lower bits."""
    return value ^ (value & 0xFFFFFFFF) >> 16
