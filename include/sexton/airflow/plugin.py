"""The Airflow plugin of the listeners. The dashboard has its own (sexton.ui.plugin)."""

from airflow.plugins_manager import AirflowPlugin

from sexton.airflow import listener, warm_jobs


class SextonAirflowPlugin(AirflowPlugin):
    """Loaded by every Airflow process."""

    name = "sexton_airflow"
    listeners = [listener, warm_jobs]  # noqa: RUF012
