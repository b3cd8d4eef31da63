"""Constructors of columns by Arrow type, and columns that several tables share, under Kafka's field names."""

from dataclasses import replace
from functools import partial

import pyarrow as pa

from sexton.tables.table import Column

string = partial(Column, type=pa.string())
strings = partial(Column, type=pa.list_(pa.string()))
int32 = partial(Column, type=pa.int32())
int64 = partial(Column, type=pa.int64())
count = partial(Column, type=pa.int64(), minimum=0)
float64 = partial(Column, type=pa.float64())
boolean = partial(Column, type=pa.bool_())
binary = partial(Column, type=pa.binary())

GROUP_ID = string("group_id", 'the group id; "" is a legal one')
TOPIC = string("topic", "the topic name")
PARTITION = int32("partition", "partition of the topic", minimum=0, severity="warning")
LOG_PARTITION = int32("log_partition", "partition of `__consumer_offsets`", minimum=0)
LOG_OFFSET = int64("log_offset", "offset of the record in its log partition", minimum=0, below_cut=True)
COMMITTED_OFFSET = int64("committed_offset", "the offset that the group committed", minimum=0, severity="warning")
TOPIC_ID = string(
    "topic_id",
    "topic id, in Kafka's notation (base64url); the zero id is NULL",
    nullable=True,
    absent="AAAAAAAAAAAAAAAAAAAAAA",
)
LEADER_EPOCH = int32("leader_epoch", "leader epoch of the last consumed record (KIP-320)", nullable=True, absent=-1)

OFFSET_KEY = (GROUP_ID, TOPIC, PARTITION)
COMMITTED = (
    *OFFSET_KEY,
    COMMITTED_OFFSET,
    LEADER_EPOCH,
    string("metadata", "the metadata string committed with it"),
    int64("commit_timestamp_ms", "when the broker received the commit", known_from="log"),
    int64(
        "expire_timestamp_ms",
        "explicit expiry, requested with OffsetCommit v2 to v4 (dropped by KIP-211)",
        nullable=True,
        absent=-1,
        known_from="log",
    ),
    replace(TOPIC_ID, known_from="log"),
    LOG_PARTITION,
    replace(LOG_OFFSET, known_from="log"),
    int64("producer_id", "producer id of the batch; -1 outside transactions", known_from="log"),
    int64(
        "commit_after_ms",
        "last admin snapshot with another value or none: the commit came later; NULL where no snapshot is early enough",
        nullable=True,
        known_from="admin_snapshots",
    ),
    int64(
        "commit_by_ms",
        "latest time of its last commit, as far as admin snapshots can show",
        nullable=True,
        known_from="admin_snapshots",
    ),
    boolean(
        "is_unstable",
        "whether an open transaction may still change it; NULL where no broker answered that",
        nullable=True,
        known_from="admin_snapshots",
    ),
)
"""The columns of a committed offset, in every table that has one."""
PLAN_ID = string("plan_id", "SHA-256 of the canonical plan")
POSITION = int64("position", "index in the plan of its log partition", minimum=0)
