"""Alerts: one line in the log and one JSON file each, written where people and machines can find them.

The file is the seam for everything else: put another notifier (Slack, SMTP, Apprise) beside `AlertOnFailure` in a DAG's
default arguments, or have an agent watch the folder. An alert names the DAG, the run and the task, never a group.
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier

from sexton.settings import settings

log = logging.getLogger(__name__)

MESSAGE_CAP = 2_000
"""Characters of an error that an alert carries; the task's log has the rest."""


class AlertOnFailure(BaseNotifier):
    """Raises an alert when a task has failed for good (retries used up, or an error that no retry mends)."""

    def notify(self, context: Any) -> None:
        raise_alert(context, severity="error", message=str(context.get("exception") or "the task failed"))


def raise_alert(context: Mapping[str, Any], *, severity: str, message: str) -> Path | None:
    """Log an alert about the running task and write it to <home>/var/alerts; returns its file.

    A folder that cannot be written must not turn a warning into a failure: the line in the log stays, None is returned.
    """
    ti = context["ti"]
    now = datetime.now(UTC)
    alert = {
        "raised_at": now.isoformat(timespec="milliseconds"),
        "severity": severity,
        "dag_id": ti.dag_id,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "try_number": ti.try_number,
        "message": message[:MESSAGE_CAP],
    }
    first_line = next(iter(message.strip().splitlines()), "")[:200]
    log.warning("ALERT %s: %s.%s of run %s: %s", severity, ti.dag_id, ti.task_id, ti.run_id, first_line)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{now:%Y%m%dT%H%M%S%f}-{ti.dag_id}-{ti.task_id}")
    folder = settings().var / "alerts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{name}.part"
        part.write_text(json.dumps(alert, indent=2) + "\n", encoding="utf-8")
        return part.rename(folder / f"{name}.json")
    except OSError as error:
        log.warning("the alert could not be kept in %s: %s", folder, error)
        return None
