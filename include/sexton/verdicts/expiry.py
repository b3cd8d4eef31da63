"""The coordinator's expiry sweep over whole tables of one log partition, as Arrow columns.

The rules are those of `coordinator.expiry` (in Kafka: OffsetExpirationConditionImpl, cleanupGroupMetadata),
over Arrow columns instead of a Python object per offset; the tests compare the two.

Offsets here belong to a group object in the log partition: the rows of committed_offsets, then the rows of
unreachable_offsets whose group exists and is misplaced (the coordinator sweeps it where it was loaded) or a share
group. Offsets of a removed group belong to no group object, so no sweep sees them.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.expiry import LOAD_WOULD_FAIL, NOT_LOADED, SWEEP_BLOCKED, SweepBlock, first_block
from sexton.coordinator.loading import GROUP_REMOVED, UNDETERMINED
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import Expiry, Profile
from sexton.coordinator.profiles import NEWEST
from sexton.records import OFFSET_TYPES

KEY = ["group_id", "topic", "partition"]
_OFFSET_TYPES = pa.array(sorted(OFFSET_TYPES), pa.int32())
Mask = npt.NDArray[np.bool_]


def held_offsets(committed: pa.Table, unreachable: pa.Table) -> pa.Table:
    """Offsets that belong to a group object: those that a client can fetch, then those of misplaced and share groups,
    each in table order."""
    reason = unreachable["reason"]
    others = unreachable.filter(pc.invert(pc.is_in(reason, value_set=pa.array([GROUP_REMOVED, UNDETERMINED]))))
    return pa.concat_tables([committed, others.select(committed.column_names)])


def sweep_block(
    offsets: pa.Table,
    groups: pa.Table,
    pending: pa.Table,
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile = NEWEST,
) -> SweepBlock | None:
    """The first group for which the sweep of a log partition fails, as in `coordinator.expiry.sweep_block`.

    The tables have the rows of the entire log partition.
    """
    some = suspects(groups, profile)
    if not some.num_rows:
        return None
    offsets = offsets.filter(pc.is_in(offsets["group_id"], value_set=some["group_id"].combine_chunks()))
    blocks = []
    if profile.sweeps_share_groups:
        shared = some["group_id"].filter(pc.equal(some["group_type"], "Share")).combine_chunks()
        blocks = [
            (name, None)
            for name in shared.filter(pc.is_in(shared, value_set=pc.unique(offsets["group_id"]))).to_pylist()
        ]
    some = some.filter(pc.and_(_has_left_targets(some), _may_be_deleted(some, offsets["group_id"], profile)))
    if some.num_rows:
        own = offsets.filter(pc.is_in(offsets["group_id"], value_set=some["group_id"].combine_chunks()))
        verdicts = judge_unblocked(own, some, pending, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
        stays = pc.and_(pc.equal(verdicts["broker_verdict"], "keep"), pc.is_null(verdicts["broker_expires_at_ms"]))
        kept = set(verdicts["group_id"].filter(stays).to_pylist())
        last = verdicts.group_by("group_id").aggregate([("broker_expires_at_ms", "max")])
        from_ms = dict(zip(last["group_id"].to_pylist(), last["broker_expires_at_ms_max"].to_pylist(), strict=True))
        blocks += [(name, from_ms.get(name)) for name in some["group_id"].to_pylist() if name not in kept]
    return first_block(SweepBlock(group_id=group_id, from_ms=at_ms) for group_id, at_ms in blocks)


def under_block(verdicts: pa.Table, block: SweepBlock | None, *, now_ms: int) -> pa.Table:
    """`verdicts`, corrected if a group makes all sweeps fail, or all from `block.from_ms` on: offsets that these sweeps
    would remove are kept. With NOT_LOADED all offsets are kept."""
    if block is None:
        return verdicts
    goes = pc.if_else(pc.equal(verdicts["broker_verdict"], "expire"), now_ms, verdicts["broker_expires_at_ms"])
    is_on = pc.or_(pc.is_valid(goes), block == NOT_LOADED)
    if block.from_ms is not None:
        is_on = pc.fill_null(pc.greater_equal(goes, block.from_ms), False)
    for name, blocked in (
        ("broker_verdict", "keep"),
        ("broker_reason", LOAD_WOULD_FAIL if block == NOT_LOADED else SWEEP_BLOCKED),
        ("broker_expires_at_ms", pa.scalar(None, pa.int64())),
        ("changes_by", "sweep_unblocked"),
    ):
        verdicts = with_column(verdicts, name, pc.if_else(is_on, blocked, verdicts[name]))
    return verdicts


def with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """`table` with other values in a column."""
    return table.set_column(table.column_names.index(name), name, values)


def judge_unblocked(
    offsets: pa.Table,
    groups: pa.Table,
    pending: pa.Table,
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
) -> pa.Table:
    """The broker's verdict on each offset at `now_ms`, with its reason; one row per row of `offsets`, in its order.

    Failing sweeps are ignored here: `under_block` corrects the verdicts for them. Columns: the key, broker_verdict
    (keep, expire), broker_reason, broker_expires_at_ms (NULL if only an event can make the offset expire),
    base_timestamp_ms (NULL with an explicit expiry), changes_by and left_topic (as in offset_verdicts).
    """
    at = pc.index_in(offsets["group_id"], value_set=groups["group_id"].combine_chunks())
    of_group = {name: groups[name].combine_chunks().take(at.combine_chunks()) for name in _GROUP_COLUMNS}
    kind, is_empty, has_protocol = (
        np.asarray(of_group["group_type"]),
        _mask(pc.equal(of_group["state"], "Empty")),
        _mask(pc.is_valid(of_group["protocol_type"])),
    )
    classic = kind == "Classic"
    simple = classic & ~has_protocol
    groups_matter = profile.expiry is not Expiry.OWN_STAMP
    since_empty = classic & has_protocol & is_empty & _mask(pc.is_valid(of_group["current_state_timestamp_ms"]))
    since_empty &= groups_matter
    is_readable = _mask(pc.equal(of_group["protocol_type"], "consumer")) & (profile.expiry is Expiry.UNSUBSCRIBED)
    knows_topics = is_readable & _mask(of_group["subscription_known"])
    active = classic & has_protocol & ~is_empty & ~knows_topics & groups_matter
    follows_topics = ~simple & ~active & ~(classic & is_empty) & ~((kind == "Streams") & is_empty) & groups_matter
    is_listed = _contains(_subscriptions(groups), offsets.select(["group_id", "topic"]))
    subscribed = follows_topics & is_listed
    is_pending = _contains(pending.select(KEY), offsets.select(KEY)) & profile.pending_blocks_expiry

    explicit = _mask(pc.is_valid(offsets["expire_timestamp_ms"]))
    base = np.where(since_empty, _int64(of_group["current_state_timestamp_ms"]), _int64(offsets["commit_timestamp_ms"]))
    due, due_at, is_instant = _due(
        offsets["expire_timestamp_ms"], base, retention_ms=retention_ms, now_ms=now_ms, profile=profile
    )

    shared = kind == "Share"
    reason = _first_of(shared, active, subscribed, ~due, is_pending, explicit)
    expires, not_due = reason >= _EXPLICIT, reason == _NOT_DUE
    has_instant = (expires | not_due) & is_instant
    # A commit does not change when the group became Empty: if the retention counts from then, the offset stays due.
    stays_due = since_empty & (_int64(of_group["current_state_timestamp_ms"]) <= now_ms - retention_ms)
    turned_by = _first_of(
        not_due & ~is_instant & since_empty | shared,
        not_due & ~is_instant,
        not_due,
        reason == _SUBSCRIBED,
        (reason == _ACTIVE) & is_readable,
        reason == _ACTIVE,
        reason == _PENDING,
        stays_due,
        np.full(len(due), groups_matter),
    )
    left = _mask(pc.greater(of_group["member_count"], 0)) & _mask(of_group["subscription_known"]) & ~is_listed
    return pa.table(
        {
            **{name: offsets[name] for name in KEY},
            "broker_verdict": pc.if_else(pa.array(expires), "expire", "keep"),
            "broker_reason": _REASONS.take(pa.array(reason)),
            "broker_expires_at_ms": pa.array(due_at, pa.int64(), mask=~has_instant),
            "base_timestamp_ms": pa.array(base, pa.int64(), mask=explicit),
            "changes_by": _TURNED_BY.take(pa.array(turned_by)),
            "left_topic": pa.array(left),
        }
    )


def _due(
    expire_ms: pa.ChunkedArray,
    base_ms: npt.NDArray[np.int64],
    *,
    retention_ms: int,
    now_ms: int,
    profile: Profile,
) -> tuple[Mask, npt.NDArray[np.int64], Mask]:
    """Whether each offset is due, and the instant from which it is: `coordinator.expiry._due`, over columns.

    Where a sum overflows there is no instant: the answer would never change.
    """
    explicit = _mask(pc.is_valid(expire_ms))
    with np.errstate(over="ignore"):  # signed 64-bit, as in Java
        stamp = np.where(explicit, _int64(expire_ms), base_ms + retention_ms)
        if profile.expiry is Expiry.OWN_STAMP:
            due_at = stamp + 1
            is_instant = due_at >= stamp
            return (now_ms >= due_at) & is_instant, due_at, is_instant
        due = np.where(explicit, now_ms >= stamp, now_ms - base_ms >= retention_ms)
        return due, stamp, explicit | ((stamp >= base_ms) & (due == (now_ms >= stamp)))


def plan(
    offsets: pa.Table,
    expires: pa.Array,
    groups: pa.Table,
    group_tombstones: pa.Table,
    *,
    profile: Profile = NEWEST,
) -> pa.Table:
    """The tombstones of one log partition, in the order of the table `tombstones`.

    `expires` says for each row of `offsets` whether it expires. A group is removed with its last offset if it is Empty,
    has no open transaction, and no former member has a target assignment left; share groups are removed only by 4.0.
    Failing sweeps (`sweep_block`), which write nothing, are ignored here. Columns: record_type, group_id, topic,
    partition, member_id, regular_expression, cause, target_log_offset, target_committed_offset, and target_row, the
    removed row of `offsets`, which no table has.
    """
    numbers = pa.array(np.arange(offsets.num_rows), pa.int64())
    going = offsets.select([*KEY, "log_offset", "committed_offset"]).append_column("target_row", numbers)
    going = going.rename_columns([*KEY, "target_log_offset", "target_committed_offset", "target_row"]).filter(expires)
    kept = offsets["group_id"].filter(pc.invert(expires))
    is_bare = pc.invert(pc.is_in(groups["group_id"], value_set=kept.combine_chunks()))
    gone = groups.filter(pc.and_(is_bare, deleted_when_bare(groups, offsets["group_id"], profile)))
    classic = gone.filter(pc.equal(gone["group_type"], "Classic")).select(["group_id"])
    others = gone.filter(pc.not_equal(gone["group_type"], "Classic"))["group_id"]
    own = group_tombstones.filter(pc.is_in(group_tombstones["group_id"], value_set=others.combine_chunks()))
    # the records of a group come after its offsets, in the coordinator's order
    rows = pa.concat_tables(
        [
            _of_all(going, record_type=profile.offset_key_type, cause="broker_retention", ordinal=-1),
            _of_all(classic, record_type=2, cause="group_empty", ordinal=0),
            _of_all(own, cause="group_empty"),
        ],
        promote_options="default",
    )
    return rows.take(pa.array(_in_order(rows))).select(_PLANNED)


def _of_all(table: pa.Table, **values: int | str) -> pa.Table:
    """`table` with columns that have the same value in all rows."""
    for name, value in values.items():
        kind = pa.string() if isinstance(value, str) else pa.int32()
        table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
    return table


def _in_order(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The indices that sort the rows by group_id, ordinal, topic and partition.

    Strings are replaced with their ranks: the rows are mostly in this order already, and sorting numbers is then fast.
    """
    first = _ranks(rows["group_id"]) << 32 | np.asarray(rows["ordinal"]) + 1
    then = _ranks(rows["topic"]) << 32 | _int64(rows["partition"]) + (1 << 31)
    order = np.argsort(first, kind="stable")
    if ((np.diff(first[order]) == 0) & (np.diff(then[order]) < 0)).any():
        order = np.lexsort((then, first))
    return order


def _ranks(texts: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The rank of each string among the distinct strings, by their bytes; 0 for NULL."""
    coded = texts.combine_chunks().dictionary_encode()
    places = np.asarray(pc.rank(coded.dictionary, tiebreaker="first")).astype(np.int64)
    return _int64(pa.array(places).take(coded.indices))


def deleted_when_bare(groups: pa.Table, held: pa.Array, profile: Profile) -> pa.Array:
    """For each group whether a sweep deletes it once it has no offset left; `held` has the group of every offset."""
    return pc.and_(pc.invert(_has_left_targets(groups)), _may_be_deleted(groups, held, profile))


def leaves_when_bare(groups: pa.Table, held: pa.Array, profile: Profile) -> pa.Array:
    """For each group whether it disappears once it has no offset left: before 4.0 also without a tombstone."""
    return pc.and_(pc.invert(_has_left_targets(groups)), _may_leave(groups, held, profile))


def is_of_offset(tombstones: pa.Table) -> pa.ChunkedArray:
    """Which rows of a plan remove a committed offset; the others remove the records of a group."""
    return pc.is_in(tombstones["record_type"], value_set=_OFFSET_TYPES)


def appended(
    log_partition: int, swept: Iterable[tuple[pa.Table, pa.ChunkedArray]], *, partition_count: int
) -> pa.Table:
    """The tombstones that a broker with one cache for the groups of all log partitions appends to one log partition.

    `swept` has the plan and the group ids of that log partition, then of the others (in ascending order) with groups
    that hash to it. A group's tombstones go to the log partition that its id hashes to. If several log partitions have
    a group, the cache has that of the first one in `swept`.
    """
    found, cached = [], pa.array([], pa.string())
    for rows, group_ids in swept:
        homes = [partition_of(group_id, partition_count) for group_id in rows["group_id"].to_pylist()]
        is_home = pc.equal(pa.array(homes, pa.int64()), log_partition)
        found.append(rows.filter(pc.and_(is_home, pc.invert(pc.is_in(rows["group_id"], value_set=cached)))))
        cached = pa.concat_arrays([cached, group_ids.combine_chunks()])
    by_type = [("group_id", "ascending"), ("record_type", "ascending")]  # offsets are of type 0 or 1, groups of type 2
    return pa.concat_tables(found).sort_by([*by_type, ("topic", "ascending"), ("partition", "ascending")])


def suspects(groups: pa.Table, profile: Profile) -> pa.Table:
    """The groups that may make the sweep fail; usually none."""
    is_left = _has_left_targets(groups)
    is_suspect = pc.or_(is_left, pc.equal(groups["group_type"], "Share")) if profile.sweeps_share_groups else is_left
    return groups.filter(is_suspect)


def _has_left_targets(groups: pa.Table) -> pa.Array:
    """For each group whether a former member has a target assignment."""
    return pc.fill_null(pc.greater(pc.list_value_length(groups["left_targets"]), 0), False)


def _may_be_deleted(groups: pa.Table, held: pa.Array, profile: Profile) -> pa.Array:
    """For each group whether the sweep tries to delete it once it has no offset left; `held` has the group of every
    offset."""
    bare = _may_leave(groups, held, profile)
    if not profile.deletes_generation_0:
        bare = pc.and_(bare, pc.fill_null(pc.greater(groups["generation"], 0), False))
    return pc.and_(bare, pa.scalar(profile.deletes_groups))


def _may_leave(groups: pa.Table, held: pa.Array, profile: Profile) -> pa.Array:
    """For each group whether it is Empty, and no transaction keeps it."""
    bare = pc.equal(groups["state"], "Empty")
    if not profile.deletes_share_groups:
        bare = pc.and_(bare, pc.not_equal(groups["group_type"], "Share"))
    is_free = pc.invert(groups["has_open_transaction"])
    if profile.leaks_open_transactions:  # 4.0.0 looks at transactions only where there are offsets to expire
        is_free = pc.or_(is_free, pc.invert(pc.is_in(groups["group_id"], value_set=held.combine_chunks())))
    return pc.and_(bare, is_free)


_GROUP_COLUMNS = [
    "group_type",
    "state",
    "protocol_type",
    "current_state_timestamp_ms",
    "subscription_known",
    "member_count",
]
_SHARED, _ACTIVE, _SUBSCRIBED, _NOT_DUE, _PENDING, _EXPLICIT = range(6)
_REASONS = pa.array(
    [
        "share_group",
        "group_active",
        "subscribed",
        "not_due",
        "pending_transaction",
        "expired_explicit",
        "expired",
    ]
)
_TURNED_BY = pa.array(
    [
        None,
        "commit",
        "time",
        "subscription, group_empty",
        "subscription, group_empty",
        "group_empty",
        "transaction_end",
        "subscription",
        "commit, subscription",
        "commit",
    ]
)
_PLANNED = [
    *("record_type", "group_id", "topic", "partition", "member_id", "regular_expression", "cause"),
    *("target_log_offset", "target_committed_offset", "target_row"),
]


def _first_of(*conditions: Mask) -> npt.NDArray[np.int8]:
    """For each row the index of the first condition that holds, or the number of conditions."""
    return np.select(conditions, [np.int8(n) for n in range(len(conditions))], default=np.int8(len(conditions)))


def _mask(values: pa.Array) -> Mask:
    """Booleans with NULL as False."""
    filled = pc.fill_null(values, False)
    return np.asarray(filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled).astype(bool)


def _int64(values: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers with NULL as 0; callers mask those rows."""
    return np.asarray(pc.fill_null(values, 0)).astype(np.int64)


def _subscriptions(groups: pa.Table) -> pa.Table:
    """(group_id, topic) for every topic that a group is known to be subscribed to."""
    lists = groups["subscribed_topics"].combine_chunks()
    parents = pc.list_parent_indices(lists)
    return pa.table({"group_id": groups["group_id"].combine_chunks().take(parents), "topic": pc.list_flatten(lists)})


def _contains(needles: pa.Table, rows: pa.Table) -> Mask:
    """For each of `rows`, whether it is among `needles` (same columns)."""
    found = np.zeros(rows.num_rows, dtype=bool)
    if needles.num_rows and rows.num_rows:
        numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
        hits = numbered.join(needles, keys=rows.column_names, join_type="left semi")
        found[np.asarray(hits["row"])] = True
    return found
