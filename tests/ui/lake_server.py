"""The dashboard over a lake of `tests.ui.generated`, in a process of its own and without Airflow around it."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Process
from pathlib import Path

from sexton_dev.ports import free_port
from tests.ui.worlds import PREFIX

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def serving(lake: Path) -> Iterator[tuple[str, int]]:
    """The dashboard's address and process id, for the block."""
    port = free_port()
    server = Process(target=_serve, args=(str(lake.absolute()), port), daemon=True)
    server.start()
    base = f"http://127.0.0.1:{port}{PREFIX}"
    try:
        _wait(f"{base}/static/ui.css")
        assert server.pid is not None, "it was started"
        yield base, server.pid
    finally:
        server.terminate()
        server.join(10)


def _serve(folder: str, port: int) -> None:
    """The app over the lake, without Airflow around it."""
    import uvicorn
    from fastapi import FastAPI

    from sexton.lake.catalog import open_lake
    from sexton.lake.published_tables import PublishedTables
    from sexton.ui.access import Access
    from sexton.ui.app import make_app
    from tests.ui.worlds import PLAIN, allow

    properties = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"{folder}/warehouse"}
    lake = replace(open_lake(properties), name="lake")
    app = FastAPI()
    app.mount(PREFIX, make_app(PublishedTables(lambda: lake), Access(may_read=allow, clusters=PLAIN)))
    uvicorn.run(app, port=port, log_level="error")


def get(url: str) -> bytes:
    """What a page answers; HTTPError (an OSError) where it does not."""
    with _direct.open(url, timeout=120) as answer:
        data: bytes = answer.read()
    return data


def _wait(url: str) -> None:
    for _ in range(200):
        try:
            get(url)
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the server did not start")
