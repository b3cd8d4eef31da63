"""No route answers without asking who is there; nobody else's page can make a browser post."""

from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Route

from sexton.ui.access import Access, same_origin
from sexton.ui.app import make_app
from sexton.ui.store import Store
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import PREFIX, allow, app_over, client_of, refuse

PLANNING = ("/plans", "/api/plans", "/ledger", "/api/ledger")
"""Routes that take what reading the DAG apply_tombstones takes, besides."""


def routes(lake: WrittenLake) -> list[Route]:
    return list(make_app(Store(lambda: lake.lake), Access(reading=allow, planning=forbid)).routes)


def forbid() -> None:
    """A dependency to be found again."""


def paths(lake: WrittenLake) -> Iterator[tuple[str, str]]:
    for route in routes(lake):
        assert isinstance(route, APIRoute)
        for method in sorted(route.methods):
            yield method, route.path.replace("{name}", "ui.js").replace("{plan_id}", "ab" * 32)


def test_every_route_asks(world: WrittenLake) -> None:
    for route in routes(world):
        assert isinstance(route, APIRoute), f"{route}: answers by itself"
        asked = [dependency.call for dependency in route.dependant.dependencies]
        assert allow in asked, route.path
        assert same_origin in asked, route.path
        assert (forbid in asked) == route.path.startswith(PLANNING), route.path


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_read_gets_nothing(world: WrittenLake, status: int) -> None:
    with client_of(app_over(world, reading=refuse(status))) as client:
        for method, path in paths(world):
            answer = client.request(method, PREFIX + path, params={"id": "living", "before": 1})
            assert answer.status_code == status, (method, path)
            assert answer.json() == {"detail": "no"}


def test_who_may_read_but_not_plan(world: WrittenLake) -> None:
    with client_of(app_over(world, planning=refuse(403))) as client:
        for method, path in paths(world):
            if method == "GET":
                answer = client.get(PREFIX + path, params={"id": "living", "before": 2**62})
                assert answer.status_code == (403 if path.startswith(PLANNING) else 200), path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://dashboard"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 405),
        ({"Origin": "http://dashboard"}, 405),
        ({"Authorization": "Bearer token"}, 405),
    ],
)
def test_only_our_own_page_posts(client: TestClient, headers: dict[str, str], status: int) -> None:
    """405: it got as far as a route, which takes no POST; a form's answer is a matter of test_what_if."""
    found = client.post(f"{PREFIX}/what-if" if has_forms(client) else f"{PREFIX}/groups", headers=headers)
    assert found.status_code == (422 if status == 405 and has_forms(client) else status)


def has_forms(client: TestClient) -> bool:
    return client.get(f"{PREFIX}/what-if").status_code == 200
