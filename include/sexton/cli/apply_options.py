"""What the commands that change a cluster share: ending early, and the ledger's table afterwards."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.ledger.entries import Entry


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM came; the process goes on all the same, and ends when its step is done."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGTERM, before)


def publish(entries: "list[Entry]", *, as_of_ms: int) -> tuple[int | None, str | None]:
    """Rows in the table, None without a lake, and what went wrong: the ledger itself is written already."""
    from sexton.lake.catalog import open_lake
    from sexton.ledger.publish import publish_ledger

    try:
        return publish_ledger(open_lake(), entries, as_of_ms=as_of_ms), None
    except Exception as error:
        fix = "everything was done and is in the ledger; run the same command again"
        return None, f"the table apply_ledger was not brought up to date: {error} ({fix})"
