"""What real brokers said of generated histories, held against the plain rules and the kernels."""

import ast
import re
from uuid import UUID

import pytest

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import describe_group, describe_groups, list_groups
from sexton.records import kafka_uuid
from tests.coordinator.api.broker import WAYS, broker_of, rows
from tests.coordinator.golden import cases
from tests.coordinator.kafka_says import FOLDER, committed, kafka_says, planned

MODERN = [case for release in ("4.3.1", "4.0.0") for case in kafka_says(release).values()]
SCALA = kafka_says("3.9.1")
LOADED = [*MODERN, *(case for case in SCALA.values() if case.segment)]
DESCRIBED = cases(FOLDER / "described-4.3.1.jsonl", "4.3.1", "described").values()

pytestmark = pytest.mark.parametrize("way", WAYS)
of_modern, of_loaded = (
    pytest.mark.parametrize("case", some, ids=lambda case: f"{case.profile.text}-{case.name}")
    for some in (MODERN, LOADED)
)


@of_loaded
def test_loaded(case, way):
    error = broker_of([case], way=way).error_of(case.group_id)
    assert (error is Error.NONE) == case.answers["loaded"]


@of_loaded
def test_listed(case, way):
    groups = {item.group.group_id: item.group for item in list_groups(broker_of([case], way=way)).groups}
    group = groups.get(case.group_id)
    told = None if group is None else [group.group_type.lower(), group.protocol_type or "", group.state]
    assert told == case.answers["listed"]


@of_modern
def test_fetched(case, way):
    error, offsets = case.answers["fetch"]
    answer = fetch(broker_of([case], way=way), case.group_id)
    assert (answer.error.value, rows(answer)) == (error, offsets)


@of_modern
def test_committed_offsets(case, way):
    """The table, where the load has not failed, has what a client can fetch."""
    assert committed(case, way) == (set(case.answers["fetch"][1]) if case.answers["loaded"] else set())


@of_loaded
def test_swept(case, way):
    """Each tombstone once, in any order: that between groups is the broker's own. Up to 3.9 that of a misplaced group
    goes to the log partition that the group hashes to."""
    own = {case.log_partition: case.answers.get("swept")}
    swept = case.answers.get("swept_in", own)
    assert all(is_tombstone for written in swept.values() for _, is_tombstone in written)
    assert planned(case, way) == sorted((int(where), key) for where, written in swept.items() for key, _ in written)


@of_modern
def test_fetched_by_a_member(case, way):
    """By m at epoch 1, and by nobody at epoch 0."""
    broker = broker_of([case], way=way)
    told = [
        fetch(broker, case.group_id, member_id=member_id, member_epoch=epoch).error.value
        for member_id, epoch in (("m", 1), (None, 0))
    ]
    assert told == [case.answers["fetch by m at epoch 1"], case.answers["fetch by a null member at epoch 0"]]


@of_modern
def test_described(case, way):
    """By the request of its type: the error, or the state and what each member has."""
    kind = (case.answers["listed"] or ["classic"])[0]
    if kind not in ("classic", "consumer"):
        return  # neither of the two requests is about groups of this type
    # The recorder noted Python's own text of the description, with topic ids as UUID('...').
    told = ast.literal_eval(re.sub(r"UUID\(('[^']*')\)", r"\1", case.answers[f"describe {kind}"]))
    described = describe_group(broker_of([case], way=way), case.group_id)
    assert (described.error.value, described.state) == (told["error"], told["state"])
    assert [(member.member_id, member.assigned) for member in described.members] == [
        (
            member["member_id"],
            tuple((kafka_uuid(UUID(id_)), number) for id_, _, numbers in member["assignment"] for number in numbers),
        )
        for member in told["members"]
    ]


@pytest.mark.parametrize("case", DESCRIBED, ids=lambda case: case.name)
def test_described_alone(case, way):
    """Each alone in its request; a number is the code of an error."""
    answer = describe_group(broker_of(DESCRIBED, way=way), case.group_id)
    if isinstance(case.answers, int):
        assert (answer.error.value, answer.failed_by) == (case.answers, case.group_id)
        return
    group = answer.group
    about = [group.protocol_type, answer.protocol or ""] if group.group_type == "Classic" else [group.generation]
    members = {
        one.member_id: [one.group_instance_id, one.client_id, one.client_host, one.member_epoch, sorted(one.assignment)]
        for one in answer.members
    }
    assert [answer.state, about, members] == case.answers


def test_only_what_is_in_the_same_log_partition_fails_with_it(way):
    """Each of these groups lies in one of its own."""
    answers = describe_groups(broker_of(DESCRIBED, way=way), [case.group_id for case in DESCRIBED])
    failed = [answer.group_id for answer in answers if answer.error is Error.UNKNOWN_SERVER_ERROR]
    assert failed == [case.group_id for case in DESCRIBED if isinstance(case.answers, int)]


NOBODY, TWICE = "transactional commit to a group that is not there", "member named twice, first with an instance"


@pytest.mark.parametrize(
    ("name", "answer", "asked"),
    [
        (NOBODY, "generation 0", {"generation": 0, "is_transactional": True}),
        (NOBODY, "member m", {"member_id": "m", "is_transactional": True}),
        (NOBODY, "member m, generation 0", {"member_id": "m", "generation": 0, "is_transactional": True}),
        (TWICE, "commit by m, instance i, generation 1", {"member_id": "m", "group_instance_id": "i", "generation": 1}),
    ],
)
def test_a_commit_to_3_9(name, answer, asked, way):
    """A transactional one makes the group and is validated against it; a member that comes twice keeps its first
    instance."""
    case = SCALA[name]
    commit = Commit(group_id=case.group_id, partitions=(CommitPartition(topic="t", partition=0),), **asked)
    ((_, error),) = validate_commit(broker_of([case], way=way), commit).items()
    assert error.value == case.answers[answer]
