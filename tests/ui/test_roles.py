"""Airflow's own simple auth manager and its roles: each route, as the app lists them, answers each as Airflow's do.

Where Airflow's answer could be another one tomorrow, it is asked in the same test. What an auth manager that denies by
DAG makes of it is in test_airflow.py.
"""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from sexton.ui.access import Access
from sexton.ui.app import make_app
from sexton.ui.published_tables import PublishedTables
from tests.ui.api_server import ApiServer, api_server
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import LIVING, PLAIN, PLAN_IDS, PREFIX, allow

ROLES = ("viewer", "user", "op", "admin")
OWN = "/api/v2/dags/offset_retention"
"""Airflow's own route about what ours show."""
HUGE = ("-1", "9" * 30, "NaN", "<script>")
"""What no page, size or instant is."""


@pytest.fixture(scope="module")
def server(world: WrittenLake, tmp_path_factory: pytest.TempPathFactory, needs_airflow: None) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("roles") / "home", world.lake, {role: role for role in ROLES}) as found:
        yield found


@pytest.fixture(scope="module")
def routes(world: WrittenLake) -> list[APIRoute]:
    return [
        route
        for route in make_app(PublishedTables(lambda: world.lake), Access(may_read=allow, clusters=PLAIN)).routes
        if isinstance(route, APIRoute)
    ]


def path_of(route: APIRoute, plan_id: str = PLAN_IDS[1]) -> str:
    return PREFIX + route.path.replace("{name}", "ui.js").replace("{plan_id}", plan_id)


def numbers_of(dependant: Dependant) -> Iterator[str]:
    """The parameters of a route, also those of what it depends on, that are whole numbers."""
    for field in dependant.query_params:
        if "int" in str(field.field_info.annotation):
            yield field.alias
    for each in dependant.dependencies:
        yield from numbers_of(each)


@pytest.mark.parametrize("role", ["nobody", "forged", *ROLES])
def test_every_route_answers_each_role_as_airflow_does(server: ApiServer, routes: list[APIRoute], role: str) -> None:
    """What Airflow refuses with 401 or 403 about the DAG, every route refuses alike; to whom it answers, all answer."""
    token = {"nobody": None, "forged": server.tokens["viewer"][:-8] + "AAAAAAAA"}.get(role, server.tokens.get(role))
    assert routes
    for by in ("token", "cookie"):
        own = server.status(OWN, **{by: token})
        for route in routes:
            for method in sorted(route.methods):
                asked = f"{path_of(route)}?id={LIVING}&before=9000000000000"
                found = server.status(asked, method=method, **{by: token})
                if own in (401, 403):
                    assert found == own, (route.path, by)
                else:
                    assert found == (422 if method == "POST" else 200), (route.path, by)


def test_a_form_of_another_page_is_refused(server: ApiServer, routes: list[APIRoute]) -> None:
    """With the cookie that every browser sends along, by whoever is logged in."""
    posted = [route for route in routes if "POST" in route.methods]
    assert posted
    for route in posted:
        for site in ("cross-site", "same-site", "none"):
            cookie = server.tokens["admin"]
            assert server.status(path_of(route), method="POST", cookie=cookie, site=site) == 403, (route.path, site)


def test_numbers_that_are_none(server: ApiServer, routes: list[APIRoute]) -> None:
    """422, as of Airflow: never an error of the server, and never all rows at once."""
    token = server.tokens["viewer"]
    assert server.status("/api/v2/dags?limit=x", token=token) == 422
    asked = 0
    for route in routes:
        if "GET" in route.methods:
            for name in dict.fromkeys(numbers_of(route.dependant)):
                for value in HUGE:
                    found = server.status(f"{path_of(route)}?id={LIVING}&{name}={quote(value)}", token=token)
                    assert found == 422, (route.path, name, value)
                    asked += 1
    assert asked > 50


def test_ids_of_something_else(server: ApiServer, routes: list[APIRoute]) -> None:
    """404, as of Airflow."""
    token = server.tokens["viewer"]
    assert server.status("/api/v2/dags/nosuch", token=token) == 404
    for route in routes:
        if "GET" in route.methods and "{" in route.path:
            for plan_id in ("0" * 64, "%2e%2e%2f", "x" * 5_000, "<script>", "%00"):
                path = PREFIX + route.path.replace("{name}", plan_id).replace("{plan_id}", plan_id)
                assert server.status(path, token=token) in (404, 422), (route.path, plan_id)
    for path in ("/group", "/api/group", "/api/group/series", "/api/group/story"):
        for name in ("nosuch", "\x00", "x" * 4_000):
            assert server.status(f"{PREFIX}{path}?id={quote(name)}&before=1", token=token) in (200, 404, 422), path
    assert server.status(f"{PREFIX}/api/overview?cluster=nosuch", token=token) == 404
