"""Deleting a group's offsets (OffsetDelete, KIP-496), which librdkafka's admin client does not have.

Only the workload of the demo and of tests deletes today.
"""

from collections.abc import Sequence

import kafka.errors as kafka_errors
from kafka.protocol.consumer import OffsetDeleteRequest

from sexton.kafka.facts import find_coordinator
from sexton.kafka.session import ClusterSession, check


def delete_group_offsets(session: ClusterSession, group_id: str, topic: str, partitions: Sequence[int]) -> int:
    """Delete the committed offsets of some partitions; returns how many partitions the coordinator answered for.

    A group that does not exist has none to delete. Partitions without an offset are answered as if they had one.
    """
    DeletedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic  # noqa: N806 (a class)
    wanted = [DeletedTopic.OffsetDeleteRequestPartition(partition_index=partition) for partition in partitions]
    request = OffsetDeleteRequest(group_id=group_id, topics=[DeletedTopic(name=topic, partitions=wanted)])

    def ask() -> int:
        answer = session.call(request, node_id=find_coordinator(session, group_id))
        if answer.error_code == kafka_errors.GroupIdNotFoundError.errno:
            return 0
        check(answer.error_code, place=f"group {group_id}")
        return sum(partition.error_code == 0 for found in answer.topics for partition in found.partitions)

    return session.retrying(ask)
