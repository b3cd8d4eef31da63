"""Expirations in the next days if no client commits and no group changes (the table expiry_forecast).

An offset expires at the first instant at which the broker or a rule of the policy expires it, which is then the cause;
a rule takes effect only when a plan is applied. Offsets that only an event can make expire, such as the end of a
subscription or of a transaction, are not in the forecast. Without the log the expiry of an offset is an interval, and
its later end counts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import DAY_MS
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.plans.limits import policy_of
from sexton.policy import CompiledPolicy, Policy
from sexton.runs.folder import RunFolder, RunRecord, Shard
from sexton.tables import TABLES
from sexton.tables.expiry_forecast import HORIZON_DAYS
from sexton.verdicts.expiry import leaves_when_bare
from sexton.verdicts.keeping import activity_of_clients, expected_expiry
from sexton.verdicts.policy import RULE, group_facts, newest_commits

TABLE = "expiry_forecast"
BROKER = "broker"
VERDICT = (
    *("group_id", "broker_verdict", "broker_expires_at_ms", "policy_verdict", "policy_rule", "policy_expires_at_ms"),
    *("orphan", "pinned_by_producer_id", "client_commit_timestamp_ms", "client_state_timestamp_ms"),
    *("kept_until_ms", "keep_status"),
)
"""The columns of offset_verdicts that a forecast reads."""


def write_forecast(
    folder: RunFolder, record: RunRecord, shard: Shard, verdicts: pa.Table, held: pa.Table, groups: pa.Table
) -> int:
    """Write the forecast of one shard from its verdicts (VERDICT), `held` (runs.judging.read_held) and `groups`;
    returns the number of rows."""
    rows = forecast_of(
        verdicts,
        held,
        groups,
        as_of_ms=record.as_of_ms,
        profile=profile_of(record.profile),
        policy=policy_of(record),
    )
    return folder.write_table(record, TABLE, rows, shard)


def forecast_of(
    verdicts: pa.Table,
    held: pa.Table,
    groups: pa.Table,
    *,
    as_of_ms: int,
    profile: Profile,
    policy: Policy | None = None,
) -> pa.Table:
    """The rows of expiry_forecast of one log partition, without log_partition, by group, horizon and cause.

    `verdicts` and `held` have the same row order (runs.judging.read_held).
    """
    going = going_of(verdicts, as_of_ms=as_of_ms, profile=profile)
    if policy is not None:
        until_ms = as_of_ms + HORIZON_DAYS[-1] * DAY_MS
        by_clients, clients = activity_of_clients(held, groups, verdicts)
        going = named_rules(policy, going, verdicts, clients, by_clients, as_of_ms=as_of_ms, until_ms=until_ms)
    by, own = going["by"].unify_dictionaries().combine_chunks(), _Groups.of(held, groups, profile=profile)
    keys = own.of_row[np.asarray(going["row"])].astype(np.int64) * len(by.dictionary) + np.asarray(by.indices)
    by_key = np.argsort(keys, kind="stable")
    keys, at_ms = keys[by_key], np.asarray(going["at_ms"])[by_key]
    some = [
        _within(keys[is_near], at_ms[is_near], days, own, by.dictionary)
        for days in HORIZON_DAYS
        for is_near in [at_ms <= as_of_ms + days * DAY_MS]
    ]
    names = [name for name in TABLES[TABLE].column_names if name != "log_partition"]
    order = [("group_id", "ascending"), ("horizon_days", "ascending"), ("by", "ascending")]
    return pa.concat_tables(some).select(names).sort_by(order)


def going_of(verdicts: pa.Table, *, as_of_ms: int, profile: Profile) -> pa.Table:
    """Offsets that time alone expires: row (index in `verdicts`), at_ms and by (a dictionary).

    `at_ms` is when they expire, as_of_ms if that instant is unknown. `by` is `broker` or `rule:<name>`, whichever
    expires the offset first; NULL for a rule that does not decide yet. If open transactions block expiry in the
    profile, the broker does not expire offsets that they pin. An offset that a hold with `keep` keeps alive does not
    expire before its kept_until_ms.
    """
    broker_ms = _instants(verdicts, "broker", as_of_ms)
    if profile.pending_blocks_expiry:
        is_free = pc.or_(pc.equal(verdicts["broker_verdict"], "expire"), pc.is_null(verdicts["pinned_by_producer_id"]))
        broker_ms = pc.if_else(is_free, broker_ms, None)
    broker_ms = expected_expiry(verdicts, broker_ms)
    policy_ms = _instants(verdicts, "policy", as_of_ms)
    is_rule = pc.and_(pc.is_valid(policy_ms), pc.fill_null(pc.less(policy_ms, broker_ms), True))
    decides = pc.fill_null(pc.equal(verdicts["policy_verdict"], "expire"), False)
    at_ms = pc.if_else(is_rule, policy_ms, broker_ms)
    rows = pc.indices_nonzero(pc.is_valid(at_ms))
    rules = verdicts["policy_rule"].combine_chunks().dictionary_encode()
    names = pa.concat_arrays([pa.array([BROKER]), pc.binary_join_element_wise(RULE, rules.dictionary, "")])
    causes = pc.if_else(is_rule, pc.if_else(decides, pc.add(rules.indices, 1), None), 0).take(rows)
    by = pa.DictionaryArray.from_arrays(causes.combine_chunks().cast(pa.int32()), names)
    return pa.table({"row": rows, "at_ms": at_ms.take(rows), "by": by})


def _instants(verdicts: pa.Table, whose: str, as_of_ms: int) -> pa.ChunkedArray:
    """When time alone expires each offset according to the verdict of `whose` (broker or policy); as_of_ms for due
    offsets without a known instant."""
    is_due = pc.fill_null(pc.equal(verdicts[f"{whose}_verdict"], "expire"), False)
    at_ms = verdicts[f"{whose}_expires_at_ms"]
    return pc.if_else(is_due, pc.fill_null(at_ms, as_of_ms), at_ms)


def named_rules(
    policy: Policy,
    going: pa.Table,
    verdicts: pa.Table,
    groups: pa.Table,
    held: pa.Table,
    *,
    as_of_ms: int,
    until_ms: int,
) -> pa.Table:
    """`going` up to `until_ms`, with NULL in `by` replaced with the rule that decides at `at_ms`, which may differ from
    the rule that decides now."""
    going = going.filter(pc.less_equal(going["at_ms"], until_ms))
    open_ones = going.filter(pc.is_null(going["by"]))
    of_open = verdicts.select(["group_id", "orphan"]).take(open_ones["row"])
    compiled, committed_ms = CompiledPolicy(policy), newest_commits(held)
    own = groups.filter(pc.is_in(groups["group_id"], value_set=pc.unique(of_open["group_id"]))).to_pylist()
    rules = {row["group_id"]: compiled.for_group(group_facts(row, committed_ms.get(row["group_id"]))) for row in own}
    names = []
    for row, at_ms in zip(of_open.to_pylist(), open_ones["at_ms"].to_pylist(), strict=True):
        one = rules[row["group_id"]].at(max(at_ms, as_of_ms)).candidate(row["orphan"])
        assert one is not None, "a policy that expires it then has a rule for it"
        names.append(RULE + one.rule)
    named = pa.array(names, pa.string()).dictionary_encode()
    open_ones = open_ones.set_column(open_ones.column_names.index("by"), "by", named)
    return pa.concat_tables([going.filter(pc.is_valid(going["by"])), open_ones])


def _within(
    keys: npt.NDArray[np.int64], at_ms: npt.NDArray[np.int64], days: int, groups: "_Groups", by: pa.Array
) -> pa.Table:
    """The rows of one horizon, for the offsets that expire by then.

    `keys`, in ascending order, are the group's number times the length of `by`, plus the index of the cause in `by`.
    """
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    own, causes = np.divmod(keys[starts], max(len(by), 1))
    is_whole = groups.leaves & (np.bincount(own, counts, minlength=len(groups.counts)) == groups.counts)
    return pa.table(
        {
            "group_id": groups.ids.take(pa.array(own)),
            "horizon_days": pa.repeat(pa.scalar(days, pa.int32()), len(own)),
            "by": by.take(pa.array(causes)),
            "offset_count": counts,
            "is_whole_group": pa.array(is_whole[own]),
            "first_expires_at_ms": np.minimum.reduceat(at_ms, starts),
            "last_expires_at_ms": np.maximum.reduceat(at_ms, starts),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """The groups that hold offsets: id, number of offsets, and whether the group disappears once it has none.

    `of_row` has the number of the group of each held offset.
    """

    ids: pa.Array
    counts: npt.NDArray[np.int64]
    leaves: npt.NDArray[np.bool_]
    of_row: npt.NDArray[np.int32]

    @classmethod
    def of(cls, held: pa.Table, groups: pa.Table, *, profile: Profile) -> "_Groups":
        named = held["group_id"].combine_chunks().dictionary_encode()
        leaving = groups["group_id"].filter(leaves_when_bare(groups, held["group_id"], profile))
        of_row = np.asarray(named.indices)
        return cls(
            ids=named.dictionary,
            counts=np.bincount(of_row, minlength=len(named.dictionary)),
            leaves=np.asarray(pc.is_in(named.dictionary, value_set=leaving.combine_chunks())),
            of_row=of_row,
        )


def whole_groups(lost: pa.Table, held: pa.Table, groups: pa.Table, *, profile: Profile) -> pa.Array:
    """Groups that disappear once the offsets in `lost` (its column `row` numbers rows of `held`) are gone."""
    own = _Groups.of(held, groups, profile=profile)
    lost_counts = np.bincount(own.of_row[np.asarray(lost["row"])], minlength=len(own.counts))
    return own.ids.filter(pa.array(own.leaves & (lost_counts == own.counts)))
