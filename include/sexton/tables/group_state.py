"""Tables of group state at as_of: what a coordinator knows after it has loaded the log."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import (
    COMMITTED,
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    PARTITION,
    TEXTS,
    TOPIC,
    TOPIC_ID,
)
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
REASON_CODES = (
    "bad_crc",
    "torn_segment",
    "zeros",
    "out_of_order",
    "skipped_bytes",
    "unread_record",
    "malformed_batch",
    "bad_codec",
    "inflated_too_large",
    "malformed_record",
    "malformed_control",
    "null_key",
    "short_key",
    "malformed_key",
    "malformed_value",
    "unknown_value_version",
    "malformed_subscription",
    "unknown_record_type",
    "unknown_magic",
    "empty_control_batch",
    "too_many_items",
)

COMMITTED_OFFSETS = Table(
    name="committed_offsets",
    grain="a committed offset that a client can fetch at as_of",
    key=("group_id", "topic", "partition"),
    columns=COMMITTED,
    doc="What OffsetFetch by name answers.",
)

UNREACHABLE_OFFSETS = Table(
    name="unreachable_offsets",
    grain="an offset in the log that no client can fetch",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *COMMITTED,
        Column(
            name="reason",
            type=pa.string(),
            doc="group_removed: its group was deleted after it; share_group: its group is a share group, which answers "
            "no OffsetFetch; stray: its group hashes to another log partition",
            allowed=("group_removed", "share_group", "stray"),
        ),
    ),
)

PENDING_OFFSETS = Table(
    name="pending_offsets",
    grain="a transactional offset still pending at as_of",
    key=("log_partition", "producer_id", "group_id", "topic", "partition"),
    columns=COMMITTED,
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

OPEN_TRANSACTIONS = Table(
    name="open_transactions",
    grain="a producer with pending records",
    key=("log_partition", "producer_id"),
    columns=(
        Column(name="producer_id", type=pa.int64(), doc="the transactional producer"),
        Column(name="producer_epoch", type=pa.int32(), doc="its epoch"),
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="its first pending record"),
        replace(LOG_OFFSET, name="last_log_offset", doc="its last pending record"),
        Column(name="first_timestamp_ms", type=pa.int64(), doc="when the first was written", nullable=True, unit="ms"),
        Column(name="group_ids", type=TEXTS, doc="groups that it holds offsets of, sorted"),
    ),
)

UNDECODABLE_RECORDS = Table(
    name="undecodable_records",
    grain="a record, batch or stretch of bytes that could not be decoded",
    key=(),
    doc="The first 10,000 of a log partition, and the first that would fail a load; `load_profile` counts all. After "
    "100 bad records the rest of a batch is skipped, and a row says so. Up to 4 KiB of a key and of a value are kept, "
    "1 MiB in the first 16 rows.",
    columns=(
        LOG_PARTITION,
        Column(name="base_offset", type=pa.int64(), doc="of the batch that holds it", nullable=True),
        Column(name="log_offset", type=pa.int64(), doc="of the record; NULL for a whole batch", nullable=True),
        Column(name="record_type", type=pa.int32(), doc="of the key, where that could be read", nullable=True),
        Column(name="reason", type=pa.string(), doc="what is wrong with it", allowed=REASON_CODES),
        Column(name="detail", type=pa.string(), doc="what was expected and what was there", nullable=True),
        Column(name="key", type=pa.binary(), doc="the key's bytes", nullable=True),
        Column(name="value", type=pa.binary(), doc="the value's bytes", nullable=True),
    ),
)

TOPIC_PARTITIONS = Table(
    name="topic_partitions",
    grain="a partition of a user topic, as recorded with the snapshot",
    key=("topic", "partition"),
    columns=(
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(name="log_start_offset", type=pa.int64(), doc="first log_offset of the topic's log"),
        Column(name="log_end_offset", type=pa.int64(), doc="log_offset of its next record"),
    ),
    per_log_partition=False,
)
