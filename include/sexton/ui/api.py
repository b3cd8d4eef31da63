"""The pages' data as JSON, for programs: the same numbers from the same functions, described by /api/openapi.json.

Instants are epoch milliseconds. Names are as they are in the log: whoever shows them escapes them.
"""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from sexton.lake.read import PublishedRun
from sexton.ui.group_queries import GroupDetail, Page, find_groups, group_detail
from sexton.ui.offset_queries import find_offsets
from sexton.ui.overview import Overview, checks, log_partitions, overview, transactions
from sexton.ui.parameters import (
    MAX_INSTANT_MS,
    AnyView,
    GroupQueryParam,
    OffsetQueryParam,
    PageNumber,
    PageSize,
    Search,
)
from sexton.ui.story_queries import Series, StoryPage, series, story

router = APIRouter(prefix="/api", tags=["published state"])
MOST_TRANSACTIONS = 1_000

GroupId = Annotated[Search, Query(description='the group id, exactly; "" is a legal one')]


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """This description."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/runs")
def get_runs(view: AnyView, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> list[dict[str, Any]]:
    """Published runs of a cluster up to the instant, the newest first."""
    return [told(run) for run in reversed(view.until_now[-limit:])] if view.run else []


@router.get("/overview")
def get_overview(view: AnyView) -> Overview:
    """A cluster in numbers."""
    return overview(view.tables, view.chosen)


@router.get("/groups")
def get_groups(view: AnyView, asked: GroupQueryParam) -> Page:
    """A page of groups. `next_expires_at_ms` is the first offset's that is not due yet."""
    return find_groups(view.tables, view.chosen, asked)


@router.get("/group")
def get_group(
    view: AnyView,
    id: GroupId,  # noqa: A002
    topic: Search = "",
    page: PageNumber = 1,
    size: PageSize = 100,
) -> GroupDetail:
    """A group: members, offsets with verdicts and lag, pending offsets."""
    found = group_detail(view.tables, view.chosen, id, topic=topic, page=page, size=size)
    if found is None:
        raise HTTPException(status_code=404, detail="no such group in this run")
    return found


@router.get("/group/story")
def get_story(
    view: AnyView,
    id: GroupId,  # noqa: A002
    before: Annotated[int | None, Query(ge=0, le=MAX_INSTANT_MS)] = None,
) -> StoryPage:
    """What runs up to the instant saw happen to a group, the newest first; `before` takes a story's before_ms."""
    return story(view.tables, view.until_now or [view.chosen], id, before_ms=before)


@router.get("/group/series")
def get_series(
    view: AnyView,
    id: GroupId,  # noqa: A002
    topic: Search | None = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Series:
    """Committed offset, log end and lag from run to run; sums, unless a partition is named."""
    view.chosen  # noqa: B018  # NoCoverage while nothing is published
    return series(view.tables, view.until_now, id, topic=topic, partition=partition)


@router.get("/offsets")
def get_offsets(view: AnyView, asked: OffsetQueryParam) -> Page:
    """A page of committed offsets with their verdicts, across all groups."""
    return find_offsets(view.tables, view.chosen, asked)


@router.get("/log")
def get_log(view: AnyView) -> list[dict[str, Any]]:
    """Load and bloat of each log partition, those that need a look first."""
    return log_partitions(view.tables, view.chosen)


@router.get("/transactions")
def get_transactions(view: AnyView) -> list[dict[str, Any]]:
    """Open transactions with offsets, the oldest first."""
    return transactions(view.tables, view.chosen, limit=MOST_TRANSACTIONS)


@router.get("/checks")
def get_checks(view: AnyView) -> list[dict[str, Any]]:
    """Data-quality results, failed ones first."""
    return checks(view.tables, view.chosen)


def told(run: PublishedRun) -> dict[str, Any]:
    """A run as the API tells it: its row of `runs` but for what only readers of the lake need."""
    return {name: value for name, value in run.row.items() if name not in ("snapshots", "checkpoint_sha256")}
