"""Joins a classic group and leaves it before the rebalance is over: the group becomes Empty again (KIP-211).

The member has the group's protocol type and supports every usual protocol of that type, so that it disturbs nobody: a
real member that joins meanwhile only waits for the current rebalance. Our member has no instance id and takes no
assignment (no SyncGroup).
Not here: which groups may be joined (execution).
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest

from sexton.kafka.admin import ErrorName, GroupNow, group_now, name_or_none
from sexton.kafka.failures import TransientError, Unsettled
from sexton.kafka.group_state import find_coordinator
from sexton.kafka.session import ClusterSession

_SUBSCRIPTION = b"\0\0" + b"\0\0\0\0"
"""ConsumerProtocolSubscription of version 0 up to its user data: no topics."""
_NO_USER_DATA = b"\xff\xff\xff\xff"
_LATER_VERSION = b"\0\0\0\x08" + 2 * b"\x7f\xff\xff\xff"
"""User data of a Kafka Streams client of a later version: a leader reads only the version of it (version probing)."""
_WORKER = b"\0\0" + b"\x7f" + 7 * b"\xff"
"""State of a Connect worker: no URL, and it has read more of the config topic than any other. A leader that sees it
assigns nothing, reads that topic and joins again; otherwise it would assign us tasks, and wait 5 minutes for our
return."""
PROTOCOLS: Mapping[str, Mapping[str, bytes]] = {
    "consumer": {
        **dict.fromkeys(("range", "roundrobin", "sticky", "cooperative-sticky"), _SUBSCRIPTION + _NO_USER_DATA),
        "stream": _SUBSCRIPTION + _LATER_VERSION,
    },
    "connect": {
        "sessioned": b"\0\2" + _WORKER + _NO_USER_DATA,
        "compatible": b"\0\1" + _WORKER + _NO_USER_DATA,
        "default": b"\0\0" + _WORKER,
    },
}
"""Names and metadata of the protocols that our member supports, for each protocol type that can be joined."""
TIMEOUT_MS = 10_000
"""Our member's session timeout, after which it is removed if this process dies, and its rebalance timeout."""
_MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
_TRIES, _WAIT_S = 100, 0.02


def join_and_leave(
    joining: ClusterSession, leaving: ClusterSession, group_id: str, protocol_type: str
) -> ErrorName | None:
    """Join and leave; return None when the group was joined, else Kafka's error name. Unsettled without an answer.

    The answer to JoinGroup comes only at the end of the rebalance, so another session leaves. A group that is no longer
    Empty, or has another protocol type, is not joined, because joining would change it.
    """
    node_id = find_coordinator(leaving, group_id)
    answer = joining.call_once(_join(group_id, "", protocol_type), node_id=node_id)
    error = name_or_none(answer.error_code)
    if error not in (None, _MEMBER_ID_REQUIRED):
        return error
    member_id: str = answer.member_id
    leave = LeaveGroupRequest(
        group_id=group_id, members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)], min_version=3
    )
    now = group_now(leaving, group_id)
    if error is None or not _is_empty(now) or now.protocol_type != protocol_type:
        leaving.call_once(leave, node_id=node_id)
        return None if error is None else "NON_EMPTY_GROUP"
    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(joining.call_once, _join(group_id, member_id, protocol_type), node_id=node_id)
        is_there = False
        for _ in range(_TRIES):
            if joined.done() or (is_there := not _is_empty(group_now(leaving, group_id))):
                break
            time.sleep(_WAIT_S)
        leaving.call_once(leave, node_id=node_id)
        try:
            error = name_or_none(joined.result().error_code)
        except (TransientError, Unsettled):
            raise Unsettled("no answer came to JoinGroup", where=f"group {group_id}") from None
    # A member that leaves during the rebalance is answered UNKNOWN_MEMBER_ID.
    return None if is_there else error


def _is_empty(now: GroupNow) -> bool:
    return now.state == "Empty"


def _join(group_id: str, member_id: str, protocol_type: str) -> Any:
    Protocol = JoinGroupRequest.JoinGroupRequestProtocol  # noqa: N806 (a class)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=[Protocol(name=name, metadata=data) for name, data in PROTOCOLS[protocol_type].items()],
        reason="keeps the offsets of the group",
    )
