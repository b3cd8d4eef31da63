"""Counts a run folder into a `Summary` with Arrow.

Tables are read one at a time, with only the needed columns. Lists are sorted by importance, then by name, so the same
run always gives the same summary.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from sexton.archive.folder import Folder
from sexton.as_text import DAY_MS, HOUR_MS, MINUTE_MS
from sexton.coordinator.loading import HOLDS_NOTHING
from sexton.errors import UsageError
from sexton.policy import Policy
from sexton.records import RECORD_TYPES
from sexton.runs.folder import RunFolder, RunRecord
from sexton.summary.arrow_counts import TOP, counts_by, first_rows, most_frequent_first, rows_of
from sexton.summary.summary import (
    Bucket,
    CheckResult,
    Expiring,
    GroupCount,
    GroupLine,
    LogPartition,
    OffsetCounts,
    RunInfo,
    Summary,
    Timeline,
    TombstoneCount,
    TopRows,
    TransactionLine,
    UndecodableRow,
    outcome,
)
from sexton.summary.verdict_counts import (
    ORPHAN_COLUMNS,
    POLICY_COLUMNS,
    oddities,
    orphaned_topics,
    policy_outcome,
)
from sexton.tables import FATES, IN_MEMORY, TABLES
from sexton.uris import uri_without_login, without_login

BUCKETS = (
    ("within 1 hour", HOUR_MS),
    ("within 1 day", DAY_MS),
    ("within 7 days", 7 * DAY_MS),
    ("within 30 days", 30 * DAY_MS),
)
MAX_BINS = 60
MAX_SPAN_MS = 3_650 * DAY_MS
_BIN_STEPS_MS = tuple(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)) + tuple(n * HOUR_MS for n in (1, 2, 3, 4, 6, 12))
_DAY_STEPS = (1, 2, 7, 14, 30, 90, 365)
VERDICTS = "offset_verdicts"
"""The largest table: each part of a summary reads only the columns that it needs, and releases them."""
_GROUP_KEY = ("log_partition", "group_id")
_INSTANT = "broker_expires_at_ms"


def summarize(root: Folder | Path | str) -> Summary:
    """The summary of the run folder at `root`; UsageError if a table is missing or it is not a run folder."""
    folder = RunFolder(root.uri if isinstance(root, Folder) else root)
    run = folder.read_run()
    tables = _Tables(folder)
    copies = tables.read(
        "groups",
        [
            *("group_id", "group_type", "state", "member_count", "offset_count", "pending_count"),
            *("log_partition", "home_log_partition"),
        ],
    )
    groups = _one_of_each(copies)
    tombstones = tables.read("tombstones", ["cause", "record_type"])
    bad = tables.read(
        "undecodable_records", ["log_partition", "base_offset", "log_offset", "record_type", "reason", "detail"]
    )
    checks = _checks(tables.read("dq_results", [*CheckResult.model_fields]))
    odd = oddities(tables.dataset(VERDICTS), sees_all_topics=run.sees_all_topics)
    transactions, pinned = _open_transactions(tables, as_of_ms=run.as_of_ms)
    log_partitions = _log_partitions(tables, bad, run)
    verdicts = _verdicts_by_group(tables)
    undecodable = max(bad.num_rows, sum(part.undecodable for part in log_partitions))
    code, reason = outcome(
        undecodable=undecodable,
        checks=len(checks),
        failed_critical=sum(not check.success and check.severity == "critical" for check in checks),
        unloadable=len(run.unloadable),
    )
    return Summary(
        exit_code=code,
        exit_reason=reason,
        run=RunInfo.model_validate(
            {**run.model_dump(), "source": uri_without_login(run.source), "knows_places": run.knows_places}
        ),
        group_count=groups.num_rows,
        groups=_group_counts(groups),
        offsets=OffsetCounts(
            live=tables.count("committed_offsets"),
            pending=tables.count("pending_offsets"),
            unreachable=counts_by(tables.read("unreachable_offsets", ["reason"]), "reason"),
        ),
        expiring=_expiring(tables, as_of_ms=run.as_of_ms),
        tombstone_count=tombstones.num_rows,
        tombstones=_tombstone_counts(tombstones),
        biggest_groups=_biggest_groups(copies, verdicts),
        losing_groups=_losing_groups(copies, verdicts),
        open_transactions=transactions,
        pinned_groups=pinned,
        undecodable=_undecodable(bad, total=undecodable),
        undecodable_by_reason=counts_by(bad, "reason"),
        log_partitions=log_partitions,
        fates=_fates(tables),
        checks=checks,
        orphans=orphaned_topics(tables.read(VERDICTS, ORPHAN_COLUMNS)) if run.has_topics else None,
        orphan_offsets=sum(odd.orphans_by_kind.values()),
        warnings=[without_login(warning) for warning in run.warnings],
        oddities=odd,
        policy=policy_outcome(tables.read(VERDICTS, POLICY_COLUMNS), Policy.from_canonical(run.policy))
        if run.policy
        else None,
        lost=run.lost,
        replicas=run.replicas,
        transactions=run.transactions,
        lag=run.lag,
    )


def _one_of_each(copies: pa.Table) -> pa.Table:
    """One row per group: from the log partition that its id hashes to, else from the lowest one that has it."""
    names = copies["group_id"].cast(pa.string())
    if pc.count_distinct(names).as_py() == copies.num_rows:
        return copies
    away = pc.fill_null(pc.not_equal(copies["home_log_partition"], copies["log_partition"]), True)
    rows = pa.table({"name": names, "away": away, "part": copies["log_partition"], "row": range(copies.num_rows)})
    order = [("away", "ascending"), ("part", "ascending")]
    first = rows.sort_by(order).group_by("name", use_threads=False).aggregate([("row", "first")])
    return copies.take(first["row_first"].combine_chunks().sort())


class _Tables:
    """The Parquet tables of one run folder."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._not_held: list[int] = []
        loads = rows_of(self.read("load_profile", ["log_partition", "load_outcome"]))
        self._not_held = [row["log_partition"] for row in loads if row["load_outcome"] in HOLDS_NOTHING]

    def dataset(self, table: str) -> ds.Dataset:
        """The rows of a table; if it is IN_MEMORY, without log partitions that no coordinator has in memory."""
        is_held = ~pc.field("log_partition").isin(self._not_held)
        return self._files(table).filter(is_held) if table in IN_MEMORY and self._not_held else self._files(table)

    def _files(self, table: str) -> ds.Dataset:
        own = self._folder.sub(table)
        files = [own.path(name) for name in own.files()]
        if not files:
            raise UsageError(
                f"no {table} table here", where=self._folder, fix="the run did not come to its end: run it again"
            )
        texts = [column.name for column in TABLES[table].all_columns if column.type == pa.string()]
        as_numbers = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=texts))
        return ds.dataset(files, filesystem=own.fs, format=as_numbers, partitioning=None)

    def read(self, table: str, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Columns of a table. Texts stay dictionary-encoded as in the files: millions of rows take a few bytes each."""
        return self.dataset(table).to_table(columns=list(columns), filter=where).unify_dictionaries()

    def read_by_file(self, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        for file in self._files(table).get_fragments():
            yield file.to_table(columns=list(columns)).unify_dictionaries()

    def count(self, table: str) -> int:
        return int(self.dataset(table).count_rows())


def _group_counts(groups: pa.Table) -> list[GroupCount]:
    rows = rows_of(groups.group_by(["group_type", "state"]).aggregate([([], "count_all"), ("offset_count", "sum")]))
    counts = [GroupCount(**row, groups=row["count_all"], offsets=row["offset_count_sum"] or 0) for row in rows]
    return sorted(counts, key=lambda item: (-item.groups, item.group_type, item.state))


def _expiring(tables: _Tables, *, as_of_ms: int) -> Expiring:
    """The number of verdicts in each bucket; in `never`, those that only a change in the cluster would make expire."""
    verdicts = tables.read(VERDICTS, ["broker_verdict", "broker_reason", _INSTANT])
    kinds = verdicts.append_column("has_instant", pc.is_valid(verdicts[_INSTANT]))
    kinds = kinds.group_by(["broker_verdict", "broker_reason", "has_instant"]).aggregate([([], "count_all")])
    never, due_by_reason, unknown = Counter[str](), Counter[str](), Counter[str]()
    by_verdict = {"expire": due_by_reason, "keep": never, "unknown": unknown}
    for row in rows_of(kinds):
        counts = by_verdict.get(row["broker_verdict"])  # None: not a verdict, which the checks report
        if counts is not None and (counts is not never or not row["has_instant"]):
            counts[row["broker_reason"]] += row["count_all"]
    # Subtracting could overflow for a far explicit expire timestamp, so instants are compared.
    instants = verdicts[_INSTANT].filter(pc.equal(verdicts["broker_verdict"], "keep")).drop_null()
    due = due_by_reason.total()
    buckets, below = [Bucket(label="now", up_to_ms=0, offsets=due)], 0
    for label, span_ms in BUCKETS:
        up_to = pc.sum(pc.less_equal(instants, as_of_ms + span_ms)).as_py() or 0
        buckets.append(Bucket(label=label, up_to_ms=span_ms, offsets=up_to - below))
        below = up_to
    buckets.append(Bucket(label="later", up_to_ms=None, offsets=len(instants) - below))
    return Expiring(
        buckets=buckets,
        never=most_frequent_first(never),
        due_by_reason=most_frequent_first(due_by_reason),
        unknown=most_frequent_first(unknown),
        timeline=_timeline(instants, as_of_ms=as_of_ms, due=due),
    )


def _timeline(instants: pa.ChunkedArray, *, as_of_ms: int, due: int) -> Timeline:
    """At most MAX_BINS bars; the last 1 % of the offsets count as `later` if they would stretch the bars."""
    horizon = instants.filter(pc.less(instants, as_of_ms + MAX_SPAN_MS))
    if not len(horizon):
        return Timeline(bin_ms=HOUR_MS, offsets=[], due=due, later=len(instants))
    span_ms = max(pc.quantile(horizon, q=0.99, interpolation="higher")[0].as_py() - as_of_ms, 1)
    longest_ms = max(pc.max(horizon).as_py() - as_of_ms, 1)
    if longest_ms <= 2 * span_ms:
        span_ms = longest_ms
    bin_ms = bin_width_ms(span_ms)
    bins = span_ms // bin_ms + 1
    near = horizon.filter(pc.less(horizon, as_of_ms + bins * bin_ms))
    numbers = pc.max_element_wise(pc.divide(pc.subtract(near, as_of_ms), bin_ms), 0)
    offsets = [0] * bins
    for item in pc.value_counts(numbers).to_pylist():
        offsets[item["values"]] = item["counts"]
    return Timeline(bin_ms=bin_ms, offsets=offsets, due=due, later=len(instants) - len(near))


def bin_width_ms(span_ms: int) -> int:
    """The smallest usual step (15 min, 1 h, 1 d, ...) that covers `span_ms` (at most MAX_SPAN_MS) in MAX_BINS bars."""
    steps = (*_BIN_STEPS_MS, *(n * DAY_MS for n in _DAY_STEPS))
    return next(step for step in steps if span_ms // step < MAX_BINS)


def _tombstone_counts(tombstones: pa.Table) -> list[TombstoneCount]:
    counts = []
    for row in rows_of(tombstones.group_by(["cause", "record_type"]).aggregate([([], "count_all")])):
        known = RECORD_TYPES.get(row["record_type"])
        name = known.name if known else f"type {row['record_type']}"
        counts.append(TombstoneCount(**row, record_name=name, tombstones=row["count_all"]))
    return sorted(counts, key=lambda item: (-item.tombstones, item.cause, item.record_type))


def _verdicts_by_group(tables: _Tables) -> pa.Table:
    """One row per group with verdicts: `due` counts its due offsets, `next_expiry_ms` is when the next one is due."""
    counted = []
    for rows in tables.read_by_file(VERDICTS, [*_GROUP_KEY, "broker_verdict", _INSTANT]):  # a group is in one file
        is_due = pc.equal(rows["broker_verdict"], "expire")
        instants = pc.if_else(is_due, pa.scalar(None, pa.int64()), rows[_INSTANT])
        own = rows.select(_GROUP_KEY).append_column("due", is_due.cast(pa.int64())).append_column(_INSTANT, instants)
        counted.append(own.group_by(list(_GROUP_KEY)).aggregate([("due", "sum"), (_INSTANT, "min")]))
    return pa.concat_tables(counted).rename_columns([*_GROUP_KEY, "due", "next_expiry_ms"]).unify_dictionaries()


def _biggest_groups(groups: pa.Table, verdicts: pa.Table) -> TopRows[GroupLine]:
    with_offsets = groups.filter(pc.greater(pc.add(groups["offset_count"], groups["pending_count"]), 0))
    order = [("offset_count", "descending"), ("group_id", "ascending"), ("log_partition", "ascending")]
    return TopRows(rows=_group_lines(first_rows(with_offsets, order), verdicts), total=with_offsets.num_rows)


def _losing_groups(groups: pa.Table, verdicts: pa.Table) -> TopRows[GroupLine]:
    """Groups with due offsets, the largest losses first."""
    losing = verdicts.filter(pc.greater(verdicts["due"], 0))
    order = [("due", "descending"), ("group_id", "ascending"), ("log_partition", "ascending")]
    wanted = [_key(row) for row in first_rows(losing, order)]
    theirs = _of_groups(groups, wanted)
    rows = {_key(row): row for row in rows_of(theirs)}
    return TopRows(rows=_group_lines([rows[key] for key in wanted if key in rows], verdicts), total=losing.num_rows)


def _group_lines(rows: list[dict[str, Any]], verdicts: pa.Table) -> list[GroupLine]:
    """Lines for a few rows of `groups`, in their order."""
    theirs = _of_groups(verdicts, map(_key, rows))
    found = {_key(row): (row["due"], row["next_expiry_ms"]) for row in rows_of(theirs)}
    return [
        GroupLine(
            **row,
            members=row["member_count"] or 0,
            offsets=row["offset_count"] or 0,
            pending=row["pending_count"] or 0,
            due=due,
            next_expiry_ms=next_expiry_ms,
        )
        for row in rows
        for due, next_expiry_ms in [found.get(_key(row), (0, None))]
    ]


def _key(row: dict[str, Any]) -> tuple[int, str]:
    return row["log_partition"], row["group_id"]


def _of_groups(table: pa.Table, keys: Iterable[tuple[int, str]]) -> pa.Table:
    return table.filter(pc.is_in(table["group_id"], pa.array((group_id for _, group_id in keys), pa.string())))


def _open_transactions(tables: _Tables, *, as_of_ms: int) -> tuple[TopRows[TransactionLine], int]:
    """The oldest open transactions, and the number of groups with offsets in any open transaction."""
    table = tables.read(
        "open_transactions",
        ["producer_id", "producer_epoch", "log_partition", "first_log_offset", "first_timestamp_ms", "group_ids"],
    )
    pinned = pc.count_distinct(pc.list_flatten(table["group_ids"])).as_py()
    order = [("first_timestamp_ms", "ascending"), ("log_partition", "ascending"), ("producer_id", "ascending")]
    first = first_rows(table, order)
    pending = tables.read("pending_offsets", ["producer_id", "log_partition"])
    pending_rows = pending.group_by(["log_partition", "producer_id"]).aggregate([([], "count_all")])
    producers = pa.array((row["producer_id"] for row in first), pa.int64())
    held = pending_rows.filter(pc.is_in(pending_rows["producer_id"], producers))
    offsets = {(row["log_partition"], row["producer_id"]): row["count_all"] for row in rows_of(held)}
    rows = [
        TransactionLine(
            **(row | {"group_ids": sorted(row["group_ids"] or [])[:TOP]}),
            age_ms=as_of_ms - at_ms if (at_ms := row["first_timestamp_ms"]) is not None and at_ms >= 0 else None,
            pending_offsets=offsets.get((row["log_partition"], row["producer_id"]), 0),
            group_count=len(row["group_ids"] or []),
        )
        for row in first
    ]
    return TopRows(rows=rows, total=table.num_rows), pinned


def _undecodable(bad: pa.Table, *, total: int) -> TopRows[UndecodableRow]:
    order = [("log_partition", "ascending"), ("base_offset", "ascending"), ("log_offset", "ascending")]
    rows = [UndecodableRow(**{**row, "detail": row["detail"] or ""}) for row in first_rows(bad, order)]
    return TopRows(rows=rows, total=total)


def _log_partitions(tables: _Tables, bad: pa.Table, run: RunRecord) -> list[LogPartition]:
    """Log partitions by number. `bad` are rows of undecodable_records; load_profile may count more than those."""
    columns = [name for name in LogPartition.model_fields if name not in ("undecodable", "blocked")]
    columns.append("undecodable_records")
    with_rows = counts_by(bad, "log_partition")
    rows = rows_of(tables.read("load_profile", columns).sort_by("log_partition"))
    return [
        LogPartition(
            undecodable=max(row.pop("undecodable_records") or 0, with_rows.get(row["log_partition"], 0)),
            **row,
            blocked=run.blocked.get(row["log_partition"]),
        )
        for row in rows
    ]


def _fates(tables: _Tables) -> dict[str, int]:
    """Fate -> number of offset values in all log partitions, without zeros."""
    profile = tables.read("load_profile", FATES)
    sums = {fate: pc.sum(profile[fate]).as_py() or 0 for fate in FATES}
    return {fate: values for fate, values in sums.items() if values}


def _checks(table: pa.Table) -> list[CheckResult]:
    """Failed checks first, critical ones before others."""
    results = [CheckResult(**row) for row in rows_of(table)]
    return sorted(results, key=lambda r: (r.success, r.severity != "critical", r.table, r.expectation))
