"""Ledgers for tests: entries as an attempt at a plan writes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.ledger.entries import ClaimProcess, Intent, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger
from tests.archived import Archive

LOCAL = pafs.LocalFileSystem()
CLUSTER, PLAN_ID, PLAN_SHA256 = "cluster", "ab" * 32, "cd" * 32
LEASE_MS = 600_000
T0 = 1_800_000_000_000
DEAD = ClaimProcess(host="elsewhere", pid=1, started="0", token="dead")


def ledger(root: Path | str, fs: pafs.FileSystem = LOCAL, **fields: Any) -> Ledger:
    return Ledger(fs, str(root), CLUSTER, PLAN_ID, **fields)


def claim(book: Ledger, at_ms: int = T0) -> int:
    book.claim(at_ms=at_ms, lease_ms=LEASE_MS, approved_by="ann", sink="coordinator", plan_sha256=PLAN_SHA256)
    return book.attempt


def item(position: int = 0, group_id: str = "g", *, log_partition: int = 3) -> Item:
    before = Value(
        committed_offset=5 + position, leader_epoch=1, metadata="m", commit_timestamp_ms=T0 - 1, log_offset=9
    )
    return Item(
        log_partition=log_partition, position=position, group_id=group_id, topic="t", partition=position, before=before
    )


def intend(book: Ledger, step: int = 0, *items: Item, at_ms: int = T0 + 1, **fields: Any) -> Intent:
    body = Intent(step=step, items=list(items or (item(),)), **{"action": "tombstone", **fields})
    book.intent(body, at_ms=at_ms)
    return body


def conclude(book: Ledger, intent: Intent, outcome: str = "done", *, at_ms: int = T0 + 2, **fields: Any) -> None:
    results = [
        Result(log_partition=one.log_partition, position=one.position, outcome=outcome, **fields)
        for one in intent.items
    ]
    body = StepOutcome(step=intent.step, of_attempt=book.attempt, items=results, window_ms=1.5)
    book.outcome(body, at_ms=at_ms)


def act(
    archive: Archive,
    plan_id: str,
    action: str,
    keys: Sequence[tuple[str, str, int]],
    *,
    at_ms: int,
    outcome: str | None = "done",
    written_ms: int | None = None,
) -> None:
    """A ledger of one step about some offsets, from a second before until a second after `at_ms`."""
    book = Ledger(LOCAL, archive.root, archive.cluster_id, plan_id)
    book.claim(at_ms=at_ms - 1_000, lease_ms=1, approved_by="ann", sink="coordinator", plan_sha256=plan_id)
    items = [
        Item(
            log_partition=0,
            position=n,
            group_id=key[0],
            topic=key[1],
            partition=key[2],
            before=Value(committed_offset=1),
        )
        for n, key in enumerate(keys)
    ]
    book.intent(Intent(step=1, action=action, items=items), at_ms=at_ms - 1_000)
    if outcome is not None:
        told = {"outcome": outcome, "written_timestamp_ms": written_ms}
        results = [Result(log_partition=item.log_partition, position=item.position, **told) for item in items]
        book.outcome(StepOutcome(step=1, of_attempt=1, items=results), at_ms=at_ms + 1_000)
        book.close({}, at_ms=at_ms + 1_000)
