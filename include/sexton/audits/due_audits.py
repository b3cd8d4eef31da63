"""The audits that are due after a publication. They query the brokers as they are now, so only the newest run makes
them due.

An audit of lag describes the newest published run, an audit of transactions the present state of the brokers: a
backfilled run of the past makes neither due.
"""

from pydantic import BaseModel

from sexton.archive.folder import filesystem
from sexton.as_text import HOUR_MS
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.read import published_instants
from sexton.maintenance.task_state import read_state, write_state

LAG, TRANSACTIONS = "audit_lag", "audit_transactions"
REST_MS = 20 * HOUR_MS
"""Minimum time between the instants of runs that make an audit of transactions due: the audit copies a whole log."""


class Announced(BaseModel):
    """The instant of the newest run that made an audit of transactions due."""

    transactions_ms: int | None = None


def due_audits(as_of_ms: int, *, newest_ms: int, transactions_ms: int | None) -> list[str]:
    """The audits that are due after the publication of a run; another attempt of the same run gets the same audits."""
    if as_of_ms < newest_ms:
        return []
    rests = transactions_ms is not None and 0 < as_of_ms - transactions_ms < REST_MS
    return [LAG] if rests else [LAG, TRANSACTIONS]


def announce(lake: Lake, archive: str, run: RunKey) -> list[str]:
    """Return the audits that are due after the publication of a run. The archive records when transactions were due."""
    at = *filesystem(archive), run.cluster_id, "due_audits"
    newest_ms, _ = published_instants(lake, run.cluster_id)[-1]
    before = read_state(*at, Announced)
    due = due_audits(run.as_of_ms, newest_ms=newest_ms, transactions_ms=before.transactions_ms)
    if TRANSACTIONS in due:
        write_state(*at, Announced(transactions_ms=run.as_of_ms))
    return due
