"""Records of a group `g`, and what a coordinator of some release makes of them."""

from uuid import UUID

from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.profiles import of_broker
from sexton.records import decode_key, decode_value
from tests.strategies import classic_fields, group_entry

TOPIC_ID = UUID(int=7)
CLIENT = {"client_id": "client", "client_host": "/h", "rack_id": "r"}


def classic(*members, **fields):
    return group_entry(2, "g", classic_fields(*members, **fields))


def record(record_type, member_id=None, **fields):
    parts = {} if member_id is None else {"member_id": member_id}
    return group_entry(record_type, "g", fields, **parts)


def gone(record_type, member_id=None, regex=None):
    parts = {} if member_id is None else {"member_id": member_id}
    return group_entry(record_type, "g", None, **parts, **({} if regex is None else {"regular_expression": regex}))


def consumer_member(member_id="m", topics=("t",)):
    return record(
        5,
        member_id,
        **CLIENT,
        instance_id=None,
        subscribed_topic_names=list(topics),
        subscribed_topic_regex=None,
        rebalance_timeout_ms=300,
        server_assignor=None,
        classic_member_metadata={"session_timeout_ms": 45, "supported_protocols": []},
    )


def owns(member_id="m", *, epoch=1, partitions=(0,), revoking=(), state=0, assigned=None, pending=None):
    def parts(numbers):
        return [{"topic_id": TOPIC_ID, "partitions": list(numbers), "assignment_epochs": []}] if numbers else []

    return record(
        8,
        member_id,
        member_epoch=epoch,
        previous_member_epoch=0,
        state=state,
        assigned_partitions=parts(partitions) if assigned is None else assigned,
        partitions_pending_revocation=parts(revoking) if pending is None else pending,
    )


def target(record_type, member_id="m", topic_ids=(TOPIC_ID,)):
    return record(record_type, member_id, topic_partitions=[{"topic_id": it, "partitions": [0]} for it in topic_ids])


def share_member():
    return record(10, "m", **CLIENT, subscribed_topic_names=["t"])


def streams_member(tags=(), *, member_id="m", process_id="p"):
    return record(
        19,
        member_id,
        **CLIENT,
        instance_id="i",
        rebalance_timeout_ms=300,
        topology_epoch=0,
        process_id=process_id,
        user_endpoint=None,
        client_tags=[{"key": key, "value": "v"} for key in tags],
    )


def streams_task(epoch=1, state=1):
    tasks = [{"subtopology_id": "0", "partitions": [0, 1]}]
    return record(
        22,
        "m",
        member_epoch=epoch,
        previous_member_epoch=0,
        state=state,
        active_tasks=tasks,
        standby_tasks=tasks,
        warmup_tasks=[],
        active_tasks_pending_revocation=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )


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


def rows(groups):
    return [(group.to_group_row(), group.to_member_rows()) for _, group in sorted(groups.by_id.items())]
