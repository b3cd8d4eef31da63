"""The dashboard in Airflow's menu: what is in this folder, Airflow loads as a plugin."""

from sexton.ui.plugin import SextonPlugin

__all__ = ["SextonPlugin"]
