"""Finds, for each offset, the oldest open transaction that holds a value of the same key, as Arrow columns."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.verdicts.expiry import KEY

Owners = Mapping[tuple[int, int], tuple[str | None, str]]
"""(log partition, producer id) -> (transactional id, verdict) of each open transaction."""


def pins(
    offsets: pa.Table, pending: pa.Table, transactions: pa.Table, owners: Owners = MappingProxyType({})
) -> pa.Table:
    """For each row of `offsets`, in its order, the oldest open transaction that holds a value of its key.

    `pending` are rows of pending_offsets, `transactions` of open_transactions, all of one log partition. Columns, all
    NULL if no transaction does: pinned_by_producer_id, pinned_first_log_offset, pinned_since_ms.

    `owners` are the known owners of the transactions; they add pinned_by_transactional_id and pinned_verdict.
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
    producers = oldest.select(["log_partition", "producer_id"]).to_pylist()
    whose = [owners.get((row["log_partition"], row["producer_id"]), (None, None)) for row in producers]
    named = {name: pa.array([each[n] for each in whose], pa.string()).take(at) for n, name in enumerate(_OWNER)}
    return pa.table({**{name: oldest[of].combine_chunks().take(at) for name, of in _COLUMNS.items()}, **named})


_COLUMNS = {
    "pinned_by_producer_id": "producer_id",
    "pinned_first_log_offset": "first_log_offset",
    "pinned_since_ms": "first_timestamp_ms",
}
_OWNER = ("pinned_by_transactional_id", "pinned_verdict")
