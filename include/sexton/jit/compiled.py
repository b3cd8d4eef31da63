"""The decorators of all compiled code, in `log` and `kernels`."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile

_PACKAGE = Path(__file__).parents[1]
_SOURCES = [path for folder in ("jit", "log", "kernels") for path in sorted((_PACKAGE / folder).rglob("*.py"))]
_STAMP = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` with a cache that any change of a compiled source makes stale.

    Numba checks only the file of the function itself. But these functions are compiled into each other and share the
    layout of their arrays: code with an old layout would write anywhere.
    """
    return _stamped(njit(cache=True, nogil=True)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, for functions that run for every record: a call would pass each pointer of a state again."""
    return _stamped(njit(cache=True, nogil=True, forceinline=True)(function))


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]  # numba is untyped
    """An index that names modules of another version of this package is stale, not an error."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


def _stamped(dispatcher: Any) -> Any:
    file = dispatcher._cache._cache_file
    dispatcher._cache._cache_file = _CacheFile(file._cache_path, file._index_name.removesuffix(".nbi"), _STAMP)
    return dispatcher
