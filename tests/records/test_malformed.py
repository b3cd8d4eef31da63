"""Bad bytes raise one of two errors and cost no more memory than they are long.

What is said of them is in test_against_kafka.py and in tests/coordinator/test_edge_cases.py; random ones are in
tests/faults/test_fuzz.py.
"""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.errors import LogError
from sexton.records import RECORD_TYPES, MalformedRecord, UnknownRecordType
from tests.record_fields import decode_key, decode_value, encode_key, encode_value
from tests.records.generated import ALL_VERSIONS, fields_of, values_of

FEW = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])


def test_both_errors_tell_a_reason() -> None:
    assert issubclass(UnknownRecordType, LogError)
    assert issubclass(MalformedRecord, LogError)
    with pytest.raises(UnknownRecordType) as caught:
        decode_key(b"\xff\xfe")
    assert (caught.value.number, caught.value.reason) == (-2, "unknown_record_type")


@pytest.mark.parametrize("number, version", ALL_VERSIONS)
@FEW
@given(data=st.data())
def test_truncated_at_every_byte(number: int, version: int, data: st.DataObject) -> None:
    declared = RECORD_TYPES[number]
    key = encode_key(number, data.draw(fields_of(declared.key, 0)))
    value = encode_value(number, version, data.draw(values_of(declared, version)))
    for end in range(len(key)):
        with pytest.raises(MalformedRecord):
            decode_key(key[:end])
    for end in range(len(value)):
        with pytest.raises(MalformedRecord):
            decode_value(number, value[:end])


@pytest.mark.parametrize(
    "number, value",
    [
        (1, "0003 0000000000000000 00000000 7fff"),
        (1, "0004 0000000000000000 00000000 ffffffff07"),
        (1, "0004 0000000000000000 00000000 01 0000000000000000 01 07 ffffffff07"),
        (1, "0004 0000000000000000 00000000 01 0000000000000000 ffffffff07"),
        (2, "0003 0000 00000000 ffff ffff 0000000000000000 7fffffff"),
        (2, "0003 0000 00000000 ffff ffff 0000000000000000 80000000"),
        (2, "0003 0000 00000000 ffff ffff 0000000000000000 00000001 0000 ffff 0000 0000 00000000 00000000 7fffffff"),
        (7, "0000 ffffffff07"),
        (7, "0000 8080808008"),
        (8, "0000 00000000 00000000 00 02 00000000000000000000000000000000 ffffffff07"),
        (16, "0000 8180808008"),
    ],
)
def test_a_huge_count_allocates_nothing(number: int, value: str) -> None:
    data = bytes.fromhex(value)
    with pytest.raises(MalformedRecord):  # once before measuring, to have the readers made
        decode_value(number, data)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRecord):
            decode_value(number, data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000
