"""Records how a run was triggered, which the scheduler knows and a task cannot query.

A task gets the name of the triggering user, which `airflow dags trigger` takes from the operating system. Only
`triggered_by` shows whether that user logged in. It is recorded when the run starts, and when a cleared run starts
again.

The scheduler waits for its listeners, so a thread writes the record: a slow store delays no runs. If writing fails, or
too many records wait, there is no record, and the run is refused (consent.py).
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Any

from airflow.listeners import hookimpl

from sexton.airflow.consent import ApprovalFolder, Trigger
from sexton.airflow.runs import run_folder
from sexton.settings import settings

log = logging.getLogger(__name__)

CHANGING_DAGS = ("apply_tombstones", "restore_offsets", "approve_keep")
MAX_WAITING = 100
"""Maximum number of records that wait for the store."""
WRITER = ThreadPoolExecutor(1, thread_name_prefix="sexton-listener")
_places = BoundedSemaphore(MAX_WAITING)


@hookimpl
def on_dag_run_running(dag_run: Any, msg: str) -> None:  # noqa: ARG001  # Airflow passes by name
    """Record in a thread how a run was triggered, if its DAG changes a cluster."""
    changing = {cluster.scoped_name(kind) for cluster in settings().every_cluster for kind in CHANGING_DAGS}
    if dag_run.dag_id not in changing or dag_run.triggered_by is None:
        return
    run = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id}
    if _places.acquire(blocking=False):
        WRITER.submit(_write, run, dag_run.triggered_by.value)
    else:
        log.warning("not recorded how %s was triggered: the store of the runs does not answer", run)


def _write(run: dict[str, str], triggered_through: str) -> None:
    try:
        ApprovalFolder(run_folder(**run), **run).write(Trigger(**run, triggered_through=triggered_through))
    except Exception:
        log.exception("not recorded how %s was triggered", run)
    finally:
        _places.release()
