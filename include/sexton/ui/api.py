"""The data of the dashboard's pages as JSON, from the same queries. /api/openapi.json describes it.

Instants are epoch milliseconds. Names are as in the log: escape them before showing them.
"""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from sexton.history.lost_by_day import LostOffsets, lost_offsets
from sexton.lake.read import PublishedRun
from sexton.ui.audit_queries import ROWS, ReplicaAuditView, TransactionAuditView, replica_audit, transaction_audit
from sexton.ui.group_queries import GroupDetail, find_groups, group_detail
from sexton.ui.offset_queries import find_offsets
from sexton.ui.overview import Overview, checks, log_partitions, overview, transactions
from sexton.ui.paging import Page, PageNumber, PageSize, Search
from sexton.ui.parameters import AnyView, Days, Expiration, GroupId, GroupQueryParam, Instant, OffsetQueryParam
from sexton.ui.story_queries import Series, StoryPage, series, story

router = APIRouter(prefix="/api", tags=["published state"])
MAX_TRANSACTIONS = 1_000


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """The OpenAPI description of this API."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/runs")
def get_runs(view: AnyView, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> list[dict[str, Any]]:
    """Published runs of a cluster up to `as_of`, the newest first."""
    return [run_json(run) for run in reversed(view.until_now[-limit:])] if view.run else []


@router.get("/overview")
def get_overview(view: AnyView) -> Overview:
    """The figures of the overview page."""
    return overview(view.tables, view.chosen)


@router.get("/groups")
def get_groups(view: AnyView, query: GroupQueryParam) -> Page:
    """A page of groups. `next_expires_at_ms` is when the first offset that is not due yet expires."""
    return find_groups(view.tables, view.chosen, query)


@router.get("/group")
def get_group(
    view: AnyView, group_id: GroupId, topic: Search = "", page: PageNumber = 1, size: PageSize = 100
) -> GroupDetail:
    """A group: members, offsets with verdicts and lag, pending offsets."""
    found = group_detail(view.tables, view.chosen, group_id, topic=topic, page=page, size=size)
    if found is None:
        raise HTTPException(status_code=404, detail="no such group in this run")
    return found


@router.get("/group/story")
def get_story(view: AnyView, group_id: GroupId, before: Instant | None = None) -> StoryPage:
    """The history of a group up to `as_of`, newest event first; for the next page, give before_ms as `before`."""
    return story(view.tables, view.until_now or [view.chosen], group_id, before_ms=before)


@router.get("/group/series")
def get_series(
    view: AnyView,
    group_id: GroupId,
    topic: Search | None = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Series:
    """Committed offset, log end and lag, run by run; sums over partitions unless one partition is given."""
    view.chosen  # noqa: B018  # NoCoverage while nothing is published
    return series(view.tables, view.until_now, group_id, topic=topic, partition=partition)


@router.get("/offsets")
def get_offsets(view: AnyView, query: OffsetQueryParam) -> Page:
    """A page of committed offsets with their verdicts, across all groups."""
    return find_offsets(view.tables, view.chosen, query)


@router.get("/lost")
def get_lost(view: AnyView, days: Days = 30) -> LostOffsets:
    """Lost offsets, counted by day and cause up to the run; groups that lost most. null for days without a run."""
    return lost_offsets(view.tables, view.until_now, days=days)


@router.get("/log")
def get_log(view: AnyView) -> list[dict[str, Any]]:
    """Load and bloat of each log partition, those with problems first."""
    return log_partitions(view.tables, view.chosen)


@router.get("/transactions")
def get_transactions(view: AnyView) -> list[dict[str, Any]]:
    """Open transactions with offsets, the oldest first."""
    return transactions(view.tables, view.chosen, limit=MAX_TRANSACTIONS)


@router.get("/replicas")
def get_replicas(view: AnyView, page: PageNumber = 1, size: PageSize = ROWS) -> ReplicaAuditView | None:
    """The newest audit of replicas: their state, and a page of what clients would read differently if another replica
    led; null without an audit."""
    return replica_audit(view, page=page, size=size)


@router.get("/transaction-audit")
def get_transaction_audit(
    view: AnyView, page: PageNumber = 1, size: PageSize = ROWS, expiration_ms: Expiration = None
) -> TransactionAuditView | None:
    """The newest audit of transactions: which of them hold offsets, whether they will end, and when transactional ids
    expire; null without an audit."""
    return transaction_audit(view, page=page, size=size, expiration_ms=expiration_ms)


@router.get("/checks")
def get_checks(view: AnyView) -> list[dict[str, Any]]:
    """Data-quality results, failed ones first."""
    return checks(view.tables, view.chosen)


def run_json(run: PublishedRun) -> dict[str, Any]:
    """A run's row of `runs`, without the columns that only readers of the lake need."""
    return {name: value for name, value in run.row.items() if name not in ("snapshots", "checkpoint_sha256")}
