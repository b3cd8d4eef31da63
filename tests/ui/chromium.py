"""Headless Chromium for tests: the one that package-lock.json pins, as everything else that drives it.

It is fetched and unpacked once, below the cache, and needs no root: only node, npm and the libraries of any browser.
"""

import fcntl
import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

from sexton.settings import environment, settings

SCRIPTS = Path(__file__).parent / "browser"
DEBIAN = {"node": "nodejs", "npm": "npm"}
"""Programs, and the packages that bring them."""
TIMEOUT_S = 900


def missing() -> str:
    """What has to be installed first; empty when everything is there."""
    if lacking := [name for name in DEBIAN if shutil.which(name) is None]:
        packages = " ".join(DEBIAN[name] for name in lacking)
        return f"no {', no '.join(lacking)} here (Debian, Ubuntu: apt install {packages})"
    if not (program := _program(_folder())).exists():
        return "npm's registry does not give what tests/ui/browser/package-lock.json names"
    started = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if started.returncode:
        return f"Chromium does not start here (Debian, Ubuntu: apt install libnss3): {started.stderr.strip()}"
    return ""


def run_script(name: str, out: Path, **asked: Any) -> Any:
    """What a script of tests/ui/browser tells, given its configuration; it leaves its screenshots in `out`."""
    folder, config = _folder(), out / "config.json"
    config.write_text(json.dumps({"chromium": str(_program(folder)), "out": str(out), **asked}), encoding="utf-8")
    command = ["node", name, str(config)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _program(folder: Path) -> Path:
    return folder / "unpacked" / "chromium"


def _folder() -> Path:
    """Where the scripts lie beside what they import, for each lock a folder. Several tests may come for it at once."""
    lock_file = SCRIPTS / "package-lock.json"
    folder = settings().cache / f"ui-browser-{sha256(lock_file.read_bytes()).hexdigest()[:8]}"
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
    unpacking = folder / "unpacking"
    shutil.rmtree(unpacking, ignore_errors=True)
    unpacking.mkdir()
    into = environment(TMPDIR=str(unpacking))
    for command in (["npm", "ci", "--ignore-scripts", "--silent"], ["node", "unpack.mjs"]):
        if subprocess.run(command, cwd=folder, env=into, capture_output=True, check=False).returncode:
            return
    unpacking.rename(folder / "unpacked")
