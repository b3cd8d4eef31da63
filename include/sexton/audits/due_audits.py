"""Which audits are due after a publication: those that ask the brokers of today, if the run is the newest.

Audits of lag describe the newest published run, those of transactions what the brokers have now: a backfilled run of
the past makes neither due.
"""

from pydantic import BaseModel

from sexton.archive.folder import filesystem
from sexton.figures import HOUR_MS
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.read import published_runs
from sexton.maintenance.task_state import read_state, write_state

LAG, TRANSACTIONS = "audit_lag", "audit_transactions"
REST_MS = 20 * HOUR_MS
"""Between the instants of runs that make an audit of transactions due: it copies a whole log."""


class Announced(BaseModel):
    """The instant of the newest run that made an audit of transactions due."""

    transactions_ms: int | None = None


def due_audits(as_of_ms: int, *, newest_ms: int, transactions_ms: int | None) -> list[str]:
    """The audits that are due after the publication of a run, the same again for another attempt of it."""
    if as_of_ms < newest_ms:
        return []
    rests = transactions_ms is not None and 0 < as_of_ms - transactions_ms < REST_MS
    return [LAG] if rests else [LAG, TRANSACTIONS]


def announce(lake: Lake, archive: str, run: RunKey) -> list[str]:
    """Return the audits that are due after the publication of a run; the archive remembers it."""
    at = *filesystem(archive), run.cluster_id, "due_audits"
    newest_ms = max(each.key.as_of_ms for each in published_runs(lake, run.cluster_id))
    before = read_state(*at, Announced)
    due = due_audits(run.as_of_ms, newest_ms=newest_ms, transactions_ms=before.transactions_ms)
    if TRANSACTIONS in due:
        write_state(*at, Announced(transactions_ms=run.as_of_ms))
    return due
