"""Airflow loads this plugin: the listener and the limit of request bodies."""

from sexton.airflow.plugin import SextonAirflowPlugin

__all__ = ["SextonAirflowPlugin"]
