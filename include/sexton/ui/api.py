"""The pages' data as JSON, for programs: the same numbers from the same functions, described by /api/openapi.json.

Instants are epoch milliseconds. Names are as they are in the log: whoever shows them escapes them.
"""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from sexton.lake.read import PublishedRun
from sexton.ui.asking import FAR, Asked, AskedGroups, AskedOffsets, PageNumber, PageSize, Search
from sexton.ui.groups import GroupDetail, Page, find_groups, group_detail
from sexton.ui.history import Series, Story, series, story
from sexton.ui.offsets import find_offsets
from sexton.ui.overview import Overview, checks, log_partitions, overview, transactions

router = APIRouter(prefix="/api", tags=["published state"])
MOST_TRANSACTIONS = 1_000

GroupId = Annotated[Search, Query(description='the group id, exactly; "" is a legal one')]


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """This description."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/runs")
def get_runs(view: Asked, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> list[dict[str, Any]]:
    """Published runs of a cluster up to the instant, the newest first."""
    return [told(run) for run in reversed(view.until_now[-limit:])] if view.run else []


@router.get("/overview")
def get_overview(view: Asked) -> Overview:
    """A cluster in numbers."""
    return overview(view.store, view.chosen)


@router.get("/groups")
def get_groups(view: Asked, asked: AskedGroups) -> Page:
    """A page of groups. `next_expires_at_ms` is the first offset's that is not due yet."""
    return find_groups(view.store, view.chosen, asked)


@router.get("/group")
def get_group(view: Asked, id: GroupId, topic: Search = "", page: PageNumber = 1, size: PageSize = 100) -> GroupDetail:  # noqa: A002
    """A group: members, offsets with verdicts and lag, undecided offsets."""
    found = group_detail(view.store, view.chosen, id, topic=topic, page=page, size=size)
    if found is None:
        raise HTTPException(status_code=404, detail="no such group in this run")
    return found


@router.get("/group/story")
def get_story(view: Asked, id: GroupId, before: Annotated[int | None, Query(ge=0, le=FAR)] = None) -> Story:  # noqa: A002
    """What runs up to the instant saw happen to a group, the newest first; `before` takes a story's before_ms."""
    return story(view.store, view.until_now or [view.chosen], id, before_ms=before)


@router.get("/group/series")
def get_series(
    view: Asked,
    id: GroupId,  # noqa: A002
    topic: Search | None = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Series:
    """Committed offset, log end and lag from run to run; sums, unless a partition is named."""
    view.chosen  # noqa: B018  # NoCoverage while nothing is published
    return series(view.store, view.until_now, id, topic=topic, partition=partition)


@router.get("/offsets")
def get_offsets(view: Asked, asked: AskedOffsets) -> Page:
    """A page of committed offsets with their verdicts, across all groups."""
    return find_offsets(view.store, view.chosen, asked)


@router.get("/log")
def get_log(view: Asked) -> list[dict[str, Any]]:
    """Load and bloat of each log partition, those that need a look first."""
    return log_partitions(view.store, view.chosen)


@router.get("/transactions")
def get_transactions(view: Asked) -> list[dict[str, Any]]:
    """Open transactions with offsets, the oldest first."""
    return transactions(view.store, view.chosen, limit=MOST_TRANSACTIONS)


@router.get("/checks")
def get_checks(view: Asked) -> list[dict[str, Any]]:
    """Data-quality results, failed ones first."""
    return checks(view.store, view.chosen)


def told(run: PublishedRun) -> dict[str, Any]:
    """A run as the API tells it: its row of `runs` but for what only readers of the lake need."""
    return {name: value for name, value in run.facts.items() if name not in ("snapshots", "checkpoint_sha256")}
