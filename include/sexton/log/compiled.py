"""The decorator of everything that is compiled in this room."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_SOURCES = [Path(__file__).with_name(name) for name in ("crc.py", "framing.py", "words.py")]
_STAMP = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` with a cache that is stale as soon as any compiled source of this room changes.

    Numba looks at the file of the function alone, but these functions are compiled into each other.
    """
    dispatcher = numba.njit(cache=True, nogil=True)(function)
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher
