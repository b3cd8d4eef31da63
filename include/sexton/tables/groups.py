"""Groups and their members at as_of, as a coordinator knows them after it has loaded the log."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_OFFSET, LOG_PARTITION, TEXTS
from sexton.tables.table import Column, Table

GROUP_TYPES = ("Classic", "Consumer", "Share", "Streams")

GROUP_STATES = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)

GROUPS = Table(
    name="groups",
    grain="a group at as_of, also without offsets",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        Column(name="group_type", type=pa.string(), doc="as ListGroups names it", allowed=GROUP_TYPES),
        Column(
            name="state", type=pa.string(), doc="the state that the broker answers after loading", allowed=GROUP_STATES
        ),
        Column(
            name="protocol_type",
            type=pa.string(),
            # Members bring their protocol type with them, even an empty one: "" is only absence without them.
            doc="consumer, share or streams for the new types; NULL for a simple group",
            nullable=True,
        ),
        Column(name="protocol", type=pa.string(), doc="the chosen assignor", nullable=True),
        Column(name="generation", type=pa.int32(), doc="generation; group epoch of the new types", nullable=True),
        Column(name="leader", type=pa.string(), doc="member id of the leader", nullable=True),
        Column(
            name="current_state_timestamp_ms",
            type=pa.int64(),
            doc="when the group entered its state",
            nullable=True,
            unit="ms",
            absent=-1,
        ),
        Column(name="member_count", type=pa.int32(), doc="members", unit="count", minimum=0),
        Column(name="subscribed_topics", type=TEXTS, doc="topics of all its members, sorted", nullable=True),
        Column(
            name="subscription_known",
            type=pa.bool_(),
            doc="whether the coordinator could read every subscription; if not, subscribed_topics says nothing",
        ),
        Column(
            name="left_targets",
            type=TEXTS,
            doc="member ids with a target assignment that are no members: with one left the group cannot be deleted, "
            "and once it is Empty and has no offset to keep, the sweep of its log partition fails; NULL for classic "
            "groups",
            nullable=True,
        ),
        Column(name="offset_count", type=pa.int64(), doc="its rows in committed_offsets", unit="count", minimum=0),
        Column(
            name="has_open_transaction",
            type=pa.bool_(),
            doc="whether the coordinator takes a transaction with the group's offsets for open, and so keeps the group",
        ),
        Column(name="pending_count", type=pa.int64(), doc="its rows in pending_offsets", unit="count", minimum=0),
        LOG_PARTITION,
        replace(
            LOG_OFFSET, nullable=True, doc="its last group record; NULL for a group that exists only by its offsets"
        ),
    ),
)

MEMBERS = Table(
    name="members",
    grain="a group member",
    key=("log_partition", "group_id", "member_id"),
    columns=(
        GROUP_ID,
        Column(name="member_id", type=pa.string(), doc="the member"),
        Column(name="group_instance_id", type=pa.string(), doc="static membership (KIP-345)", nullable=True),
        Column(name="client_id", type=pa.string(), doc="client.id", nullable=True),
        Column(name="client_host", type=pa.string(), doc="host that it connected from", nullable=True),
        Column(name="rack_id", type=pa.string(), doc="client.rack", nullable=True),
        Column(name="session_timeout_ms", type=pa.int32(), doc="session timeout", nullable=True, unit="ms"),
        Column(name="rebalance_timeout_ms", type=pa.int32(), doc="rebalance timeout", nullable=True, unit="ms"),
        Column(name="member_epoch", type=pa.int32(), doc="epoch; NULL for classic members", nullable=True),
        Column(name="subscribed_topics", type=TEXTS, doc="its subscription; NULL when unreadable", nullable=True),
        Column(
            name="assignment",
            type=TEXTS,
            doc="`<topic, topic id or subtopology>-<partition>` each, as a broker describes it: from 4.3 on what a "
            "member of a consumer group has yet to give up, too; NULL when unreadable",
            nullable=True,
        ),
        Column(
            name="assignment_epochs",
            type=TEXTS,
            doc="of consumer groups, `<topic id>-<partition>@<member epoch since which it has it>` each, also what it "
            "has yet to give up (KIP-1251)",
            nullable=True,
        ),
        Column(
            name="member_metadata",
            type=pa.binary(),
            doc="of classic groups, the bytes of its subscription as the member sent them",
            nullable=True,
        ),
        Column(
            name="member_assignment",
            type=pa.binary(),
            doc="of classic groups, the bytes of its assignment as the leader sent them",
            nullable=True,
        ),
        Column(
            name="static_instance_ids",
            type=TEXTS,
            doc="of classic groups, the instances that the coordinator maps to the member; NULL where that is its "
            "group_instance_id: another only where a group value names a member or an instance twice",
            nullable=True,
        ),
        LOG_PARTITION,
    ),
)
