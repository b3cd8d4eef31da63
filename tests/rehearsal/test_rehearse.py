"""Rehearsals of recordings, against what real brokers of the other release made of the same bytes."""

from pathlib import Path
from typing import Any

import pytest

from sexton.coordinator.profile import Profile
from sexton.rehearsal.answers import BREAKING
from sexton.rehearsal.faults import AFTER_CLEANING, DURING_CLEANING, NOW
from sexton.rehearsal.rehearse import NO_WAY_BACK, NOT_SAFE, SAFE, Rehearsal, profile_named, rehearse
from sexton.runs.source import open_segments
from tests.coordinator.golden import GOLDEN
from tests.coordinator.group_records import consumer_member, gone, owns, record
from tests.log_builder import BatchSpec, encode_log
from tests.views.worlds import write_log

UPGRADES = GOLDEN / "upgrades"
BEFORE, CLEANED = "4.2.0-before-cleaning", "4.2.0-cleaned"
APP2 = "Group app2 is not a streams group."
V4 = "Unknown offset message version: 4"
LATER_MS = 1_900_000_000_000


def named(text: str) -> Profile:
    return profile_named(text, "--to")


def rehearsed(log: str | Path, to: str, since: str) -> Rehearsal:
    source = open_segments(str(UPGRADES / log), topics_file=None, partition_count=4)
    return rehearse(source, new=named(to), old=named(since), as_of_ms=None, taken_at_ms=LATER_MS)


FAULTS: list[Any] = [
    (BEFORE, "4.2.0", [(1, AFTER_CLEANING, 27, "app2", APP2, "KAFKA-20254")]),
    (BEFORE, "4.1.1", [(1, AFTER_CLEANING, 27, "app2", APP2, "KAFKA-20254")]),
    (BEFORE, "4.2.1", []),
    (BEFORE, "4.3.1", []),
    (BEFORE, "4.0.0", []),
    (BEFORE, "group_coordinator:3.9.1", [
        (1, AFTER_CLEANING, 19, "mig0", "Consumer group mig0 not found.", "KAFKA-17306")]),
    (CLEANED, "4.2.0", [(1, NOW, 27, "app2", APP2, "KAFKA-20254")]),
    (CLEANED, "4.1.1", [(1, NOW, 27, "app2", APP2, "KAFKA-20254")]),
    (CLEANED, "4.2.1", []),
    (CLEANED, "4.0.0", []),
    (CLEANED, "3.9.1", []),
    (CLEANED, "group_coordinator:3.9.1", [(1, NOW, 19, "mig0", "Group mig0 is not a consumer group.", "KAFKA-17306")]),
    ("3.9.1", "4.0.0", [(3, NOW, 1, "poison1", None, "KAFKA-20570")]),
    ("3.9.1", "4.3.1", [(0, NOW, 4, "old-k0v1", "Found an unknown record version 1 for 0 type", None),
                        (3, NOW, 1, "poison1", None, "KAFKA-20570")]),
    ("3.9.1", "4.3.2", [(0, NOW, 4, "old-k0v1", "Found an unknown record version 1 for 0 type", None)]),
    ("4.3.1", "3.9.1", []),
    ("4.3.1", "4.0.0", [(2, NOW, 7, "share1", None, None)]),
    ("4.3.1", "3.4.0", [(1, NOW, 0, "consempty3", "Unknown group metadata message version: 5", "KIP-915"),
                        (2, NOW, 2, "clempty2", V4, "KIP-915"), (3, NOW, 0, "byst3", V4, "KIP-915")]),
]  # fmt: skip


@pytest.mark.parametrize("log, to, expected", FAULTS)
def test_which_loads_fail_and_when(log: str, to: str, expected: list[Any]) -> None:
    found = [one for one in rehearsed(log, to, log[:5]).faults if one.when != DURING_CLEANING]
    seen = [(one.log_partition, one.when, one.log_offset, one.group_id, one.message, one.issue) for one in found]
    assert [one[:4] + one[5:] for one in seen] == [one[:4] + one[5:] for one in expected]
    assert all(message in (None, one[4]) for one, (*_, message, _) in zip(seen, expected, strict=True))


@pytest.mark.parametrize("to, also", [("4.0.0", []), ("4.2.0", []), ("4.3.1", ["app2"]), ("4.4.0", ["app2"])])
def test_what_a_load_may_meet_while_the_log_is_cleaned(to: str, also: list[str]) -> None:
    """KAFKA-21117: the values of a classic life, and then what is left behind their tombstone."""
    found = [one for one in rehearsed(BEFORE, to, "4.2.0").faults if one.when == DURING_CLEANING]
    assert [(one.group_id, one.issue) for one in found] == [(name, "KAFKA-21117") for name in ("mig0", *also)]
    assert all(one.also_from for one in found)


def test_what_is_only_possible_is_a_reason_where_the_release_brings_it() -> None:
    """The old coordinator of 3.9 has no such fault."""
    found = rehearsed(BEFORE, "4.2.1", "3.9.1")
    assert {one.when for one in found.faults} == {DURING_CLEANING}
    assert found.verdict == NOT_SAFE


@pytest.mark.parametrize(
    "log, since, to, verdict, code",
    [
        (BEFORE, "4.2.0", "4.2.1", SAFE, 0),
        (BEFORE, "4.2.0", "4.2.0", NOT_SAFE, 3),
        (CLEANED, "4.2.0", "4.2.1", SAFE, 0),
        (CLEANED, "4.2.0", "4.1.1", NOT_SAFE, 3),
        ("3.9.1", "3.9.1", "4.3.1", NOT_SAFE, 5),
        ("3.9.1", "3.9.1", "4.3.2", NOT_SAFE, 3),
        ("4.3.1", "4.3.1", "4.4.0", SAFE, 0),
        ("4.3.1", "4.3.1", "3.9.1", NOT_SAFE, 3),
        ("4.3.1", "3.4.0", "4.3.1", NO_WAY_BACK, 3),
    ],
)
def test_the_verdict(log: str, since: str, to: str, verdict: str, code: int) -> None:
    found = rehearsed(log, to, since)
    assert (found.verdict, found.exit_code) == (verdict, code), found.reasons
    assert (found.verdict == NOT_SAFE) == bool(found.reasons)


def test_who_changes_on_the_way_from_4_3_1_to_3_9_1() -> None:
    found = rehearsed("4.3.1", "3.9.1", "4.3.1")
    kinds = {one.group_id: set(one.kinds) for one in found.groups}
    gone, other, moved = {"vanishes"}, {"type_changes"}, {"type_changes", "expiry_moves"}
    assert kinds == {"share1": gone, "app0": other, "consempty3": other, "conslive0": moved, "mig0": moved}
    for one in found.groups[:-1]:
        assert (one.after.group_type, one.after.protocol_type, one.after.state) == ("Classic", None, "Empty")
        assert one.before.offsets == one.after.offsets
        assert len(one.after.offsets) == 2
    (moves, *_) = (one.offsets for one in found.groups if one.group_id == "conslive0")
    assert all(one.before["expires_at_ms"] is None and one.after["expires_at_ms"] > 0 for one in moves)


def test_a_reason_says_what_the_release_that_runs_now_has_too() -> None:
    first, second, *_ = rehearsed("3.9.1", "4.3.1", "3.9.1").reasons
    assert first.startswith("log partition 0: the load fails now: Found an unknown record version 1")
    assert second.startswith("log partition 3: the load fails now, as by group_metadata_manager:3.9.1: ")


def test_what_fails_is_said_once() -> None:
    """Groups of a log partition whose load fails are listed, and no reasons of their own."""
    found = rehearsed("4.3.1", "3.4.0", "4.3.1")
    assert len(found.reasons) == 3
    assert len(found.groups) == 9
    assert all("the load fails now" in reason for reason in found.reasons)
    assert all(not one.after.offsets and one.is_breaking for one in found.groups)


def test_misplaced_groups_are_not_served_from_4_0_on() -> None:
    found = rehearsed("3.9.1", "4.0.0", "3.9.1")
    served = {one.group_id for one in found.groups if "not_served" in one.kinds and one.log_partition == 0}
    assert served == {"old-k0v1", "oldgrp-v0", "oldgrp-v1", "oldgrp-v2"}


def test_what_another_release_repairs_appears() -> None:
    found = rehearsed(CLEANED, "4.2.1", "4.2.0")
    assert {one.group_id: one.kinds for one in found.groups} == dict.fromkeys(("app2", "mig0", "plain1"), ("appears",))
    assert not any(one.is_breaking for one in found.groups)
    assert {kind for one in found.groups for kind in one.kinds}.isdisjoint(BREAKING)


def test_one_commit_of_4_1_or_later_has_no_way_back_to_3_4_0() -> None:
    found = rehearsed("3.9.1", "4.3.2", "3.4.0")
    assert [one.what for one in found.to_come][:1] == ["offset values of version 4"]
    assert {one.log_partition: one.what for one in found.way_back}[2] == "offset values of version 4"
    there = {one.log_partition: (one.log_offset, one.what) for one in rehearsed("4.3.1", "4.3.1", "3.4.0").way_back}
    assert there[2] == (2, V4)
    assert there[3] == (0, V4)


def test_what_3_9_1_passes_over() -> None:
    found = {one.log_partition: one for one in rehearsed("4.3.1", "4.3.1", "3.9.1").way_back}
    assert [(found[number].log_offset, found[number].fails_load) for number in (1, 2, 3)] == [
        (0, False), (6, False), (1, False)
    ]  # fmt: skip
    record = found[1].record
    assert record is not None
    assert record["name"] == "ConsumerGroupMemberMetadata"
    assert record["key"]["group_id"] == "consempty3"


def written(folder: Path, *entries: tuple[bytes, bytes | None]) -> Path:
    """A log of one record a batch, in the only log partition."""
    return write_log(folder, {0: encode_log([BatchSpec(entries=[entry]) for entry in entries])})


@pytest.mark.parametrize("to, issues", [("4.0.0", ["KAFKA-19862"]), ("4.0.2", []), ("4.1.1", ["KAFKA-19862"])])
def test_a_partition_whose_new_owner_is_read_before_the_old_one_lets_go(
    to: str, issues: list[str], tmp_path: Path
) -> None:
    """At rest the newest record of each member is there; a load that meets the cleaner reads an older one first."""
    records = [
        *(consumer_member("m"), consumer_member("n"), owns("m", epoch=1), owns("m", epoch=2, partitions=())),
        *(owns("n", epoch=2), owns("m", epoch=3, partitions=())),
    ]  # fmt: skip
    found = rehearsed(written(tmp_path, *records), to, "4.3.1")
    assert [(one.when, one.issue) for one in found.faults] == [(DURING_CLEANING, issue) for issue in issues]
    assert found.verdict == (NOT_SAFE if issues else SAFE)


def test_a_group_that_is_gone_fails_the_preview_as_soon_as_its_values_are_cleaned(tmp_path: Path) -> None:
    life = [consumer_member("m"), record(3, epoch=1), owns("m", epoch=1), record(6, assignment_epoch=1)]
    death = [gone(8, "m"), gone(6), gone(5, "m"), gone(3)]
    log = written(tmp_path, *life, *death)
    (fault,) = rehearsed(log, "group_coordinator:3.9.1", "4.3.1").faults
    assert (fault.when, fault.log_offset, fault.message) == (AFTER_CLEANING, 4, "Consumer group g not found.")
    assert rehearsed(log, "4.0.0", "4.3.1").faults == []
