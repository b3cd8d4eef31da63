"""The Airflow plugin: a menu entry, the dashboard, which is created at its first request, and field formats.

The API server validates the fields of trigger forms and parses no DAG file, so their formats are registered here.
Airflow imports its plugins in every process, also in each task. So this module imports almost nothing but Airflow's
plugin class; only the API server creates the application with FastAPI, DuckDB and pyiceberg.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.plugins_manager import AirflowPlugin

from sexton.airflow.formats import register
from sexton.numbers import RE2

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/sexton"
"""The same as PREFIX in page_view.py, which takes too long to import here."""


class LazyApplication:
    """An ASGI application that is created at its first request."""

    def __init__(self, make: "Callable[[], ASGIApp]") -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: ASGIApp | None = None

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        # In a thread: importing takes a second or two, and the server answers other requests meanwhile.
        application = self._made
        if application is None:
            application = await asyncio.to_thread(self._application)
        await application(scope, receive, send)

    def _application(self) -> "ASGIApp":
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def dashboard() -> "ASGIApp":
    """The dashboard of this deployment's lake."""
    import logging

    from sexton.lake.catalog import open_lake
    from sexton.lake.published_tables import PublishedTables
    from sexton.settings import settings
    from sexton.ui.access import airflow_access
    from sexton.ui.app import make_app

    logging.getLogger("pyiceberg").setLevel(logging.WARNING)  # it logs a line for each table that is opened
    return make_app(
        PublishedTables(open_lake),
        airflow_access(),
        body_limit_bytes=settings().api_body_limit_bytes,
        metrics_groups=settings().metrics_groups,
    )


def parse_re2(text: str) -> None:
    """Raise ValueError unless `text` is a valid RE2 regular expression."""
    from sexton.policy.patterns import check_pattern

    check_pattern(text)


register(RE2, parse_re2)


class SextonPlugin(AirflowPlugin):
    """Consumer groups, in Airflow's menu."""

    name = "sexton"
    fastapi_apps = [{"app": LazyApplication(dashboard), "url_prefix": PREFIX, "name": "Sexton"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Consumer groups",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "sexton",
            "icon": f"{PREFIX}/static/icon.svg",
            "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg",
        }
    ]
