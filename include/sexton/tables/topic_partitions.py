"""The table topic_partitions: partitions of user topics, as recorded with a snapshot."""

from sexton.tables.columns import PARTITION, TOPIC, TOPIC_ID, int64
from sexton.tables.table import Table

TOPIC_PARTITIONS = Table(
    name="topic_partitions",
    grain="a partition of a user topic, as recorded with the snapshot",
    key=("topic", "partition"),
    columns=(
        TOPIC,
        TOPIC_ID,
        PARTITION,
        int64("log_start_offset", "log start offset of the partition"),
        int64("log_end_offset", "log end offset of the partition: the offset of its next record"),
    ),
    per_log_partition=False,
)
