"""Airflow loads this plugin: the listener."""

from sexton.airflow.plugin import SextonAirflowPlugin

__all__ = ["SextonAirflowPlugin"]
