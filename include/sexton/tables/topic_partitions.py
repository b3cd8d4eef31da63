"""Partitions of user topics, as recorded with a snapshot."""

import pyarrow as pa

from sexton.tables.columns import PARTITION, TOPIC, TOPIC_ID
from sexton.tables.table import Column, Table

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
