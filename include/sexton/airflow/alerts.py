"""Alerts: for each one a line in the log, a JSON file in <home>/var/alerts, and a message to the sinks of `notify`.

An alert names the DAG, the run and the task. Error texts of Sexton's jobs never name a group. Error texts of libraries
may, so they stay in the log and the file unless the setting `notify_details` allows them in messages.
"""

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier
from airflow.sdk.configuration import conf

from sexton.airflow.alert_sinks import Message, send
from sexton.airflow.runs import read_outcome, run_folder
from sexton.errors import DataQualityFailure, Refused, UsageError, printable
from sexton.settings import settings

log = logging.getLogger(__name__)

MESSAGE_CAP = 2_000
"""Maximum length (characters) of an error in an alert; the task's log has all of it."""

SEXTON_ERRORS = (UsageError.exit_code, DataQualityFailure.exit_code, Refused.exit_code)
"""Exit codes whose message was written by Sexton."""


def airflow_url() -> str:
    """Where people find Airflow, without a slash at the end."""
    return str(conf.get("api", "base_url", fallback="http://localhost:8080")).rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an alert is about: a task, or a whole run."""

    dag_id: str
    run_id: str
    task_id: str | None = None
    try_number: int | None = None

    @property
    def name(self) -> str:
        return f"{self.dag_id}.{self.task_id}" if self.task_id else self.dag_id

    @property
    def url(self) -> str:
        """The run's page in Airflow."""
        return f"{airflow_url()}/dags/{quote(self.dag_id, safe='')}/runs/{quote(self.run_id, safe='')}"


class AlertOnFailure(BaseNotifier):
    """Raises an alert when a task has failed and is not retried."""

    def notify(self, context: Any) -> None:
        error = context.get("exception")
        message = str(error or "the task failed")
        _raise(_subject(context), severity="error", message=message, public=_public(_subject(context), error, message))


def raise_alert(context: Mapping[str, Any], *, severity: str = "warning", message: str) -> Path | None:
    """Raise an alert about the running task and return its file. `message` goes to everybody, so it names no group.

    Return None if the file cannot be written: that must not turn a warning into a failure.
    """
    return _raise(_subject(context), severity=severity, message=message, public=message)


async def alert_late_run(context: Mapping[str, Any], minutes: int) -> None:
    """Raise an alert about a run that has passed its deadline. Airflow's triggerer awaits this coroutine."""
    run = context["dag_run"]
    subject = Subject(dag_id=run["dag_id"], run_id=run["dag_run_id"])
    message = f"not finished {minutes} minutes after it was queued"
    # In a thread: notifiers block, and the triggerer's event loop must not.
    await asyncio.to_thread(_raise, subject, severity="error", message=message, public=message)


def _raise(subject: Subject, *, severity: str, message: str, public: str) -> Path | None:
    """Log, write the file, send; in this order, because only logging cannot fail."""
    message, public = ("\n".join(map(printable, text.strip().splitlines())) for text in (message, public))
    run_id, first_line = printable(subject.run_id), message.partition("\n")[0][:200]
    log.warning("ALERT %s: %s of run %s: %s", severity, subject.name, run_id, first_line)
    file = _keep(subject, severity=severity, message=message)
    sent = message if settings().notify_details else public
    title = f"Sexton {severity}: {subject.name}"
    text = f"{sent[:MESSAGE_CAP]}\nrun {run_id}"
    send(Message(severity=severity, title=title, text=text, url=subject.url), settings().notify)
    return file


def _keep(subject: Subject, *, severity: str, message: str) -> Path | None:
    """Write the alert to <home>/var/alerts."""
    now = datetime.now(UTC)
    alert = {
        "raised_at": now.isoformat(timespec="milliseconds"),
        "severity": severity,
        **asdict(subject),
        "message": message[:MESSAGE_CAP],
        "url": subject.url,
    }
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{now:%Y%m%dT%H%M%S%f}-{subject.dag_id}-{subject.task_id or 'run'}")
    folder = settings().var / "alerts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{name}.part"
        part.write_text(json.dumps(alert, indent=2) + "\n", encoding="utf-8")
        return part.rename(folder / f"{name}.json")
    except OSError as error:
        log.warning("the alert could not be kept in %s: %s", folder, error)
        return None


def _subject(context: Mapping[str, Any]) -> Subject:
    ti = context["ti"]
    return Subject(dag_id=ti.dag_id, run_id=ti.run_id, task_id=ti.task_id, try_number=ti.try_number)


def _public(subject: Subject, error: object, message: str) -> str:
    """Return what everybody may read of an error: Sexton's message, else the error's `public` or type."""
    if error is None:
        return message
    outcome = read_outcome(run_folder(subject.dag_id, subject.run_id), str(subject.task_id))
    line = str(outcome.get("error") or "")
    if outcome.get("exit_code") in SEXTON_ERRORS and line and line in message:
        return message
    return str(getattr(error, "public", None) or f"{type(error).__name__}: the log of the task says more")
