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
        Column("log_start_offset", pa.int64(), "log start offset of the partition"),
        Column("log_end_offset", pa.int64(), "log end offset of the partition: the offset of its next record"),
    ),
    per_log_partition=False,
)
