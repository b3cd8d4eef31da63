"""Names as pseudonyms: what a document of every kind of content may not show."""

from dataclasses import replace
from typing import Any

from sexton.history.events import UNDECODABLE, Event
from sexton.incident.callers import Caller, Certainty, Who
from sexton.incident.document import Cause, EvidenceRecord, Incident, MadeFrom, ReplicaRow, steps_of
from sexton.incident.masking import masked

SALT = b"salt"
NAMES = (
    "shop",
    "orders",
    "payments-7",
    "User:ann",
    "10.9.8.7",
    "ann-laptop",
    "broker-2",
    "neighbour",
    "/secret",
    "c0ffee",
)
"""Those of the incident, and what its sentences have besides."""


def incident() -> Incident:
    transaction: dict[str, Any] = {
        "producer_id": 4, "producer_epoch": 0, "since_ms": 5, "transactional_id": "payments-7",
        "group_ids": ["shop", "neighbour"], "verdict": "hanging",
        "evidence": "payments-7 is Ongoing", "abort_arguments": "abort --partition 3",
        "offsets": [{"group_id": "shop", "topic": "orders", "partition": 0}],
    }  # fmt: skip
    caller = Caller(
        principal="User:ann",
        host="10.9.8.7",
        client_id="ann-laptop",
        api="DeleteGroups",
        at_ms=5,
        line="10.9.8.7.log:3",
    )
    certain = Who(
        what="group_deleted", log_offset=7, timestamp_ms=5, certainty=Certainty.CERTAIN, callers=[caller], reason="one"
    )
    value = {"client_id": "ann-laptop", "topics": ["orders"], "user_data": "c0ffee", "metadata_hash": 77}
    record = {"name": "ConsumerGroupMetadata", "key": {"group_id": "shop"}, "value": value}
    replica = ReplicaRow(
        audited_at_ms=1, log_partition=3, topic="orders", partition=0, kind="lost", wrong_replicas=["broker-2"],
        right_replicas=[], evidence="shop, orders-0", advice="stop broker-2",
    )  # fmt: skip
    return Incident(
        group_id="shop", cluster_id="c", log_partition=3, as_of_ms=9, made_at_ms=10, made_by="1", read_by="4.3",
        state="Empty", is_held=True, block={"group_id": "neighbour", "from_ms": None},
        causes=[Cause(kinds=[UNDECODABLE], meanings=[], events=1, offsets=0, last_ms=5, evidence="bad: key c0ffee")],
        events=[
            Event(timestamp_ms=5, log_offset=7, what=UNDECODABLE, detail="bad: key c0ffee (6 bytes)"),
            Event(timestamp_ms=6, log_offset=8, what="committed", detail="2 commits of 2 partitions of orders"),
        ],
        who=[certain], next=[], transactions=[transaction], replicas=[replica],
        evidence=[EvidenceRecord(log_offset=7, timestamp_ms=5, shows="orders-0: deleted", record=record)],
        made_from=[MadeFrom(what="segment", path="/secret/0.log", size_bytes=1, sha256="ab" * 32)],
        not_in_input={}, warnings=["group 'neighbour' is in /secret/x", "shop is misplaced"],
    )  # fmt: skip


def test_no_name_is_left() -> None:
    hidden = masked(incident(), salt=SALT, more={})
    document = replace(hidden, steps=steps_of(hidden, before=None)).document()
    for name in NAMES:
        assert name not in str(document), name
    assert (document["is_masked"], document["cluster_id"]) == (True, "c")
    record = document["evidence"][0]["record"]
    assert (record["name"], record["value"]["metadata_hash"]) == ("ConsumerGroupMetadata", None)


def test_one_name_is_one_pseudonym_in_sentences_too() -> None:
    found = masked(incident(), salt=SALT, more={})
    topic = found.replicas[0].topic
    assert found.events[1].detail == f"2 commits of 2 partitions of {topic}"
    assert found.evidence[0].shows == f"{topic}-0: deleted"
    assert found.replicas[0].evidence == f"{found.group_id}, {topic}-0"
    assert found.replicas[0].advice == f"stop {found.replicas[0].wrong_replicas[0]}"
    assert found.transactions[0]["group_ids"][0] == found.group_id
    assert found.who[0].certainty is Certainty.CERTAIN
    assert found.warnings == ["group (hidden) is in (hidden)", f"{found.group_id} is misplaced"]


def test_another_salt_has_other_pseudonyms() -> None:
    one, other = (masked(incident(), salt=salt, more={}).group_id for salt in (SALT, b"pepper"))
    assert one != other
    assert masked(incident(), salt=SALT, more={}).group_id == one
