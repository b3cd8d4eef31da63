"""The pages. Each takes a view, asks one of the query modules, and renders a template; api.py has the same as JSON."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from sexton.ui.api import MOST_TRANSACTIONS
from sexton.ui.asking import FAR, AskedGroups, AskedOffsets, AskedPage, PageNumber, Search
from sexton.ui.groups import ONLY, find_groups, group_detail
from sexton.ui.history import runs_with_checks, story
from sexton.ui.offsets import FINDINGS, find_offsets
from sexton.ui.overview import checks, log_partitions, overview, transactions
from sexton.ui.rendering import assets, expiry_plot, render
from sexton.ui.view import View

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
LAST_RUNS = 8
RUNS_A_PAGE = 50
_ASSET_HEADERS = {"Cache-Control": "private, max-age=31536000, immutable"}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A file of ours, from a fixed list."""
    if name not in assets():
        raise HTTPException(status_code=404, detail="Not Found")
    data, kind = assets()[name]
    return Response(data, media_type=kind, headers=_ASSET_HEADERS)


@router.get("/")
def show_overview(view: AskedPage) -> str:
    found = overview(view.store, view.chosen)
    return render(
        view,
        "overview.html",
        page="",
        o=found,
        plot=expiry_plot(found, view.chosen.key.as_of_ms, view.texts),
        last_runs=runs_with_checks(view.store, view.until_now[-LAST_RUNS:]),
    )


@router.get("/groups")
def show_groups(request: Request, view: AskedPage, asked: AskedGroups) -> str:
    found = find_groups(view.store, view.chosen, asked)
    by_state = overview(view.store, view.chosen).by_state
    return _list(request, view, "groups", asked=asked, found=found, by_state=by_state, filters=ONLY)


@router.get("/offsets")
def show_offsets(request: Request, view: AskedPage, asked: AskedOffsets) -> str:
    found = find_offsets(view.store, view.chosen, asked)
    reasons = sorted({row["broker_reason"] for row in overview(view.store, view.chosen).by_reason})
    return _list(request, view, "offsets", asked=asked, found=found, reasons=reasons, filters=FINDINGS)


@router.get("/group")
def show_group(view: AskedPage, id: Search, topic: Search = "", page: PageNumber = 1) -> str:  # noqa: A002
    found = group_detail(view.store, view.chosen, id, topic=topic, page=page)
    told = story(view.store, view.until_now, id)
    if found is None and not told.events:
        raise HTTPException(status_code=404, detail="no such group in this run")
    return render(view, "group.html", page="groups", group_id=id, topic=topic, d=found, story=told)


@router.get("/group/story")
def show_story(view: AskedPage, id: Search, before: Annotated[int, Query(ge=0, le=FAR)]) -> str:  # noqa: A002
    """An older page of a group's story, put below the one that is there."""
    told = story(view.store, view.until_now or [view.chosen], id, before_ms=before)
    return render(view, "_story.html", page="groups", group_id=id, story=told)


@router.get("/runs")
def show_runs(view: AskedPage, before: Annotated[int | None, Query(ge=0, le=FAR)] = None) -> str:
    runs = [run for run in view.own_runs if before is None or run.key.as_of_ms < before]
    shown = runs_with_checks(view.store, runs[-RUNS_A_PAGE:])
    older = runs[-RUNS_A_PAGE].key.as_of_ms if len(runs) > RUNS_A_PAGE else None
    return render(view, "runs.html", page="runs", runs=shown, older=older, total=len(view.own_runs))


@router.get("/checks")
def show_checks(view: AskedPage) -> str:
    return render(view, "checks.html", page="runs", checks=checks(view.store, view.chosen))


@router.get("/log")
def show_log(view: AskedPage) -> str:
    return render(
        view,
        "log.html",
        page="log",
        partitions=log_partitions(view.store, view.chosen),
        transactions=transactions(view.store, view.chosen, limit=MOST_TRANSACTIONS),
    )


def _list(request: Request, view: View, page: str, **values: Any) -> str:
    """A list as a page, or its rows alone where a part of a page is asked for."""
    is_part = request.headers.get("hx-target") == "results"
    return render(view, f"_{page}.html" if is_part else f"{page}.html", page=page, **values)
