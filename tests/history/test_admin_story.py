"""What explain says of a group from admin snapshots: nothing that an admin snapshot shows is lost, and nothing is said
that none shows."""

from pathlib import Path
from typing import Any

from sexton.archive.admin_snapshots import AdminSnapshot
from sexton.coordinator.profiles import NEWEST
from sexton.history.admin_story import admin_story
from sexton.history.events import Story
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import CLUSTER, Archive
from tests.history.test_admin_difference import KEY, OTHER, STABLE, Snapshot, at, series
from tests.ledger.ledgers import act

NO_OFFSETS: dict[str, Any] = {"offsets_error": "NOT_COORDINATOR", "offsets_answered_ms": None}


def story(archive: Archive, *seen: Snapshot, hidden: int | None = None) -> Story:
    """An admin snapshot each minute; one of them does not see all topics."""
    for number, (groups, offsets) in enumerate(seen):
        snapshot = write_snapshot(archive, at(number), groups, offsets, sees_all_topics=number != hidden)
    return told(archive, snapshot)


def told(archive: Archive, snapshot: AdminSnapshot) -> Story:
    return admin_story(
        series(archive), snapshot, "g", is_requested=lambda *_: True, retention_minutes=None, profile=NEWEST
    )  # fmt: skip


def events(found: Story) -> list[str]:
    return [event.what for event in found.events]


def test_a_commit_shows_after_a_snapshot_without_an_answer(archive: Archive) -> None:
    found = story(archive, ({"g": {}}, {KEY: 1}), ({"g": NO_OFFSETS}, {}), ({"g": {}}, {KEY: 2}))
    assert events(found) == ["appeared", "committed", "committed"]
    assert found.events[1].detail == "t-0 at 1, at the first admin snapshot"
    assert found.events[-1].detail == "t-0 at 2, since the admin snapshot of 2026-09-21T14:13:20.000Z"


def test_members_that_are_seen_without_offsets(archive: Archive) -> None:
    found = story(archive, ({"g": {}}, {}), ({"g": {**STABLE, **NO_OFFSETS}}, {}), ({"g": {}}, {}))
    assert [event.detail.split(", since")[0] for event in found.events[1:]] == [
        "Classic group (consumer), Stable, 1 member",
        "Classic group (consumer), Empty",
    ]


def test_an_offset_of_a_topic_that_one_snapshot_does_not_see_is_not_gone(archive: Archive) -> None:
    other = ("g", "hidden", 0)
    seen = [({"g": {}}, {KEY: 1, other: value} if value else {KEY: 1}) for value in (5, 0, 6)]
    found = story(archive, *seen, hidden=1)
    assert events(found) == ["appeared", "committed", "committed"]
    assert found.events[-1].detail == "hidden-0 at 6, since the admin snapshot of 2026-09-21T14:13:20.000Z"


def test_what_a_plan_of_ours_may_have_deleted(archive: Archive) -> None:
    act(archive, "plan", "tombstone", [KEY], at_ms=at(0) + 2_000)
    found = story(archive, ({"g": {}}, {KEY: 1, OTHER: 2}), ({"g": {}}, {OTHER: 2}))
    (gone,) = (event for event in found.events if event.causes)
    assert gone.causes == ("expired", "deleted")  # nobody knows when it was committed
    assert "plan plan may have" in gone.detail


def test_a_damaged_look_is_passed_over(archive: Archive) -> None:
    found = story(archive, ({"g": {}}, {KEY: 1}), ({"g": {}}, {KEY: 2}), ({"g": {}}, {KEY: 3}))
    path = Path(archive.root) / CLUSTER / "admin_snapshots" / str(at(1)) / "offsets.parquet"
    path.write_bytes(b"damaged")
    again = told(archive, series(archive).manifest(at(2)))
    assert (len(found.events), len(found.notes)) == (4, 1)
    assert events(again) == ["appeared", "committed", "committed"]
    assert [str(path) in why for why in again.notes[1:]] == [True]
