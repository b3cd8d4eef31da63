"""Screenshots made small: a PNG of 8 bits a channel written anew with a palette of at most 256 colours.

What it reads is what browsers write: RGB or RGBA, not interlaced. Colours that get no place of their own take the
nearest one that has; of windows with text and lines that is not to be seen. PNG: ISO/IEC 15948.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = ">IIBBBBB"
CHANNELS = {2: 3, 6: 4}
"""By colour type."""
PALETTE, COLOURS = 3, 256

Pixels = NDArray[np.uint8]


def made_small(png: bytes) -> bytes:
    """The picture with a palette; as it was where that is no smaller."""
    pixels = read_png(png)
    height, width, _ = pixels.shape
    found, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = found[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = np.array([np.argmin(((palette.astype(int) - colour) ** 2).sum(axis=1)) for colour in found], np.uint8)
    rows = np.hstack([np.zeros((height, 1), np.uint8), nearest[which].reshape(height, width)])  # no filter
    header = struct.pack(HEADER, width, height, 8, PALETTE, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 9)
    parts = ((b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", data), (b"IEND", b""))
    made = SIGNATURE + b"".join(_chunk(kind, part) for kind, part in parts)
    return min(made, png, key=len)


def read_png(png: bytes) -> Pixels:
    """Rows, columns, and red, green and blue of a picture without transparency."""
    chunks = list(_chunks(png))
    width, height, depth, kind, *_, interlaced = struct.unpack(HEADER, chunks[0][1])
    assert (depth, interlaced) == (8, 0), "not as browsers write it"
    assert kind in CHANNELS, "not as browsers write it"
    size = CHANNELS[kind]
    raw = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * size)
    above, rows = np.zeros((width, size), np.uint8), []
    for line in lines:
        above = _unfiltered(int(line[0]), line[1:].reshape(width, size), above)
        rows.append(above)
    return np.stack(rows)[:, :, :3]


def _unfiltered(kind: int, line: Pixels, above: Pixels) -> Pixels:
    """A row of pixels; sums are modulo 256."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    done, left, corner = np.empty_like(line), [0] * line.shape[1], [0] * line.shape[1]
    for column, (values, ups) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
        guess = _averages(left, ups) if kind == 3 else _paeth(left, ups, corner)
        left = [(value + guessed) & 255 for value, guessed in zip(values, guess, strict=True)]
        done[column], corner = left, ups
    return done


def _averages(left: list[int], ups: list[int]) -> list[int]:
    return [(a + b) // 2 for a, b in zip(left, ups, strict=True)]


def _paeth(left: list[int], ups: list[int], corner: list[int]) -> list[int]:
    """Of the three neighbours the one nearest to left + up - corner; of equals the first."""
    return [
        min((a, b, c), key=lambda each, p=a + b - c: abs(p - each)) for a, b, c in zip(left, ups, corner, strict=True)
    ]


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert png.startswith(SIGNATURE)
    position = len(SIGNATURE)
    while position < len(png):
        (size,) = struct.unpack_from(">I", png, position)
        yield png[position + 4 : position + 8], png[position + 8 : position + 8 + size]
        position += size + 12


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
