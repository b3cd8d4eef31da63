"""The table expiry_forecast: the offsets of a group that expire within each horizon."""

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, boolean, int32, int64, string
from sexton.tables.table import Table

HORIZON_DAYS = (1, 7, 30)
"""The horizons of a forecast, in days."""

EXPIRY_FORECAST = Table(
    name="expiry_forecast",
    grain="what a group loses within a horizon, to the broker or to one rule",
    key=("log_partition", "group_id", "horizon_days", "by"),
    columns=(
        GROUP_ID,
        int32("horizon_days", f"days from as_of: {', '.join(map(str, HORIZON_DAYS))}", minimum=1),
        string("by", "what expires them: broker, or rule:<name>"),
        int64(
            "offset_count", "offsets that expire within the horizon; longer horizons include shorter ones", minimum=1
        ),
        boolean("is_whole_group", "whether nothing of the group is left by then, with all causes combined"),
        int64("first_expires_at_ms", "when the first of them expires"),
        int64("last_expires_at_ms", "when the last of them expires"),
        LOG_PARTITION,
    ),
    doc="Assumes that nobody commits and no group changes. Offsets that are already due at as_of count in every "
    "horizon.",
)
