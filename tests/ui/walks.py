"""The pictures of docs/how-to, made again by the tests that walk there: `python -m tests.ui.walks`.

A walk (tests/ui/browser/walks.mjs) is the section "In the browser" of the page of its name, step by step.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sexton.local.compose_init import APPROVER, USER
from sexton.settings import PROJECT_ROOT, variable
from sexton_dev.system import System
from tests.ui import chromium

PAGES = PROJECT_ROOT / "docs" / "how-to"
PICTURES = PROJECT_ROOT / "docs" / "images" / "how-to"
SECTION = "## In the browser\n"
TESTS = ("test_walks.py", "test_incident.py", "test_keep_dag.py")
STEP = re.compile(r"^\d+\. (.*)$|^ +!\[.+\]\(\.\./images/how-to/(.+\.png)\)$", re.MULTILINE)
KEEP = "SEXTON_WALKS"
"""A folder in which a run of the tests leaves the pictures."""


def walk(system: System, out: Path, name: str, **asked: Any) -> Any:
    """What the script tells of a walk that went well to its end; it leaves its pictures in `out`."""
    users = {user: system.home.password(user) for user in (USER, APPROVER)}
    log = str(system.config.var / "log" / "airflow-scheduler.log")
    asked = {"walk": name, "url": system.home.url, "users": users, "schedulerLog": log, **asked}
    told = chromium.run_script("walks.mjs", out, **asked)
    assert (told["errors"], told["foreign"]) == ([], [])
    assert told["steps"] == steps_of(name)
    keep_pictures(out, name)
    return told


def steps_of(name: str) -> list[dict[str, Any]]:
    """The steps of a page in the words of its section, each with the name of its picture or None; none for no page."""
    page = PAGES / f"{name}.md"
    if not page.exists():
        return []
    section = page.read_text("utf-8").partition(SECTION)[2].partition("\n## ")[0]
    steps: list[dict[str, Any]] = []
    for text, picture in STEP.findall(section):
        if picture:
            steps[-1]["picture"] = picture
        else:
            steps.append({"text": text, "picture": None})
    return steps


def keep_pictures(out: Path, walk: str) -> None:
    """Where the tests are run for their pictures, put those of a walk where they belong."""
    if folder := variable(KEEP):
        for step in steps_of(walk):
            if name := step["picture"]:
                # 256 colours are enough for windows with text and lines, and a third of the bytes.
                small = Image.open(out / name).convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE)
                small.save(Path(folder, name), optimize=True)


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    os.environ[KEEP] = str(PICTURES)
    return int(pytest.main(["-q", *(str(PROJECT_ROOT / "tests" / "integration" / name) for name in TESTS)]))


if __name__ == "__main__":
    sys.exit(main())
