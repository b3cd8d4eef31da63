"""Inflates the compressed batches of a block into one arena.

Compiled code decompresses lz4 and snappy; one call of the library decompresses many batches of zstd; `log.codec`
decompresses gzip, and whatever compiled code or that call does not accept, batch by batch.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value"

from collections.abc import Iterator
from typing import Any

import numpy as np

from sexton.errors import LogError
from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels import layout as L
from sexton.kernels.codecs.lz4 import FALLBACK, NO_ROOM, inflate_frame
from sexton.kernels.codecs.snappy import inflate_xerial
from sexton.kernels.codecs.zstd import SEAL_BYTES, inflate_together
from sexton.kernels.layout import Bytes, Int64s, batches_of, sealed
from sexton.log import codec
from sexton.log.entry import CODEC_MASK

BLOCK_BYTES = 8 << 20
"""Limit of inflated bytes in memory at once; a single larger batch is an exception."""

_MAGIC = 2
_MAX_TOGETHER = 4096
_GIVE_UP = 4
"""After a failure, the number of batches that are tried together is divided by this."""
INFLATED = 0
_EMPTY = np.frombuffer(b"", np.uint8)
_SNAPPY, _LZ4 = codec.SNAPPY, codec.LZ4


def inflate_blocks(data: Bytes, batches: Int64s, *, cap_bytes: int) -> Iterator[tuple[Int64s, Bytes]]:
    """Split `batches` into runs whose inflated records fit into an arena; yields each run with its arena.

    Uncompressed batches stay in place. A batch that cannot be inflated is left to `log.batch`, which names the reason.
    An arena is valid until the next run.
    """
    packed = np.flatnonzero((batches[:, L.B_ATTRIBUTES] & CODEC_MASK != codec.NONE) & (batches[:, L.B_COUNT] > 0))
    if len(packed) == 0:
        yield batches, _EMPTY
        return
    inflater = _Inflater(data, batches, packed, cap_bytes)
    first = 0
    while inflater.inflate():
        row = int(packed[inflater.done])
        yield batches[first:row], sealed(inflater.arena)
        first = row
        inflater.used = 0
    yield batches[first:], sealed(inflater.arena)


class _Inflater:
    """Inflates the batches in the rows `packed`, as many as fit into its arena at a time."""

    def __init__(self, data: Bytes, batches: Int64s, packed: Int64s, cap_bytes: int) -> None:
        self.arena = np.empty(BLOCK_BYTES, np.uint8)
        self.used = 0
        self.done = 0
        self._data, self._batches, self._packed, self._cap_bytes = data, batches, packed, cap_bytes
        self._together = _MAX_TOGETHER

    def inflate(self) -> bool:
        """Inflate batches until all are done (False) or the next does not fit into the rest of the arena (True)."""
        while self.done < len(self._packed):
            self.done, self.used, status = _inflate_rows(
                self._data, self._batches, self._packed, self.done, self.arena, self.used, self._cap_bytes
            )
            if self.done == len(self._packed):
                return False
            if status == FALLBACK:
                status = self._by_library()
            if status == NO_ROOM:
                if self.used:
                    return True
                self._grow()
        return False

    def _grow(self) -> None:
        """Make space for a batch larger than the empty arena, or leave it to `log.batch` if it is too large."""
        if len(self.arena) < self._cap_bytes:
            self.arena = np.empty(min(self._cap_bytes, len(self.arena) * 8), np.uint8)
        else:
            self._batches[self._packed[self.done], L.B_SOURCE] = L.BY_READER
            self.done += 1

    def _by_library(self) -> int:
        """Inflate the next batches with their library: many zstd batches together, gzip batches one by one."""
        if self._codec_of_next() == codec.ZSTD and self._together > 1:
            if self.used:
                return NO_ROOM
            most = self._packed[self.done : self.done + self._together]
            count = inflate_together(self._data, self._batches, most, self.arena, cap_bytes=self._cap_bytes)
            if count:
                self.used = int(self._batches[most[count - 1], L.B_BODY_END]) + SEAL_BYTES
                self.done += count
                self._together = min(2 * self._together, _MAX_TOGETHER)
                return INFLATED
            self._together //= _GIVE_UP
        status = self._one_by_library()
        while status == INFLATED and self._codec_of_next() == codec.GZIP:
            status = self._one_by_library()
        if status == INFLATED:
            self._together = max(self._together, 2)
        return status

    def _codec_of_next(self) -> int:
        """The codec of the next batch, NONE after the last."""
        if self.done == len(self._packed):
            return codec.NONE
        return int(self._batches[self._packed[self.done], L.B_ATTRIBUTES]) & CODEC_MASK

    def _one_by_library(self) -> int:
        batch = self._batches[self._packed[self.done]]
        _, start, end, *_ = batch[: L.B_BODY_END + 1].tolist()
        try:
            body = codec.inflate(
                self._codec_of_next(), self._data.data[start:end], magic=_MAGIC, cap_bytes=self._cap_bytes
            )
        except LogError:
            batch[L.B_SOURCE] = L.BY_READER
            self.done += 1
            return INFLATED
        end = self.used + len(body)
        if end > len(self.arena):
            return NO_ROOM
        self.arena[self.used : end] = np.frombuffer(body, np.uint8)
        batch[L.B_SOURCE], batch[L.B_BODY], batch[L.B_BODY_END] = L.IN_ARENA, self.used, end
        self.used = end
        self.done += 1
        return INFLATED


@compiled
def _inflate_rows(
    source: Any, batch_rows: Any, packed: Any, done: int, arena_bytes: Any, used: int, cap_bytes: int
) -> tuple[int, int, int]:
    """Inflate lz4 and snappy batches from packed[done] on; returns (done, used, why it stopped)."""
    data, batches, arena = pointer(source), batches_of(batch_rows), pointer(arena_bytes)
    while done < len(packed):
        row = packed[done]
        number = batches[row, L.B_ATTRIBUTES] & CODEC_MASK
        start, end = batches[row, L.B_BODY], batches[row, L.B_BODY_END]
        limit = used + min(len(arena_bytes) - used, cap_bytes)
        if number == _LZ4:
            at = inflate_frame(data, start, end, arena, used, limit)
        elif number == _SNAPPY:
            at = inflate_xerial(data, start, end, arena, used, limit)
        else:
            at = np.int64(FALLBACK)
        if at < 0:
            return done, used, at
        batches[row, L.B_SOURCE] = L.IN_ARENA
        batches[row, L.B_BODY] = used
        batches[row, L.B_BODY_END] = at
        used = at
        done += 1
    return done, used, INFLATED
