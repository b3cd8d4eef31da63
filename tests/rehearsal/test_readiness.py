"""Which classic groups convert, and the field that keeps the others from it."""

import struct
from pathlib import Path
from typing import Any

import pytest

from sexton.coordinator.profiles import profile_of
from sexton.rehearsal.logs import read_logs
from sexton.rehearsal.readiness import has_user_data, readiness
from sexton.runs.source import open_segments
from tests.coordinator.golden import GOLDEN
from tests.log_builder import BatchSpec, classic_fields, encode_log
from tests.record_fields import encode_key, encode_value
from tests.views.worlds import write_log

LATER_MS = 1_900_000_000_000
SUBSCRIPTION = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", -1)


def assignment(user_data: bytes | None, *, version: int = 0) -> bytes:
    """Partition 0 of topic t, with what an assignor adds."""
    size = -1 if user_data is None else len(user_data)
    return struct.pack(">hih", version, 1, 1) + b"t" + struct.pack(">iii", 1, 0, size) + (user_data or b"")


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", False), (assignment(None), False), (assignment(b""), False), (assignment(b"x"), True),
        (assignment(b"x", version=3), True), (assignment(None)[:-1], None), (b"\0", None),
        (struct.pack(">hi", 0, -1), None), (assignment(b"xyz")[:-1], None),
    ],
)  # fmt: skip
def test_user_data(data: bytes, expected: bool | None) -> None:
    assert has_user_data(data) is expected


def found(
    folder: Path, settings: dict[str, str] | None = None, profile: str = "group_coordinator:4.3.1"
) -> dict[str, Any]:
    source = open_segments(str(folder), topics_file=None, partition_count=4)
    logs = read_logs(source, as_of_ms=None, taken_at_ms=LATER_MS)
    return {one.group_id: one for one in readiness(logs, profile_of(profile), settings or {})}


def test_of_a_recording() -> None:
    """That of Connect is no group of consumers; Empty ones convert at once, also those that only offsets have made."""
    known = found(GOLDEN / "upgrades/3.9.1")
    assert {name for name, one in known.items() if not one.converts} == {"connect0"}
    assert (known["connect0"].field, known["simple3"].state, known["stable2"].converts) == (
        "protocol_type",
        "Empty",
        True,
    )
    assert found(GOLDEN / "upgrades/3.9.1", profile="group_metadata_manager:3.9.1") == {}


@pytest.mark.parametrize(
    "settings, profile, field",
    [
        ({"group.consumer.migration.policy": "disabled"}, "group_coordinator:4.3.1", "group.consumer.migration.policy"),
        (
            {"group.consumer.migration.policy": "DOWNGRADE"},
            "group_coordinator:4.3.1",
            "group.consumer.migration.policy",
        ),
        ({"group.consumer.migration.policy": "upgrade"}, "group_coordinator:4.3.1", None),
        ({"group.consumer.max.size": "0"}, "group_coordinator:4.3.1", "group.consumer.max.size"),
        ({}, "group_coordinator:3.9.1", "group.consumer.migration.policy"),
    ],
)
def test_what_the_broker_s_settings_prevent(settings: dict[str, str], profile: str, field: str | None) -> None:
    assert found(GOLDEN / "upgrades/3.9.1", settings, profile)["stable2"].field == field


@pytest.mark.parametrize(
    "of_member, field",
    [
        ({"assignment": assignment(None)}, None),
        ({"assignment": assignment(b"x")}, "assignment.userData"),
        ({"assignment": b"\0\0\0"}, "assignment"),
        ({"assignment": assignment(None), "subscription": b"\0"}, "subscription"),
    ],
)
def test_what_a_member_prevents(of_member: dict[str, bytes], field: str | None, tmp_path: Path) -> None:
    fields = classic_fields(("m", SUBSCRIPTION))
    fields["members"][0] |= of_member
    entry = encode_key(2, {"group_id": "g"}), encode_value(2, 3, fields)
    one = found(write_log(tmp_path, {0: encode_log([BatchSpec(entries=[entry])])}))["g"]
    assert (one.field, one.converts, one.members) == (field, field is None, ("m",) if field else ())
