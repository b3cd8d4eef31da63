"""Bytes of the log that could not be decoded, and the reasons."""

import pyarrow as pa

from sexton.tables.columns import LOG_PARTITION
from sexton.tables.table import Column, Table

REASON_CODES = (
    "bad_crc",
    "torn_segment",
    "zeros",
    "out_of_order",
    "skipped_bytes",
    "negative_end",
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

UNDECODABLE_RECORDS = Table(
    name="undecodable_records",
    grain="a record, batch or stretch of bytes that could not be decoded",
    key=(),
    doc="The first 10,000 of a log partition, and the first that would fail a load; `load_profile` counts all. After "
    "100 bad records the rest of a batch is skipped, and a row says so. Up to 4 KiB of a key and of a value are kept, "
    "1 MiB in the first 16 rows.",
    columns=(
        LOG_PARTITION,
        Column("base_offset", pa.int64(), "the base offset of its batch", nullable=True),
        Column("log_offset", pa.int64(), "the offset of the record; NULL for a whole batch", nullable=True),
        Column("record_type", pa.int32(), "the record type of the key, where that could be read", nullable=True),
        Column("reason", pa.string(), "what is wrong with it", allowed=REASON_CODES),
        Column("detail", pa.string(), "what was expected and what was found", nullable=True),
        Column("key", pa.binary(), "the key's bytes", nullable=True),
        Column("value", pa.binary(), "the value's bytes", nullable=True),
    ),
)
