"""Parameters that requests share, as FastAPI dependencies: the view of a page, and the query of a list."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request
from pydantic import BeforeValidator, Field

from sexton.lake.published_tables import at
from sexton.ui.access import viewer_of
from sexton.ui.audit_queries import MAX_EXPIRATION_MS
from sexton.ui.group_queries import GroupQuery
from sexton.ui.offset_queries import OffsetQuery
from sexton.ui.page_view import PageView
from sexton.ui.paging import Search
from sexton.ui.texts import COOKIE, choose, texts

MAX_INSTANT_MS = 2**63 - 1

Instant = Annotated[int, Query(ge=0, le=MAX_INSTANT_MS)]
AsOf = Annotated[
    Instant | None, Query(description="the newest run at or before this, epoch ms; default: the newest of all")
]
GroupId = Annotated[Search, Query(alias="id", description='the exact group id; "" is legal')]
Cluster = Annotated[
    str | None, Query(max_length=500, description="cluster id; default: the first that the caller may read")
]


def bare_view(request: Request, lang: str | None = None) -> PageView:
    """The view of a request without any run: what an error page needs."""
    base = request.scope.get("root_path", "")
    language = choose(
        lang or request.query_params.get("lang"), request.cookies.get(COOKIE), request.headers.get("accept-language")
    )
    return PageView(
        tables=request.app.state.tables,
        viewer=viewer_of(request),
        base=base,
        texts=texts(language),
        path=request.url.path.removeprefix(base),
        query=tuple(request.query_params.multi_items()),
    )


def view_of(
    request: Request, cluster: Cluster = None, as_of: AsOf = None, lang: Annotated[str | None, Query()] = None
) -> PageView:
    """The view of a request; raises NoCoverage if runs are published but none of them matches.

    Runs that the viewer may not see are treated as absent, so a request for them gets the same answer.
    """
    view = replace(bare_view(request, lang), cluster_id=cluster or None, as_of_ms=as_of)
    view = replace(view, runs=[run for run in view.tables.runs() if view.viewer.cluster_of(run.key.cluster_id)])
    if not view.runs:
        return view
    is_named = view.viewer.clusters[0].name is not None
    wanted = view.cluster_id or (view.clusters[0] if is_named else None)
    return replace(view, run=at(view.runs, cluster_id=wanted, as_of_ms=as_of))


AnyView = Annotated[PageView, Depends(view_of)]
Days = Annotated[int, Query(ge=1, le=366, description="number of days, in UTC, up to the run")]
Expiration = Annotated[
    Annotated[int, Field(ge=1, le=MAX_EXPIRATION_MS)] | None,
    BeforeValidator(lambda typed: None if typed == "" else typed),  # a field that was left empty
    Query(description="compare this transactional.id.expiration.ms"),
]


class NothingPublished(Exception):
    """No run is published that the viewer may see: the page shows how to publish one."""

    def __init__(self, view: PageView) -> None:
        self.view = view
        super().__init__("nothing is published yet")


def published_view(view: AnyView) -> PageView:
    """The view of a page that needs a run; raises NothingPublished while there is none."""
    if view.run is None:
        raise NothingPublished(view)
    return view


PublishedView = Annotated[PageView, Depends(published_view)]


def may_plan(view: AnyView) -> None:
    """A dependency: 403 for viewers who may not read the DAG that applies plans to the cluster."""
    clusters = view.viewer.clusters if view.cluster is None else [view.cluster]
    if not any(view.viewer.may_plan(cluster) for cluster in clusters):
        raise HTTPException(status_code=403, detail="Forbidden")


GroupQueryParam = Annotated[GroupQuery, Depends()]
OffsetQueryParam = Annotated[OffsetQuery, Depends()]
