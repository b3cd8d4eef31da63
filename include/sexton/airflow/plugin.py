"""The Airflow plugin of the listener. The dashboard has its own (sexton.ui.plugin)."""

from airflow.plugins_manager import AirflowPlugin

from sexton.airflow import listener


class SextonAirflowPlugin(AirflowPlugin):
    """Loaded by every Airflow process."""

    name = "sexton_airflow"
    listeners = [listener]  # noqa: RUF012
