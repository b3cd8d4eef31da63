"""What admin snapshots of the archive say of the groups of a plan: as the plan saw them, and what any later admin
snapshot shows."""

from typing import Any

import pytest

from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshots
from sexton.archive.snapshots_since import GroupThen, groups_then
from sexton.errors import Refused
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import CLUSTER, Archive

AT_MS = 1_790_000_000_000
KEY, OTHER = ("g", "t", 0), ("g", "t", 1)


def then(archive: Archive, snapshot: AdminSnapshot, **changes: Any) -> GroupThen:
    asked = {"taken_at_ms": snapshot.taken_at_ms, "sha256": snapshot.sha256, "group_ids": ["g"], **changes}
    return groups_then(AdminSnapshots(archive.fs, archive.root, CLUSTER), **asked)["g"]


def now(**values: Any) -> dict[str, Any]:
    """An admin snapshot of the group as it was, or as `values` say."""
    same = {"state": "Empty", "protocol_type": "consumer", "group_epoch": None, "member_count": 0}
    return {**same, "offsets": {("t", 0): (5, None, "")}, **values}


def test_nothing_happened(archive: Archive) -> None:
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5})
    write_snapshot(archive, AT_MS + 1_000, {"g": {}}, {KEY: 5})
    found = then(archive, snapshot)
    assert (found.changed, found.was_gone) == (None, frozenset())
    assert found.change(**now()) is None
    assert found.change(**now(state=None, protocol_type=None, member_count=None, offsets={})) is None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"state": "Stable", "member_count": 1}, "the group is Stable"),
        ({"protocol_type": "connect"}, "has had members"),
        ({"group_epoch": 7}, "group epoch None then, 7 now"),
        ({"offsets": {("t", 0): (6, None, "")}}, "t-0 was 5, now 6"),
        ({"offsets": {("t", 0): (5, 1, "")}}, "t-0 was 5, now 5"),
        ({"offsets": {("t", 0): (5, None, "m")}}, "t-0 was 5, now 5"),
        ({"offsets": {("t", 0): (5, None, ""), ("t", 1): (0, None, "")}}, "t-1 was nothing, now 0"),
        ({"state": None}, "no longer a Classic group"),
    ],
    ids=["members", "protocol", "epoch", "offset", "leader epoch", "metadata", "another", "type"],
)
def test_whatever_is_not_as_it_was(archive: Archive, values: dict[str, Any], why: str) -> None:
    found = then(archive, write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5}))
    assert why in str(found.change(**now(**values)))


def test_a_snapshot_in_between_saw_it_active(archive: Archive) -> None:
    """And by now everything looks as it did."""
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5})
    write_snapshot(archive, AT_MS + 1_000, {"g": {"state": "Stable", "member_count": 1}}, {KEY: 5})
    write_snapshot(archive, AT_MS + 2_000, {"g": {}}, {KEY: 5})
    assert f"the group is Stable (by the admin snapshot of {AT_MS + 1_000} ms)" in str(then(archive, snapshot).changed)


def test_a_snapshot_in_between_did_not_find_it(archive: Archive) -> None:
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5, OTHER: 6})
    write_snapshot(archive, AT_MS + 1_000, {"g": {}}, {KEY: 5})
    found = then(archive, snapshot)
    assert found.change(**now()) is None
    back = {("t", 0): (5, None, ""), ("t", 1): (6, None, "")}
    assert "t-1 was missing in a later admin snapshot, and exists again" in str(found.change(**now(offsets=back)))


def test_of_a_snapshot_without_an_answer_nothing_follows(archive: Archive) -> None:
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5})
    write_snapshot(archive, AT_MS + 1_000, {"g": {"error": "COORDINATOR_NOT_AVAILABLE", "state": None}}, {})
    write_snapshot(archive, AT_MS + 2_000, {}, {}, failed_brokers={"1": "no answer"})
    write_snapshot(archive, AT_MS + 3_000, {}, {}, sees_all_groups=False)
    found = then(archive, snapshot)
    assert (found.changed, found.was_gone) == (None, frozenset())


def test_members_that_a_snapshot_saw_although_its_offsets_failed(archive: Archive) -> None:
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5})
    failed = {"offsets_error": "NOT_COORDINATOR", "offsets_answered_ms": None}
    write_snapshot(archive, AT_MS + 1_000, {"g": failed}, {})
    assert then(archive, snapshot).was_gone == frozenset()
    write_snapshot(archive, AT_MS + 2_000, {"g": {"state": "Stable", "member_count": 1, **failed}}, {})
    write_snapshot(archive, AT_MS + 3_000, {"g": {}}, {KEY: 5})
    assert str(then(archive, snapshot).changed).startswith("the group is Stable")


def test_topics_that_were_hidden_are_no_commits(archive: Archive) -> None:
    found = then(archive, write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5}, sees_all_topics=False))
    offsets = {("t", 0): (5, None, ""), ("hidden", 0): (9, None, "")}
    assert found.change(**now(offsets=offsets)) is None
    assert "t-2" in str(found.change(**now(offsets={**offsets, ("t", 2): (1, None, "")})))


@pytest.mark.parametrize("values", [{"error": "GROUP_AUTHORIZATION_FAILED", "state": None}, {"state": "Stable"}])
def test_what_was_not_empty_then_is_left_alone(archive: Archive, values: dict[str, Any]) -> None:
    found = then(archive, write_snapshot(archive, AT_MS, {"g": values}, {KEY: 5}))
    assert "when the plan was made" in str(found.change(**now()))


def test_the_snapshot_is_the_one_of_the_plan(archive: Archive) -> None:
    snapshot = write_snapshot(archive, AT_MS, {"g": {}}, {KEY: 5})
    with pytest.raises(Refused, match="which the archive lacks"):
        then(archive, snapshot, taken_at_ms=AT_MS + 1)
    with pytest.raises(Refused, match="is not the one"):
        then(archive, snapshot, sha256={**snapshot.sha256, "groups": "0" * 64})
    with pytest.raises(Refused, match="does not have h"):
        then(archive, snapshot, group_ids=["g", "h"])
