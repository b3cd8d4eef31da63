"""The plugin in a real Airflow: each route answers each role as Airflow's own API does, by the same cookie or token."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.ui.api_server import ApiServer, api_server
from tests.ui.by_dag import MAY_READ
from tests.ui.lakes import WrittenLake
from tests.ui.test_access import PLANNING, paths
from tests.ui.worlds import LIVING, MAIN, OTHER, PREFIX

BODY_LIMIT = 65_536
ROLES = ("anonymous", "forged", "nobody", "stranger", "reader", "planner", "admin")


@pytest.fixture(scope="module")
def server(world: WrittenLake, tmp_path_factory: pytest.TempPathFactory, needs_airflow: None) -> Iterator[ApiServer]:
    users = {**dict.fromkeys(MAY_READ, "viewer"), "admin": "admin"}
    folder = tmp_path_factory.mktemp("airflow") / "home"
    clusters = json.dumps({"main": {"cluster_id": MAIN}, "eu": {"cluster_id": OTHER}})
    told = {"auth_manager": "tests.ui.by_dag.ByDag", "clusters": clusters, "body_limit": BODY_LIMIT}
    with api_server(folder, world.lake, users, **told) as found:
        yield found


def expected(role: str, method: str, path: str) -> int:
    if role == "anonymous":
        return 401
    is_allowed = role not in ("forged", "nobody", "stranger")
    if not is_allowed or (path.startswith(PLANNING) and role == "reader"):
        return 403
    if path.startswith("/runs/"):
        return 404  # no run has a folder here: test_run_files.py
    return 422 if method == "POST" else 200


@pytest.mark.parametrize("role", ROLES)
def test_every_route_by_role(server: ApiServer, world: WrittenLake, role: str) -> None:
    known = {"anonymous": None, "forged": server.tokens["reader"][:-8] + "AAAAAAAA"}
    token = known[role] if role in known else server.tokens[role]
    for method, path in paths(world):
        asked = f"{PREFIX}{path}?id={LIVING}&before=9000000000000"
        want = expected(role, method, path)
        assert server.status(asked, token=token, method=method) == want, (role, method, path)
        assert server.status(asked, cookie=token, method=method) == want, (role, method, path, "cookie")


def test_another_clusters_reader(server: ApiServer, world: WrittenLake) -> None:
    """Who may read eu's DAG finds eu and nothing else; its plans would take its own DAG, not the first cluster's."""
    token = server.tokens["european"]
    for method, path in paths(world):
        if method == "GET" and "static" not in path and path not in ("/api/openapi.json", "/metrics"):
            asked = f"{PREFIX}{path}?id={LIVING}&before=9000000000000&cluster="
            assert server.status(asked + MAIN, token=token) == 404, path
            own = {403} if path.startswith(PLANNING) else {200, 404}  # it has no group of that id
            assert server.status(asked + OTHER, token=token) in own, path
    assert server.status(f"{PREFIX}/api/overview", token=token) == 200
    assert server.status(f"{PREFIX}/api/overview?cluster={OTHER}", token=server.tokens["reader"]) == 404
    assert server.status(f"{PREFIX}/api/overview?cluster={OTHER}", token=server.tokens["admin"]) == 200


def test_airflow_answers_alike(server: ApiServer) -> None:
    """Refusals from Airflow's own route about the DAG, of a number that is none and of what is not there."""
    path = "/api/v2/dags/offset_retention"
    answers = [server.status(path, token=token) for token in (None, "a.b.c", server.tokens["nobody"])]
    assert answers == [server.status(f"{PREFIX}/", token=token) for token in (None, "a.b.c", server.tokens["nobody"])]
    assert answers == [401, 403, 403]
    asked = (("/api/v2/dags?limit=x", "/groups?page=x"), ("/api/v2/dags/nosuch", "/group?id=none"))
    for theirs, ours in asked:
        answer = server.status(theirs, token=server.tokens["admin"])
        assert answer == server.status(PREFIX + ours, token=server.tokens["admin"]), theirs


def test_what_is_not_there(server: ApiServer) -> None:
    for path in ("/nosuch", "/docs", "/openapi.json", "/static/../app.py", f"/plans/{'0' * 64}", "/group?id=none"):
        assert server.status(PREFIX + path, token=server.tokens["planner"]) == 404, path


def test_the_menu_has_it(server: ApiServer) -> None:
    assert server.status("/api/v2/plugins", token=server.tokens["admin"]) == 200
    assert server.status("/plugin/sexton", token=server.tokens["admin"]) == 200


@pytest.mark.parametrize(("path", "is_refused"), [("/auth/token", False), (f"{PREFIX}/api/what-if", True)])
def test_a_large_body_is_refused_on_the_dashboard_alone(server: ApiServer, path: str, is_refused: bool) -> None:
    """From somebody who has not logged in. Airflow's own routes take what they have taken without Sexton."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    connection.request("POST", path, b'"%s"' % (b"x" * BODY_LIMIT), {"Content-Type": "application/json"})
    assert (connection.getresponse().status == 413) == is_refused
    connection.close()
