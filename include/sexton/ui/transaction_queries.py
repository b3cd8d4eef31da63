"""The newest audit of transactions: which of them hold offsets, whether they will end, and transactional ids; and what
another transactional.id.expiration.ms would do to these."""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.lake.database import Rows, text
from sexton.lake.published_tables import PublishedTables
from sexton.transactions.ids import DAY_MS, DEFAULT_EXPIRATION_MS, HORIZON_DAYS, IdForecast
from sexton.ui.page_view import PageView
from sexton.ui.paging import Page, page_of

ROWS = 100
_WORST_FIRST = "list_position(['hanging', 'unknown', 'two_phase', 'completing', 'running'], verdict), since_ms"
_FAMILIES = 10
MOST_EXPIRATION_MS = 2**31 - 1
"""The largest that a broker takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAudit:
    """An audit: the instant, a page of open transactions, the worst first, and how many there are by verdict.

    `states` counts the transactional ids by state; `families` are the largest families of ids. `forecasts` are how many
    ids expire: by the expiration of the audit, and by the one asked about.
    """

    as_of_ms: int
    transactions: Page
    verdicts: dict[str, int]
    states: dict[str, int]
    families: Rows
    forecasts: Sequence[IdForecast]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSource:
    """The newest audit as SQL: the tables transactions and transactional_ids, and which of their rows it is."""

    as_of_ms: int
    transactions: str
    ids: str
    where: str


def newest_audit(tables: PublishedTables, cluster_id: str, *, until_ms: int | None) -> AuditSource | None:
    """The newest audit of a cluster that is not later than `until_ms`.

    An audit that found no transactional id at all has left no row, and is none.
    """
    transactions, ids = tables.current("transactions"), tables.current("transactional_ids")
    of_cluster = f"cluster_id = {text(cluster_id)}"
    until = "" if until_ms is None else f" AND as_of_ms <= {until_ms:d}"
    both = " UNION ALL ".join(f"SELECT as_of_ms FROM {name} WHERE {of_cluster}{until}" for name in (transactions, ids))
    as_of_ms = tables.rows(f"SELECT max(as_of_ms) AS at FROM ({both})")[0]["at"]
    if as_of_ms is None:
        return None
    return AuditSource(
        as_of_ms=as_of_ms, transactions=transactions, ids=ids, where=f"{of_cluster} AND as_of_ms = {as_of_ms}"
    )


def transaction_audit(
    view: PageView, *, page: int = 1, size: int = ROWS, expiration_ms: int | None = None
) -> TransactionAudit | None:
    """The newest audit of the view's cluster; where an earlier run is shown, the newest before it. None without any.

    `expiration_ms` is another transactional.id.expiration.ms to compare.
    """
    tables, key = view.tables, view.chosen.key
    found = newest_audit(tables, key.cluster_id, until_ms=None if view.is_newest else key.as_of_ms)
    if found is None:
        return None
    transactions, ids, where = found.transactions, found.ids, found.where
    verdicts = tables.rows(
        f"SELECT verdict, count(*) AS found FROM {transactions} WHERE {where} GROUP BY ALL ORDER BY 1"
    )
    states = tables.rows(f"SELECT state, count(*) AS found FROM {ids} WHERE {where} GROUP BY ALL ORDER BY 1")
    families = f"SELECT family, count(*) AS found FROM {ids} WHERE {where} GROUP BY ALL ORDER BY found DESC, family"
    return TransactionAudit(
        as_of_ms=found.as_of_ms,
        transactions=page_of(
            tables,
            "* EXCLUDE (cluster_id, as_of_ms, run_id)",
            f"{transactions} WHERE {where}",
            order=f"{_WORST_FIRST}, log_partition, producer_id",
            page=page,
            size=size,
        ),
        verdicts={row["verdict"]: row["found"] for row in verdicts},
        states={row["state"]: row["found"] for row in states},
        families=tables.rows(f"{families} LIMIT {_FAMILIES}"),
        forecasts=_forecasts(tables, found, expiration_ms),
    )


def _forecasts(tables: PublishedTables, audit: AuditSource, instead_ms: int | None) -> list[IdForecast]:
    """As `sexton.transactions.ids.forecast`, from the table: an id without expires_at_ms has an open transaction."""
    of_audit = f"{audit.ids} WHERE {audit.where}"
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
