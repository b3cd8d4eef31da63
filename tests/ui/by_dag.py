"""An auth manager that lets each user of a test read the DAGs that their role names, and nothing else.

Airflow's simple one lets every role read every DAG; whether a route asks about the right DAG only shows with one that
does not.
"""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

MAY_READ = {
    "nobody": frozenset(), "reader": frozenset({"offset_retention"}),
    "planner": frozenset({"offset_retention", "apply_tombstones"}),
    "european": frozenset({"offset_retention__eu", "apply_tombstones"}), "stranger": frozenset({"another_dag"}),
}  # fmt: skip
"""User -> DAGs; whoever is not here is the simple manager's business."""


class ByDag(SimpleAuthManager):
    def is_authorized_dag(self, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        if user.username in MAY_READ:
            return method == "GET" and details is not None and details.id in MAY_READ[user.username]
        return bool(super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details))
