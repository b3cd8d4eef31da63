"""A real browser: no serious fault that axe-core finds, no error, nothing asked of anybody else, usable by keyboard.

Needs node, npm and a Chromium; the two packages come from npm as package-lock.json pins them, into the cache. What is
missing skips the test. `SEXTON_SHOTS=FOLDER` keeps the screenshots.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from sexton.settings import settings
from tests.ui.api_server import free_port
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import DYING, FIRST_MS, HOUR_MS, LIVING, PLAN_IDS, PREFIX, app_over

HERE = Path(__file__).parent / "browser"
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
WIDTHS, THEMES = (1360, 600), ("light", "dark")
CALM = FIRST_MS + HOUR_MS
"""A run without hostile names."""
PAGES = {
    "overview": f"/?as_of={CALM}",
    "groups": "/groups",
    "group": f"/group?id={LIVING}&as_of={CALM}",
    "losing-group": f"/group?id={DYING}",
    "offsets": "/offsets",
    "log": "/log",
    "runs": "/runs",
    "checks": "/checks",
    "plans": "/plans",
    "plan": f"/plans/{PLAN_IDS[2]}",
    "ledger": f"/ledger/{PLAN_IDS[1]}",
    "what-if": "/what-if",
    "chinese": "/?lang=zh-CN",
}


@pytest.fixture(scope="module")
def modules() -> Path:
    """A folder with the script and what it imports."""
    if CHROMIUM is None or shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node, npm or Chromium here")
    folder = settings().cache / "ui-browser"
    folder.mkdir(parents=True, exist_ok=True)
    for file in HERE.iterdir():
        shutil.copy(file, folder / file.name)
    if not (folder / "node_modules" / ".package-lock.json").exists():
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--silent"], cwd=folder, capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("npm's registry does not answer")
    return folder


@pytest.fixture(scope="module")
def base(world: WrittenLake) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app_over(world), port=(port := free_port()), log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}{PREFIX}"
    server.should_exit = True
    thread.join(30)


def look(modules: Path, folder: Path, pages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """What the browser tells of pages, by page and look."""
    asked = {"chromium": CHROMIUM, "out": str(folder), "pages": pages, "widths": WIDTHS, "themes": THEMES, **options}
    config = folder / "config.json"
    config.write_text(json.dumps(asked), encoding="utf-8")
    done = subprocess.run(
        ["node", "check.mjs", str(config)], cwd=modules, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_page_at_two_widths_light_and_dark(modules: Path, base: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("SEXTON_SHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    looks = look(modules, folder, [{"name": name, "url": base + path} for name, path in PAGES.items()])
    assert len(looks) == len(PAGES) * len(WIDTHS) * len(THEMES)
    for found in looks:
        where = f"{found['name']} {found['width']} {found['theme']}"
        assert found["status"] == 200, where
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        assert serious == [], f"{where}: {serious}"
        assert (found["errors"], found["foreign"], found["dialogs"]) == ([], [], []), where
        assert found["overflow"] <= 0, f"{where}: wider than the window by {found['overflow']}"


def test_by_keyboard(modules: Path, base: str, tmp_path: Path) -> None:
    """`/` goes to the search, typing finds without a button, Tab and Enter lead to the group; the slider has arrows."""
    pages = [
        {
            "name": "search",
            "url": f"{base}/groups?as_of={CALM}",
            "steps": [{"press": "/"}, {"type": "livin"}, {"wait": 800}, {"idle": True}],
        },
        {
            "name": "slider",
            "url": f"{base}/",
            "steps": [{"focus": "#as-of"}, {"press": "ArrowLeft"}, {"wait": 800}, {"idle": True}],
        },
        {"name": "skip", "url": f"{base}/", "steps": [{"press": "Tab"}, {"press": "Enter"}]},
    ]
    search, slider, skip = look(modules, tmp_path, pages, widths=[1360], themes=["light"])
    assert search["focus"] == "q"
    assert "q=livin" in search["url"]
    assert "type=" not in search["url"], "what is empty is no part of the address"
    assert f"as_of={FIRST_MS + 2 * HOUR_MS}" in slider["url"]
    assert skip["focus"] == "MAIN"


def test_airflows_language_is_followed(modules: Path, base: str, tmp_path: Path) -> None:
    pages = [{"name": "zh", "url": f"{base}/", "steps": [{"store": ["i18nextLng", "zh-CN"]}, {"wait": 800}]}]
    (found,) = look(modules, tmp_path, pages, widths=[1360], themes=["light"])
    assert found["language"] == "zh-CN"
