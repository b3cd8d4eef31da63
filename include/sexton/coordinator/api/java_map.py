"""The iteration order of Java's HashMap: that of the members in the group records of a 4.x coordinator."""

from collections.abc import Iterable

from sexton.coordinator.partitioner import java_hash

_FIRST_BUCKETS = 16
_LOAD_FACTOR = 0.75


def iteration_order(keys: Iterable[str]) -> list[str]:
    """Distinct `keys`, put into a new HashMap in this order, as iterating over it gives them.

    By bucket, within a bucket as they came. (A bucket of eight and more becomes a tree, which keeps that order but for
    its root; member ids do not collide like that.)
    """
    found = list(keys)
    buckets = _FIRST_BUCKETS
    while len(found) > _LOAD_FACTOR * buckets:
        buckets *= 2
    return sorted(found, key=lambda key: _spread(java_hash(key)) & (buckets - 1))


def _spread(value: int) -> int:
    """HashMap.hash: the upper half of a hash counts among the lower bits, too."""
    return value ^ (value & 0xFFFFFFFF) >> 16
