"""What real brokers said of generated histories, held against the plain rules and the kernels."""

import ast
import re
from uuid import UUID

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import describe_group, list_groups
from sexton.records import kafka_uuid
from tests.coordinator.api.broker import WAYS, rows
from tests.coordinator.kafka_says import kafka_says

RELEASES = ("4.3.1", "4.0.0")
CASES = [case for release in RELEASES for case in kafka_says(release).values()]

pytestmark = [
    pytest.mark.parametrize("way", WAYS),
    pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.profile.text}-{case.name}"),
]


def test_loaded(case, way):
    error = case.coordinator(way).error_of(case.group_id)
    assert (error is Error.NONE) == case.answers["loaded"]


def test_listed(case, way):
    groups = {item.group.group_id: item.group for item in list_groups(case.coordinator(way)).groups}
    group = groups.get(case.group_id)
    told = None if group is None else [group.group_type.lower(), group.protocol_type or "", group.state]
    assert told == case.answers["listed"]


def test_fetched(case, way):
    error, offsets = case.answers["fetch"]
    answer = fetch(case.coordinator(way), case.group_id)
    assert (answer.error.value, rows(answer)) == (error, offsets)


def test_committed_offsets(case, way):
    """The table, where the load has not failed, has what a client can fetch."""
    assert case.committed(way) == (set(case.answers["fetch"][1]) if case.answers["loaded"] else set())


def test_swept(case, way):
    """Each tombstone once, in any order: that between groups is the broker's own."""
    (log_partition,) = case.segments
    assert all(is_tombstone for _, is_tombstone in case.answers["swept"])
    assert case.planned(way) == sorted((log_partition, key) for key, _ in case.answers["swept"])


def test_fetched_by_a_member(case, way):
    """By m at epoch 1, and by nobody at epoch 0."""
    broker = case.coordinator(way)
    told = [
        fetch(broker, case.group_id, member_id=member_id, member_epoch=epoch).error.value
        for member_id, epoch in (("m", 1), (None, 0))
    ]
    assert told == [case.answers["fetch by m at epoch 1"], case.answers["fetch by a null member at epoch 0"]]


def test_described(case, way):
    """By the request of its type: the error, or the state and what each member has."""
    kind = (case.answers["listed"] or ["classic"])[0]
    if kind not in ("classic", "consumer"):
        return  # neither of the two requests is about groups of this type
    told = _told(case.answers[f"describe {kind}"])
    described = describe_group(case.coordinator(way), case.group_id)
    assert (described.error.value, described.state) == (told["error"], told["state"])
    assert [(member.member_id, member.assigned) for member in described.members] == [
        (
            member["member_id"],
            tuple((kafka_uuid(UUID(id_)), number) for id_, _, numbers in member["assignment"] for number in numbers),
        )
        for member in told["members"]
    ]


def _told(description):
    """A description as the recorder noted it: Python's own text of it, with topic ids as UUID('...')."""
    return ast.literal_eval(re.sub(r"UUID\(('[^']*')\)", r"\1", description))
