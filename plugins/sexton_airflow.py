"""What our DAGs need of Airflow's scheduler and API server: what is in this folder, Airflow loads as a plugin."""

from sexton.airflow.plugin import SextonAirflowPlugin

__all__ = ["SextonAirflowPlugin"]
