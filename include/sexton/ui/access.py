"""Access control with Airflow's login (cookie or bearer token) and Airflow's permissions on two DAGs of each cluster.

A viewer who may read the DAG that publishes a cluster's state may see that state; a viewer who may read the DAG that
applies plans may see plans and the ledger. A plugin's FastAPI app answers everybody by default, so one dependency of
all routes (app.py) checks access and records the clusters that the viewer may see. Other clusters are treated as
absent. Airflow is imported at the first request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request

from sexton.settings import Cluster, settings

READING_DAG = "offset_retention"
PLANNING_DAG = "apply_tombstones"

MayRead = Callable[[str], bool]
"""Whether the viewer may read the DAG with that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The sender of a request. `clusters` are those whose published state the viewer may see, in the settings'
    order."""

    may: MayRead
    clusters: tuple[Cluster, ...]

    def cluster_of(self, cluster_id: str) -> Cluster | None:
        """The cluster with an id; None if the viewer may not see it or no setting names it."""
        return next((cluster for cluster in self.clusters if cluster.is_of(cluster_id)), None)

    def may_plan(self, cluster: Cluster) -> bool:
        """Whether the viewer may also see plans and the ledger of the cluster."""
        return self.may(cluster.scoped_name(PLANNING_DAG))


NO_VIEWER = Viewer(may=lambda _dag_id: False, clusters=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`may_read` is a dependency: what the caller may read; 401 for an unknown caller. `clusters` are all clusters."""

    may_read: Callable[..., MayRead]
    clusters: Sequence[Cluster]

    @property
    def reading(self) -> Callable[..., None]:
        """A dependency that records the viewer in the request's state; 403 if they may see no cluster."""

        def record_viewer(request: Request, may: Annotated[MayRead, Depends(self.may_read)]) -> None:
            clusters = tuple(cluster for cluster in self.clusters if may(cluster.scoped_name(READING_DAG)))
            if not clusters:
                raise HTTPException(status_code=403, detail="Forbidden")
            request.state.viewer = Viewer(may=may, clusters=clusters)

        return record_viewer


def viewer_of(request: Request) -> Viewer:
    """The viewer that `Access.reading` recorded; without one, a viewer who may see nothing."""
    found: Viewer = getattr(request.state, "viewer", NO_VIEWER)
    return found


def airflow_access() -> Access:
    """Access with the check that Airflow's API makes before it returns these DAGs."""
    from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag

    def may_read(request: Request, user: GetUserDep) -> MayRead:
        def may(dag_id: str) -> bool:
            check: Callable[..., Any] = requires_access_dag("GET", param_dag_id=dag_id)
            try:
                check(request, user)
            except HTTPException as error:
                if error.status_code != 403:
                    raise
                return False
            return True

        return may

    return Access(may_read=may_read, clusters=settings().every_cluster)


def same_origin(request: Request) -> None:
    """Raise 403 if another site's page made the browser send this request with the user's cookie (CSRF).

    GET is allowed, because it changes no state here; a bearer token is, because browsers do not add one automatically.
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
