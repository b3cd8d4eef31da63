"""Headless Chromium for tests: the browser of this machine, driven by the two npm packages of package-lock.json."""

import fcntl
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from sexton.settings import settings

SCRIPTS = Path(__file__).parent / "browser"
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
DEBIAN = {"node": "nodejs"}
"""Programs that a package of another name brings."""
TIMEOUT_S = 900


def missing() -> str:
    """What has to be installed first; empty when everything is there."""
    programs = {"node": shutil.which("node"), "npm": shutil.which("npm"), "chromium": CHROMIUM}
    lacking = [name for name, found in programs.items() if found is None]
    if lacking:
        packages = " ".join(DEBIAN.get(name, name) for name in lacking)
        return f"no {', no '.join(lacking)} here (Debian, Ubuntu: apt install {packages})"
    if not (_folder() / "node_modules" / ".package-lock.json").exists():
        return "npm's registry does not give what tests/ui/browser/package-lock.json names"
    return ""


def run_script(name: str, out: Path, **asked: Any) -> Any:
    """What a script of tests/ui/browser tells, given its configuration; it leaves its screenshots in `out`."""
    config = out / "config.json"
    config.write_text(json.dumps({"chromium": CHROMIUM, "out": str(out), **asked}), encoding="utf-8")
    command = ["node", name, str(config)]
    done = subprocess.run(command, cwd=_folder(), capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _folder() -> Path:
    """Where the scripts lie beside what they import. Several tests may come for it at once."""
    folder = settings().cache / "ui-browser"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in SCRIPTS.iterdir():
            copy = folder / file.name
            if not copy.exists() or copy.read_bytes() != file.read_bytes():
                shutil.copy(file, copy)
        if not (folder / "node_modules" / ".package-lock.json").exists():
            install = ["npm", "ci", "--ignore-scripts", "--silent"]
            subprocess.run(install, cwd=folder, capture_output=True, check=False)
    return folder
