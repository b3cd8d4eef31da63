"""What pyproject.toml cannot say: a wheel brings its kernels compiled, so that no first command waits for them.

They count for the Python and the kind of machine that build the wheel, and for the numba that is installed then;
elsewhere the first command compiles, as in an editable installation. So the wheel itself stays one for all platforms.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithKernels(build_py):
    """Builds the package, then compiles its kernels beside their sources."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            ship_kernels(Path(self.build_lib).resolve())


def ship_kernels(root: Path) -> None:
    """Twice, as `sexton.ship_kernels` explains; without numba and the like the wheel is built without kernels."""
    command = [sys.executable, "-m", "sexton.ship_kernels"]
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "PYTHONPATH": str(root), "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": "1"}
        for _ in range(2):
            done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.stderr.write(f"warning: the wheel has no compiled kernels: {done.stderr}\n")
                return


setup(cmdclass={"build_py": BuildWithKernels})
