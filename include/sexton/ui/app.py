"""The FastAPI application: routes, access, security headers, and error responses.

Access is a dependency of the whole application, so no route answers without it. Nothing is mounted, because that
dependency does not apply to mounted applications. FastAPI's documentation pages are off, because they load scripts from
the internet; /api/openapi.json is a route like any other.
"""

from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from sexton import __version__
from sexton.errors import NoCoverage, SextonError, UsageError
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import RunGone
from sexton.ui import api, metrics, pages, plan_routes, run_files, what_if_routes
from sexton.ui.access import Access, same_origin
from sexton.ui.body_limit import BodyLimit
from sexton.ui.parameters import NothingPublished, bare_view, may_plan
from sexton.ui.rendering import render

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept-Language, Cookie, HX-Target",
}


def make_app(
    tables: PublishedTables, access: Access, *, body_limit_bytes: int | None = None, metrics_groups: int = 0
) -> FastAPI:
    """The dashboard of `tables`, for the viewers that `access` admits; by default request bodies may have any size.
    Metrics have series of their own for at most `metrics_groups` groups of each owner."""
    app = FastAPI(
        title="Sexton",
        version=__version__,
        description="Consumer group state as it was published, run by run. " + (api.__doc__ or ""),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(access.reading), Depends(same_origin)],  # in this order, and before any other
    )
    app.state.tables = tables
    app.state.metrics = metrics.Metrics(tables, groups_per_owner=metrics_groups)
    routers = (api.router, what_if_routes.api, pages.router, what_if_routes.pages, metrics.router, run_files.router)
    for router in routers:
        app.include_router(router)
    for router in (plan_routes.api, plan_routes.pages):
        app.include_router(router, dependencies=[Depends(may_plan)])
    if body_limit_bytes is not None:  # innermost: a middleware inside it would wrap its error in an ExceptionGroup
        app.add_middleware(BodyLimit, limit=body_limit_bytes)
    app.middleware("http")(_add_headers)
    app.add_exception_handler(SextonError, _sexton_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(NothingPublished, _nothing_published)
    return app


async def _add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _sexton_error(request: Request, error: Exception) -> Response:
    """The response to an error of Sexton: 404 if nothing is there, 400 for an invalid request, else 503 (try again)."""
    status = 404 if isinstance(error, NoCoverage | RunGone) else 400 if isinstance(error, UsageError) else 503
    return _error_response(request, status, str(error))


async def _nothing_published(_request: Request, error: Exception) -> Response:
    """The response to any page while nothing is published: links to the DAG that publishes."""
    assert isinstance(error, NothingPublished)
    return HTMLResponse(render(error.view, "nothing.html", page=error.view.path.strip("/").partition("/")[0]))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (401, 403):  # JSON for pages too, as Airflow answers
        return JSONResponse({"detail": error.detail}, status_code=error.status_code, headers=error.headers)
    response = _error_response(request, error.status_code, str(error.detail))
    response.headers.update(error.headers or {})
    return response


def _error_response(request: Request, status: int, detail: str) -> Response:
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if path.startswith("/api/"):
        return JSONResponse({"detail": detail}, status_code=status)
    page = render(bare_view(request), "error.html", page="", status=status, detail=detail)
    return HTMLResponse(page, status_code=status)
