"""Many histories in one log: where each record lies, and the bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from tests.campaign.histories import Block, History

_CRC_AT = 17
_CONTROL_VALUE = bytes(6)


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
        return [_encode(batch) for batch in self.placed]

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
        base_offset = next_offset + block.gap
        at, offset = [], base_offset - 1
        for number in range(block.record_count):
            offset += 1 + (block.holes[number] if block.holes else 0)
            at.append(offset)
        last = max(offset, base_offset)
        placed.append(Placed(owner, block, base_offset, tuple(at), last))
        next_offset = last + 1
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


def _encode(placed: Placed) -> bytes:
    block = placed.block
    deltas = [offset - placed.base_offset for offset in placed.at]
    records: list[tuple[bytes | None, bytes | None]] = [(entry.key, entry.value) for entry in block.entries]
    if block.control is not None:
        records = [(b"\0\0\0" if kind is None else kind.to_bytes(4), _CONTROL_VALUE) for kind in block.control]
    if block.magic < 2:
        return encode_message_set(
            records,
            base_offset=placed.base_offset,
            magic=block.magic,
            timestamp_ms=block.timestamp_ms if block.magic else -1,
            codec=block.codec,
            offset_deltas=deltas,
        )
    data = encode_batch(
        records,
        base_offset=placed.base_offset,
        timestamp_ms=block.timestamp_ms,
        producer_id=block.producer_id,
        producer_epoch=-1 if block.producer_id < 0 else 0,
        codec=block.codec,
        transactional=block.transactional,
        control=block.control is not None,
        log_append_time=block.is_append_time,
        delete_horizon_ms=block.delete_horizon_ms,
        offset_deltas=deltas,
        last_offset_delta=placed.last - placed.base_offset,
    )
    return data if block.crc_ok else data[:_CRC_AT] + bytes([data[_CRC_AT] ^ 0xFF]) + data[_CRC_AT + 1 :]
