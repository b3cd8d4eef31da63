"""Whole recordings, asked by way of the questions: what brokers answered after loading exactly these bytes."""

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import list_groups
from sexton.coordinator.profiles import of_broker
from sexton.records import decode_key
from tests.coordinator.api.broker import WAYS, coordinator_of
from tests.coordinator.golden import GOLDEN, RELEASES, data_batches, lines, segments

LOG_PARTITIONS = 4
GROUP_TYPE = b"\0\2"


def loaded(name, *, way="plain", release=None):
    """(what the broker answered, a coordinator of the same bytes, by the rules of `release` or of its own)."""
    logs = {log_partition: b"".join(chunks) for log_partition, chunks in segments(GOLDEN / name / "before")}
    profile = of_broker(release or RELEASES[name])
    broker = coordinator_of(logs, profile=profile, partition_count=LOG_PARTITIONS, way=way)
    return lines(GOLDEN / name / "loaded.jsonl"), broker


@pytest.fixture(scope="module", params=[(name, way) for name in RELEASES for way in WAYS], ids="-".join)
def recorded(request):
    """(name of the recording, what the broker answered, a coordinator of the same bytes)."""
    name, way = request.param
    return name, *loaded(name, way=way)


def _told(answer):
    """The offsets, and the partitions that a transaction holds: nothing else may be the matter with one."""
    assert answer.error is Error.NONE
    told = {f"{o.topic}-{o.partition}": [o.committed_offset, o.leader_epoch, o.metadata] for o in answer.offsets}
    held = {f"{o.topic}-{o.partition}" for o in answer.offsets if o.error}
    assert {o.error for o in answer.offsets} <= {Error.NONE, Error.UNSTABLE_OFFSET_COMMIT}
    return {key: row for key, row in told.items() if key not in held}, held


def test_fetch(recorded):
    _, answers, broker = recorded
    answers = [answer for answer in answers if "offsets" in answer]  # share groups were not asked
    assert sum(len(answer["offsets"]) for answer in answers) > 200
    for answer in answers:
        assert _told(fetch(broker, answer["group"])) == (answer["offsets"], set()), answer["group"]


def test_fetch_stable(recorded):
    """Asked for from 2.5 on; what has no stable offset is held by a transaction."""
    _, answers, broker = recorded
    for answer in answers:
        if "stable" in answer:
            told, held = _told(fetch(broker, answer["group"], require_stable=True))
            assert told == answer["stable"], answer["group"]
            assert answer["offsets"].keys() - told.keys() <= held, answer["group"]


def test_list(recorded):
    name, answers, broker = recorded
    listed = {item.group.group_id: item.group for item in list_groups(broker).groups}
    if "state" in answers[0]:
        told = {(name, group.group_type, group.state, group.protocol_type or "") for name, group in listed.items()}
        assert told == {
            (answer["group"], answer["type"] or "Classic", answer["state"], answer["protocol"]) for answer in answers
        }
        return
    # 0.9 was not asked for a list. It has the groups that have a record; what offsets alone have made it does not list.
    with_record = {key.group_id for key, value in _records(name) if value is not None}
    without = {key.group_id for key, value in _records(name) if value is None}
    assert listed.keys() == with_record - without
    assert {answer["group"] for answer in answers} - listed.keys()


def _records(name):
    """Key and value of each record of a classic group."""
    for _, records in data_batches(name):
        for record in records:
            if record.key.startswith(GROUP_TYPE):
                yield decode_key(record.key)[1], record.value


@pytest.mark.parametrize(
    "name, release, differing",
    [("kafka-2.8.2-plain", "4.3.1", 35), ("kafka-3.9.1", "4.0.0", 57), ("kafka-4.0.0", "3.9.1", 110)],
)
def test_by_another_coordinator_s_rules_offsets_differ(name, release, differing):
    answers, broker = loaded(name, release=release)
    count = 0
    for answer in answers:
        told, _ = _told(fetch(broker, answer["group"]))
        offsets = answer.get("offsets") or {}
        count += sum(told.get(key) != offsets.get(key) for key in told.keys() | offsets.keys())
    assert count == differing
