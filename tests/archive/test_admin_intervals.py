"""What admin snapshots say together: every instant lies in its interval, however the admin snapshots fall."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.archive.admin_intervals import merge_snapshots
from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshots
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import CLUSTER, Archive

START_MS, STEP_MS = 1_790_000_000_000, 1_000
KEY = ("g", "t", 0)


def merged(archive: Archive, snapshot: AdminSnapshot) -> tuple[dict[str, Any], dict[Any, Any]]:
    """The row of the group g, and those of its offsets by key."""
    found = merge_snapshots(AdminSnapshots(archive.fs, archive.root, CLUSTER), snapshot)
    (group,) = [row for row in found.groups.to_pylist() if row["group_id"] == "g"]
    return group, {(row["group_id"], row["topic"], row["partition"]): row for row in found.offsets.to_pylist()}


def snapshots(archive: Archive, *seen: tuple[dict[str, Any] | None, int | None], **options: Any) -> AdminSnapshot:
    """A look every STEP_MS: what the group g was like (None: not there), and its offset."""
    for number, (group, offset) in enumerate(seen):
        groups = {} if group is None else {"g": group}
        offsets = {} if offset is None else {KEY: offset}
        snapshot = write_snapshot(archive, START_MS + number * STEP_MS, groups, offsets, **options)
    return snapshot


def at(number: int) -> int:
    return START_MS + number * STEP_MS


STABLE = {"state": "Stable", "member_count": 1}


def test_a_value_is_committed_between_two_snapshots(archive: Archive) -> None:
    group, offsets = merged(archive, snapshots(archive, (STABLE, 1), (STABLE, 1), ({}, 2), ({}, 2)))
    assert offsets[KEY]["commit_after_ms"] == at(1)
    assert offsets[KEY]["commit_by_ms"] == at(2) + 2  # it was Empty when it was described, after the offsets
    assert (group["empty_after_ms"], group["empty_by_ms"]) == (at(1) + 1, at(2) + 2)


def test_nothing_is_known_of_what_the_first_snapshot_saw(archive: Archive) -> None:
    group, offsets = merged(archive, snapshots(archive, ({}, 1), ({}, 1)))
    assert (offsets[KEY]["commit_after_ms"], offsets[KEY]["commit_by_ms"]) == (None, at(0) + 2)
    assert (group["empty_after_ms"], group["empty_by_ms"]) == (None, at(0) + 2)


@pytest.mark.parametrize("group", [STABLE, {"protocol_type": None}], ids=["members", "simple"])
def test_the_same_value_may_be_committed_up_to_the_snapshot(archive: Archive, group: dict[str, Any]) -> None:
    _, offsets = merged(archive, snapshots(archive, (group, 1), (group, 2), (group, 2)))
    assert (offsets[KEY]["commit_after_ms"], offsets[KEY]["commit_by_ms"]) == (at(0), at(2) + 1)


def test_a_group_that_is_not_listed_was_made_later(archive: Archive) -> None:
    group, offsets = merged(archive, snapshots(archive, (None, None), ({}, 1)))
    assert (offsets[KEY]["commit_after_ms"], group["empty_after_ms"]) == (at(0), at(0))


def test_a_group_that_is_not_listed_among_others(archive: Archive) -> None:
    write_snapshot(archive, at(0), {"h": {}}, {})
    group, offsets = merged(archive, write_snapshot(archive, at(1), {"g": {}, "h": {}}, {KEY: 1}))
    assert (offsets[KEY]["commit_after_ms"], group["empty_after_ms"]) == (at(0), at(0))


@pytest.mark.parametrize("hidden", [{"sees_all_groups": False}, {"failed_brokers": {"1": "down"}}])
def test_nothing_follows_from_what_a_snapshot_may_not_have_seen(archive: Archive, hidden: dict[str, Any]) -> None:
    group, offsets = merged(archive, snapshots(archive, (None, None), ({}, 1), **hidden))
    assert offsets[KEY]["commit_after_ms"] is None
    assert group["empty_after_ms"] is None


def test_a_group_that_was_not_answered_about_is_passed_over(archive: Archive) -> None:
    refused = {"error": "GROUP_AUTHORIZATION_FAILED", "state": None}
    refused |= {"offsets_error": "GROUP_AUTHORIZATION_FAILED", "offsets_answered_ms": None}
    group, offsets = merged(archive, snapshots(archive, (STABLE, 1), (refused, None), ({}, 2)))
    assert (offsets[KEY]["commit_after_ms"], group["empty_after_ms"]) == (at(0), at(0) + 1)


@pytest.mark.parametrize(("topic", "after_ms"), [("hidden", None), ("t", START_MS)])
def test_an_offset_of_a_topic_that_was_hidden(archive: Archive, topic: str, after_ms: int | None) -> None:
    key = ("g", topic, 0)
    write_snapshot(archive, at(0), {"g": {}}, {}, sees_all_topics=False)
    snapshot = write_snapshot(archive, at(1), {"g": {}}, {key: 1}, sees_all_topics=False)
    assert merged(archive, snapshot)[1][key]["commit_after_ms"] == after_ms


def test_a_commit_between_two_snapshots_that_saw_it_empty(archive: Archive) -> None:
    """It was active in between, or an administrator committed: only the upper bound moves."""
    group, offsets = merged(archive, snapshots(archive, (STABLE, 1), ({}, 1), ({}, 1), ({}, 2), ({}, 2)))
    assert (group["empty_after_ms"], group["empty_by_ms"]) == (at(0) + 1, at(3) + 2)
    assert offsets[KEY]["commit_by_ms"] == at(3) + 2


def test_an_epoch_that_moved(archive: Archive) -> None:
    kinds = [{"group_type": "Consumer", "group_epoch": epoch} for epoch in (3, 3, 5, 5)]
    group, offsets = merged(archive, snapshots(archive, *((kind, 1) for kind in kinds)))
    assert group["empty_by_ms"] == at(2) + 2
    assert offsets[KEY]["commit_by_ms"] == at(2) + 2  # members may have committed the same value


def test_a_simple_group_that_got_members(archive: Archive) -> None:
    """Both are Empty, but a group of another protocol type has not been Empty since it was a simple one."""
    group, offsets = merged(archive, snapshots(archive, ({"protocol_type": None}, 1), ({}, 1), ({}, 1)))
    assert (group["empty_after_ms"], group["empty_by_ms"]) == (at(0) + 1, at(1) + 2)
    assert offsets[KEY]["commit_by_ms"] == at(1) + 2


def test_a_commit_of_an_offset_that_is_gone_again(archive: Archive) -> None:
    other = ("g", "u", 0)
    for number, offsets in enumerate(({KEY: 1, other: 2}, {KEY: 1, other: 3}, {KEY: 1}, {KEY: 1})):
        snapshot = write_snapshot(archive, at(number), {"g": {}}, offsets)
    group, found = merged(archive, snapshot)
    assert (group["empty_by_ms"], found[KEY]["commit_by_ms"]) == (at(1) + 2, at(1) + 2)


def test_a_commit_is_seen_across_a_snapshot_that_does_not_answer(archive: Archive) -> None:
    other, refused = ("g", "u", 0), {"offsets_error": "NOT_COORDINATOR", "offsets_answered_ms": None}
    seen: list[tuple[dict[str, Any], dict[Any, int]]]
    seen = [({}, {KEY: 1, other: 2}), (refused, {}), ({}, {KEY: 1, other: 3}), ({}, {KEY: 1})]
    for number, (group, offsets) in enumerate(seen):
        snapshot = write_snapshot(archive, at(number), {"g": group}, offsets)
    assert merged(archive, snapshot)[0]["empty_by_ms"] == at(2) + 2


def test_a_commit_is_seen_across_a_snapshot_that_hides_its_topic(archive: Archive) -> None:
    other = ("g", "hidden", 0)
    for number, value in enumerate((2, None, 3, 3)):
        offsets = {KEY: 1} if value is None else {KEY: 1, other: value}
        snapshot = write_snapshot(archive, at(number), {"g": {}}, offsets, sees_all_topics=value is not None)
    assert merged(archive, snapshot)[0]["empty_by_ms"] == at(2) + 2


def test_a_group_that_was_described_before_its_offsets_were_fetched(archive: Archive) -> None:
    """What it committed in between, and when it was Empty again, is of no admin snapshot: only the last admin snapshot
    bounds it."""
    early = {"asked_ms": at(0) - 2, "answered_ms": at(0) - 1}
    group, offsets = merged(archive, snapshots(archive, (STABLE, 1), (early, 2), ({}, 2)))
    assert (group["empty_by_ms"], offsets[KEY]["commit_by_ms"]) == (at(2) + 2, at(2) + 2)


@dataclass
class World:
    """A group whose members always leave a trace: whoever joins commits something new before the last one leaves, and
    nothing is deleted before an admin snapshot has shown it."""

    now_ms: int = START_MS
    has_members: bool = False
    empty_since_ms: int = START_MS
    offsets: dict[Any, int] = field(default_factory=dict)
    committed_ms: dict[Any, int] = field(default_factory=dict)
    next_value: int = 0
    shown: dict[Any, int] = field(default_factory=dict)

    def commit(self, partition: int, *, same: bool) -> None:
        key = ("g", "t", partition)
        if not same or key not in self.offsets:
            self.next_value += 1
            self.offsets[key] = self.next_value
        self.committed_ms[key] = self.now_ms


STEPS = st.lists(
    st.tuples(st.sampled_from(["snapshot", "join", "leave", "commit", "again", "delete"]), st.integers(0, 2)),
    max_size=40,
)


@settings(max_examples=40)
@given(STEPS, st.booleans())
def test_every_instant_lies_in_its_interval(tmp_path_factory, steps, is_consumer):
    archive, world = Archive(tmp_path_factory.mktemp("admin")), World()
    kind = {"group_type": "Consumer"} if is_consumer else {}
    taken: list[int] = []
    for step, partition in [*steps, ("snapshot", 0)]:
        world.now_ms += 100
        match step:
            case "join":
                world.has_members = True
            case "commit" | "again" if world.has_members:
                world.commit(partition, same=step == "again")
            case "leave" if world.has_members:
                world.commit(partition, same=False)
                world.has_members, world.empty_since_ms = False, world.now_ms
            case "delete" if not world.has_members:
                key = ("g", "t", partition)
                if key in world.offsets and world.shown.get(key) == world.offsets[key]:
                    del world.offsets[key]
            case "snapshot":
                state = {**kind, **(STABLE if world.has_members else {})}
                snapshot = write_snapshot(archive, world.now_ms, {"g": state}, world.offsets)
                taken.append(snapshot.taken_at_ms)
                world.shown = dict(world.offsets)
                group, offsets = merged(archive, snapshot)
                if not world.has_members:
                    after_ms = group["empty_after_ms"]
                    assert after_ms is None or after_ms < world.empty_since_ms
                    assert len(taken) == 1 or world.empty_since_ms <= group["empty_by_ms"]
                for key, row in offsets.items():
                    after_ms = row["commit_after_ms"]
                    assert after_ms is None or after_ms < world.committed_ms[key]
                    assert world.committed_ms[key] <= row["commit_by_ms"]
    assert AdminSnapshots(archive.fs, archive.root, CLUSTER).manifest(taken[-1]).rows["groups"] == 1
