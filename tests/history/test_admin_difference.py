"""What two admin snapshots differ in: in which interval each thing changed, and everything that can have done it."""

import json
from typing import Any

import pytest

from sexton import cli
from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshots
from sexton.coordinator.profiles import NEWEST
from sexton.history.admin_difference import changes_of_snapshots, difference_of_snapshots
from sexton.history.difference import InstantComparison
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import Archive
from tests.ledger.ledgers import act

START_MS, MINUTE_MS = 1_790_000_000_000, 60_000
"""The retention of the admin snapshots' cluster is ten minutes."""
KEY, OTHER = ("g", "t", 0), ("g", "t", 1)
STABLE: dict[str, Any] = {"state": "Stable", "member_count": 1}
Snapshot = tuple[dict[str, dict[str, Any]], dict[tuple[str, str, int], int]]


def snapshots(archive: Archive, *seen: Snapshot, **manifest: Any) -> list[AdminSnapshot]:
    """An admin snapshot each minute."""
    return [
        write_snapshot(archive, at(number), groups, offsets, **manifest)
        for number, (groups, offsets) in enumerate(seen)
    ]


def empty_for(minutes: int) -> list[Snapshot]:
    """A group with two offsets that loses its members, and some minutes later the first offset."""
    return [({"g": STABLE}, {KEY: 1, OTHER: 2}), *[({"g": {}}, {KEY: 1, OTHER: 2})] * minutes, ({"g": {}}, {OTHER: 2})]


def at(number: int) -> int:
    return START_MS + number * MINUTE_MS


def series(archive: Archive) -> AdminSnapshots:
    return AdminSnapshots(archive.fs, archive.root, archive.cluster_id)


def between(archive: Archive, first: AdminSnapshot, last: AdminSnapshot) -> tuple[InstantComparison, int, int]:
    """The difference, the number of admin snapshots, and of groups that are left out."""
    return difference_of_snapshots(series(archive), first, last, profile=NEWEST)


def offsets_of(found: tuple[InstantComparison, int, int]) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["group_id"], row["topic"], row["partition"]): row for row in found[0].offsets.to_pylist()}


def test_a_commit_lies_between_the_snapshots_around_it(archive: Archive) -> None:
    made = snapshots(archive, *[({"g": STABLE}, {KEY: value}) for value in (1, 1, 2, 2)])
    found = between(archive, made[0], made[-1])
    (row,) = offsets_of(found).values()
    assert (row["before"], row["after"], row["change"], row["cause"]) == (1, 2, "changed", "committed")
    assert (row["changed_after_ms"], row["changed_by_ms"]) == (at(1), at(2) + 1)
    assert (*found[1:], found[0].groups.num_rows) == (4, 0, 0)


def test_what_came_and_changed_again_has_the_last_interval(archive: Archive) -> None:
    made = snapshots(archive, *[({"g": STABLE}, {KEY: value}) for value in (1, 5, 2)])
    (row,) = offsets_of(between(archive, made[0], made[-1])).values()
    assert (row["before"], row["after"], row["changed_after_ms"]) == (1, 2, at(1))


def test_what_cannot_have_been_due_was_deleted(archive: Archive) -> None:
    """Five minutes after it became Empty; the other offset is there, so that the group was not deleted with all."""
    made = snapshots(archive, *empty_for(5))
    (row,) = offsets_of(between(archive, made[0], made[-1])).values()
    assert (row["change"], row["candidates"]) == ("disappeared", ["deleted"])
    assert (row["changed_after_ms"], row["changed_by_ms"]) == (at(5), at(6) + 1)


@pytest.mark.parametrize(
    ("settings", "minutes", "kinds"),
    [
        ({}, None, ["ambiguous"]),
        ({}, 10, ["deleted"]),
        ({"offsets.retention.minutes": "10"}, None, ["deleted"]),
        ({"offsets.retention.minutes": "10"}, 5, ["ambiguous"]),
    ],
    ids=["unknown", "asked-for", "recorded", "asked-for-another"],
)
def test_only_a_retention_that_is_known_excludes_expiry(archive, settings, minutes, kinds):
    made = snapshots(archive, *empty_for(5), settings=settings)
    retention_ms = None if minutes is None else minutes * MINUTE_MS
    ends = made[0], made[-1]
    changes, _ = changes_of_snapshots(series(archive), *ends, retention_ms=retention_ms, profile=NEWEST)
    assert [row["kind"] for row in changes.to_pylist()] == kinds


def test_what_can_have_been_due_was_deleted_or_expired(archive: Archive) -> None:
    made = snapshots(archive, *empty_for(11))
    (row,) = offsets_of(between(archive, made[0], made[-1])).values()
    assert row["cause"] == "expired or deleted"


def test_a_group_that_is_gone(archive: Archive) -> None:
    made = snapshots(archive, ({"g": STABLE}, {KEY: 1}), ({"g": {}}, {KEY: 1}), ({}, {}))
    found = between(archive, made[0], made[-1])
    assert offsets_of(found)[KEY]["candidates"] == ["deleted", "group_deleted"]
    (group,) = found[0].groups.to_pylist()
    assert (group["before"], group["after"], group["cause"]) == ("Classic Stable 1", None, "deleted")
    assert (group["changed_after_ms"], group["changed_by_ms"]) == (at(1) + 1, at(2) + 5)  # when it was described


def test_of_a_group_with_members_anything_may_have_been(archive: Archive) -> None:
    made = snapshots(archive, ({"g": STABLE}, {KEY: 1}), ({}, {}))
    assert offsets_of(between(archive, *made))[KEY]["candidates"] == ["expired", "deleted", "group_deleted"]


def test_a_topic_that_is_gone(archive: Archive) -> None:
    made = snapshots(archive, ({"g": {}}, {KEY: 1, ("g", "u", 0): 3}), ({"g": {}}, {KEY: 1}))
    (row,) = offsets_of(between(archive, *made)).values()
    assert row["candidates"][-1] == "topic_deleted"  # no admin snapshot ever showed u


def test_what_is_not_answered_is_left_out_and_widens_the_interval(archive: Archive) -> None:
    silent: dict[str, Any] = {"state": None, **dict.fromkeys(("error", "offsets_error"), "COORDINATOR_NOT_AVAILABLE")}
    seen = [({"g": STABLE, "h": {}}, {KEY: 1}), ({"g": silent, "h": {}}, {}), ({"g": STABLE, "h": silent}, {KEY: 2})]
    made = snapshots(archive, *seen)
    found = between(archive, made[0], made[-1])
    (row,) = offsets_of(found).values()
    assert (row["changed_after_ms"], row["changed_by_ms"]) == (at(0), at(2) + 1)
    assert (found[2], found[0].groups.num_rows) == (1, 0)


def test_offsets_of_a_group_that_was_not_described_bound_as_well(archive: Archive) -> None:
    """An admin snapshot asks for them in another request."""
    silent: dict[str, Any] = {"state": None, "error": "COORDINATOR_NOT_AVAILABLE"}
    made = snapshots(archive, ({"g": {}}, {KEY: 1}), ({"g": silent}, {KEY: 2}), ({"g": {}}, {KEY: 2}))
    (row,) = offsets_of(between(archive, made[0], made[-1])).values()
    assert (row["changed_after_ms"], row["changed_by_ms"]) == (at(0), at(1) + 1)


def test_who_is_not_shown_is_not_taken_for_gone(archive: Archive) -> None:
    made = snapshots(archive, ({"g": {}}, {KEY: 1}), ({}, {}), sees_all_groups=False)
    found = between(archive, *made)
    assert (found[2], found[0].counts()["offsets"]) == (1, {"appeared": 0, "changed": 0, "disappeared": 0})


def test_plans_that_may_have_done_it_are_named(archive: Archive) -> None:
    made = snapshots(archive, ({"g": {}}, {KEY: 1, OTHER: 2}), ({"g": {}}, {}))
    act(archive, "plan", "tombstone", [KEY], at_ms=at(0) + 2_000)
    rows = offsets_of(between(archive, *made))
    assert {key: row["plan_ids"] for key, row in rows.items()} == {KEY: ["plan"], OTHER: []}
    assert rows[KEY]["candidates"] != ["deleted"]  # that it did is likely, and no admin snapshot shows it


def test_the_command_says_what_it_is_by(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    snapshots(archive, ({"g": STABLE}, {KEY: 1}), ({"g": STABLE}, {KEY: 2}))
    asked = [str(at(0)), str(at(1)), "--archive", archive.root]
    assert cli.main(["diff", *asked]) == 0
    told = capsys.readouterr().out
    assert "coverage admin: 2 snapshots by Admin API" in told
    assert "CHANGED-AFTER" in told
    assert cli.main(["diff", *asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["coverage"], found["admin_snapshots"], found["groups_left_out"]) == ("admin", 2, 0)
    assert found["offsets"][0]["candidates"] == ["committed"]
    assert cli.main(["diff", asked[1], asked[0], *asked[2:]]) == 2
    assert cli.main(["diff", str(at(0) - 20 * MINUTE_MS), *asked[1:]]) == 4
