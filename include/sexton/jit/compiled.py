"""The decorator of everything that is compiled here."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from sexton.log import crc, framing, words

_SOURCES = [
    *sorted(Path(__file__).parent.glob("*.py")),
    *(Path(str(module.__file__)) for module in (crc, framing, words)),
]
_STAMP = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` with a cache that is stale as soon as any source of the kernels changes.

    Numba looks at the file of the function alone. But all of these functions are compiled into each other, and share
    the layout of their arrays: code with an old layout would write anywhere.
    """
    return _stamped(njit(cache=True, nogil=True)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, for what every record passes through: a call would hand over each pointer of a state anew."""
    return _stamped(njit(cache=True, nogil=True, forceinline=True)(function))


def _stamped(dispatcher: Any) -> Any:
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher
