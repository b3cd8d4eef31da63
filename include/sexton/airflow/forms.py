"""The trigger forms of all DAGs, from the requests of their tasks (sexton/job_params.py)."""

from typing import Any

from airflow.sdk import Param

from sexton.job_params import DESCRIBE, REQUESTS
from sexton.settings import Cluster, setting_of


def form(cluster: Cluster, *names: str) -> dict[str, Param]:
    """Return the form of the named jobs, or of the named DAG: section by section, each in the order of the jobs."""
    fields: dict[str, dict[str, Param]] = {DESCRIBE: {}}  # the section that comes first
    for request in (REQUESTS[name] for name in names):
        for name, option, field in request.options():
            if option.form:
                section = fields.setdefault(option.form["section"], {})
                default = setting_of(cluster, option.setting) if option.setting else field.default
                given: dict[str, Any] = {} if field.is_required() else {"default": default}
                section[option.name or name] = Param(**given, **option.form)
    return {name: param for section in fields.values() for name, param in section.items()}
