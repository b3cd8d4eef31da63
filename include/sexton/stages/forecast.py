"""What expires in the next days if nobody commits and no group changes (the table expiry_forecast).

An offset goes at the first instant at which the broker or a rule of the policy lets it go, and that one is told as the
cause; a rule needs a plan that is applied. Nothing is said of what waits for an event: a subscription given up, a
transaction that ends.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.kernels.sweep import plan
from sexton.stages.find_expired import read_held
from sexton.stages.plan_check import OFFSET_TYPES
from sexton.stages.run import RunFolder, RunRecord
from sexton.tables import TABLES
from sexton.tables.verdicts import HORIZON_DAYS

TABLE = "expiry_forecast"
DAY_MS = 86_400_000
BROKER = "broker"
_NEEDED = ["group_id", "broker_verdict", "broker_expires_at_ms", "pinned_by_producer_id"]


def write_forecast(folder: RunFolder, record: RunRecord, log_partition: int) -> int:
    """Write the forecast of one log partition from its verdicts; how many rows."""
    rows = forecast_of(
        folder.read_table("offset_verdicts", log_partition, _NEEDED),
        read_held(folder, log_partition),
        folder.read_table("groups", log_partition),
        folder.read_internal("group_tombstones", log_partition),
        as_of_ms=record.as_of_ms,
        profile=profile_of(record.profile),
    )
    rows = rows.append_column("log_partition", pa.repeat(pa.scalar(log_partition, pa.int32()), rows.num_rows))
    return folder.write_table(record, TABLE, rows, log_partition)


def forecast_of(
    verdicts: pa.Table,
    held: pa.Table,
    groups: pa.Table,
    group_tombstones: pa.Table,
    *,
    as_of_ms: int,
    profile: Profile,
) -> pa.Table:
    """The rows of expiry_forecast of one log partition, without log_partition, by group, horizon and cause.

    `verdicts` and `held` are of the same order (find_expired.read_held).
    """
    going = going_of(verdicts, as_of_ms=as_of_ms, profile=profile)
    totals = verdicts.group_by("group_id").aggregate([([], "count_all")])
    some = [
        _within(going, days, totals, held, groups, group_tombstones, as_of_ms=as_of_ms, profile=profile)
        for days in HORIZON_DAYS
    ]
    names = [name for name in TABLES[TABLE].column_names if name != "log_partition"]
    order = [("group_id", "ascending"), ("horizon_days", "ascending"), ("by", "ascending")]
    return pa.concat_tables(some).select(names).sort_by(order)


def going_of(verdicts: pa.Table, *, as_of_ms: int, profile: Profile) -> pa.Table:
    """Offsets that time alone lets go: group_id, at_ms (when, as_of_ms where no instant can be told) and by.

    An offset under an open transaction stays until that ends, whatever the time (where the profile has it so).
    """
    is_due = pc.equal(verdicts["broker_verdict"], "expire")
    at_ms = pc.if_else(
        is_due, pc.fill_null(verdicts["broker_expires_at_ms"], as_of_ms), verdicts["broker_expires_at_ms"]
    )
    goes = pc.is_valid(at_ms)
    if profile.pending_blocks_expiry:
        goes = pc.and_(goes, pc.or_(is_due, pc.is_null(verdicts["pinned_by_producer_id"])))
    found = pa.table({"group_id": verdicts["group_id"], "at_ms": at_ms})
    found = found.filter(goes)
    return found.append_column("by", pa.repeat(pa.scalar(BROKER), found.num_rows))


def _within(
    going: pa.Table,
    days: int,
    totals: pa.Table,
    held: pa.Table,
    groups: pa.Table,
    group_tombstones: pa.Table,
    *,
    as_of_ms: int,
    profile: Profile,
) -> pa.Table:
    some = going.filter(pc.less_equal(going["at_ms"], as_of_ms + days * DAY_MS))
    counted = some.group_by(["group_id", "by"]).aggregate([([], "count_all"), ("at_ms", "min"), ("at_ms", "max")])
    whole = _whole_groups(some, totals, held, groups, group_tombstones, profile)
    return pa.table(
        {
            "group_id": counted["group_id"],
            "horizon_days": pa.repeat(pa.scalar(days, pa.int32()), counted.num_rows),
            "by": counted["by"],
            "offset_count": counted["count_all"],
            "is_whole_group": pc.is_in(counted["group_id"], value_set=whole),
            "first_expires_at_ms": counted["at_ms_min"],
            "last_expires_at_ms": counted["at_ms_max"],
        }
    )


def _whole_groups(
    some: pa.Table,
    totals: pa.Table,
    held: pa.Table,
    groups: pa.Table,
    group_tombstones: pa.Table,
    profile: Profile,
) -> pa.Array:
    """Groups that a sweep deletes once `some` have gone: asked of the sweep with one offset to stand for all."""
    lost = some.group_by("group_id").aggregate([([], "count_all")])
    of_all = totals["count_all"].take(pc.index_in(lost["group_id"], value_set=totals["group_id"].combine_chunks()))
    bare = lost["group_id"].filter(pc.equal(lost["count_all"], of_all))
    numbered = held.select(["group_id"]).append_column("row", pa.array(np.arange(held.num_rows)))
    first = numbered.group_by("group_id").aggregate([("row", "min")])
    standing = held.take(first["row_min"])
    planned = plan(
        standing,
        pc.is_in(standing["group_id"], value_set=bare.combine_chunks()),
        groups,
        group_tombstones,
        profile=profile,
    )
    of_groups = planned.filter(pc.invert(pc.is_in(planned["record_type"], value_set=OFFSET_TYPES)))
    return pc.unique(of_groups["group_id"])
