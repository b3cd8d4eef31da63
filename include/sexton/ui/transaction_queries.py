"""The newest audit of transactions: which of them hold offsets, whether they will end, and transactional ids."""

from dataclasses import dataclass

from sexton.ui.database import Rows, text
from sexton.ui.page_view import PageView
from sexton.ui.paging import Page, page_of

ROWS = 100
_WORST_FIRST = "list_position(['hanging', 'unknown', 'two_phase', 'completing', 'running'], verdict), since_ms"
_FAMILIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAudit:
    """An audit: the instant, a page of open transactions, the worst first, and how many there are by verdict.

    `states` counts the transactional ids by state; `families` are the largest families of ids.
    """

    as_of_ms: int
    transactions: Page
    verdicts: dict[str, int]
    states: dict[str, int]
    families: Rows


def transaction_audit(view: PageView, *, page: int = 1, size: int = ROWS) -> TransactionAudit | None:
    """The newest audit of the view's cluster; where an earlier run is shown, the newest before it. None without any.

    An audit that found no transactional id at all has left no row, and is none.
    """
    tables, key = view.tables, view.chosen.key
    transactions, ids = tables.current("transactions"), tables.current("transactional_ids")
    of_cluster = f"cluster_id = {text(key.cluster_id)}"
    until = "" if view.is_newest else f" AND as_of_ms <= {key.as_of_ms}"
    both = " UNION ALL ".join(f"SELECT as_of_ms FROM {name} WHERE {of_cluster}{until}" for name in (transactions, ids))
    as_of_ms = tables.rows(f"SELECT max(as_of_ms) AS at FROM ({both})")[0]["at"]
    if as_of_ms is None:
        return None
    where = f"{of_cluster} AND as_of_ms = {as_of_ms}"
    verdicts = tables.rows(
        f"SELECT verdict, count(*) AS found FROM {transactions} WHERE {where} GROUP BY ALL ORDER BY 1"
    )
    states = tables.rows(f"SELECT state, count(*) AS found FROM {ids} WHERE {where} GROUP BY ALL ORDER BY 1")
    families = f"SELECT family, count(*) AS found FROM {ids} WHERE {where} GROUP BY ALL ORDER BY found DESC, family"
    return TransactionAudit(
        as_of_ms=as_of_ms,
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
    )
