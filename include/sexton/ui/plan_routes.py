"""Routes about plans and the ledger, as pages and as JSON. They take what reading the DAG that applies them takes."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import HTMLResponse

from sexton.settings import settings
from sexton.ui.group_queries import Page
from sexton.ui.page_view import PageView
from sexton.ui.parameters import AnyView, PageNumber, PageSize, PublishedView
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
    found = ledger_of(view.tables, view.chosen.key.cluster_id, plan_id, page=page, size=ROWS)
    if not found.total:
        raise HTTPException(status_code=404, detail="the ledger has nothing of it")
    return render(view, "ledger.html", page="plans", plan_id=plan_id, found=found)


@api.get("/plans")
def get_plans(view: AnyView) -> list[dict[str, Any]]:
    """Plans of the newest runs, the newest first: what they would take, and what became of them."""
    return [told(line) for line in plan_lines(view.tables, view.own_runs[-PLANS_A_PAGE:])]


@api.get("/plans/{plan_id}")
def get_plan(view: AnyView, plan_id: PlanId, page: PageNumber = 1, size: PageSize = ROWS) -> dict[str, Any]:
    """A plan: its plan.json, a page of its rows, and how it differs from the plan of the run before."""
    found = _detail(view, plan_id, page, size)
    return {
        **told(found.line),
        "record": found.record,
        "kept_sha256": found.sha256,
        "problem": found.problem,
        "rows": found.rows,
        "before": found.before and found.before.plan_id,
        "added": found.added,
        "removed": found.removed,
    }


@api.get("/ledger")
def get_ledger(view: AnyView) -> list[dict[str, Any]]:
    """What was applied and restored: a row for each plan or restore, the newest first."""
    return _ledger(view)


@api.get("/ledger/{plan_id}")
def get_ledger_of(view: AnyView, plan_id: PlanId, page: PageNumber = 1, size: PageSize = ROWS) -> Page:
    """Every attempt at every item of a plan or restore."""
    found = ledger_of(view.tables, view.chosen.key.cluster_id, plan_id, page=page, size=size)
    if not found.total:
        raise HTTPException(status_code=404, detail="the ledger has nothing of it")
    return found


def told(line: PlanLine) -> dict[str, Any]:
    """A plan in a list, as the API tells it."""
    return {
        "plan_id": line.plan_id,
        "plan_sha256": line.plan_sha256,
        "as_of_ms": line.run.key.as_of_ms,
        "run_id": line.run.key.run_id,
        "tombstones": line.tombstones,
        "status": line.status,
        "outcomes": dict(line.outcomes),
    }


def _ledger(view: PageView) -> list[dict[str, Any]]:
    return ledger_summary(view.tables, view.run.key.cluster_id) if view.run else []


def _detail(view: PageView, plan_id: str, page: int, size: int) -> PlanDetail:
    archive = settings().archive_uri
    found = plan_detail(view.tables, view.own_runs, plan_id, archive=archive, page=page, size=size)
    if found is None:
        raise HTTPException(status_code=404, detail="no published run has this plan")
    return found
