"""Decompresses good and broken bodies that lie at the edges of pages, whose neighbours may not be touched.

    python -m tests.kernels.edges SEED

A read or write outside of the given spans ends the process.
"""

import ctypes
import mmap
import random
import sys
from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels.codecs.lz4 import inflate_frame
from sexton.kernels.codecs.snappy import inflate_xerial
from sexton.kernels.codecs.zstd import _is_one_frame
from sexton.log.codec import LZ4, SNAPPY, ZSTD, deflate

PAGE = mmap.PAGESIZE
BODIES = 20_000
UNTOUCHED = 7


@compiled
def inflate_lz4(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    return inflate_frame(pointer(data), pos, end, pointer(out), at, limit)


@compiled
def inflate_snappy(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    return inflate_xerial(pointer(data), pos, end, pointer(out), at, limit)


@compiled
def is_one_frame(data: Any, pos: int, end: int) -> bool:
    return _is_one_frame(pointer(data), pos, end)


def guarded() -> np.ndarray:
    """Three pages, of which only the one in the middle may be touched."""
    area = mmap.mmap(-1, 3 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in (0, 2):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
    return np.frombuffer(area, np.uint8)


def body_of(codec: int, raw: bytes, rng: random.Random) -> bytes:
    """The compressed bytes, often with some changed or cut off."""
    body = bytearray(deflate(codec, raw))
    for _ in range(rng.randrange(3)):
        body[rng.randrange(len(body))] = rng.choice([0, 1, 15, 240, 255, rng.randrange(256)])
    return bytes(body[: rng.randrange(len(body))] if rng.random() < 0.2 else body)


def place(size: int, rng: random.Random) -> int:
    """Where to put so many bytes: at the beginning or the end of the page."""
    return rng.choice([PAGE, 2 * PAGE - size])


def main(seed: int) -> None:
    rng = random.Random(seed)
    source, target = guarded(), guarded()
    taken = 0
    for _ in range(BODIES):
        raw = bytes(rng.choice(b"abcd") for _ in range(rng.randrange(1, 300)))
        codec = rng.choice([LZ4, SNAPPY, ZSTD])
        body = body_of(codec, raw, rng)
        start = place(len(body), rng)
        source[start : start + len(body)] = np.frombuffer(body, np.uint8)
        if codec == ZSTD:
            is_one_frame(source, start, start + len(body))
            continue
        room = rng.choice([len(raw), rng.randrange(len(raw) + 20)])
        at = place(room, rng)
        target[PAGE : 2 * PAGE] = UNTOUCHED
        inflate = inflate_lz4 if codec == LZ4 else inflate_snappy
        end = inflate(source, start, start + len(body), target, at, at + room)
        assert end < 0 or at <= end <= at + room, end
        assert (target[PAGE:at] == UNTOUCHED).all(), "written before the span"
        assert (target[at + room : 2 * PAGE] == UNTOUCHED).all(), "written behind the span"
        taken += end >= 0
    print("some taken" if taken > BODIES // 20 else f"{taken} taken")


if __name__ == "__main__":
    main(int(sys.argv[1]))
