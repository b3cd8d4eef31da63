"""The record of a classic group, byte for byte as brokers wrote it; that of one with a member is in test_dry_run.py."""

import struct

import pytest

from sexton.coordinator.api.group_metadata_record import GroupMetadataRecord, value_version
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.records import decode_key, decode_value
from tests.coordinator.golden import RELEASES, data_batches
from tests.log_builder import classic_fields, group_entry, subscription

RECORDED = {name: release for name, release in RELEASES.items() if release != "0.9.0.1"}
"""All but 0.9, whose recording has no group that is empty."""


def _group_records(name):
    """Key and value of every classic group's record in a recording, before and after its sweeps."""
    for stage in ("before", "swept"):
        for _, records in data_batches(name, stage):
            for record in records:
                if record.value is not None and record.key[:2] == b"\x00\x02":
                    yield record.key, record.value


KEEPING = {name: release for name, release in RECORDED.items() if not of_broker(release).forgets_protocol_type}
"""All but those that lose an empty group's protocol type when they load it: what they hold is not what they wrote."""


@pytest.mark.parametrize("name, release", KEEPING.items())
def test_an_empty_group_is_written_as_the_broker_wrote_it(name, release):
    profile = of_broker(release)
    compared = 0
    for key, value in _group_records(name):
        group_id, (_, found) = decode_key(key)[1].group_id, decode_value(2, value)
        if found.members:
            continue
        group = LoadedGroup.from_row(ClassicGroup.from_value(group_id, found, profile).to_group_row())
        assert GroupMetadataRecord.of_group(group, profile=profile).encode(profile) == (key, value)
        compared += 1
    assert compared > 5


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
