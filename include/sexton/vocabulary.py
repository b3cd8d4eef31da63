"""Values that tables and the policy share. A policy is read and checked without Arrow, which the tables need."""

from typing import Literal, get_args

GroupType = Literal["Classic", "Consumer", "Share", "Streams"]
GROUP_TYPES: tuple[GroupType, ...] = get_args(GroupType)

GroupState = Literal[
    "Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"
]
"""All group states of all types, as ListGroups names them."""
GROUP_STATES: tuple[GroupState, ...] = get_args(GroupState)

Orphan = Literal["topic_gone", "topic_recreated", "partition_gone"]
"""Why no client can use an offset: its topic is gone, has another id, or lacks the partition."""
ORPHANS: tuple[Orphan, ...] = get_args(Orphan)
