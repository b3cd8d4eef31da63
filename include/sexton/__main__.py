"""The program `sexton`, also `python -m sexton`: it makes the process start faster, then runs the command line.

pyarrow and numba import pandas, SciPy and cffi wherever these are installed, for instance with Great Expectations. No
command needs them, and `pip install sexton` installs none of them.
"""

import gc
import os
import sys
from importlib.abc import MetaPathFinder

UNUSED = frozenset({"cffi", "pandas", "scipy"})
OBJECTS_BEFORE_COLLECTION = 500_000
"""Imports leave no garbage, but with Python's default of 700 the collector scans all imported modules repeatedly."""


class _NotImported(MetaPathFinder):
    """Reports UNUSED as not installed until Spark is imported, which may need pandas for its DataFrames."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Leave every other module to the finders after this one."""
        if fullname in UNUSED and "pyspark" not in sys.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def start() -> int:
    """Run the command that the arguments of the process name, and return its exit code."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for numpy's linear algebra, which nothing here uses
    sys.meta_path.insert(0, _NotImported())
    from sexton.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
