"""What is encoded decodes to the same, for every type at every version; and how odd but legal bytes are read."""

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.records import RECORD_TYPES, ZERO_UUID, MalformedRecord, UnknownRecordType
from tests.record_fields import as_fields, decode_key, decode_value, encode_key, encode_value
from tests.records.generated import ALL_VERSIONS, fields_of, values_of

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
FLEXIBLE = [(number, version) for number, version in ALL_VERSIONS if number > 2 or version > 3]
"""All values but those of the first versions of an offset and of a classic group."""
UUID_OF_ONES = UUID(bytes=b"\x11" * 16)
COMMIT = {"committed_offset": 5, "metadata": "m", "commit_timestamp_ms": 9}


def test_all_types_are_declared() -> None:
    assert list(RECORD_TYPES) == list(range(24))
    assert all(declared.number == number for number, declared in RECORD_TYPES.items())
    assert len({declared.name for declared in RECORD_TYPES.values()}) == 24


@pytest.mark.parametrize("number", RECORD_TYPES)
@FEW
@given(data=st.data(), junk=st.binary(max_size=4))
def test_keys(number: int, data: st.DataObject, junk: bytes) -> None:
    fields = data.draw(fields_of(RECORD_TYPES[number].key, 0))
    assert decode_key(encode_key(number, fields)) == (number, fields)
    assert decode_key(encode_key(number, fields) + junk) == (number, fields)


@pytest.mark.parametrize("number, version", ALL_VERSIONS)
@FEW
@given(data=st.data(), junk=st.binary(max_size=4))
def test_values(number: int, version: int, data: st.DataObject, junk: bytes) -> None:
    fields = data.draw(values_of(RECORD_TYPES[number], version))
    encoded = encode_value(number, version, fields)
    assert decode_value(number, encoded) == (version, fields)
    assert decode_value(number, encoded + junk) == (version, fields)
    assert list(decode_value(number, encoded)[1]) == [field.name for field in RECORD_TYPES[number].value.fields]


@pytest.mark.parametrize("number, version", FLEXIBLE)
@FEW
@given(data=st.data())
def test_unknown_tags_are_skipped_by_their_size(number: int, version: int, data: st.DataObject) -> None:
    value = RECORD_TYPES[number].value
    # Without tagged fields of its own a message ends in the byte 0: no tags. Two that nobody knows take its place.
    fields = data.draw(values_of(RECORD_TYPES[number], version))
    fields |= {field.name: as_fields(field.absent) for field in value.fields if field.tag is not None}
    encoded = encode_value(number, version, fields)
    assert encoded[-1] == 0
    tagged = encoded[:-1] + bytes.fromhex("02 7d 03 aabbcc ff7f 00")
    assert decode_value(number, tagged) == (version, fields)


@pytest.mark.parametrize(
    "version, encoded",
    [
        (0, "0000 0000000000000005 00016d 0000000000000009"),
        (1, "0001 0000000000000005 00016d 0000000000000009 000000000000000b"),
        (2, "0002 0000000000000005 00016d 0000000000000009"),
        (3, "0003 0000000000000005 00000007 00016d 0000000000000009"),
        (4, "0004 0000000000000005 00000007 026d 0000000000000009 01 00 10 11111111111111111111111111111111"),
    ],
)
def test_every_version_of_a_commit(version: int, encoded: str) -> None:
    everything = COMMIT | {"leader_epoch": 7, "expire_timestamp_ms": 11, "topic_id": UUID_OF_ONES}
    assert encode_value(1, version, everything) == bytes.fromhex(encoded)
    _, fields = decode_value(1, bytes.fromhex(encoded))
    assert fields["committed_offset"] == 5
    assert fields["leader_epoch"] == (7 if version >= 3 else -1)
    assert fields["expire_timestamp_ms"] == (11 if version == 1 else -1)
    assert fields["topic_id"] == (UUID_OF_ONES if version == 4 else ZERO_UUID)


def test_legacy_commits_come_with_the_fields_of_a_commit() -> None:
    version, fields = decode_value(0, encode_value(0, 0, COMMIT))
    assert version == 0
    assert fields == COMMIT | {"leader_epoch": -1, "expire_timestamp_ms": -1, "topic_id": ZERO_UUID}


def test_no_two_records_share_what_was_absent() -> None:
    value = encode_value(17, 0, {"epoch": 1, "metadata_hash": 2})
    _, first = decode_value(17, value)
    first["last_assignment_configs"].append("changed")
    assert decode_value(17, value)[1]["last_assignment_configs"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"committed_offset": 5, "metadata": "m"},
        COMMIT | {"offset": 5},
        COMMIT | {"metadata": None},
        COMMIT | {"metadata": "m" * 2**15},
        COMMIT | {"committed_offset": 2**63},
    ],
    ids=["missing", "unknown", "null", "too long", "too large"],
)
def test_what_cannot_be_encoded(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        encode_value(1, 3, fields)


def test_what_has_no_layout_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match=r"version 1 of LegacyOffsetCommit: only \[0\] are known"):
        encode_value(0, 1, COMMIT)
    with pytest.raises(UnknownRecordType):
        encode_key(24, {"group_id": "g"})


@pytest.mark.parametrize(
    "number, release, is_read",
    [
        (0, (0, 8, 2), True),
        (1, (0, 8, 2), False),
        (3, (3, 9, 1), False),
        (3, (4, 0), True),
        (9, (4, 0, 1), True),
        (9, (4, 1), False),
        (17, (4, 0), False),
        (17, (4, 1), True),
        (18, (4, 1), False),
    ],
)
def test_which_release_reads_a_type(number: int, release: tuple[int, ...], is_read: bool) -> None:
    assert RECORD_TYPES[number].is_read_by(release) is is_read
    # Whether the rest of the key makes sense does not matter for a type that is not read.
    key = struct.pack(">h", number)
    with pytest.raises(MalformedRecord if is_read else UnknownRecordType):
        decode_key(key, release=release)


def test_kafkas_names_follow_from_ours() -> None:
    names = {field.kafka_name for declared in RECORD_TYPES.values() for field in declared.value.fields}
    assert {"offset", "commitTimestamp", "subscribedTopicRegex", "partitionsPendingRevocation"} <= names
