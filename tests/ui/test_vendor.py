"""What is vendored is what was pinned; what is served is all there."""

import hashlib
import json
from pathlib import Path

import pytest

from sexton.ui.rendering import assets

STATIC = Path(__file__).resolve().parents[2] / "include" / "sexton" / "ui" / "static"
PACKAGES = json.loads((STATIC / "vendor" / "vendor.json").read_text("utf-8"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package["name"])
def test_vendored_files_are_those_of_the_pin(package: dict[str, dict[str, dict[str, str]]]) -> None:
    for name, told in package["files"].items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == told["sha256"]
    assert any(name.endswith("LICENSE") for name in package["files"])


def test_nothing_else_is_vendored() -> None:
    named = {name for package in PACKAGES for name in package["files"]}
    assert {path.name for path in (STATIC / "vendor").iterdir()} == named | {"vendor.json"}


def test_scripts_ask_nobody_else() -> None:
    for name in ("ui.js", "ui.css", "page.css"):
        told = assets()[name][0].decode("utf-8")
        assert "http:" not in told
        assert "https:" not in told
        assert "@import" not in told
