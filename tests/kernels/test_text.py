"""Strings in arenas read as Java reads them."""

from uuid import UUID

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator.partitioner import partition_of
from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels import columns, text
from sexton.kernels.layout import Bytes
from sexton.records import decode_utf8, kafka_uuid

LEADS = st.sampled_from([bytes([lead]) for lead in b"\xc0\xc2\xe0\xe2\xed\xf0\xf4\xf5\x80\xa0\xbfa"])
RAGGED = st.one_of(st.binary(max_size=12), st.lists(LEADS, max_size=8).map(b"".join))


@compiled
def _hash(data: Bytes) -> int:
    return text.java_hash(pointer(data), 0, len(data))


@compiled
def _home(data: Bytes, partition_count: int) -> int:
    return text.partition_of(pointer(data), 0, len(data), partition_count)


@settings(max_examples=500)
@given(st.lists(RAGGED, max_size=3))
def test_strings_equal_the_plain_decoder(raws: list[bytes]) -> None:
    sizes = np.array([len(raw) for raw in raws], np.int64)
    arena = np.frombuffer(b"".join(raws) + b"\0", np.uint8)
    found = columns.strings(arena, np.cumsum(sizes) - sizes, sizes)
    found.validate(full=True)
    assert found.to_pylist() == [decode_utf8(raw) for raw in raws]


@given(st.text(), st.integers(1, 1000))
def test_groups_lie_where_the_plain_partitioner_says(group_id: str, count: int) -> None:
    assert _home(np.frombuffer(group_id.encode() + b"", np.uint8).copy(), count) == partition_of(group_id, count)


def test_the_smallest_hash_has_no_positive_twin() -> None:
    assert _hash(np.frombuffer(b"polygenelubricants", np.uint8)) == -(1 << 31)
    assert _home(np.frombuffer(b"polygenelubricants", np.uint8).copy(), 50) == 0


@given(st.uuids(), st.just(UUID(int=0)))
def test_topic_ids_are_written_as_kafka_does(one: UUID, zero: UUID) -> None:
    words = np.frombuffer(one.bytes + zero.bytes, ">i8").astype(np.int64).reshape(2, 2)
    assert columns.topic_ids(words[:, 0], words[:, 1]).to_pylist() == [kafka_uuid(one), None]
