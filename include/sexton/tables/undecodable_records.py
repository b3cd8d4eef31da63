"""The table undecodable_records: bytes of the log that could not be decoded, and the reasons."""

from sexton.tables.columns import LOG_PARTITION, binary, int32, int64, string
from sexton.tables.table import Table

REASON_CODES = (
    *("bad_crc", "torn_segment", "zeros", "out_of_order", "skipped_bytes", "negative_end", "unread_record"),
    *("malformed_batch", "bad_codec", "inflated_too_large", "malformed_record", "malformed_control"),
    *("null_key", "short_key", "malformed_key", "malformed_value", "unknown_value_version", "malformed_subscription"),
    *("unknown_record_type", "unknown_magic", "empty_control_batch", "too_many_items"),
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
        int64("base_offset", "the base offset of its batch", nullable=True),
        int64("log_offset", "the offset of the record; NULL for a whole batch", nullable=True),
        int32("record_type", "the record type of the key, where that could be read", nullable=True),
        string("reason", "what is wrong with it", allowed=REASON_CODES),
        string("detail", "what was expected and what was found", nullable=True),
        binary("key", "the key's bytes", nullable=True),
        binary("value", "the value's bytes", nullable=True),
    ),
)
