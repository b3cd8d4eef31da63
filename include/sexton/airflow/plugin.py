"""The Airflow plugin of the listener and the limit of request bodies. The dashboard has its own (sexton.ui.plugin)."""

from airflow.plugins_manager import AirflowPlugin

from sexton.airflow import listener
from sexton.airflow.body_limit import BodyLimit


class SextonAirflowPlugin(AirflowPlugin):
    """Loaded by every Airflow process."""

    name = "sexton_airflow"
    listeners = [listener]  # noqa: RUF012
    fastapi_root_middlewares = [{"name": "Sexton's limit for bodies", "middleware": BodyLimit}]  # noqa: RUF012
