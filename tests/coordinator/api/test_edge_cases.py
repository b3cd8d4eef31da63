"""Every edge case of a real broker, asked by way of the questions: 4.3.1 and 2.8.2, plain replay and tables."""

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.listing import describe_group, list_groups
from tests.coordinator.api.broker import WAYS, broker_of, rows
from tests.coordinator.golden import edge_cases


@pytest.fixture(scope="module", params=[(release, way) for release in ("4.3.1", "2.8.2") for way in WAYS], ids="-".join)
def asked(request):
    """(release, its cases, the broker that loaded them)."""
    release, way = request.param
    cases = edge_cases(release)
    return release, cases, broker_of(cases.values(), way=way)


def _recorded(answer):
    """An answer in the words of the recorder: ten characters of metadata, UNSTABLE for the longer name."""
    if answer.error:
        return {"ERR": answer.error.name}
    short = {"UNSTABLE_OFFSET_COMMIT": "UNSTABLE"}
    return {
        key: [short.get(part, part[:10]) if isinstance(part, str) else part for part in row]
        for key, row in rows(answer).items()
    }


def answered(cases, question):
    return {name: case.answers[question] for name, case in cases.items()}


def test_fetch(asked):
    _, cases, broker = asked
    assert len(cases) > 80
    assert {name: _recorded(fetch(broker, case.group_id)) for name, case in cases.items()} == answered(cases, "fetch")


def test_fetch_stable(asked):
    _, cases, broker = asked
    found = {name: _recorded(fetch(broker, case.group_id, require_stable=True)) for name, case in cases.items()}
    assert found == answered(cases, "fetch_stable")


def test_list(asked):
    release, cases, broker = asked
    answer = list_groups(broker)
    assert answer.error is Error.NONE
    listed = {item.group.group_id: item.group for item in answer.groups}
    assert len(listed) == len(answer.groups)

    def told(group_id):
        group = listed.get(group_id)
        kind = "?" if release == "2.8.2" else None if group is None else group.group_type.lower()
        return None if group is None else [kind, group.protocol_type or "", group.state]

    assert {name: told(case.group_id) for name, case in cases.items()} == answered(cases, "listed")


def test_a_group_of_a_failed_load_is_described_so(asked):
    release, cases, broker = asked
    described = describe_group(broker, cases["28"].group_id)
    want = (Error.NOT_COORDINATOR, "") if release == "4.3.1" else (Error.NONE, "Dead")
    assert (described.error, described.state) == want


def test_a_partition_held_by_a_transaction_alone(asked):
    """Row 17: a named partition is -1, to a stable fetch UNSTABLE, and another partition is not touched by it."""
    _, cases, broker = asked
    partitions = [AskedPartition(topic="t", partition=0), AskedPartition(topic="t", partition=1)]
    group_id = cases["17"].group_id
    assert rows(fetch(broker, group_id, partitions=partitions)) == {"t-0": [-1], "t-1": [-1]}
    stable = fetch(broker, group_id, partitions=partitions, require_stable=True)
    assert rows(stable) == {"t-0": [-1, "UNSTABLE_OFFSET_COMMIT"], "t-1": [-1]}
    assert [offset.error.value for offset in stable.offsets] == [88, 0]


def test_fetch_by_topic_id(asked):
    """Row 51: the offset was committed for a topic of that name that is no more; 2.8.2 cannot even load it."""
    release, cases, broker = asked
    case = cases["51"]
    (offset,) = [o for o in fetch(broker, case.group_id).offsets if o.partition == 0] or [None]
    if release == "2.8.2":
        assert offset is None
        return
    stored = broker.view_of(case.group_id).offsets(case.group_id)["t", 0].topic_id
    assert stored is not None

    def by_id(topic_id, topic="t"):
        asked = [AskedPartition(topic=topic, partition=0, topic_id=topic_id)]
        return rows(fetch(broker, case.group_id, partitions=asked))

    assert by_id("zBRbcFXITMe_GFbKFNIRZA") == {"t-0": [-1]}
    assert by_id(stored) == {"t-0": [10]}
    assert by_id(stored, topic="") == {"-0": [-1, "UNKNOWN_TOPIC_ID"]}
