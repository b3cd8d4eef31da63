"""Parameters that requests share, checked once: the view of a page, and what a list is asked for."""

from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from sexton.ui.access import viewer_of
from sexton.ui.group_queries import ONLY, SORTS, GroupQuery
from sexton.ui.offset_queries import FINDINGS, MOST_PAGES, ORDERS, OffsetQuery
from sexton.ui.page_view import PageView
from sexton.ui.published_tables import PublishedTables
from sexton.ui.texts import COOKIE, choose, texts

MOST_ROWS = 200
"""Rows of one page, whoever asks."""
_LONGEST_TEXT = 32_767  # as long as a group id can be
MAX_INSTANT_MS = 2**63 - 1

AsOf = Annotated[
    int | None,
    Query(ge=0, le=MAX_INSTANT_MS, description="the newest run at or before this, epoch ms; default: of all"),
]
Cluster = Annotated[
    str | None, Query(max_length=500, description="cluster id; default: the first that there is for who asks")
]
Search = Annotated[str, Query(max_length=_LONGEST_TEXT)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=MOST_ROWS)]


def tables_of(request: Request) -> PublishedTables:
    """The tables that the app was made with."""
    found: PublishedTables = request.app.state.tables
    return found


def view_of(
    request: Request, cluster: Cluster = None, as_of: AsOf = None, lang: Annotated[str | None, Query()] = None
) -> PageView:
    """The view of a request. Its language is only a matter of words: nothing is remembered here."""
    language = choose(lang, request.cookies.get(COOKIE), request.headers.get("accept-language"))
    base = request.scope.get("root_path", "")
    return PageView.asked_for(
        tables_of(request),
        viewer=viewer_of(request),
        cluster_id=cluster or None,
        as_of_ms=as_of,
        base=base,
        texts=texts(language),
        path=request.url.path.removeprefix(base),
        asked=request.query_params.multi_items(),
    )


def group_query(
    q: Annotated[Search, Query(description="anywhere in the group id, whatever its case")] = "",
    type: Annotated[str, Query(max_length=20)] = "",  # noqa: A002  # the word of the URL
    state: Annotated[str, Query(max_length=40)] = "",
    only: Annotated[str, Query(pattern=f"^({'|'.join(ONLY)})?$")] = "",
    sort: Annotated[str, Query(pattern=f"^({'|'.join(SORTS)})$")] = "group_id",
    page: PageNumber = 1,
    size: PageSize = 50,
) -> GroupQuery:
    return GroupQuery(text=q, group_type=type, state=state, only=only, sort=sort, page=page, size=size)


def offset_query(
    group: Annotated[Search, Query(description="anywhere in the group id, whatever its case")] = "",
    topic: Annotated[Search, Query(description="anywhere in the topic's name, whatever its case")] = "",
    reason: Annotated[str, Query(max_length=40)] = "",
    finding: Annotated[str, Query(pattern=f"^({'|'.join(FINDINGS)})?$")] = "",
    sort: Annotated[str, Query(pattern=f"^({'|'.join(ORDERS)})$")] = "broker_expires_at_ms",
    page: Annotated[int, Query(ge=1, le=MOST_PAGES)] = 1,
    size: PageSize = 50,
) -> OffsetQuery:
    return OffsetQuery(group=group, topic=topic, reason=reason, finding=finding, sort=sort, page=page, size=size)


AnyView = Annotated[PageView, Depends(view_of)]


class NothingPublished(Exception):
    """A page was asked for before any run that its viewer may see: the answer is what to do first."""

    def __init__(self, view: PageView) -> None:
        self.view = view
        super().__init__("nothing is published yet")


def published_view(view: AnyView) -> PageView:
    """The view of a page that shows something of a run; NothingPublished while there is none."""
    if view.run is None:
        raise NothingPublished(view)
    return view


PublishedView = Annotated[PageView, Depends(published_view)]


def may_plan(view: AnyView) -> None:
    """A dependency: 403 for who may not read the DAG that applies plans to the cluster that is asked about."""
    clusters = view.viewer.clusters if view.cluster is None else [view.cluster]
    if not any(view.viewer.may_plan(cluster) for cluster in clusters):
        raise HTTPException(status_code=403, detail="Forbidden")


GroupQueryParam = Annotated[GroupQuery, Depends(group_query)]
OffsetQueryParam = Annotated[OffsetQuery, Depends(offset_query)]
