"""Pictures made small show what they showed."""

import struct
import zlib

import numpy as np
import pytest

from tests.ui.png import HEADER, SIGNATURE, Pixels, _chunk, made_small, read_png
from tests.ui.walks import PAGES, PICTURES, steps_of

MAX_BYTES = 60_000


def written(pixels: Pixels, filters: list[int]) -> bytes:
    """A PNG whose rows have these filters, each byte less what its filter guesses."""
    height, width, size = pixels.shape
    padded = np.pad(pixels.astype(int), ((1, 0), (1, 0), (0, 0)))
    here, left, up, corner = padded[1:, 1:], padded[1:, :-1], padded[:-1, 1:], padded[:-1, :-1]
    far = np.abs(np.stack([up - corner, left - corner, left + up - 2 * corner]))
    paeth = np.choose(np.argmin(far, axis=0), [left, up, corner])
    guesses = [np.zeros_like(here), left, up, (left + up) // 2, paeth]
    rows = [
        bytes([kind]) + ((here - guesses[kind])[row] % 256).astype(np.uint8).tobytes()
        for row, kind in enumerate(filters)
    ]
    header = struct.pack(HEADER, width, height, 8, {3: 2, 4: 6}[size], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 0)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, part) for kind, part in parts)


@pytest.mark.parametrize("channels", [3, 4])
def test_every_filter_is_undone(channels: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (10, 23, channels), np.uint8)
    assert np.array_equal(read_png(written(pixels, [0, 1, 2, 3, 4, 4, 3, 2, 1, 0])), pixels[:, :, :3])


def palette_of(png: bytes) -> tuple[Pixels, Pixels]:
    """The palette and the numbers of a picture that was made small."""
    width, height = struct.unpack_from(">II", png, 16)
    colours = png[png.index(b"PLTE") + 4 : png.index(b"IDAT") - 8]
    numbers = np.frombuffer(zlib.decompress(png[png.index(b"IDAT") + 4 :]), np.uint8).reshape(height, width + 1)
    return np.frombuffer(colours, np.uint8).reshape(-1, 3), numbers[:, 1:]


def test_few_colours_stay_and_rare_ones_move_a_little() -> None:
    few = np.repeat(np.random.default_rng(2).integers(0, 256, (20, 1, 3), np.uint8), 200, axis=1)
    palette, numbers = palette_of(made_small(written(few, [0] * 20)))
    assert np.array_equal(palette[numbers], few)
    greys = np.tile(np.arange(200, dtype=np.uint8).reshape(1, 200, 1), (20, 1, 3))
    rare = greys[:1] + np.array([0, 0, 1], np.uint8)
    palette, numbers = palette_of(made_small(written(np.vstack([greys, rare]), [4] * 21)))
    assert len(palette) == 256
    assert np.array_equal(palette[numbers[:20]], greys)
    assert np.abs(palette[numbers[20:]].astype(int) - rare).max() == 1


def test_pictures_of_the_pages_are_small() -> None:
    """Those that the pages show, and no others."""
    shown = [step["picture"] for page in PAGES.glob("*.md") for step in steps_of(page.stem) if step["picture"]]
    assert sorted(shown) == sorted(file.name for file in PICTURES.iterdir())
    assert {name: size for name in shown if (size := (PICTURES / name).stat().st_size) > MAX_BYTES} == {}
