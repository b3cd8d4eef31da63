"""Numbers the partitions of a cluster, so that columns about them are joined by number instead of by name."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

ABSENT = -1
"""The number of a partition that does not exist."""
_LEAST_PARTITION = -(1 << 31)


class PartitionIndex:
    """The number of a partition is its row in `partitions`: columns topic, partition and topic_id (NULL: unknown)."""

    def __init__(self, partitions: pa.Table) -> None:
        topics = encoded(partitions["topic"])
        self.topics: pa.Array = topics.dictionary
        self.topic_codes: Int64s = np.asarray(topics.indices).astype(np.int64)
        """For each partition, the index of its topic in `topics`."""
        self.topic_ids: pa.Array = whole(partitions["topic_id"])
        self.count: int = partitions.num_rows
        keys = self._keys(topics, partitions["partition"])
        self._rows = np.argsort(keys, kind="stable")
        self._sorted = keys[self._rows]

    def numbers(self, topics: pa.ChunkedArray | pa.Array, partitions: pa.ChunkedArray | pa.Array) -> Int64s:
        """The number of each partition, or ABSENT."""
        if not self.count:
            return np.full(len(topics), ABSENT, np.int64)
        keys = self._keys(encoded(topics), partitions)
        at = np.minimum(np.searchsorted(self._sorted, keys), self.count - 1)
        return np.where(self._sorted[at] == keys, self._rows[at], ABSENT)

    def is_another(self, numbers: Int64s, topic_ids: pa.ChunkedArray | pa.Array) -> Flags:
        """Whether each partition belongs to a recreated topic: the same name, but not the given id.

        False where an id is not known (brokers before Kafka 2.8), and where the partition is absent.
        """
        ours = self.topic_ids.take(pa.array(numbers, mask=numbers == ABSENT))
        return np.asarray(pc.fill_null(pc.not_equal(ours, plain_text(topic_ids)), False))

    def _keys(self, topics: pa.DictionaryArray, partitions: pa.ChunkedArray | pa.Array) -> Int64s:
        known = pc.index_in(topics.dictionary, value_set=self.topics).fill_null(ABSENT)
        codes = np.asarray(known.take(topics.indices)).astype(np.int64)
        numbers = np.asarray(whole(partitions)).astype(np.int64)
        return (codes << 32) | (numbers - _LEAST_PARTITION)


class PartitionOrder:
    """An order of rows about numbered partitions: by partition, then by value; `rows` are row indices in this order.

    Rows with equal values are in the order of `ties`.
    """

    def __init__(self, count: int, number: Int64s, value: Int64s, *ties: Int64s) -> None:
        self.rows = np.lexsort((*ties[::-1], value, number))
        self._starts = np.searchsorted(number[self.rows], np.arange(count + 1))
        self._values = value[self.rows]
        self._steps = int(np.diff(self._starts).max(initial=0)).bit_length()

    def running_maximum(self, values: Int64s) -> Int64s:
        """The running maximum per partition; `values` are in this order."""
        found, places = values.copy(), np.arange(len(values)) - np.repeat(self._starts[:-1], np.diff(self._starts))
        for step in range(self._steps):
            shift = 1 << step
            found[shift:] = np.where(places[shift:] < shift, found[shift:], np.maximum(found[shift:], found[:-shift]))
        return found

    def last(self, number: Int64s, value: Int64s, *, is_included: bool = True) -> Int64s:
        """For each pair of partition and value: where in this order the partition's last row up to (or before) that
        value is; -1 without one."""
        if not len(self._values):
            return np.full(len(number), -1)
        first, low, high = self._starts[number], self._starts[number], self._starts[number + 1]
        for _ in range(self._steps):
            middle = (low + high) >> 1
            at = self._values[np.minimum(middle, len(self._values) - 1)]
            is_low = (middle < high) & (at <= value if is_included else at < value)
            low, high = np.where(is_low, middle + 1, low), np.where(is_low, high, middle)
        return np.where(low > first, low - 1, -1)


def encoded(values: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """Text as one dictionary array."""
    one = whole(values.unify_dictionaries() if isinstance(values, pa.ChunkedArray) else values)
    return one if pa.types.is_dictionary(one.type) else one.dictionary_encode()


def whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def plain_text(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return whole(values.cast(pa.string()))
