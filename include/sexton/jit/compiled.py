"""The decorators of compiled functions: in `log` and `kernels`, compiled into each other, and in other modules.

Compiled code is stored in two places: in numba's cache of this machine (NUMBA_CACHE_DIR), and in SHIPPED, which the
build of a wheel fills (`ship_kernels`). Stored code is valid only for the sources, the versions of numba and Python,
and the processor for which it was compiled. A wheel must run on machines other than the one that built it, so all code
is compiled for a processor that is older than any server in use (`_PORTABLE`), whatever NUMBA_CPU_NAME says. Only the
CRC would gain from a newer processor, and _PORTABLE has its instruction.
"""

import hashlib
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import njit
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

_PACKAGE = Path(__file__).parents[1]
SHARED = ("jit", "log", "kernels")
"""Packages whose functions and constants compiled functions may use, in addition to those of their own module."""
_SOURCES = [path for folder in SHARED for path in sorted((_PACKAGE / folder).rglob("*.py"))]
_SHARED_SOURCES = frozenset(_SOURCES)
_STAMP = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()

SHIPPED = Path(__file__).parent / "shipped"
_PORTABLE = {
    "x86_64": ("x86-64-v2", "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3"),  # every server since 2011
    "aarch64": ("generic", "crc lse neon"),  # ARMv8.1, every server since 2018
}
"""LLVM's name of the processor and its features, by machine architecture."""


def _choose_processor() -> None:
    """Compile for _PORTABLE if this machine can run it, else for the machine itself."""
    name, features = _PORTABLE.get(platform.machine(), ("", ""))
    here = llvm.get_host_cpu_features()
    if name and all(here.get(feature) for feature in features.split()):
        config.CPU_NAME, config.CPU_FEATURES = name, ",".join(f"+{feature}" for feature in features.split())


_choose_processor()


def compiled(function: Callable[..., Any]) -> Any:
    """`numba.njit` with a cache that any change of a compiled source makes stale.

    Numba checks only the file of the function itself. But these functions are compiled into each other and share the
    layout of their arrays: code with an old layout would write anywhere. So a function is stale if its own file or any
    file of the SHARED packages has changed.
    """
    return _cached(function, njit(nogil=True)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """`compiled` and inlined, for functions that run for every record: a call would have to pass every pointer of a
    state."""
    return _cached(function, njit(nogil=True, forceinline=True)(function))


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]  # numba is untyped
    """A function's cache on this machine, with the shipped cache as fallback."""

    def __init__(self, path: str, base: str, stamp: str, *, shipped: IndexDataCacheFile | None = None) -> None:
        super().__init__(path, base, stamp)
        self.shipped = shipped

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return self.shipped.load(key) if found is None and self.shipped is not None else found

    def data_names(self) -> list[str]:
        """The cache files of compiled code on this machine."""
        return [*self._load_index().values()]

    def _load_index(self) -> Any:
        """An index that names modules of another version of this package is stale, not an error."""
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


class _Cache(FunctionCache):  # type: ignore[misc]  # as above
    """A function's cache, which loads compiled code without the setup for a compilation.

    Before it loads code, numba's own cache fills the registries of all types that numba can compile. That takes longer
    than the kernels need for a small log, and a compilation fills them anyway.
    """

    _cache_file: Any

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        file, source = self._cache_file, Path(function.__code__.co_filename)
        base, stamp = file._index_name.removesuffix(".nbi"), _stamp_of(source)
        shipped = None
        if source.is_relative_to(_PACKAGE):
            shipped = _CacheFile(str(SHIPPED / source.parent.relative_to(_PACKAGE)), base, stamp)
        self._cache_file = _CacheFile(file._cache_path, base, stamp, shipped=shipped)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # the allocator of arrays, to which all code is linked
        return self._load_overload(sig, target_context)


def _cached(function: Callable[..., Any], dispatcher: Any) -> Any:
    dispatcher._cache = _Cache(function)
    return dispatcher


@cache
def _stamp_of(source: Path) -> str:
    """The stamp of all functions of a file. Searching the whole package for such files would slow every import."""
    if source in _SHARED_SOURCES:
        return _STAMP
    return hashlib.sha256(_STAMP.encode() + source.read_bytes()).hexdigest()
