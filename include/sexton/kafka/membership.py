"""Joins a classic consumer group and leaves it before the rebalance is over: the group becomes Empty again (KIP-211).

The member subscribes to nothing and supports every usual assignor, so that it disturbs no consumer: a real consumer
that joins meanwhile only waits for the current rebalance. It has no instance id and takes no assignment (no SyncGroup).
Not here: which groups may be joined (execution).
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest

from sexton.kafka.admin import ErrorName, group_now, name_or_none
from sexton.kafka.failures import TransientError, Unsettled
from sexton.kafka.group_state import find_coordinator
from sexton.kafka.session import ClusterSession

PROTOCOL_TYPE = "consumer"
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
TIMEOUT_MS = 10_000
"""Timeout of its session, which ends if the process dies, and of the rebalance."""
NO_SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
"""ConsumerProtocolSubscription of version 0: no topics, no user data."""
_MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
_TRIES, _WAIT_S = 100, 0.02


def join_and_leave(joining: ClusterSession, leaving: ClusterSession, group_id: str) -> ErrorName | None:
    """Join and leave; None when the group was joined, else Kafka's error name. Unsettled without an answer.

    The answer to JoinGroup only comes at the end of the rebalance, so another session leaves.
    """
    node_id = find_coordinator(leaving, group_id)
    answer = joining.call_once(_join(group_id, ""), node_id=node_id)
    error = name_or_none(answer.error_code)
    if error not in (None, _MEMBER_ID_REQUIRED):
        return error
    member_id: str = answer.member_id
    leave = LeaveGroupRequest(
        group_id=group_id, members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)], min_version=3
    )
    if error is None:
        leaving.call_once(leave, node_id=node_id)
        return None
    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(joining.call_once, _join(group_id, member_id), node_id=node_id)
        is_there = False
        for _ in range(_TRIES):
            if joined.done() or (is_there := group_now(leaving, group_id).state != "Empty"):
                break
            time.sleep(_WAIT_S)
        leaving.call_once(leave, node_id=node_id)
        try:
            error = name_or_none(joined.result().error_code)
        except (TransientError, Unsettled):
            raise Unsettled("no answer came to JoinGroup", where=f"group {group_id}") from None
    # A member that leaves during the rebalance is answered UNKNOWN_MEMBER_ID.
    return None if is_there else error


def _join(group_id: str, member_id: str) -> Any:
    Protocol = JoinGroupRequest.JoinGroupRequestProtocol  # noqa: N806 (a class)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[Protocol(name=name, metadata=NO_SUBSCRIPTION) for name in ASSIGNORS],
        reason="keeps the offsets of the group",
    )
