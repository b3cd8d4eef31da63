"""The program `sexton`, also `python -m sexton`: the command line in a process that starts in two thirds of the time.

Where pandas and SciPy are installed, as beside Great Expectations, pyarrow and numba import them in case somebody has
an array of theirs. No command has: `pip install sexton` brings neither.
"""

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

UNUSED = frozenset({"pandas", "scipy"})
OBJECTS_BEFORE_COLLECTION = 200_000
"""Python's own 700 have it look at all imported modules again and again, for garbage that imports do not leave."""


class _NotImported(MetaPathFinder):
    """Finds that UNUSED is not installed, until Spark is imported: its DataFrames may want pandas."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  # a method of MetaPathFinder
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname in UNUSED and "pyspark" not in sys.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def start() -> int:
    """Run the command that the arguments of the process say, and return its exit code."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    sys.meta_path.insert(0, _NotImported())
    from sexton.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
