"""A real browser: no serious fault that axe-core finds, no error, nothing asked of anybody else, usable by keyboard.

Chromium and what drives it come from npm as package-lock.json pins them, into the cache. `SEXTON_SHOTS=FOLDER` keeps
the screenshots.
"""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.exceptions import RequestValidationError
from starlette.staticfiles import StaticFiles

from sexton.incident.document import steps_of
from sexton.lake.database import UnreadableFiles
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.report.incident_page import render_incident
from sexton.report.plan_page import render_plan
from sexton.report.run_page import render_page
from sexton.summary.summarize import summarize
from sexton.ui.group_queries import GroupQuery, find_groups
from sexton.ui.paging import Page
from sexton.ui.what_if_process import BadQuestion
from sexton_dev.ports import free_port
from tests.incident.test_masking import incident
from tests.report.run_folder import HOSTILE_NAMES, due, group, kept, offsets_of, write_run_folder
from tests.report.test_plan_page import content
from tests.ui import chromium
from tests.ui.lakes import WrittenLake
from tests.ui.test_what_if import ANSWER
from tests.ui.worlds import DYING, FIRST_MS, HOUR_MS, LIVING, PLAN_IDS, PREFIX, app_over

SHOTS = "SEXTON_SHOTS"
LOOKS = ((1280, "light"), (1280, "dark"), (390, "light"))
"""A laptop's width and a phone's."""
CALM = FIRST_MS + HOUR_MS
"""A run without hostile names."""
PAGES = {
    "overview": f"/?as_of={CALM}", "groups": "/groups", "group": f"/group?id={LIVING}&as_of={CALM}",
    "losing-group": f"/group?id={DYING}", "offsets": "/offsets", "lost": "/lost", "log": "/log",
    "replicas": "/replicas", "transactions": "/transactions", "runs": "/runs", "checks": "/checks", "plans": "/plans",
    "plan": f"/plans/{PLAN_IDS[2]}", "ledger": f"/ledger/{PLAN_IDS[1]}", "what-if": "/what-if",
    "chinese": "/?lang=zh-CN",
}  # fmt: skip
FILES = "/files"
"""Where the pages that are files are served from: report.html of a run and plan.html of a plan."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages that need no server, with something in every part of them, once with tame names and once with hostile."""
    folder = tmp_path_factory.mktemp("files")
    for kind, names in {"": ("orders", "billing", "web-shop"), "hostile-": HOSTILE_NAMES[:12]}.items():
        verdicts = [due(name, number, topic="events") for name in names for number in range(3)]
        verdicts += [kept(name, 7, "not_due", (1 + 9 * at) * HOUR_MS) for at, name in enumerate(names)]
        tables = {
            "groups": [group(name, 4) for name in names],
            "offset_verdicts": verdicts,
            "committed_offsets": offsets_of(verdicts),
            "tombstones": [{"cause": "broker_retention", "record_type": 1} for _ in verdicts[:-3]],
            "load_profile": [{"log_partition": 0, "records": 900}],
        }
        (folder / f"{kind}report.html").write_text(
            render_page(summarize(write_run_folder(folder / f"{kind}run", tables))), encoding="utf-8"
        )
        plan = content(dict.fromkeys(names, 3), deleted=names[:1], topic=names[0], warnings=[f"{names[0]} is held"])
        (folder / f"{kind}plan-page.html").write_bytes(render_plan(plan))
        told = replace(incident(), group_id=names[0])
        told = replace(told, steps=steps_of(told, before=f"sexton restore --group {names[-1]}"))
        page = render_incident(told, json_text="{}", json_name="incident.json")
        (folder / f"{kind}incident-page.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def base(world: WrittenLake, files: Path, needs_browser: None) -> Iterator[str]:
    app = app_over(world)
    app.mount(FILES, StaticFiles(directory=files))
    server = uvicorn.Server(uvicorn.Config(app, port=(port := free_port()), log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}{PREFIX}"
    server.should_exit = True
    thread.join(30)


def look(folder: Path, pages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """What the browser tells of pages, by page and admin snapshot."""
    asked = {"pages": pages, "looks": LOOKS, "shots": SHOTS in os.environ, **options}
    found: list[dict[str, Any]] = chromium.run_script("check.mjs", folder, **asked)
    return found


def test_every_page_at_two_widths_light_and_dark(base: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get(SHOTS, tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    pages = [{"name": name, "url": base + path} for name, path in PAGES.items()]
    pages += [
        {"name": name, "url": f"{base.removesuffix(PREFIX)}{FILES}/{name}.html"}
        for name in (
            "report",
            "plan-page",
            "incident-page",
            "hostile-report",
            "hostile-plan-page",
            "hostile-incident-page",
        )
    ]
    looks = look(folder, pages)
    assert len(looks) == len(pages) * len(LOOKS)
    for found in looks:
        where = f"{found['name']} {found['width']} {found['theme']}"
        assert found["status"] == 200, where
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        assert serious == [], f"{where}: {serious}"
        assert (found["errors"], found["foreign"], found["dialogs"]) == ([], [], []), where
        assert found["overflow"] <= 0, f"{where}: wider than the window by {found['overflow']}"


def test_by_keyboard(base: str, tmp_path: Path) -> None:
    """`/` goes to the search, typing finds without a button, Tab and Enter lead to the group; the slider has arrows."""
    pages = [
        {
            "name": "search",
            "url": f"{base}/groups?as_of={CALM}",
            "steps": [{"press": "/"}, {"type": "livin"}, {"leads": "q=livin"}],
        },
        {
            "name": "slider",
            "url": f"{base}/",
            "steps": [{"focus": "#as-of"}, {"press": "ArrowLeft"}, {"leads": f"as_of={FIRST_MS + 2 * HOUR_MS}"}],
        },
        {"name": "skip", "url": f"{base}/", "steps": [{"press": "Tab"}, {"press": "Enter"}]},
    ]
    search, slider, skip = look(tmp_path, pages, looks=[(1360, "light")])
    assert search["focus"] == "q"
    assert "q=livin" in search["url"]
    assert "type=" not in search["url"], "what is empty is no part of the address"
    assert f"as_of={FIRST_MS + 2 * HOUR_MS}" in slider["url"]
    assert skip["focus"] == "MAIN"


def test_what_fails_is_shown_and_what_was_there_is_not(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that is wrong after one that was answered; a search that fails, and the one after it."""

    def ask(*, policy: str, **_: Any) -> dict[str, Any]:
        if policy:
            raise BadQuestion([f"policy:1: {policy} is none"])
        return ANSWER

    def find(tables: PublishedTables, run: PublishedRun, asked: GroupQuery) -> Page:
        if asked.text == "livi":
            raise UnreadableFiles("the tables cannot be read: <b>")
        if asked.text == "json":
            raise RequestValidationError([{"type": "x", "loc": [], "msg": "", "input": "<p data-failure>hurt</p>"}])
        return find_groups(tables, run, asked)

    monkeypatch.setattr("sexton.ui.what_if_routes.ask", ask)
    monkeypatch.setattr("sexton.ui.pages.find_groups", find)
    answered = [
        {"focus": "[name=retention_minutes]"}, {"type": "30"}, {"press": "Enter"},
        {"shows": ["#answer", "alert(1)"]},
    ]  # fmt: skip
    wrong = [{"focus": "[name=policy]"}, {"type": "<i>x"}, {"focus": "form.stack button"}, {"press": "Enter"}]
    refused = [*wrong, {"shows": ["#answer", "is none"]}]
    searching = [{"focus": "[name=q]"}]
    failing = [*searching, {"type": "livi"}, {"shows": ["#results", "cannot be read"]}]
    again = [*failing, {"type": "n"}, {"shows": ["#results", LIVING]}]
    rest = [{"wait": 1_000}, {"idle": True}]
    pages = [
        {"name": "answered", "url": f"{base}/what-if", "steps": [*answered, *rest], "tell": "#answer"},
        {"name": "wrong", "url": f"{base}/what-if", "steps": [*answered, *refused, *rest], "tell": "#answer"},
        {"name": "failing", "url": f"{base}/groups", "steps": [*failing, *rest], "tell": "#results"},
        {"name": "again", "url": f"{base}/groups", "steps": [*again, *rest], "tell": "#results"},
        {"name": "json", "url": f"{base}/groups", "steps": [*searching, {"type": "json"}, *rest], "tell": "#results"},
    ]
    looks = {found["name"]: found for found in look(tmp_path, pages, looks=[(1360, "light")])}
    assert "alert(1)" in looks["answered"]["text"]
    assert "policy:1: <i>x is none" in looks["wrong"]["text"]
    assert "alert(1)" not in looks["wrong"]["text"]
    assert "the tables cannot be read: <b>" in looks["failing"]["text"]
    assert LIVING not in looks["failing"]["text"]
    assert "What if" not in looks["failing"]["text"], "of the page that tells of it only the part that does"
    assert LIVING in looks["again"]["text"]
    assert looks["json"]["text"] == "", "FastAPI's own 422 is JSON, and not to be read as HTML"
    for found in looks.values():
        assert [each for each in found["errors"] if "Failed to load resource" not in each] == [], found["name"]
        assert [each for each in found["violations"] if each["impact"] in ("serious", "critical")] == [], found["name"]


def test_airflows_language_is_followed(base: str, tmp_path: Path) -> None:
    steps = [{"store": ["i18nextLng", "zh-CN"]}, {"shows": ["html[lang=zh-CN]", ""]}]
    page = {"name": "zh", "url": f"{base}/", "steps": steps}
    (found,) = look(tmp_path, [page], looks=[(1360, "light")])
    assert found["language"] == "zh-CN"
