"""What Kafka's log cleaner may leave of a log (Cleaner, CleanedTransactionMetadata; spec: what compaction can do).

Below the first open transaction and the active segment, records of aborted transactions go, and of each key, by its
very bytes, all but the newest. Tombstones may follow, and markers of transactions of which no record is left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from random import Random

from tests.campaign.packs import Pack, Placed
from tests.campaign.records import Entry
from tests.log_builder import ABORT, NO_PRODUCER


@dataclass(slots=True)
class _Transaction:
    """The records of a producer up to a marker; without an `end` it is open."""

    at: list[int]
    end: int | None = None
    is_aborted: bool = False


def compact(whole: Pack, rng: Random, *, stop: int | None = None, is_thorough: bool = False) -> Pack:
    """A log that the cleaner may leave of `whole`, history by history; those that are not clean stay as they are.

    It reads nothing from log_offset `stop` on. A thorough one takes all that it may, in as many cleanings as it needs.
    """
    gone: set[int] = set()
    for batches in whole.by_history().values():
        if batches[0].history.is_clean:
            for _ in range(3 if is_thorough else rng.choice((1, 1, 2, 3))):
                gone |= _cleaned(batches, gone, rng, stop, is_thorough)
    return without(whole, gone)


def _cleaned(batches: Sequence[Placed], gone: set[int], rng: Random, stop: int | None, is_thorough: bool) -> set[int]:
    """The log_offsets that one cleaning takes from a history that has lost `gone` already."""
    transactions = _transactions(batches, gone)
    below = min((part.at[0] for part in transactions if part.end is None), default=batches[-1].last + 1)
    below = below if stop is None else min(below, stop)
    if not is_thorough and rng.random() < 0.5:  # there the active segment begins
        below = min(below, rng.choice(batches).base_offset)
    aborted = {at for part in transactions if part.is_aborted for at in part.at if at < below}
    records = [(at, entry) for at, entry in _records(batches) if at < below and at not in gone and at not in aborted]
    newest = {entry.key: at for at, entry in records}
    takes_tombstones, takes_markers = is_thorough or rng.random() < 0.5, is_thorough or rng.random() < 0.5
    taken = aborted | {
        at for at, entry in records if newest[entry.key] != at or (takes_tombstones and entry.value is None)
    }
    if takes_markers:
        taken |= {
            part.end for part in transactions if part.end is not None and part.end < below and taken.issuperset(part.at)
        }
    return taken


def _records(batches: Sequence[Placed]) -> Iterator[tuple[int, Entry]]:
    for batch in batches:
        if batch.block.control is None:
            yield from zip(batch.at, batch.block.entries, strict=True)


def _transactions(batches: Sequence[Placed], gone: set[int]) -> list[_Transaction]:
    """Every marker with the records before it that are left; a marker may end a transaction without any."""
    found: list[_Transaction] = []
    going: dict[int, _Transaction] = {}
    for batch in batches:
        producer_id = batch.block.producer_id
        if producer_id == NO_PRODUCER:
            continue
        left = [at for at in batch.at if at not in gone]
        if batch.block.control is None:
            going.setdefault(producer_id, _Transaction([])).at.extend(left)
            continue
        ended = going.pop(producer_id, _Transaction([]))
        for at in left:
            found.append(replace(ended, end=at, is_aborted=batch.block.control == (ABORT,)))
    return found + [part for part in going.values() if part.at]


def without(whole: Pack, gone: set[int]) -> Pack:
    """A log without the records that are gone, and without batches of which nothing is left; the rest where it was."""
    left = []
    for batch in whole.placed:
        kept = [at not in gone for at in batch.at]
        if any(kept) or not kept:
            at, entries = (tuple(compress(some, kept)) for some in (batch.at, batch.block.entries))
            left.append(replace(batch, block=replace(batch.block, entries=entries), at=at))
    return Pack(left)
