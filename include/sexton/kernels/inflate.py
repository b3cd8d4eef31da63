"""Compressed batches of a block, inflated side by side into one arena; the codecs are those of `log.codec`."""

from collections.abc import Iterator

import numpy as np

from sexton.errors import LogError
from sexton.kernels.decode import ATTRIBUTES, BODY, BODY_END, BY_READER, COUNT, IN_ARENA, SOURCE
from sexton.kernels.table import Bytes, Int64s
from sexton.log import codec
from sexton.log.entry import CODEC_MASK

BLOCK_BYTES = 8 << 20
"""Inflated bytes that are held at once, but for a single batch that is larger."""

_MAGIC = 2


def inflate_blocks(data: Bytes, batches: Int64s, *, cap_bytes: int) -> Iterator[tuple[Int64s, Bytes]]:
    """Cut `batches` into runs whose inflated records fit into an arena; yields each run with its arena.

    Batches that are not compressed stay where they are. One that cannot be inflated is left to `log.batch`, which will
    say why.
    """
    packed = np.flatnonzero((batches[:, ATTRIBUTES] & CODEC_MASK != codec.NONE) & (batches[:, COUNT] > 0))
    first, used = 0, 0
    pieces: list[bytes] = []
    view = data.data
    for row in packed.tolist():
        batch = batches[row]
        try:
            body = codec.inflate(
                int(batch[ATTRIBUTES]) & CODEC_MASK,
                view[int(batch[BODY]) : int(batch[BODY_END])],
                magic=_MAGIC,
                cap_bytes=cap_bytes,
            )
        except LogError:
            batch[SOURCE] = BY_READER
            continue
        if used and used + len(body) > BLOCK_BYTES:
            yield batches[first:row], _arena(pieces)
            first, used, pieces = row, 0, []
        batch[SOURCE] = IN_ARENA
        batch[BODY] = used
        used += len(body)
        batch[BODY_END] = used
        pieces.append(body)
    if first < len(batches):
        yield batches[first:], _arena(pieces)


def _arena(pieces: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(pieces), np.uint8)
