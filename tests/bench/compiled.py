"""The decorator of what is compiled here: that of the kernels, and stale when a source of this folder changes, too."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sexton.jit import compiled as kernels

_OWN = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def compiled(function: Callable[..., Any]) -> Any:
    """`sexton.jit.compiled.compiled` for functions of this folder, which are compiled into each other."""
    dispatcher = kernels.compiled(function)
    dispatcher._cache._cache_file._source_stamp += _OWN
    return dispatcher
