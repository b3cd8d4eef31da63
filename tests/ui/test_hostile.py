"""Names that mean harm: on every page they stay text, and links made of them lead back to what they name."""

import json
import random
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from sexton.report.names import visible
from tests.html import Html
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.worlds import PLAN_IDS, PREFIX, app_over, client_of, write_world

PAGES = (
    "/", "/groups?size=200", "/offsets?size=200", "/log", "/replicas", "/transactions", "/checks", "/runs",
    "/plans", f"/plans/{PLAN_IDS[3]}", f"/ledger/{PLAN_IDS[3]}", "/what-if",
)  # fmt: skip
TAGS = set(
    """
    html head meta title link script body a div nav form label span input select option button output section header
    h1 h2 h3 p b i small code bdi time ul li ol dl dt dd details summary table thead tbody tr th td svg rect line text
    figure figcaption main noscript textarea fieldset legend progress
    """.split()  # noqa: SIM905  # as a list it would be a line each
)
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


def told(client: TestClient, path: str, **query: str) -> Html:
    answer = client.get(PREFIX + path, params=query or None)
    assert answer.status_code == 200, answer.text[:300]
    assert not UNSEEN.search(answer.text)
    page = Html(answer.text)
    assert page.tags <= TAGS
    assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert all(link.startswith((f"{PREFIX}/", "#", "/dags/apply_tombstones")) for link in page.links)
    return page


@pytest.mark.parametrize("path", PAGES)
def test_lists_show_them_as_text(client: TestClient, path: str) -> None:
    told(client, path)


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_a_group_by_that_name_has_its_page(client: TestClient, name: str) -> None:
    page = told(client, "/group", id=name)
    assert visible(name) in page.titles


def test_links_lead_to_what_they_name(client: TestClient) -> None:
    """A list's links, taken as they are, answer with the very group: no name is lost on the way."""
    links = [link for link in told(client, "/groups?size=200").links if link.startswith(f"{PREFIX}/group?")]
    assert {parse_qs(urlsplit(link).query, keep_blank_values=True)["id"][0] for link in links} >= set(HOSTILE_NAMES)
    for link in links:
        assert client.get(link).status_code == 200
        asked = urlsplit(link).query
        found = client.get(f"{PREFIX}/api/group?{asked}").json()["group"]["group_id"]
        assert found == parse_qs(asked, keep_blank_values=True)["id"][0]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_what_is_typed_comes_back_as_text(client: TestClient, name: str) -> None:
    if len(name) > 5_000:
        return
    answer = client.get(f"{PREFIX}/offsets", params={"group": name, "topic": name})
    assert answer.status_code == 200
    page = Html(answer.text)
    assert page.tags <= TAGS
    assert not [attribute for attribute in page.attributes if attribute.startswith("on")]


def test_json_tells_names_as_they_are(client: TestClient) -> None:
    answer = client.get(f"{PREFIX}/api/groups", params={"size": 200})
    assert answer.headers["content-type"] == "application/json"
    assert {row["group_id"] for row in json.loads(answer.content)["rows"]} >= set(HOSTILE_NAMES)


MARKUP = ("<script>", "</textarea>", '"', "'", "&#39;", "<!--", "]]>", "javascript:", " onload=", "%3C")
UNSEEN_ONES = ("\r\n", "\x00", "\u202e", "\u200b", "\u2028", "\x1b[31m", "\ufeff", " ")
OTHERS = ("{{7*7}}", "${x}", "=1+1", "../", "é", "组", "😀", "\\", "`", ";--", "a", "B")
PIECES = (*MARKUP, *UNSEEN_ONES, *OTHERS)
MANY = 500


def test_five_hundred_more(tmp_path: Path) -> None:
    """Names put together of such pieces by chance, in every place where a name can be."""
    chance = random.Random(20_261_121)
    names = tuple({"".join(chance.choices(PIECES, k=chance.randint(1, 8))) for _ in range(2 * MANY)})[:MANY]
    assert len(names) == MANY
    seen: set[str] = set()
    with client_of(app_over(write_world(tmp_path, names))) as client:
        for path in (*PAGES, *(f"/groups?size=200&page={page}" for page in (2, 3))):
            found = told(client, path)
            seen |= {parse_qs(urlsplit(link).query, keep_blank_values=True).get("id", [""])[0] for link in found.links}
        for name in names[::25]:
            assert visible(name) in told(client, "/group", id=name).titles
    assert set(names) <= seen
