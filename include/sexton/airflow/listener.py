"""Records how a run was triggered, which the scheduler knows and a task cannot ask.

A task gets the name of the triggering user, which `airflow dags trigger` takes from the operating system. Only
`triggered_by` shows whether that user logged in. It is recorded when the run starts, also after it was cleared.
"""

from typing import Any

from airflow.listeners import hookimpl

from sexton.airflow.consent import ApprovalFolder, Trigger
from sexton.airflow.runs import run_folder
from sexton.settings import settings

CHANGING_DAGS = ("apply_tombstones", "restore_offsets")


@hookimpl
def on_dag_run_running(dag_run: Any, msg: str) -> None:  # noqa: ARG001  # Airflow passes by name
    """Record how a run of a DAG that changes a cluster was triggered."""
    changing = {cluster.scoped_name(kind) for cluster in settings().every_cluster for kind in CHANGING_DAGS}
    if dag_run.dag_id in changing and dag_run.triggered_by is not None:
        run = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id}
        folder = ApprovalFolder(run_folder(**run), **run)
        folder.write(Trigger(**run, triggered_through=dag_run.triggered_by.value))
