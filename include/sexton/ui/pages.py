"""The pages. Each renders a template with the result of a query module; api.py returns the same as JSON."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from sexton.history.lost_by_day import lost_offsets
from sexton.ui.api import MAX_TRANSACTIONS
from sexton.ui.audit_queries import MAX_EXPIRATION_MS, replica_audit, transaction_audit
from sexton.ui.group_queries import ONLY, find_groups, group_detail
from sexton.ui.offset_queries import FINDINGS, find_offsets
from sexton.ui.overview import checks, log_partitions, overview, transactions
from sexton.ui.page_view import PageView
from sexton.ui.paging import PageNumber, Search
from sexton.ui.parameters import Days, Expiration, GroupId, GroupQueryParam, Instant, OffsetQueryParam, PublishedView
from sexton.ui.rendering import assets, expiry_plot, lost_plot, render
from sexton.ui.story_queries import runs_with_checks, story

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
LAST_RUNS = 8
RUNS_A_PAGE = 50
_ASSET_HEADERS = {"Cache-Control": "private, max-age=31536000, immutable"}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A static file, from a fixed list."""
    if name not in assets():
        raise HTTPException(status_code=404, detail="Not Found")
    data, kind = assets()[name]
    return Response(data, media_type=kind, headers=_ASSET_HEADERS)


@router.get("/")
def show_overview(view: PublishedView) -> str:
    found = overview(view.tables, view.chosen)
    return render(
        view,
        "overview.html",
        page="",
        o=found,
        plot=expiry_plot(found, view.chosen.key.as_of_ms, view.texts),
        last_runs=runs_with_checks(view.tables, view.until_now[-LAST_RUNS:]),
    )


@router.get("/groups")
def show_groups(request: Request, view: PublishedView, query: GroupQueryParam) -> str:
    found = find_groups(view.tables, view.chosen, query)
    by_state = overview(view.tables, view.chosen).by_state
    return _list(request, view, "groups", query=query, found=found, by_state=by_state, filters=ONLY)


@router.get("/offsets")
def show_offsets(request: Request, view: PublishedView, query: OffsetQueryParam) -> str:
    found = find_offsets(view.tables, view.chosen, query)
    reasons = sorted({row["broker_reason"] for row in overview(view.tables, view.chosen).by_reason})
    return _list(request, view, "offsets", query=query, found=found, reasons=reasons, filters=FINDINGS)


@router.get("/lost")
def show_lost(view: PublishedView, days: Days = 30) -> str:
    found = lost_offsets(view.tables, view.until_now, days=days)
    return render(view, "lost.html", page="lost", lost=found, days=days, plot=lost_plot(found, view.texts))


@router.get("/group")
def show_group(view: PublishedView, group_id: GroupId, topic: Search = "", page: PageNumber = 1) -> str:
    found = group_detail(view.tables, view.chosen, group_id, topic=topic, page=page)
    events = story(view.tables, view.until_now, group_id)
    if found is None and not events.events:
        raise HTTPException(status_code=404, detail="no such group in this run")
    return render(view, "group.html", page="groups", group_id=group_id, topic=topic, d=found, story=events)


@router.get("/group/story")
def show_story(view: PublishedView, group_id: GroupId, before: Instant) -> str:
    """An older page of a group's history; htmx appends it to the page."""
    events = story(view.tables, view.until_now or [view.chosen], group_id, before_ms=before)
    return render(view, "_story.html", page="groups", group_id=group_id, story=events)


@router.get("/runs")
def show_runs(view: PublishedView, before: Instant | None = None) -> str:
    runs = [run for run in view.own_runs if before is None or run.key.as_of_ms < before]
    shown = runs_with_checks(view.tables, runs[-RUNS_A_PAGE:])
    older = runs[-RUNS_A_PAGE].key.as_of_ms if len(runs) > RUNS_A_PAGE else None
    return render(view, "runs.html", page="runs", runs=shown, older=older, total=len(view.own_runs))


@router.get("/checks")
def show_checks(view: PublishedView) -> str:
    return render(view, "checks.html", page="runs", checks=checks(view.tables, view.chosen))


@router.get("/log")
def show_log(view: PublishedView) -> str:
    return render(
        view,
        "log.html",
        page="log",
        partitions=log_partitions(view.tables, view.chosen),
        transactions=transactions(view.tables, view.chosen, limit=MAX_TRANSACTIONS),
    )


@router.get("/replicas")
def show_replicas(view: PublishedView, page: PageNumber = 1) -> str:
    return render(view, "replicas.html", page="replicas", audit=replica_audit(view, page=page))


@router.get("/transactions")
def show_transactions(view: PublishedView, page: PageNumber = 1, expiration_ms: Expiration = None) -> str:
    return render(
        view,
        "transactions.html",
        page="transactions",
        audit=transaction_audit(view, page=page, expiration_ms=expiration_ms),
        expiration_ms=expiration_ms,
        most_ms=MAX_EXPIRATION_MS,
    )


def _list(request: Request, view: PageView, page: str, **values: Any) -> str:
    """A list as a page, or only its rows if htmx replaces a part of the page."""
    is_part = request.headers.get("hx-target") == "results"
    return render(view, f"_{page}.html" if is_part else f"{page}.html", page=page, **values)
