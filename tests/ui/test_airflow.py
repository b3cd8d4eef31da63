"""The plugin in a real Airflow: each route answers each role as Airflow's own API does, by the same cookie or token."""

from collections.abc import Iterator

import pytest

from sexton.ui.access import Access
from sexton.ui.app import make_app
from sexton.ui.store import Store
from tests.ui.api_server import ApiServer, api_server
from tests.ui.by_dag import MAY_READ
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import LIVING, PLAN_IDS, PREFIX, allow

PLANNING = ("/plans", "/api/plans", "/ledger", "/api/ledger")
ROLES = ("anonymous", "forged", "nobody", "stranger", "reader", "planner", "admin")


@pytest.fixture(scope="module")
def server(world: WrittenLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    users = {**dict.fromkeys(MAY_READ, "viewer"), "admin": "admin"}
    folder = tmp_path_factory.mktemp("airflow") / "home"
    with api_server(folder, world.lake, users, auth_manager="tests.ui.by_dag.ByDag") as found:
        yield found


def routes(world: WrittenLake) -> list[tuple[str, str]]:
    app = make_app(Store(lambda: world.lake), Access(reading=allow, planning=allow))
    return [
        (method, route.path.replace("{name}", "ui.js").replace("{plan_id}", PLAN_IDS[1]))
        for route in app.routes
        for method in sorted(route.methods)
    ]


def expected(role: str, method: str, path: str) -> int:
    if role == "anonymous":
        return 401
    is_allowed = role not in ("forged", "nobody", "stranger")
    if not is_allowed or (path.startswith(PLANNING) and role == "reader"):
        return 403
    return 422 if method == "POST" else 200


@pytest.mark.parametrize("role", ROLES)
def test_every_route_by_role(server: ApiServer, world: WrittenLake, role: str) -> None:
    known = {"anonymous": None, "forged": server.tokens["reader"][:-8] + "AAAAAAAA"}
    token = known[role] if role in known else server.tokens[role]
    for method, path in routes(world):
        asked = f"{PREFIX}{path}?id={LIVING}&before=9000000000000"
        want = expected(role, method, path)
        assert server.status(asked, token=token, method=method) == want, (role, method, path)
        assert server.status(asked, cookie=token, method=method) == want, (role, method, path, "cookie")


def test_airflow_answers_alike(server: ApiServer) -> None:
    """The same three refusals from Airflow's own route about the DAG."""
    path = "/api/v2/dags/offset_retention"
    answers = [server.status(path, token=token) for token in (None, "a.b.c", server.tokens["nobody"])]
    assert answers == [server.status(f"{PREFIX}/", token=token) for token in (None, "a.b.c", server.tokens["nobody"])]
    assert answers == [401, 403, 403]


def test_what_is_not_there(server: ApiServer) -> None:
    for path in ("/nosuch", "/docs", "/openapi.json", "/static/../app.py", f"/plans/{'0' * 64}", "/group?id=none"):
        assert server.status(PREFIX + path, token=server.tokens["planner"]) == 404, path


def test_the_menu_has_it(server: ApiServer) -> None:
    assert server.status("/api/v2/plugins", token=server.tokens["admin"]) == 200
    assert server.status("/plugin/sexton", token=server.tokens["admin"]) == 200
