"""Airflow loads this plugin: the dashboard in its menu."""

from sexton.ui.plugin import SextonPlugin

__all__ = ["SextonPlugin"]
