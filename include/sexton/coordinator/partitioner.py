"""The log partition of a group (Kafka: GroupCoordinatorService.partitionFor, the same rule since 0.8.2). The rule is
the same for transactional ids (TransactionStateManager.partitionFor).

Compiled: kernels.text.partition_of.
"""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from sexton.numbers import ranges_text

HIGHEST_COUNT = 10_000
"""The limit of the search for the number of log partitions: no cluster has more."""

_SAMPLE = 5_000
_NAMES_PER_MISPLACED = 10  # one name in ten may be misplaced
_BLOCK = 100

_Int64s = npt.NDArray[np.int64]


def java_hash(text: str) -> int:
    """Java's String.hashCode: signed 32 bits over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partition_count: int) -> int:
    """The log partition whose coordinator answers for `group_id`."""
    return _java_abs(java_hash(group_id)) % partition_count


def fitting_partition_counts(
    names_by_partition: Mapping[int, Collection[str]], counts: range, *, all_agree: bool = False
) -> list[int]:
    """The partition counts with which at least nine of ten names (`all_agree`: all names) hash to the partition in
    which they were found."""
    hashes, partitions = _sample(names_by_partition)
    left = np.arange(counts.start, counts.stop)
    misplaced = np.zeros(len(left), np.int64)
    for at in range(0, len(hashes), _BLOCK):
        block = slice(at, at + _BLOCK)
        misplaced += np.count_nonzero(hashes[block] % left[:, np.newaxis] != partitions[block], axis=1)
        fits = misplaced * _NAMES_PER_MISPLACED <= (0 if all_agree else len(hashes))
        left, misplaced = left[fits], misplaced[fits]
    found: list[int] = left.tolist()
    return found


def proven_partition_count(
    names_by_partition: Mapping[int, Collection[str]], highest: int, *, all_agree: bool = False
) -> int | None:
    """The only count above `highest` that fits the names (`fitting_partition_counts`); None without such a count.

    Names in a topic's first partitions also fit each divisor of its count, and a small number of names fits many
    counts. Fewer than ten names prove nothing if some may be misplaced: a single misplaced name would decide.
    """
    if not all_agree and sum(map(len, names_by_partition.values())) < _NAMES_PER_MISPLACED:
        return None
    fitting = fitting_partition_counts(names_by_partition, range(highest + 1, HIGHEST_COUNT + 1), all_agree=all_agree)
    return fitting[0] if len(fitting) == 1 else None


def unknown_count_text(here: Collection[int]) -> str:
    """Text about the available log partitions, where their total number is not known."""
    folders = f"{len(here)} {'folder' if len(here) == 1 else 'folders'}"
    return f"{folders} of an unknown number of log partitions: {ranges_text(here)}"


def _sample(names_by_partition: Mapping[int, Collection[str]]) -> tuple[_Int64s, _Int64s]:
    """Hashes of the names, and the partitions that contain them; a sample of many names."""
    found = [
        (_java_abs(java_hash(name)), partition)
        for partition, names in sorted(names_by_partition.items())
        for name in names
    ]
    step = max(-(-len(found) // _SAMPLE), 1)
    hashes, partitions = np.array(found[::step], dtype=np.int64).reshape(-1, 2).T
    return hashes, partitions


def _java_abs(value: int) -> int:
    """Kafka's Utils.abs: the smallest int, which has no positive counterpart, becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)
