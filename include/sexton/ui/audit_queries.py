"""The newest audits. Of replicas: what each broker would serve from its replica if it led. Of transactions: which hold
offsets, whether they will end, and how many ids another transactional.id.expiration.ms would remove."""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.as_text import DAY_MS
from sexton.lake.database import Rows, text
from sexton.lake.published_tables import PublishedTables
from sexton.transactions.ids import DEFAULT_EXPIRATION_MS, HORIZON_DAYS, IdForecast
from sexton.ui.page_view import PageView
from sexton.ui.paging import Page, page_of

ROWS = 100
_WORST_FIRST = "list_position(['hanging', 'unknown', 'two_phase', 'completing', 'running'], verdict), since_ms"
_FAMILIES = 10
MAX_EXPIRATION_MS = 2**31 - 1
"""The largest value that a broker accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAuditView:
    """An audit of transactions: its instant, and a page of the open ones, the worst first; `verdicts` counts them all.

    `states` counts the transactional ids by state; `families` are the largest families of ids. `forecasts` are the
    numbers of ids that expire with the audit's transactional.id.expiration.ms, and with the requested one.
    """

    as_of_ms: int
    transactions: Page
    verdicts: dict[str, int]
    states: dict[str, int]
    families: Rows
    forecasts: Sequence[IdForecast]


def transaction_audit(
    view: PageView, *, page: int = 1, size: int = ROWS, expiration_ms: int | None = None
) -> TransactionAuditView | None:
    """The newest audit of the cluster's transactions or None; if an earlier run is shown, none later than that run.

    `expiration_ms` is another transactional.id.expiration.ms, for a second forecast.
    """
    found = _newest(view, "transactions", "transactional_ids")
    if found is None:
        return None
    tables, (as_of_ms, where) = view.tables, found
    transactions, ids = tables.current("transactions"), tables.current("transactional_ids")
    families = f"SELECT family, count(*) AS found FROM {ids} WHERE {where} GROUP BY ALL ORDER BY found DESC, family"
    return TransactionAuditView(
        as_of_ms=as_of_ms,
        transactions=page_of(
            tables,
            "* EXCLUDE (cluster_id, as_of_ms, run_id)",
            f"{transactions} WHERE {where}",
            order=f"{_WORST_FIRST}, log_partition, producer_id",
            page=page,
            size=size,
        ),
        verdicts=_counted(tables, "verdict", f"{transactions} WHERE {where}"),
        states=_counted(tables, "state", f"{ids} WHERE {where}"),
        families=tables.rows(f"{families} LIMIT {_FAMILIES}"),
        forecasts=_forecasts(tables, f"{ids} WHERE {where}", expiration_ms),
    )


def _forecasts(tables: PublishedTables, of_audit: str, instead_ms: int | None) -> list[IdForecast]:
    """As `sexton.transactions.ids.forecast`, but from the table: expires_at_ms is NULL for open transactions."""
    (known,) = tables.rows(f"SELECT max(expires_at_ms - updated_at_ms) AS expiration_ms FROM {of_audit}")
    in_force_ms = known["expiration_ms"] or DEFAULT_EXPIRATION_MS
    return [_forecast(tables, of_audit, each) for each in (in_force_ms, *([instead_ms] if instead_ms else []))]


def _forecast(tables: PublishedTables, of_audit: str, expiration_ms: int) -> IdForecast:
    ended = "expires_at_ms IS NOT NULL"
    due = ", ".join(
        f"count(*) FILTER ({ended} AND age_ms + {days * DAY_MS} >= {expiration_ms:d}) AS days_{days}"
        for days in (0, *HORIZON_DAYS)
    )
    (row,) = tables.rows(f"SELECT count(*) AS ids, count(*) FILTER (NOT ({ended})) AS open, {due} FROM {of_audit}")
    return IdForecast(
        expiration_ms=expiration_ms,
        ids=row["ids"],
        open=row["open"],
        due=row["days_0"],
        within_days={days: row[f"days_{days}"] for days in HORIZON_DAYS},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAuditView:
    """An audit of replicas: its instant, a row for each replica of each log partition, and a page of differences.

    `kinds` counts the differences by kind.
    """

    as_of_ms: int
    replicas: Rows
    differences: Page
    kinds: dict[str, int]


def replica_audit(view: PageView, *, page: int = 1, size: int = ROWS) -> ReplicaAuditView | None:
    """The newest audit of the cluster's replicas or None; if an earlier run is shown, none later than that run."""
    found = _newest(view, "replica_state")
    if found is None:
        return None
    tables, (as_of_ms, where) = view.tables, found
    state, differences = tables.current("replica_state"), tables.current("replica_differences")
    columns = "* EXCLUDE (cluster_id, as_of_ms, run_id)"
    return ReplicaAuditView(
        as_of_ms=as_of_ms,
        replicas=tables.rows(f"SELECT {columns} FROM {state} WHERE {where} ORDER BY log_partition, replica"),
        differences=page_of(
            tables, columns, f"{differences} WHERE {where}", order="log_partition, ordinal", page=page, size=size
        ),
        kinds=_counted(tables, "kind", f"{differences} WHERE {where}"),
    )


def _counted(tables: PublishedTables, column: str, source: str) -> dict[str, int]:
    rows = tables.rows(f"SELECT {column}, count(*) AS found FROM {source} GROUP BY ALL ORDER BY 1")
    return {row[column]: row["found"] for row in rows}


def _newest(view: PageView, *tables: str) -> tuple[int, str] | None:
    """The instant of the newest audit of the view's cluster in `tables`, and the SQL condition for the audit's rows.

    If an earlier run is shown, later audits are ignored. An audit without findings has no rows, so it is not found.
    """
    key = view.chosen.key
    of_cluster = f"cluster_id = {text(key.cluster_id)}"
    until = "" if view.is_newest else f" AND as_of_ms <= {key.as_of_ms}"
    every = " UNION ALL ".join(
        f"SELECT as_of_ms FROM {view.tables.current(table)} WHERE {of_cluster}{until}" for table in tables
    )
    as_of_ms = view.tables.rows(f"SELECT max(as_of_ms) AS at FROM ({every})")[0]["at"]
    return None if as_of_ms is None else (as_of_ms, f"{of_cluster} AND as_of_ms = {as_of_ms}")
