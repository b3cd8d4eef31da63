#!/usr/bin/env python3
"""Copy the pinned front-end libraries of the dashboard and of the Data Docs from npm into include/sexton.

Usage: scripts/vendor.py

`vendor.json` in each folder names each package, its version, npm's integrity of the archive, and the files taken from
it, with their SHA-256. Needs `npm` and its registry; what arrives is checked against the pin before a file is written.
To take another release, change version and integrity (`npm view PACKAGE@VERSION dist.integrity`) and run this.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "include" / "sexton"
FOLDERS = (PACKAGE / "ui" / "static" / "vendor", PACKAGE / "quality" / "vendor")


def main() -> int:
    for vendor in FOLDERS:
        manifest = vendor / "vendor.json"
        packages = json.loads(manifest.read_text(encoding="utf-8"))
        for package in packages:
            with tempfile.TemporaryDirectory() as folder:
                take(package, fetch(package, Path(folder)), vendor)
        manifest.write_text(json.dumps(packages, indent=2) + "\n", encoding="utf-8")
    return 0


def fetch(package: dict[str, Any], folder: Path) -> Path:
    """Download the package's archive, and exit unless it is the pinned one."""
    name = f"{package['name']}@{package['version']}"
    subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(folder), name], check=True, stdout=sys.stderr)
    (archive,) = folder.glob("*.tgz")
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package["integrity"]:
        sys.exit(f"{name}: expected {package['integrity']}, got {found}")
    return archive


def take(package: dict[str, Any], archive: Path, vendor: Path) -> None:
    """Write the files that vendor.json takes from the package, and note their hashes."""
    with tarfile.open(archive) as tar:
        for name, told in package["files"].items():
            file = tar.extractfile(told["from"])
            if file is None:
                sys.exit(f"{package['name']}: no {told['from']}")
            data = file.read()
            (vendor / name).write_bytes(data)
            told["sha256"] = hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
