"""The record of a classic group, spelled out; those that brokers wrote are in test_dry_run.py."""

import struct

import pytest

from sexton.coordinator.api.group_metadata_record import GroupMetadataRecord, value_version
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.records import decode_value
from tests.log_builder import classic_fields, group_entry, subscription


@pytest.mark.parametrize("release, ids", [("3.9", ["a", "c", "p"]), ("4.0.0", ["p", "a", "c"])])
def test_every_member_is_written(release, ids):
    """In the order of a hash map from 4.0 on, of the ids before. No recording has a group of several."""
    profile = of_broker(release)
    _, value = group_entry(2, "g", classic_fields(*((member_id, subscription("t")) for member_id in ids)))
    group = ClassicGroup.from_value("g", decode_value(2, value)[1], profile)
    members = [LoadedMember.from_row(row) for row in sorted(group.to_member_rows(), key=str)]
    made = GroupMetadataRecord.of_group(LoadedGroup.from_row(group.to_group_row()), members, profile=profile)
    _, written = decode_value(2, made.encode(profile)[1])
    assert [member.member_id for member in written.members] == ids


NULL = struct.pack(">h", -1)
STAMP = struct.pack(">q", 1_700_000_000_000)


@pytest.mark.parametrize(
    "release, value",
    [
        ("0.9.0.1", struct.pack(">hhi", 0, 0, 0) + NULL + NULL + bytes(4)),
        ("0.10.0.1", struct.pack(">hhi", 0, 0, 0) + NULL + NULL + bytes(4)),
        ("0.10.1", struct.pack(">hhi", 1, 0, 0) + NULL + NULL + bytes(4)),
        ("2.0.1", struct.pack(">hhi", 1, 0, 0) + NULL + NULL + bytes(4)),
        ("2.1", struct.pack(">hhi", 2, 0, 0) + NULL + NULL + STAMP + bytes(4)),
        ("2.2.2", struct.pack(">hhi", 2, 0, 0) + NULL + NULL + STAMP + bytes(4)),
        ("2.3", struct.pack(">hhi", 3, 0, 0) + NULL + NULL + STAMP + bytes(4)),
        ("4.4", struct.pack(">hhi", 3, 0, 0) + NULL + NULL + STAMP + bytes(4)),
    ],
)
def test_a_group_that_has_just_been_made(release, value):
    """newEmptyGroupMetadataRecord, spelled out."""
    made = GroupMetadataRecord(group_id="g", current_state_timestamp_ms=1_700_000_000_000)
    assert made.encode(of_broker(release)) == (b"\x00\x02\x00\x01g", value)


def test_0_8_2_writes_no_groups():
    with pytest.raises(ValueError, match=r"0\.8\.2 writes no groups"):
        value_version(profile_of("offset_manager:0.8.2"))


def test_a_group_whose_record_is_not_of_type_2():
    profile = profile_of("group_coordinator")
    row = {**ClassicGroup("g", profile).to_group_row(), "group_type": "Consumer"}
    with pytest.raises(ValueError, match="group 'g' is Consumer"):
        GroupMetadataRecord.of_group(LoadedGroup.from_row(row), profile=profile)
