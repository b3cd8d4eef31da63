"""Columns that several tables share, declared once under Kafka's field names."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.table import Column

TEXTS = pa.list_(pa.string())

GROUP_ID = Column("group_id", pa.string(), 'the group id; "" is a legal one')
TOPIC = Column("topic", pa.string(), "the topic name")
PARTITION = Column("partition", pa.int32(), "partition of the topic", minimum=0, severity="warning")
LOG_PARTITION = Column("log_partition", pa.int32(), "partition of `__consumer_offsets`", minimum=0)
LOG_OFFSET = Column("log_offset", pa.int64(), "offset of the record in its log partition", minimum=0, below_cut=True)
COMMITTED_OFFSET = Column(
    "committed_offset", pa.int64(), "the offset that the group committed", minimum=0, severity="warning"
)
TOPIC_ID = Column(
    "topic_id",
    pa.string(),
    "topic id, in Kafka's notation (base64url); the zero id is NULL",
    nullable=True,
    absent="AAAAAAAAAAAAAAAAAAAAAA",
)

OFFSET_KEY = (GROUP_ID, TOPIC, PARTITION)
COMMITTED = (
    *OFFSET_KEY,
    COMMITTED_OFFSET,
    Column("leader_epoch", pa.int32(), "leader epoch of the last consumed record (KIP-320)", nullable=True, absent=-1),
    Column("metadata", pa.string(), "the metadata string committed with it"),
    Column("commit_timestamp_ms", pa.int64(), "when the broker received the commit", known_from="log"),
    Column(
        "expire_timestamp_ms",
        pa.int64(),
        "explicit expiry, requested with OffsetCommit v2 to v4 (dropped by KIP-211)",
        nullable=True,
        absent=-1,
        known_from="log",
    ),
    replace(TOPIC_ID, known_from="log"),
    LOG_PARTITION,
    replace(LOG_OFFSET, known_from="log"),
    Column("producer_id", pa.int64(), "producer id of the batch; -1 outside transactions", known_from="log"),
    Column(
        "commit_after_ms",
        pa.int64(),
        "last admin snapshot with another value or none: the commit came later; NULL where no snapshot is early enough",
        nullable=True,
        known_from="admin_snapshots",
    ),
    Column(
        "commit_by_ms",
        pa.int64(),
        "latest time of its last commit, as far as admin snapshots can show",
        nullable=True,
        known_from="admin_snapshots",
    ),
    Column(
        "is_unstable",
        pa.bool_(),
        "whether an open transaction may still change it; NULL where no broker answered that",
        nullable=True,
        known_from="admin_snapshots",
    ),
)
"""The columns of a committed offset, in every table that has one."""
PLAN_ID = Column("plan_id", pa.string(), "SHA-256 of the canonical plan")
POSITION = Column("position", pa.int64(), "index in the plan of its log partition", minimum=0)


def count_column(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), doc, minimum=0, nullable=nullable)
