"""Layouts that changed from release to release under one and the same version of the value."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.records import RECORD_TYPES, MalformedRecord
from sexton.records.schema import Array, Field, Struct
from tests.record_fields import decode_value, encode_value
from tests.records.generated import values_of

RELEASES = [(4, 0, 2), (4, 1, 0), (4, 2, 1), (4, 3, 1), (4, 4)]
TOPIC_ID = UUID(int=7)
EPOCHS = {"member_epoch": 6, "previous_member_epoch": 5, "state": 0}
PARTITIONS = {"topic_id": TOPIC_ID, "partitions": [0], "assignment_epochs": [5]}
TASKS = {"subtopology_id": "0", "partitions": [0], "assignment_epochs": [5]}
KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")
NO_TASKS: dict[str, Any] = {f"{kind}{part}": [] for part in ("", "_pending_revocation") for kind in KINDS}
STREAMS = {"epoch": 1, "metadata_hash": 2, "failed_description_topology_epoch": -1}
NO_EPOCHS: dict[str, Any] = {"assignment_epochs": []}
ASSIGNED: dict[str, Any] = {**EPOCHS, "assigned_partitions": [PARTITIONS], "partitions_pending_revocation": []}
CONFIGURED = {"validated_topology_epoch": 3, "last_assignment_configs": [{"key": "k", "value": "v"}]}
NOT_CONFIGURED: dict[str, Any] = {"validated_topology_epoch": -1, "last_assignment_configs": []}
NOT_STORED = {"stored_description_topology_epoch": -1}

NEW_FIELDS: list[tuple[int, tuple[int, int], dict[str, Any], dict[str, Any]]] = [
    (3, (4, 1), {"epoch": 1, "metadata_hash": 9}, {"metadata_hash": 0}),
    (6, (4, 3), {"assignment_epoch": 1, "assignment_timestamp": 9}, {"assignment_timestamp": 0}),
    (12, (4, 3), {"assignment_epoch": 1, "assignment_timestamp": 9}, {"assignment_timestamp": 0}),
    (20, (4, 3), {"assignment_epoch": 1, "assignment_timestamp": 9}, {"assignment_timestamp": 0}),
    (8, (4, 3), ASSIGNED, {"assigned_partitions": [PARTITIONS | NO_EPOCHS]}),
    (22, (4, 2), {**EPOCHS, **NO_TASKS, "active_tasks": [TASKS]}, {"active_tasks": [TASKS | NO_EPOCHS]}),
    (17, (4, 2), {**STREAMS, **CONFIGURED, **NOT_STORED}, NOT_CONFIGURED),
    (17, (4, 4), {**STREAMS, **NOT_CONFIGURED, "stored_description_topology_epoch": 4}, NOT_STORED),
]
"""Type, the release that brought a tagged field, a value with it, and what older releases read in its place."""


@pytest.mark.parametrize("number, new_in, fields, absent", NEW_FIELDS)
def test_a_tag_is_unknown_to_releases_before_it(number, new_in, fields, absent):
    value, older = encode_value(number, 0, fields), fields | absent
    for release in RELEASES:
        if RECORD_TYPES[number].is_read_by(release):
            assert decode_value(number, value, release=release)[1] == (older if release < new_in else fields), release
            assert encode_value(number, 0, fields, release=release) == (
                encode_value(number, 0, older) if release < new_in else value
            )


NAMED_TOPIC = {"topic_id": TOPIC_ID, "topic_name": "t", "partitions": [0]}
SHARE_GROUP = {"epoch": 3, "metadata_hash": 9}
SHARE_STATE = {"initializing_topics": [], "initialized_topics": [NAMED_TOPIC], "deleting_topics": []}


@pytest.mark.parametrize("number, fields", [(11, SHARE_GROUP), (15, SHARE_STATE)])
def test_share_groups_of_the_early_access_are_too_short_for_later_releases(number: int, fields: dict[str, Any]) -> None:
    value = encode_value(number, 0, fields, release=(4, 0))
    assert len(value) < len(encode_value(number, 0, fields))
    read = decode_value(number, value, release=(4, 0, 2))[1]
    assert list(read) == [field.name for field in RECORD_TYPES[number].value.fields]
    assert read == fields | ({"metadata_hash": 0} if number == 11 else {})
    with pytest.raises(MalformedRecord) as caught:
        decode_value(number, value, release=(4, 1))
    assert caught.value.reason == "malformed_value"


@pytest.mark.parametrize(
    "metadata_hash, is_read",
    [(0, True), (0x0105_0000_0000_0000, True), (0x02FF_FFFF_FFFF_FFFF, False)],
    ids=["no tags", "one tag of no bytes", "two tags without an end"],
)
def test_the_early_access_takes_the_hash_of_a_later_share_group_for_tags(metadata_hash: int, is_read: bool) -> None:
    value = encode_value(11, 0, {"epoch": 3, "metadata_hash": metadata_hash})
    if is_read:
        assert decode_value(11, value, release=(4, 0))[1] == {"epoch": 3, "metadata_hash": 0}
        return
    with pytest.raises(MalformedRecord):
        decode_value(11, value, release=(4, 0))


@pytest.mark.parametrize("release", RELEASES, ids=str)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_release_writes_it_reads(release: tuple[int, ...], data: st.DataObject) -> None:
    read = [number for number, declared in RECORD_TYPES.items() if declared.is_read_by(release)]
    number = data.draw(st.sampled_from(read))
    version = data.draw(st.sampled_from(RECORD_TYPES[number].versions))
    fields = data.draw(values_of(RECORD_TYPES[number], version, release))
    encoded = encode_value(number, version, fields, release=release)
    assert decode_value(number, encoded, release=release) == (version, fields)


def test_only_the_early_access_broke_a_layout() -> None:
    broken = {
        (number, field.name, field.new_in)
        for number, declared in RECORD_TYPES.items()
        for field in _all_fields(declared.value.fields)
        if field.new_in is not None and field.tag is None
    }
    assert broken == {(11, "metadata_hash", (4, 1)), (15, "initializing_topics", (4, 1))}


def _all_fields(fields: tuple[Field, ...]) -> list[Field]:
    found = list(fields)
    for field in fields:
        kind = field.kind.item if isinstance(field.kind, Array) else field.kind
        found += _all_fields(kind.fields) if isinstance(kind, Struct) else []
    return found
