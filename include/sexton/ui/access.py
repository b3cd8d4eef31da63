"""Who may see what: Airflow's login (cookie or bearer token) and its auth manager's word on two DAGs.

Reading published state takes what reading the DAG that publishes it takes; plans and the ledger take what reading the
DAG that applies them takes. A FastAPI app of a plugin answers anybody unless it asks: the app of this room asks in one
dependency of all its routes (app.py). Airflow itself is imported when the first request comes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

READING_DAG = "offset_retention"
PLANNING_DAG = "apply_tombstones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Dependencies that let a request through, or answer 401 or 403."""

    reading: Callable[..., Any]
    planning: Callable[..., Any]


def airflow_access() -> Access:
    """What Airflow's own API asks of who reads these DAGs."""
    from airflow.api_fastapi.core_api.security import requires_access_dag

    return Access(
        reading=requires_access_dag("GET", param_dag_id=READING_DAG),
        planning=requires_access_dag("GET", param_dag_id=PLANNING_DAG),
    )


def same_origin(request: Request) -> None:
    """403 for a request that another site's page makes a browser send with the user's cookie.

    Nothing here changes state by GET. A client with a bearer token is no browser that was talked into something.
    """
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    else:
        is_own = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if not is_own:
        raise HTTPException(status_code=403, detail="Forbidden: another site's page sent this")
