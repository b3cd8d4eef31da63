"""Many histories in one log: where each record lies, and the bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from tests.campaign.histories import Block, History
from tests.log_builder import encode, place


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch in the log: `at` are the log_offsets of its records, `last` is its last one, which may have no record."""

    history: History
    block: Block
    base_offset: int
    at: tuple[int, ...]
    last: int


@dataclass(frozen=True)
class Pack:
    """A log of several histories."""

    placed: Sequence[Placed]

    @cached_property
    def batches(self) -> list[bytes]:
        return [encode(batch.block, batch.base_offset, batch.at, batch.last) for batch in self.placed]

    @cached_property
    def log(self) -> bytes:
        return b"".join(self.batches)

    def by_history(self) -> dict[int, list[Placed]]:
        """The batches of each history, by its index."""
        found: dict[int, list[Placed]] = {}
        for batch in self.placed:
            found.setdefault(batch.history.index, []).append(batch)
        return found


def pack(histories: Sequence[History], rng: Random) -> Pack:
    """The histories in one log, one after the other or with their batches mixed."""
    width = rng.choice((1, 8, len(histories), len(histories)))
    placed, next_offset = [], 0
    for owner, block in _mixed(histories, rng, width=width):
        placed.append(Placed(owner, block, *place(block, next_offset)))
        next_offset = placed[-1].last + 1
    return Pack(placed)


def _mixed(histories: Sequence[History], rng: Random, *, width: int) -> Iterator[tuple[History, Block]]:
    """The blocks of all histories, `width` of them at a time side by side, each in its own order."""
    waiting = [(owner, iter(owner.blocks)) for owner in reversed(histories)]
    going: list[tuple[History, Iterator[Block]]] = []
    while waiting or going:
        while waiting and len(going) < width:
            going.append(waiting.pop())
        number = rng.randrange(len(going)) if len(going) > 1 else 0
        owner, blocks = going[number]
        block = next(blocks, None)
        if block is None:
            going[number] = going[-1]
            going.pop()
        else:
            yield owner, block
