"""Names that mean harm stay text on every page, audits among them, and in the forms where they are typed.

Links and JSON with such names: tests/faults/test_hostile_names.py.
"""

import re

import pytest
from fastapi.testclient import TestClient

from tests.html import Html
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.worlds import PLAN_IDS, PREFIX

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
def test_what_is_typed_comes_back_as_text(client: TestClient, name: str) -> None:
    if len(name) > 5_000:
        return
    answer = client.get(f"{PREFIX}/offsets", params={"group": name, "topic": name})
    assert answer.status_code == 200
    page = Html(answer.text)
    assert page.tags <= TAGS
    assert not [attribute for attribute in page.attributes if attribute.startswith("on")]
