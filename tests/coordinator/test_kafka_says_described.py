"""Groups as a real 4.3.1 broker described them, each alone in its request, held against plain rules and kernels."""

import base64

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.listing import describe_group, describe_groups
from sexton.coordinator.profiles import of_broker
from tests.coordinator.api.broker import WAYS, coordinator_of
from tests.coordinator.golden import lines
from tests.coordinator.kafka_says import FOLDER

RELEASE = "4.3.1"
CASES = [*lines(FOLDER / f"described-{RELEASE}.jsonl")]


def coordinator(way):
    segments = {case["log_partition"]: base64.b64decode(case["segment"]) for case in CASES}
    count = CASES[0]["log_partitions"]
    logs = {**dict.fromkeys(range(count), b""), **segments}
    return coordinator_of(logs, profile=of_broker(RELEASE), partition_count=count, way=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_described(case, way):
    answer = describe_group(coordinator(way), case["group"])
    if isinstance(case["described"], int):
        assert (answer.error.value, answer.failed_by) == (case["described"], case["group"])
        return
    group = answer.group
    about = [group.protocol_type, answer.protocol or ""] if group.group_type == "Classic" else [group.generation]
    members = {
        one.member_id: [one.group_instance_id, one.client_id, one.client_host, one.member_epoch, sorted(one.assignment)]
        for one in answer.members
    }
    assert [answer.state, about, members] == case["described"]


@pytest.mark.parametrize("way", WAYS)
def test_only_what_is_in_the_same_log_partition_fails_with_it(way):
    """Each of these groups lies in one of its own."""
    answers = describe_groups(coordinator(way), [case["group"] for case in CASES])
    failed = [answer.group_id for answer in answers if answer.error is Error.UNKNOWN_SERVER_ERROR]
    assert failed == [case["group"] for case in CASES if isinstance(case["described"], int)]
