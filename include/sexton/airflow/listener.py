"""What Airflow's scheduler knows of a run and the run's tasks cannot ask: how it was triggered.

A task is given the name of who triggered its run, which `airflow dags trigger` takes from the operating system. Whether
that name has logged in follows from `triggered_by`, which only the scheduler sees. It is noted where the run keeps its
approval, when the run starts, also after it was cleared.
"""

from typing import Any

from airflow.listeners import hookimpl

from sexton.airflow.consent import approval_folder, write_trigger
from sexton.airflow.runs import run_folder
from sexton.settings import settings

ACTING_DAGS = ("apply_tombstones", "restore_offsets")


@hookimpl
def on_dag_run_running(dag_run: Any, msg: str) -> None:  # noqa: ARG001  # Airflow passes by name
    """Note how a run that may change a cluster was triggered."""
    acting = {cluster.scoped_name(kind) for cluster in settings().every_cluster for kind in ACTING_DAGS}
    if dag_run.dag_id in acting and dag_run.triggered_by is not None:
        write_trigger(approval_folder(run_folder(dag_run.dag_id, dag_run.run_id)), dag_run.triggered_by.value)
