"""The newest audit of replicas: what each broker's copy of the log would serve if it led."""

from dataclasses import dataclass

from sexton.lake.database import Rows, text
from sexton.ui.page_view import PageView
from sexton.ui.paging import Page, page_of

ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAudit:
    """An audit: the instant, a row for each replica of each log partition, and a page of what differs.

    `kinds` counts the differences by kind.
    """

    as_of_ms: int
    replicas: Rows
    differences: Page
    kinds: dict[str, int]


def replica_audit(view: PageView, *, page: int = 1, size: int = ROWS) -> ReplicaAudit | None:
    """The newest audit of the view's cluster; where an earlier run is shown, the newest before it. None without any."""
    tables, key = view.tables, view.chosen.key
    state, differences = tables.current("replica_state"), tables.current("replica_differences")
    of_cluster = f"cluster_id = {text(key.cluster_id)}"
    until = "" if view.is_newest else f" AND as_of_ms <= {key.as_of_ms}"
    as_of_ms = tables.rows(f"SELECT max(as_of_ms) AS at FROM {state} WHERE {of_cluster}{until}")[0]["at"]
    if as_of_ms is None:
        return None
    where = f"{of_cluster} AND as_of_ms = {as_of_ms}"
    columns = "* EXCLUDE (cluster_id, as_of_ms, run_id)"
    kinds = tables.rows(f"SELECT kind, count(*) AS found FROM {differences} WHERE {where} GROUP BY kind ORDER BY kind")
    return ReplicaAudit(
        as_of_ms=as_of_ms,
        replicas=tables.rows(f"SELECT {columns} FROM {state} WHERE {where} ORDER BY log_partition, replica"),
        differences=page_of(
            tables, columns, f"{differences} WHERE {where}", order="log_partition, ordinal", page=page, size=size
        ),
        kinds={row["kind"]: row["found"] for row in kinds},
    )
