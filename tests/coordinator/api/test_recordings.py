"""Whole recordings, asked by way of the questions: what brokers answered after loading exactly these bytes."""

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import list_groups
from sexton.coordinator.profiles import of_broker
from tests.coordinator.api.broker import WAYS, coordinator_of
from tests.coordinator.golden import GOLDEN, RELEASES, lines, segments

LOG_PARTITIONS = 4


@pytest.fixture(scope="module", params=[(name, way) for name in RELEASES for way in WAYS], ids="-".join)
def recorded(request):
    """(what the broker answered, a coordinator of the same bytes)."""
    name, way = request.param
    logs = {log_partition: b"".join(chunks) for log_partition, chunks in segments(GOLDEN / name / "before")}
    broker = coordinator_of(logs, profile=of_broker(RELEASES[name]), partition_count=LOG_PARTITIONS, way=way)
    return lines(GOLDEN / name / "loaded.jsonl"), broker


def _told(answer):
    assert answer.error is Error.NONE
    return {
        f"{offset.topic}-{offset.partition}": [offset.committed_offset, offset.leader_epoch, offset.metadata]
        for offset in answer.offsets
        if not offset.error
    }


def test_fetch(recorded):
    answers, broker = recorded
    answers = [answer for answer in answers if "offsets" in answer]  # share groups were not asked
    assert sum(len(answer["offsets"]) for answer in answers) > 200
    for answer in answers:
        assert _told(fetch(broker, answer["group"])) == answer["offsets"], answer["group"]


def test_fetch_stable(recorded):
    answers, broker = recorded
    answers = [answer for answer in answers if "stable" in answer]
    for answer in answers:
        assert _told(fetch(broker, answer["group"], require_stable=True)) == answer["stable"], answer["group"]


def test_list(recorded):
    answers, broker = recorded
    listed = {item.group.group_id: item.group for item in list_groups(broker).groups}
    if "state" not in answers[0]:  # 0.9 was not asked for a list; what offsets alone have made it does not list
        assert all(group.log_offset is not None for group in listed.values())
        return
    assert {name: (group.state, group.protocol_type or "") for name, group in listed.items()} == {
        answer["group"]: (answer["state"], answer["protocol"]) for answer in answers
    }


def test_a_group_that_is_not_there_has_no_offsets(recorded):
    _, broker = recorded
    answer = fetch(broker, "nobody-has-this")
    assert (answer.error, answer.offsets) == (Error.NONE, ())
