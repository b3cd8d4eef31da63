"""Routes of plans and the ledger, as pages and as JSON, for viewers who may read the DAG that applies plans."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import HTMLResponse

from sexton.settings import settings
from sexton.ui.page_view import PageView
from sexton.ui.paging import Page, PageNumber, PageSize
from sexton.ui.parameters import AnyView, PublishedView
from sexton.ui.plan_queries import (
    PLANS_A_PAGE,
    PlanDetail,
    PlanLine,
    ledger_of,
    ledger_summary,
    plan_detail,
    plan_lines,
)
from sexton.ui.rendering import render

pages = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
api = APIRouter(prefix="/api", tags=["plans"])
ROWS = 100

PlanId = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


@pages.get("/plans")
def show_plans(view: PublishedView) -> str:
    lines = plan_lines(view.tables, view.own_runs[-PLANS_A_PAGE:])
    return render(view, "plans.html", page="plans", plans=lines, ledger=_ledger(view))


@pages.get("/plans/{plan_id}")
def show_plan(view: PublishedView, plan_id: PlanId, page: PageNumber = 1) -> str:
    return render(view, "plan_detail.html", page="plans", p=_detail(view, plan_id, page, ROWS))


@pages.get("/ledger/{plan_id}")
def show_ledger(view: PublishedView, plan_id: PlanId, page: PageNumber = 1) -> str:
    return render(view, "ledger.html", page="plans", plan_id=plan_id, found=_attempts(view, plan_id, page, ROWS))


@api.get("/plans")
def get_plans(view: AnyView) -> list[PlanLine]:
    """Plans of the newest runs, the newest first, each with its number of tombstones, its status and its outcomes."""
    return plan_lines(view.tables, view.own_runs[-PLANS_A_PAGE:])


@api.get("/plans/{plan_id}")
def get_plan(view: AnyView, plan_id: PlanId, page: PageNumber = 1, size: PageSize = ROWS) -> PlanDetail:
    """A plan: its plan.json, a page of its rows, and how it differs from the previous run's plan."""
    return _detail(view, plan_id, page, size)


@api.get("/ledger")
def get_ledger(view: AnyView) -> list[dict[str, Any]]:
    """A row for each plan or restore that was applied, the newest first."""
    return _ledger(view)


@api.get("/ledger/{plan_id}")
def get_ledger_of(view: AnyView, plan_id: PlanId, page: PageNumber = 1, size: PageSize = ROWS) -> Page:
    """Every attempt at every item of a plan or restore."""
    return _attempts(view, plan_id, page, size)


def _ledger(view: PageView) -> list[dict[str, Any]]:
    return ledger_summary(view.tables, view.run.key.cluster_id) if view.run else []


def _attempts(view: PageView, plan_id: str, page: int, size: int) -> Page:
    found = ledger_of(view.tables, view.chosen.key.cluster_id, plan_id, page=page, size=size)
    if not found.total:
        raise HTTPException(status_code=404, detail="the ledger has no such plan or restore")
    return found


def _detail(view: PageView, plan_id: str, page: int, size: int) -> PlanDetail:
    archive = settings().archive_uri
    found = plan_detail(view.tables, view.own_runs, plan_id, archive=archive, page=page, size=size)
    if found is None:
        raise HTTPException(status_code=404, detail="no published run has this plan")
    return found
