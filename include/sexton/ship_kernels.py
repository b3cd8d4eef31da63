"""Puts compiled kernels next to their sources, for a wheel: `python -m sexton.ship_kernels`.

Only functions that Python calls are shipped: their machine code contains that of all compiled functions that they call.
The program recognizes them because numba loaded them from its cache. So with an empty cache the program has to run
twice.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexton.jit.compiled import SHIPPED
from sexton.kernels.warm_up import warm_up as warm_up_kernels
from sexton.replicas.warm_up import warm_up as warm_up_replicas


def main() -> None:
    """Ship the kernels that this Python version has compiled, and remove those that it shipped for other sources."""
    warm_up_kernels()
    warm_up_replicas()
    kept = {path for file in _loaded() for path in _ship(file)}
    version = "py{}{}".format(*sys.version_info)
    for path in SHIPPED.rglob(f"*.{version}*.nb[ci]"):
        if path not in kept:
            path.unlink()


def _loaded() -> Iterator[Any]:
    """Yield the cache of each function that numba loaded from a cache."""
    modules = [module for name, module in sys.modules.items() if name.startswith("sexton.")]
    for function in {id(one): one for module in modules for one in vars(module).values()}.values():
        if hasattr(function, "py_func") and function.stats.cache_hits:
            yield function._cache._cache_file


def _ship(file: Any) -> Iterator[Path]:
    """Copy an index and the code files that it names, unless they were loaded from where they are shipped.

    Yield the shipped paths.
    """
    for name in [file._index_name, *file.data_names()] if file.data_names() else []:
        path = Path(file.shipped._cache_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(file._cache_path, name), path)
    for name in [file._index_name, *file.shipped.data_names()]:
        yield Path(file.shipped._cache_path, name)


if __name__ == "__main__":
    main()
