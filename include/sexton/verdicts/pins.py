"""Finds, for each offset, the oldest open transaction that holds a value of the same key, as Arrow columns.

The rule is `coordinator.pins.pin_of`, without a Python object for each offset.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEY = ["group_id", "topic", "partition"]


def pins(offsets: pa.Table, pending: pa.Table, transactions: pa.Table) -> pa.Table:
    """For each row of `offsets`, in its order, the oldest open transaction that holds a value of its key.

    `pending` are rows of pending_offsets, `transactions` of open_transactions, all of one log partition. Columns, all
    NULL where nothing holds it: pinned_by_producer_id, pinned_first_log_offset, pinned_since_ms.
    """
    oldest = transactions.sort_by([("first_log_offset", "ascending"), ("producer_id", "ascending")])
    place = pc.index_in(pending["producer_id"], value_set=oldest["producer_id"].combine_chunks())
    held = pending.select(KEY).append_column("place", place)
    by_key = held.filter(pc.is_valid(place)).group_by(KEY).aggregate([("place", "min")])
    found = np.full(offsets.num_rows, -1, np.int64)
    if by_key.num_rows and offsets.num_rows:
        numbered = offsets.select(KEY).append_column("row", pa.array(np.arange(offsets.num_rows)))
        hits = numbered.join(by_key, keys=KEY, join_type="inner")
        found[np.asarray(hits["row"])] = np.asarray(hits["place_min"])
    at = pa.array(found, mask=found < 0)
    return pa.table({name: oldest[of].combine_chunks().take(at) for name, of in _COLUMNS.items()})


_COLUMNS = {
    "pinned_by_producer_id": "producer_id",
    "pinned_first_log_offset": "first_log_offset",
    "pinned_since_ms": "first_timestamp_ms",
}
