"""Columns that several tables share, declared once under Kafka's field names."""

import pyarrow as pa

from sexton.tables.table import Column

TEXTS = pa.list_(pa.string())

GROUP_ID = Column(name="group_id", type=pa.string(), doc='the group; "" is a legal id')
TOPIC = Column(name="topic", type=pa.string(), doc="the topic, by name")
PARTITION = Column(name="partition", type=pa.int32(), doc="partition of the topic", minimum=0, severity="warning")
LOG_PARTITION = Column(name="log_partition", type=pa.int32(), doc="partition of `__consumer_offsets`", minimum=0)
LOG_OFFSET = Column(
    name="log_offset", type=pa.int64(), doc="offset of the record in its log partition", minimum=0, below_cut=True
)
COMMITTED_OFFSET = Column(
    name="committed_offset", type=pa.int64(), doc="the offset that the group committed", minimum=0, severity="warning"
)
TOPIC_ID = Column(
    name="topic_id",
    type=pa.string(),
    doc="Kafka's topic id, as Kafka writes it (base64url); the zero id is NULL",
    nullable=True,
    absent="AAAAAAAAAAAAAAAAAAAAAA",
)

OFFSET_KEY = (GROUP_ID, TOPIC, PARTITION)
COMMITTED = (
    *OFFSET_KEY,
    COMMITTED_OFFSET,
    Column(
        name="leader_epoch",
        type=pa.int32(),
        doc="leader epoch of the last consumed record (KIP-320)",
        nullable=True,
        absent=-1,
    ),
    Column(name="metadata", type=pa.string(), doc="the text that the client committed with it"),
    Column(name="commit_timestamp_ms", type=pa.int64(), doc="when the broker received the commit", unit="ms"),
    Column(
        name="expire_timestamp_ms",
        type=pa.int64(),
        doc="explicit expiry that a client of OffsetCommit v2 to v4 asked for (dropped by KIP-211)",
        nullable=True,
        unit="ms",
        absent=-1,
    ),
    TOPIC_ID,
    LOG_PARTITION,
    LOG_OFFSET,
    Column(name="producer_id", type=pa.int64(), doc="producer of the batch; -1 outside transactions"),
)
"""The columns of a committed offset, in every table that has one."""
PLAN_ID = Column(name="plan_id", type=pa.string(), doc="SHA-256 of the canonical plan")


def count_column(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name=name, type=pa.int64(), doc=doc, unit="count", minimum=0, nullable=nullable)
