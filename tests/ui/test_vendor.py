"""What is vendored is what was pinned; what is served is all there."""

import hashlib
import json
from pathlib import Path

import pytest

from sexton.ui.rendering import assets

SEXTON = Path(__file__).resolve().parents[2] / "include" / "sexton"
VENDORED = (SEXTON / "ui" / "static" / "vendor", SEXTON / "quality" / "vendor")


@pytest.mark.parametrize("folder", VENDORED, ids=["dashboard", "Data Docs"])
def test_vendored_files_are_those_of_the_pin(folder: Path) -> None:
    packages = json.loads((folder / "vendor.json").read_text("utf-8"))
    for package in packages:
        for name, told in package["files"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == told["sha256"]
        assert any(name.endswith("LICENSE") for name in package["files"])
    named = {name for package in packages for name in package["files"]}
    assert {path.name for path in folder.iterdir()} == named | {"vendor.json"}


def test_scripts_ask_nobody_else() -> None:
    for name in ("ui.js", "ui.css", "page.css"):
        told = assets()[name][0].decode("utf-8")
        assert "http:" not in told
        assert "https:" not in told
        assert "@import" not in told
