"""What the commands `apply` and `restore` share: the option --approved-by, progress that SIGTERM ends after the current
step, and the update of the table apply_ledger.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from sexton.cli.options import shared
from sexton.cli.progress import bar
from sexton.errors import UsageError

if TYPE_CHECKING:
    from sexton.ledger.entries import Entry

EXECUTION = "Execution"
"""A panel of --help."""

ApprovedBy = Annotated[str | None, shared("--approved-by NAME", "Who approved it, for the ledger.", EXECUTION)]


def check_approved(approved_by: str | None, *, option: str, what: str) -> None:
    """UsageError unless `approved_by` names who approved `what`, which `option` carries out."""
    if not (approved_by or "").strip():
        raise UsageError(f"{what} not approved", where=option, fix="pass --approved-by NAME")


@contextmanager
def progress_until_terminated(label: str, *, is_quiet: bool) -> Iterator[Callable[[int, int], bool]]:
    """A progress bar: a function to call with (done, total) after each step, which returns whether to go on.

    After a SIGTERM it returns False: the process finishes the current step, records the outcome and ends.
    """
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:
        with bar(label, is_quiet=is_quiet) as show:

            def progress(done: int, total: int) -> bool:
                show(done, total)
                return not received

            yield progress
    finally:
        signal.signal(signal.SIGTERM, before)


def publish(entries: "list[Entry]", *, as_of_ms: int) -> tuple[int | None, str | None]:
    """Write the ledger to the table apply_ledger; returns its rows (None without a lake) and what failed.

    The ledger itself is written already.
    """
    from sexton.lake.catalog import open_lake
    from sexton.ledger.publish import publish_ledger

    try:
        return publish_ledger(open_lake(), entries, as_of_ms=as_of_ms), None
    except Exception as error:  # of whatever kind: what was done on the cluster is reported in any case
        fix = "everything was done and is in the ledger; run the same command again"
        return None, f"the table apply_ledger was not updated: {error} ({fix})"
