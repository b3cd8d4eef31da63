"""Expectations between tables, measured in Arrow over whole log partitions.

All rows of a log partition are in one part, and only misplaced groups span log partitions, so parts can be measured
one by one. A `KeyIndex` replaces many joins: it counts the offsets, verdicts and planned tombstones of each key.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.partitioner import partition_of
from sexton.quality.declared_expectations import Expectation
from sexton.quality.measure import CheckedRun, Measures, count_true, cut_of, number_keys
from sexton.quality.verdict_expectations import VERDICT_EXPECTATIONS, measure_forecast, measure_held, measure_verdicts
from sexton.tables import FATES
from sexton.verdicts.expiry import is_of_offset

Tables = Mapping[str, pa.Table]
Mask = npt.NDArray[np.bool_]

Numbers = npt.NDArray[np.int64]

KEY = ["log_partition", "group_id", "topic", "partition"]
VALUE = ["log_offset", "committed_offset"]
GROUP = ["log_partition", "group_id"]
COUNTED_FATES = {"live": "committed_offsets", "pending": "pending_offsets", "unreachable": "unreachable_offsets"}


def _critical(table: str, measure: str, sentence: str) -> Expectation:
    return Expectation(table=table, measure=measure, sentence=sentence)


def _warning(table: str, measure: str, sentence: str) -> Expectation:
    return Expectation(table=table, measure=measure, sentence=sentence, severity="warning")


CROSS_TABLE_EXPECTATIONS: tuple[Expectation, ...] = (
    _critical("committed_offsets", "without_group", "every committed offset belongs to a group in groups"),
    _critical("committed_offsets", "away_from_home", "every group's offsets lie in the log partition it hashes to"),
    _critical("groups", "offset_counts", "offset_count is the number of its rows in committed_offsets"),
    _critical("groups", "pending_counts", "pending_count is the number of its rows in pending_offsets"),
    _critical("groups", "member_counts", "member_count is the number of its rows in members"),
    _critical("members", "without_group", "every member belongs to a group in groups"),
    _critical("offset_verdicts", "missing_verdicts", "every offset under a group has a verdict"),
    _critical("offset_verdicts", "without_offset", "every verdict is about an offset that is there"),
    _critical("load_profile", "missing_log_partitions", "every log partition of the run has its row"),
    _critical("load_profile", "behind_the_cut", "nothing behind the cut was read"),
    _critical("load_profile", "conservation", f"read_values = {' + '.join(FATES)}, in every log partition"),
    *(
        _critical("load_profile", f"{fate}_rows", f"{fate} is the number of rows in {table}, in every log partition")
        for fate, table in COUNTED_FATES.items()
    ),
    _critical(
        "tombstones", "without_expire", "every planned offset tombstone targets an offset whose verdict is expire"
    ),
    _critical("tombstones", "kept_or_held", "no offset that a verdict keeps or a policy holds is planned"),
    _critical("tombstones", "planned_twice", "no offset is planned twice"),
    _critical("tombstones", "other_target", "every planned offset tombstone names the value that is there"),
    _critical(
        "tombstones", "left_out", "every offset whose verdict is expire is planned, where planning is not blocked"
    ),
    _critical("tombstones", "group_with_offsets", "no group is planned that keeps an offset or has one pending"),
    _critical("tombstones", "blocked", "nothing is planned where a record is undecodable or the load would fail"),
    _critical("tombstones", "sweep_fails", "nothing is planned by the broker's rules where its sweep fails"),
    _critical("tombstones", "positions", "positions count from 0 without a gap, in every log partition"),
    _critical("tombstones", "other_plan", "every row carries the run's plan_id"),
    *VERDICT_EXPECTATIONS,
    _warning("runs", "coverage", "the log reaches back to its beginning and no log partition is missing"),
    _warning("undecodable_records", "found", "every record could be decoded"),
    _warning("unreachable_offsets", "removed", "no offset is left behind by the removal of its group"),
    _warning("unreachable_offsets", "stray", "no offset lies outside the log partition its group hashes to"),
    _warning("unreachable_offsets", "share_group", "no offset lies under a share group"),
    _warning("load_profile", "load_failures", "a coordinator could load every log partition"),
    _warning("load_profile", "sweep_failures", "the broker's sweep works in every log partition"),
    _warning("load_profile", "unknown_types", "every record is of a known type"),
    _warning("load_profile", "future_batches", "no batch is stamped more than an hour after the snapshot"),
)


def measure_relations(tables: Tables, run: CheckedRun) -> Measures:
    """Measure all expectations whose tables are present and sound. The others get no count."""
    found = Measures()
    for needs, measure in _MEASURES:
        if all(name in tables for name in needs):
            measure(found, tables, run)
    return found


def _measure_keys(found: Measures, tables: Tables, run: CheckedRun) -> None:
    """Compare offsets with verdicts and plan by key, then groups with the rows of their keys."""
    unreachable = tables["unreachable_offsets"]
    offsets = pa.concat_tables(
        [
            tables["committed_offsets"].select([*KEY, *VALUE]),
            unreachable.filter(pc.not_equal(unreachable["reason"], "group_removed")).select([*KEY, *VALUE]),
        ]
    )
    verdicts = tables["offset_verdicts"]
    tombstones = _by_target(tables["tombstones"])
    planned = tombstones.filter(is_of_offset(tombstones))
    by_key = KeyIndex([offsets, verdicts, planned], KEY)
    of_offset, of_verdict, of_planned = by_key.rows
    expires = _mask(pc.equal(pc.coalesce(verdicts["policy_verdict"], verdicts["broker_verdict"]), "expire"))
    offset_count, verdict_count, planned_count = (by_key.count(rows) for rows in by_key.rows)
    expiring_count = by_key.count(of_verdict[expires])
    has_offset, has_verdict, is_planned = offset_count > 0, verdict_count > 0, planned_count > 0
    found.put("offset_verdicts", "missing_verdicts", _count(has_offset & ~has_verdict))
    found.put("offset_verdicts", "without_offset", _count(has_verdict & ~has_offset))
    found.put("tombstones", "without_expire", _count(is_planned & (expiring_count == 0)))
    found.put("tombstones", "kept_or_held", _count(is_planned & has_verdict & (expiring_count == 0)))
    found.put("tombstones", "planned_twice", _count(planned_count > 1))
    differs = np.zeros(by_key.size, bool)
    for name in VALUE:
        stored = by_key.values(of_offset, offsets[name])
        differs[of_planned] |= stored[of_planned] != _int64(planned[f"target_{name}"])
    found.put("tombstones", "other_target", _count(differs & has_offset))
    is_blocked = np.zeros(by_key.size, bool)
    is_blocked[of_verdict] = _mask(pc.is_in(verdicts["log_partition"], value_set=_blocked(tables)))
    is_blocked[of_verdict] |= _is_served_stray(verdicts, run)  # their tombstones go to the log partition they hash to
    found.put("tombstones", "left_out", _count((expiring_count > 0) & ~is_planned & ~is_blocked))
    _measure_groups(found, tables, offsets, verdicts.filter(pa.array(expires)), run)


def _by_target(tombstones: pa.Table) -> pa.Table:
    """Return tombstones with the log partition of their target as log_partition."""
    where = tombstones.column_names.index("log_partition")
    return tombstones.set_column(where, "log_partition", tombstones["target_log_partition"])


def _is_served_stray(rows: pa.Table, run: CheckedRun) -> Mask:
    """Return which rows are of misplaced groups that the coordinator serves nevertheless."""
    count = run.partition_count
    if count is None or not run.profile.one_cache:
        return np.zeros(rows.num_rows, bool)
    places = zip(rows["group_id"].to_pylist(), rows["log_partition"].to_pylist(), strict=True)
    return np.array([group is None or partition_of(group, count) != place for group, place in places], bool)


def _measure_groups(found: Measures, tables: Tables, offsets: pa.Table, expiring: pa.Table, run: CheckedRun) -> None:
    """Compare groups with their offsets, members and tombstones."""
    groups, tombstones = tables["groups"], _by_target(tables["tombstones"])
    of_groups = tombstones.filter(pc.invert(is_of_offset(tombstones)))
    owned = [tables[name] for name in ("committed_offsets", "pending_offsets", "members")]
    by_group = KeyIndex([groups, *owned, offsets, expiring, of_groups], GROUP)
    of_group, *_ = by_group.rows
    group_count, committed_count, pending_count, member_count, offset_count, expiring_count, planned_count = map(
        by_group.count, by_group.rows
    )
    is_there = group_count > 0
    found.put("committed_offsets", "without_group", int(offset_count[~is_there].sum()))
    found.put("members", "without_group", int(member_count[~is_there].sum()))
    for name, measure, counted in (
        ("offset_count", "offset_counts", committed_count),
        ("pending_count", "pending_counts", pending_count),
        ("member_count", "member_counts", member_count),
    ):
        found.put("groups", measure, _count(counted[of_group] != _int64(groups[name])))
    is_held = pending_count > 0
    if run.profile.leaks_open_transactions:
        is_held &= offset_count > 0  # 4.0.0 looks at transactions only where there are offsets to expire
    lives = (offset_count > expiring_count) | is_held
    found.put("tombstones", "group_with_offsets", _count((planned_count > 0) & lives))


class KeyIndex:
    """Numbers the distinct keys of several tables, over the columns that they share."""

    def __init__(self, tables: Sequence[pa.Table], columns: list[str]) -> None:
        together = pa.concat_tables([table.select(columns) for table in tables])
        numbers, self.size = number_keys(together.columns)
        self.rows = np.split(numbers, np.cumsum([table.num_rows for table in tables])[:-1])
        """For each table the key number of every row."""

    def count(self, rows: Numbers) -> Numbers:
        """Return the count of `rows` by key number."""
        return np.bincount(rows, minlength=self.size)

    def values(self, rows: Numbers, values: pa.ChunkedArray) -> Numbers:
        """Return the value of `rows` by key number, -1 if there is none."""
        found = np.full(self.size, -1, np.int64)
        found[rows] = _int64(values)
        return found


def _measure_profile(found: Measures, tables: Tables, run: CheckedRun) -> None:
    """Compare the counts of load_profile: every value read has one fate, and fates equal the tables' row counts."""
    profile = tables["load_profile"]
    parts = profile["log_partition"]
    found.put("load_profile", "missing_log_partitions", len(set(run.cuts) - set(parts.to_pylist())))
    total = np.zeros(profile.num_rows, np.int64)
    for fate in FATES:
        total += _int64(profile[fate])
    _put_partitions(found, "load_profile", "conservation", parts, total != _int64(profile["read_values"]))
    for fate, table in COUNTED_FATES.items():
        rows = _rows_by_partition(tables[table], parts)
        _put_partitions(found, "load_profile", f"{fate}_rows", parts, rows != _int64(profile[fate]))
    behind = np.asarray(pc.fill_null(pc.greater(profile["next_log_offset"], cut_of(parts, run)), False))
    _put_partitions(found, "load_profile", "behind_the_cut", parts, behind)
    fails = np.asarray(pc.fill_null(profile["load_would_fail"], True))
    _put_partitions(found, "load_profile", "load_failures", parts, fails)
    _put_partitions(found, "load_profile", "sweep_failures", parts, _sweep_fails(profile, run))
    for name in ("unknown_types", "future_batches"):
        found.put("load_profile", name, pc.sum(profile[name]).as_py() or 0)


def _measure_plan(found: Measures, tables: Tables, run: CheckedRun) -> None:
    """Check the plan by log partition."""
    tombstones = tables["tombstones"]
    blocked = pc.is_in(tombstones["log_partition"], value_set=_blocked(tables))
    found.put("tombstones", "blocked", count_true(blocked))
    profile = tables["load_profile"]
    failing = profile["log_partition"].filter(pa.array(_sweep_fails(profile, run))).combine_chunks()
    by_broker = pc.is_in(tombstones["log_partition"], value_set=failing) if run.policy is None else pa.array([False])
    found.put("tombstones", "sweep_fails", count_true(by_broker))
    spans = tombstones.group_by("log_partition").aggregate(
        [("position", "min"), ("position", "max"), ("position", "count_distinct")]
    )
    low, high, distinct = (_int64(spans[f"position_{name}"]) for name in ("min", "max", "count_distinct"))
    gaps = (low != 0) | (high + 1 != distinct)
    _put_partitions(found, "tombstones", "positions", spans["log_partition"], gaps)
    same = pc.equal(tombstones["plan_id"], pa.scalar(run.plan_id, pa.string()))
    found.put("tombstones", "other_plan", tombstones.num_rows - count_true(same))


def _measure_home(found: Measures, tables: Tables, run: CheckedRun) -> None:
    """Count misplaced groups; 0 if the number of log partitions is unknown."""
    if run.partition_count is None or run.profile.one_cache:
        found.put("committed_offsets", "away_from_home", 0)
        return
    held = tables["committed_offsets"].select(GROUP).group_by(GROUP).aggregate([])
    count = run.partition_count
    places = zip(held["group_id"].to_pylist(), held["log_partition"].to_pylist(), strict=True)
    away = sum(group_id is not None and partition_of(group_id, count) != place for group_id, place in places)
    found.put("committed_offsets", "away_from_home", away)


def _measure_findings(found: Measures, tables: Tables, _run: CheckedRun) -> None:
    """Count findings about the log itself."""
    found.put("undecodable_records", "found", tables["undecodable_records"].num_rows)
    reasons = tables["unreachable_offsets"]["reason"]
    found.put("unreachable_offsets", "removed", count_true(pc.equal(reasons, "group_removed")))
    found.put("unreachable_offsets", "stray", count_true(pc.equal(reasons, "stray")))
    found.put("unreachable_offsets", "share_group", count_true(pc.equal(reasons, "share_group")))


_OFFSETS = ("committed_offsets", "unreachable_offsets", "pending_offsets")
_BLOCKING = ("undecodable_records", "load_profile")
_MEASURES: tuple[tuple[tuple[str, ...], Callable[[Measures, Tables, CheckedRun], None]], ...] = (
    ((*_OFFSETS, "groups", "members", "offset_verdicts", "tombstones", *_BLOCKING), _measure_keys),
    ((*_OFFSETS, "load_profile"), _measure_profile),
    (("tombstones", *_BLOCKING), _measure_plan),
    (("committed_offsets",), _measure_home),
    (("offset_verdicts",), lambda found, tables, run: measure_verdicts(found, tables["offset_verdicts"], run)),
    (
        ("tombstones", "groups"),
        lambda found, tables, run: measure_held(found, tables["tombstones"], tables["groups"], run),
    ),
    (
        ("offset_verdicts", "expiry_forecast"),
        lambda found, tables, _: measure_forecast(found, tables["offset_verdicts"], tables["expiry_forecast"]),
    ),
    (("undecodable_records", "unreachable_offsets"), _measure_findings),
)


def _blocked(tables: Tables) -> pa.Array:
    """Return the log partitions that get no plan."""
    profile = tables["load_profile"]
    failing = profile.filter(pc.fill_null(profile["load_would_fail"], True))["log_partition"]
    undecodable = tables["undecodable_records"]["log_partition"]
    return pa.chunked_array([*failing.chunks, *undecodable.chunks], pa.int32()).unique()


def _sweep_fails(profile: pa.Table, run: CheckedRun) -> Mask:
    """Return for each row of load_profile whether the broker's sweep at as_of fails."""
    is_on = pc.fill_null(pc.less_equal(profile["sweep_blocked_from_ms"], run.as_of_ms), True)
    return _mask(pc.and_(pc.is_valid(profile["sweep_blocked_by"]), is_on))


def _rows_by_partition(table: pa.Table, parts: pa.ChunkedArray) -> Numbers:
    """Return the row count of `table` for each of `parts`."""
    counted = table["log_partition"].value_counts()
    at = pc.index_in(parts, value_set=counted.field("values"))
    return np.asarray(pc.fill_null(counted.field("counts").take(at), 0)).astype(np.int64)


def _put_partitions(found: Measures, table: str, measure: str, parts: pa.ChunkedArray, wrong: Mask) -> None:
    where = [part for part, is_wrong in zip(parts.to_pylist(), wrong, strict=True) if is_wrong]
    found.put(table, measure, len(where), f"first in log partition {where[0]}" if where else None)


def _mask(values: pa.ChunkedArray) -> Mask:
    """Return booleans, NULL as False."""
    return np.asarray(pc.fill_null(values, False)).astype(bool)


def _int64(values: pa.ChunkedArray) -> Numbers:
    """Return numbers, NULL as -1, which equals no count."""
    return np.asarray(pc.fill_null(values, -1)).astype(np.int64)


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
