"""The files for people in a run's folder: report.html, and the Data Docs of its checks; also of a failed run.

The run is named by its DAG, which decides who may read it, and its run id, which names its folder. A file of the Data
Docs must be in that folder's listing: no path is built from a URL.

The pages quote names that clients of a cluster choose, and Great Expectations renders some of the pages. RUN_PAGE
forbids every page to run a script, send a form or load anything from elsewhere.
"""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from sexton.airflow.runs import run_folder
from sexton.archive.folder import Folder
from sexton.ui.access import READING_DAG, viewer_of
from sexton.ui.parameters import bare_view
from sexton.ui.rendering import render

router = APIRouter(prefix="/runs/{dag_id}/{run_id}", include_in_schema=False)
DATA_DOCS, RESULTS = "dq", "validations/"
RUN_PAGE = {
    # allow-same-origin: else a browser sends no cookie for the styles. Without allow-scripts nothing can use it.
    "Content-Security-Policy": (
        "sandbox allow-same-origin; default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
}
KINDS = {
    "html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "png": "image/png",
    "svg": "image/svg+xml", "ico": "image/x-icon", "woff2": "font/woff2", "otf": "font/otf",
}  # fmt: skip
"""Media type by file suffix; other files are application/octet-stream."""


def folder_of(request: Request, dag_id: str, run_id: str) -> Folder:
    """The run's folder; 404 for a DAG that publishes no cluster of the viewer, the same as for a missing DAG."""
    if dag_id not in [cluster.scoped_name(READING_DAG) for cluster in viewer_of(request).clusters]:
        raise HTTPException(status_code=404, detail="no such run")
    return Folder(run_folder(dag_id, run_id))


RunFolder = Annotated[Folder, Depends(folder_of)]


@router.get("/report.html")
def show_report(folder: RunFolder) -> Response:
    return _page(folder, "report.html" if folder.exists("report.html") else None)


@router.get("/data-docs/", response_class=HTMLResponse)
@router.get("/data-docs/index.html", response_class=HTMLResponse)
def list_data_docs(request: Request, folder: RunFolder, run_id: str) -> str:
    """Links to the results of each suite, in place of the Data Docs' own index, which needs a script."""
    names = [name for name in folder.sub(DATA_DOCS).files() if name.startswith(RESULTS) and name.endswith(".html")]
    if not names:
        raise HTTPException(status_code=404, detail="this run has no Data Docs")
    suites = [(name.split("/")[1], quote(name)) for name in names]
    return render(bare_view(request), "data_docs.html", page="runs", run_id=run_id, suites=suites)


@router.get("/data-docs/{name:path}")
def show_data_docs(folder: RunFolder, name: str) -> Response:
    docs = folder.sub(DATA_DOCS)
    return _page(docs, next((file for file in docs.files() if file == name), None))


def _page(folder: Folder, name: str | None) -> Response:
    if name is None:
        raise HTTPException(status_code=404, detail="this run has no such file")
    kind = KINDS.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(folder.read(*name.split("/")), headers={**RUN_PAGE, "Content-Type": kind})
