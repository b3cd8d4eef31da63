"""What Airflow loads of ours, the dashboard apart: what its scheduler notes of runs, what its API server refuses."""

from airflow.plugins_manager import AirflowPlugin

from sexton.airflow import listener
from sexton.airflow.body_limit import BodyLimit


class SextonAirflowPlugin(AirflowPlugin):
    """Loaded by every process of Airflow's."""

    name = "sexton_airflow"
    listeners = [listener]  # noqa: RUF012
    fastapi_root_middlewares = [{"name": "Sexton's limit for bodies", "middleware": BodyLimit}]  # noqa: RUF012
