"""The decorators of all compiled code: `log` and `kernels`, compiled into each other, and modules elsewhere."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile

_PACKAGE = Path(__file__).parents[1]
SHARED = ("jit", "log", "kernels")
"""Packages that compiled functions may take functions and constants from, besides their own module."""
_SOURCES = [path for folder in SHARED for path in sorted((_PACKAGE / folder).rglob("*.py"))]
_SHARED_SOURCES = frozenset(_SOURCES)
_STAMP = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` with a cache that any change of a compiled source makes stale.

    Numba checks only the file of the function itself. But these functions are compiled into each other and share the
    layout of their arrays: code with an old layout would write anywhere. So a function is stale if its own file or any
    file of the SHARED packages has changed.
    """
    return _stamped(function, njit(cache=True, nogil=True)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, for functions that run for every record: a call would pass each pointer of a state again."""
    return _stamped(function, njit(cache=True, nogil=True, forceinline=True)(function))


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]  # numba is untyped
    """An index that names modules of another version of this package is stale, not an error."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


def _stamped(function: Callable[..., Any], dispatcher: Any) -> Any:
    file = dispatcher._cache._cache_file
    stamp = _stamp_of(Path(function.__code__.co_filename))
    dispatcher._cache._cache_file = _CacheFile(file._cache_path, file._index_name.removesuffix(".nbi"), stamp)
    return dispatcher


@cache
def _stamp_of(source: Path) -> str:
    """Of all functions of a file. Looking for such files in the whole package would slow every import down."""
    if source in _SHARED_SOURCES:
        return _STAMP
    return hashlib.sha256(_STAMP.encode() + source.read_bytes()).hexdigest()
