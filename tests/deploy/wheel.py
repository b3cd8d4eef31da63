"""A second Python for executors: the project's own wheel over the locked packages, and nothing of the working tree.

An executor that can work here finds everything in what is installed: the wheel is complete, and nothing leans on the
driver's import path. The locked packages are those of this environment, whose editable install of the project stays
out of sight: a path that a .pth file names is searched, its own .pth files are not read.
"""

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "include")
BUILD_TIMEOUT_S = 600  # on a busy machine, where no kernels are compiled yet


def python_with_wheel(folder: Path, scratch: Path) -> Path:
    """The interpreter of a virtual environment in `folder` with today's wheel, which is built in `scratch`.

    What is the same as last time is left as it is, so that kernels compiled for it count.
    """
    wheel = build_wheel(scratch)
    if not (folder / "pyvenv.cfg").exists():
        venv.create(folder, symlinks=True, with_pip=False)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    _unpack(wheel, site)
    return folder / "bin" / "python"


def build_wheel(scratch: Path) -> Path:
    """The project's wheel, made of a copy: building leaves files beside the sources."""
    source, out = scratch / "source", scratch / "dist"
    source.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    uv = [str(Path(sys.executable).parent / "uv"), "build", "--wheel", "--no-build-isolation", "--offline", "--quiet"]
    command = [*uv, "--python", sys.executable, "--out-dir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("sexton-*.whl")
    return wheel


def _unpack(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    for path in [*site.glob("sexton/**/*"), *site.glob("sexton-*/**/*")]:
        if path.is_file() and path.suffix != ".pyc" and str(path.relative_to(site)) not in content:
            path.unlink()
    for name, data in content.items():
        path = site / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
