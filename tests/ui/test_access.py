"""No route answers without asking who is there; nobody else's page can make a browser post."""

from collections.abc import Iterator

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Route

from sexton.airflow.runs import run_folder
from sexton.archive.folder import Folder
from sexton.lake.published_tables import PublishedTables
from sexton.settings import settings
from sexton.ui.access import Access, same_origin
from sexton.ui.app import make_app
from sexton.ui.parameters import may_plan
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import LIVING, PLAIN, PLAN_IDS, PREFIX, allow, app_over, client_of, only, refuse

PLANNING = ("/plans", "/api/plans", "/ledger", "/api/ledger")
"""Routes that take what reading the DAG apply_tombstones takes, besides."""


def routes(lake: WrittenLake) -> list[Route]:
    return list(make_app(PublishedTables(lambda: lake.lake), Access(may_read=allow, clusters=PLAIN)).routes)


def paths(lake: WrittenLake) -> Iterator[tuple[str, str]]:
    for route in routes(lake):
        assert isinstance(route, APIRoute)
        for method in sorted(route.methods):
            path = route.path.replace("{name}", "ui.js").replace("{plan_id}", PLAN_IDS[1])
            path = path.replace("{name:path}", "validations/groups/1.html")
            yield method, path.replace("{dag_id}", "offset_retention").replace("{run_id}", "run")


@pytest.fixture(autouse=True, scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the routes of a run's files serve."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXTON_RUNS", str(tmp_path_factory.mktemp("runs")))
        settings.cache_clear()
        for name in ("report.html", "dq/validations/groups/1.html"):
            Folder(run_folder("offset_retention", "run")).write(b"", *name.split("/"))
        yield
    settings.cache_clear()


def test_every_route_asks(world: WrittenLake) -> None:
    for route in routes(world):
        assert isinstance(route, APIRoute), f"{route}: answers by itself"
        first, second, *others = route.dependant.dependencies
        assert [each.call for each in first.dependencies] == [allow], route.path
        assert second.call is same_origin, route.path
        assert (may_plan in [each.call for each in others]) == route.path.startswith(PLANNING), route.path


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_read_gets_nothing(world: WrittenLake, status: int) -> None:
    with client_of(app_over(world, refuse(status))) as client:
        for method, path in paths(world):
            answer = client.request(method, PREFIX + path, params={"id": "living", "before": 1})
            assert answer.status_code == status, (method, path)
            assert answer.json() == {"detail": "no"}


def test_who_may_read_but_not_plan(world: WrittenLake) -> None:
    with client_of(app_over(world, only("offset_retention"))) as client:
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
        ({"Authorization": "Basic YTpi"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 422),
        ({"Origin": "http://dashboard"}, 422),
        ({"Authorization": "Bearer token"}, 422),
    ],
)
def test_only_our_own_page_posts(client: TestClient, headers: dict[str, str], status: int) -> None:
    """422: it was let in, and asked nothing."""
    assert client.post(f"{PREFIX}/what-if", headers=headers).status_code == status
    assert client.post(f"{PREFIX}/api/what-if", headers=headers, content=b"x").status_code == status


def test_nothing_changes_by_asking(world: WrittenLake) -> None:
    """What-if is all that is posted, and it changes nothing either."""
    posted = {route.path for route in routes(world) if route.methods and not route.methods <= {"GET", "HEAD"}}
    assert posted == {"/what-if", "/api/what-if"}


def numbers_of(dependant: Dependant) -> Iterator[str]:
    """The parameters of a route, also those of what it depends on, that are whole numbers."""
    for field in dependant.query_params:
        if "int" in str(field.field_info.annotation):
            yield field.alias
    for each in dependant.dependencies:
        yield from numbers_of(each)


@pytest.mark.parametrize("value", ["-1", "9" * 30, "NaN", "<script>"])
def test_numbers_that_are_none(client: TestClient, world: WrittenLake, value: str) -> None:
    """422: never an error of the server, and never all rows at once."""
    asked = [
        (path, name)
        for route, (method, path) in zip(routes(world), paths(world), strict=True)
        for name in dict.fromkeys(numbers_of(route.dependant))
        if method == "GET"
    ]
    assert len(asked) > 12
    for path, name in asked:
        assert client.get(PREFIX + path, params={"id": LIVING, name: value}).status_code == 422, (path, name)
