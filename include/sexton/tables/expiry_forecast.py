"""The table expiry_forecast: the offsets of a group that expire within each horizon."""

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_PARTITION
from sexton.tables.table import Column, Table

HORIZON_DAYS = (1, 7, 30)
"""The horizons of a forecast, in days."""

EXPIRY_FORECAST = Table(
    name="expiry_forecast",
    grain="what a group loses within a horizon, to the broker or to one rule",
    key=("log_partition", "group_id", "horizon_days", "by"),
    columns=(
        GROUP_ID,
        Column("horizon_days", pa.int32(), f"days from as_of: {', '.join(map(str, HORIZON_DAYS))}", minimum=1),
        Column("by", pa.string(), "what expires them: broker, or rule:<name>"),
        Column(
            "offset_count",
            pa.int64(),
            "offsets that expire within the horizon; longer horizons include shorter ones",
            minimum=1,
        ),
        Column("is_whole_group", pa.bool_(), "whether nothing of the group is left by then, with all causes combined"),
        Column("first_expires_at_ms", pa.int64(), "when the first of them expires"),
        Column("last_expires_at_ms", pa.int64(), "when the last of them expires"),
        LOG_PARTITION,
    ),
    doc="Assumes that nobody commits and no group changes. Offsets that are already due at as_of count in every "
    "horizon.",
)
