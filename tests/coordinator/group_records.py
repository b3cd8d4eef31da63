"""Records of a group `g`, and what a coordinator of some release makes of them."""

import copy
from uuid import UUID

import pytest

from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.profiles import of_broker
from sexton.errors import TransitionError
from sexton.records import decode_key, decode_value
from tests.log_builder import classic_fields, group_entry

TOPIC_ID = UUID(int=7)
CLIENT = {"client_id": "client", "client_host": "/h", "rack_id": "r"}
CLASSIC_MEMBER = {"session_timeout_ms": 45, "supported_protocols": []}


def classic(*members, **fields):
    return group_entry(2, "g", classic_fields(*members, **fields))


def record(record_type, member_id=None, **fields):
    parts = {} if member_id is None else {"member_id": member_id}
    return group_entry(record_type, "g", fields, **parts)


def gone(record_type, member_id=None, regex=None):
    parts = {} if member_id is None else {"member_id": member_id}
    return group_entry(record_type, "g", None, **parts, **({} if regex is None else {"regular_expression": regex}))


def consumer_member_fields(**fields):
    """The value of a type-5 record."""
    absent = dict.fromkeys(("instance_id", "subscribed_topic_regex", "server_assignor", "classic_member_metadata"))
    return {**CLIENT, **absent, "subscribed_topic_names": ["t"], "rebalance_timeout_ms": 300, **fields}


def consumer_member(member_id="m", topics=("t",)):
    fields = consumer_member_fields(subscribed_topic_names=list(topics), classic_member_metadata=CLASSIC_MEMBER)
    return record(5, member_id, **fields)


def owns(member_id="m", *, epoch=1, partitions=(0,), revoking=(), state=0, assigned=None, pending=None):
    def parts(numbers):
        return [{"topic_id": TOPIC_ID, "partitions": list(numbers), "assignment_epochs": []}] if numbers else []

    fields = {"assigned_partitions": parts(partitions) if assigned is None else assigned}
    fields |= {"partitions_pending_revocation": parts(revoking) if pending is None else pending}
    return record(8, member_id, member_epoch=epoch, previous_member_epoch=0, state=state, **fields)


def target(record_type, member_id="m", topic_ids=(TOPIC_ID,)):
    return record(record_type, member_id, topic_partitions=[{"topic_id": it, "partitions": [0]} for it in topic_ids])


def share_member():
    return record(10, "m", **CLIENT, subscribed_topic_names=["t"])


def streams_member(tags=(), *, member_id="m", process_id="p"):
    fields = {"instance_id": "i", "rebalance_timeout_ms": 300, "topology_epoch": 0, "user_endpoint": None}
    client_tags = [{"key": key, "value": "v"} for key in tags]
    return record(19, member_id, **CLIENT, **fields, process_id=process_id, client_tags=client_tags)


def assigned(member_id="m", *, epoch=1, state=1, active=(), standby=(), warmup=(), revoking=()):
    """The tasks of a streams member."""
    kinds = {"active": active, "standby": standby, "warmup": warmup}
    pending = {"active": revoking, "standby": (), "warmup": ()}
    fields = {f"{kind}_tasks": list(tasks) for kind, tasks in kinds.items()}
    fields |= {f"{kind}_tasks_pending_revocation": list(tasks) for kind, tasks in pending.items()}
    return record(22, member_id, member_epoch=epoch, previous_member_epoch=0, state=state, **fields)


def streams_task(epoch=1, state=1):
    tasks = [{"subtopology_id": "0", "partitions": [0, 1]}]
    return assigned(epoch=epoch, state=state, active=tasks, standby=tasks)


def topology(epoch=0, ids=("0",)):
    info = {"name": "repartition", "partitions": 1, "replication_factor": 1, "topic_configs": []}
    return record(
        23,
        epoch=epoch,
        subtopologies=[
            {
                "subtopology_id": it,
                "source_topics": ["t"],
                "source_topic_regex": [],
                "state_changelog_topics": [{**info, "name": "changelog"}],
                "repartition_sink_topics": ["sink"],
                "repartition_source_topics": [info],
                "copartition_groups": [],
            }
            for it in ids
        ],
    )


STREAMS = record(17, epoch=1, metadata_hash=0, validated_topology_epoch=0)
SHARE = record(11, epoch=1, metadata_hash=0)


def feed(groups, entry, log_offset=None):
    key, value = entry
    record_type, fields = decode_key(key)
    decoded = None if value is None else decode_value(record_type, value, release=groups.profile.release)[1]
    groups.replay(record_type, fields, decoded, log_offset=log_offset)


def replay(*entries, release="4.3.1", touched=False):
    """The groups after `entries`; `touched` says that an offset of the group came before."""
    groups = Groups(of_broker(release))
    if touched:
        groups.ensure_simple_group("g")
    for log_offset, entry in enumerate(entries):
        feed(groups, entry, log_offset)
    return groups


def assert_throws(groups, entry, message):
    """It throws that, changes nothing, and would throw again: nothing has changed out of sight either."""
    before = rows(copy.deepcopy(groups))
    with pytest.raises(TransitionError) as caught:
        feed(groups, entry)
    assert str(caught.value) == message
    assert rows(groups) == before
    with pytest.raises(TransitionError):
        feed(groups, entry)


def rows(groups):
    return [(group.to_group_row(), group.to_member_rows()) for _, group in sorted(groups.by_id.items())]
