"""The figures of the overview: groups by type and state, what expires when and why, findings, load and checks.

All figures are of one published run and computed once, in some 0.3 s for two million offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.as_text import DAY_MS, HOUR_MS
from sexton.lake.database import Rows
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.policy.field_types import FOREVER_MS
from sexton.ui.group_queries import groups_of
from sexton.verdicts.keeping import NOT_KEPT

HORIZON_HOURS = (1, 24, 7 * 24, 30 * 24)
BINS = 48
"""Bars of the expiry plot: one an hour over two days, or wider bars that span the retention."""
SHOWN = 12
"""Rows of a short list on the overview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of the first page; rows are dicts as in the tables, those with problems first.

    `horizons` counts the offsets that expire within each of HORIZON_HOURS after as_of. `bins` counts the offsets that
    expire in each span of `bin_ms` after as_of, and `later` those that expire after the last span.
    """

    group_count: int
    offset_count: int
    due: int
    pending: int
    never: int
    groups_losing: int
    by_state: Rows
    by_reason: Rows
    by_policy: Rows
    kept: Rows
    horizons: list[int]
    bin_ms: int
    bins: list[int]
    later: int
    orphan_count: int
    orphans: Rows
    left_topic: int
    behind_log_start: int
    beyond_log_end: int
    pinned: int
    losing: Rows
    soon: Rows
    forecast: Rows
    transactions: Rows
    transaction_count: int
    log_partitions: Rows
    undecodable: int
    checks: Mapping[str, int]


def overview(tables: PublishedTables, run: PublishedRun) -> Overview:
    """The figures of a run, cached."""
    return tables.computed(run, "overview", lambda: _overview(tables, run))


def _overview(tables: PublishedTables, run: PublishedRun) -> Overview:
    groups, verdicts = groups_of(tables, run), tables.held(run, "offset_verdicts")
    as_of_ms = run.key.as_of_ms
    bin_hours = _bin_hours(int(run.row["retention_ms"]))
    totals = tables.rows(
        f"""SELECT count(*) AS group_count, coalesce(sum(offset_count), 0)::BIGINT AS offset_count,
            coalesce(sum(pending_count), 0)::BIGINT AS pending, coalesce(sum(due), 0)::BIGINT AS due,
            coalesce(sum(left_topics), 0)::BIGINT AS left_topic, coalesce(sum(pinned), 0)::BIGINT AS pinned,
            coalesce(sum(behind_log_start), 0)::BIGINT AS behind_log_start,
            coalesce(sum(beyond_log_end), 0)::BIGINT AS beyond_log_end,
            coalesce(sum(orphans), 0)::BIGINT AS orphan_count, count(*) FILTER (due > 0) AS groups_losing
            FROM {groups}"""
    )[0]
    kinds = _kinds(tables, run)
    hours_left = {
        row["hours"]: row["offsets"]
        for row in tables.rows(
            f"SELECT hours, sum(offsets)::BIGINT AS offsets FROM {kinds} WHERE hours >= 0 GROUP BY ALL"
        )
    }
    by_reason = tables.rows(
        f"""SELECT broker_verdict, broker_reason, sum(offsets)::BIGINT AS offsets FROM {kinds}
            GROUP BY ALL ORDER BY offsets DESC, broker_reason"""
    )
    return Overview(
        **totals,
        never=sum(row["offsets"] for row in by_reason if row["broker_verdict"] == "keep") - sum(hours_left.values()),
        by_state=tables.rows(
            f"""SELECT group_type, state, count(*) AS groups, sum(offset_count)::BIGINT AS offsets,
                sum(due)::BIGINT AS due FROM {groups} GROUP BY ALL ORDER BY groups DESC, group_type, state"""
        ),
        by_reason=by_reason,
        by_policy=tables.rows(
            f"""SELECT policy_verdict, policy_rule, policy_owner, sum(offsets)::BIGINT AS offsets FROM {kinds}
                WHERE policy_verdict IS NOT NULL GROUP BY ALL ORDER BY offsets DESC, policy_rule LIMIT {SHOWN}"""
        ),
        kept=tables.rows(
            f"""SELECT policy_rule, keep_status, CASE WHEN keep_status = '{NOT_KEPT}' THEN keep_error END AS why,
                count(DISTINCT group_id) AS groups, count(*) AS offsets,
                count(client_commit_timestamp_ms) AS commits, count(client_state_timestamp_ms) AS joins,
                nullif(max(kept_until_ms), {FOREVER_MS}) AS until_ms, min(broker_expires_at_ms) AS expires_at_ms,
                max(keep_at_ms) AS last_ms
                FROM {verdicts} WHERE keep_status IS NOT NULL
                GROUP BY policy_rule, keep_status, why
                ORDER BY keep_status <> '{NOT_KEPT}', policy_rule, keep_status, why LIMIT {2 * SHOWN}"""
        ),
        horizons=[sum(n for hours, n in hours_left.items() if hours < span) for span in HORIZON_HOURS],
        bin_ms=bin_hours * HOUR_MS,
        bins=[sum(hours_left.get(number * bin_hours + hour, 0) for hour in range(bin_hours)) for number in range(BINS)],
        later=sum(n for hours, n in hours_left.items() if hours >= BINS * bin_hours),
        orphans=tables.rows(
            f"""SELECT topic, orphan, count(*) AS offsets, count(DISTINCT group_id) AS groups FROM {verdicts}
                WHERE orphan IS NOT NULL GROUP BY ALL ORDER BY offsets DESC, topic LIMIT {SHOWN}"""
        ),
        losing=tables.rows(f"SELECT * FROM {groups} WHERE due > 0 ORDER BY due DESC, group_id LIMIT {SHOWN}"),
        soon=tables.rows(
            f"""SELECT * FROM {groups} WHERE next_expires_at_ms <= {as_of_ms + DAY_MS}
                ORDER BY next_expires_at_ms, group_id LIMIT {SHOWN}"""
        ),
        forecast=tables.rows(
            f"""SELECT horizon_days, "by", sum(offset_count)::BIGINT AS offsets, count(*) AS groups,
                count(*) FILTER (is_whole_group) AS whole_groups FROM {tables.of_run(run, "expiry_forecast")}
                GROUP BY ALL ORDER BY horizon_days, "by" """
        ),
        transactions=transactions(tables, run, limit=SHOWN),
        transaction_count=_count(tables, tables.held(run, "open_transactions")),
        log_partitions=log_partitions(tables, run)[:SHOWN],
        undecodable=_count(tables, tables.of_run(run, "undecodable_records")),
        checks=tables.rows(
            f"""SELECT count(*) AS all, count(*) FILTER (NOT success) AS failed,
                count(*) FILTER (NOT success AND severity = 'critical') AS critical
                FROM {tables.of_run(run, "dq_results")}"""
        )[0],
    )


def log_partitions(tables: PublishedTables, run: PublishedRun) -> Rows:
    """Rows of load_profile: first failing loads, then failing sweeps, undecodable records, and the slowest loads."""
    return tables.rows(
        f"""SELECT * FROM {tables.of_run(run, "load_profile")}
            ORDER BY NOT load_would_fail, sweep_blocked_by IS NULL, undecodable = 0, predicted_load_ms DESC NULLS LAST,
            log_partition"""
    )


def checks(tables: PublishedTables, run: PublishedRun) -> Rows:
    """Every expectation of the run, failed ones first."""
    return tables.rows(
        f"""SELECT "table", expectation, severity, success, observed, failing_rows
            FROM {tables.of_run(run, "dq_results")} ORDER BY success, severity, "table", expectation"""
    )


def transactions(tables: PublishedTables, run: PublishedRun, *, limit: int) -> Rows:
    """Open transactions, the oldest first, each with its number of pending offsets."""
    return tables.rows(
        f"""SELECT t.*, coalesce(p.pending, 0) AS pending_offsets FROM {tables.held(run, "open_transactions")} t
            LEFT JOIN (SELECT log_partition, producer_id, count(*) AS pending
                FROM {tables.held(run, "pending_offsets")} GROUP BY ALL) p USING (log_partition, producer_id)
            ORDER BY first_timestamp_ms, log_partition, producer_id LIMIT {limit}"""
    )


def _kinds(tables: PublishedTables, run: PublishedRun) -> str:
    """A table in memory: numbers of offsets by verdict, rule, and hours until expiry (-1: due already, or never)."""
    far = max(HORIZON_HOURS[-1], BINS * _bin_hours(int(run.row["retention_ms"])))
    hours = f"least(greatest((broker_expires_at_ms - {run.key.as_of_ms}) // {HOUR_MS}, 0), {far})"
    return tables.computed_table(
        run,
        "kinds",
        lambda: (
            f"""
            SELECT broker_verdict, broker_reason, policy_verdict, policy_rule, policy_owner,
                CASE WHEN broker_verdict = 'keep' AND broker_expires_at_ms IS NOT NULL
                    THEN {hours} ELSE -1 END AS hours,
                count(*) AS offsets
            FROM {tables.held(run, "offset_verdicts")} GROUP BY ALL"""
        ),
    )


def _count(tables: PublishedTables, source: str) -> int:
    return int(tables.rows(f"SELECT count(*) AS rows FROM {source}")[0]["rows"])


def _bin_hours(retention_ms: int) -> int:
    """The hours of a bar: one, or as many as it takes for the bars to span the retention."""
    return max(-(-retention_ms // (BINS * HOUR_MS)), 1)
