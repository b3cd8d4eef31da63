"""Who may see what: Airflow's login (cookie or bearer token) and its auth manager's word on two DAGs of each cluster.

Reading a cluster's published state takes what reading its DAG that publishes it takes; plans and the ledger take what
reading its DAG that applies them takes. A FastAPI app of a plugin answers anybody unless it asks: our app asks
in one dependency of all its routes (app.py), and hands on which clusters there are for whoever asks: the others
are as if they were not there. Airflow itself is imported when the first request comes.
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
"""Whether somebody may read the DAG of that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who asks, as what they may: `clusters` are those whose published state they may read, in the settings' order."""

    may: MayRead
    clusters: tuple[Cluster, ...]

    def cluster_of(self, cluster_id: str) -> Cluster | None:
        """The cluster of an id; None where it is none of theirs, or no setting names it."""
        return next((cluster for cluster in self.clusters if cluster.is_of(cluster_id)), None)

    def may_plan(self, cluster: Cluster) -> bool:
        """Whether plans and the ledger of the cluster are theirs to read, too."""
        return self.may(cluster.scoped_name(PLANNING_DAG))


NO_VIEWER = Viewer(may=lambda _dag_id: False, clusters=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`asks` is a dependency that answers 401 to whom nobody knows, and else tells what they may; of these clusters."""

    asks: Callable[..., MayRead]
    clusters: Sequence[Cluster]

    @property
    def reading(self) -> Callable[..., None]:
        """A dependency that notes the viewer in the request's state; 403 for who may read no cluster."""

        def note_viewer(request: Request, may: Annotated[MayRead, Depends(self.asks)]) -> None:
            clusters = tuple(cluster for cluster in self.clusters if may(cluster.scoped_name(READING_DAG)))
            if not clusters:
                raise HTTPException(status_code=403, detail="Forbidden")
            request.state.viewer = Viewer(may=may, clusters=clusters)

        return note_viewer


def viewer_of(request: Request) -> Viewer:
    """The viewer whom the app's own dependency has noted; where none has, nobody, who sees nothing."""
    found: Viewer = getattr(request.state, "viewer", NO_VIEWER)
    return found


def airflow_access() -> Access:
    """What Airflow's own API asks of who reads these DAGs."""
    from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag

    def asks(request: Request, user: GetUserDep) -> MayRead:
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

    return Access(asks=asks, clusters=settings().every_cluster)


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
