"""An apply that is killed at any of the named points and run again ends as one that was never killed: everything that
was deleted is in the ledger, nothing is done twice, nothing is unknown (row 1)."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sexton import failpoints
from sexton.failpoints import FAILPOINTS
from sexton.lake.catalog import Lake, open_lake
from sexton.lake.read import plain
from sexton.ledger.publish import publish_ledger
from sexton.settings import Settings
from sexton.tables import TABLES
from tests.faults.apply_cluster import Faults, SimCluster
from tests.faults.apply_worlds import World, account, final_losses, world
from tests.faults.test_apply_races import assert_one_effect_each
from tests.fork import fork

pytestmark = pytest.mark.thorough

OF_APPLY = {name for name in FAILPOINTS if name.startswith(("apply.", "ledger."))}
OF_LOG = {"apply.appending", "apply.appended", "apply.returning", "apply.returned", "apply.pended", "apply.committed"}
"""Reached only where the log is read: it shows what has to be put back, and takes what is appended."""
Tell = Callable[[str], None]


class Remote:
    """The cluster, asked from a process that may die: it lives on in its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        def ask(*arguments: Any, **named: Any) -> Any:
            self._connection.send((name, arguments, named))
            kind, answer = self._connection.recv()
            if kind == "raised":
                raise answer
            return RemoteTail(self, answer) if name == "tail" else answer

        return ask


class RemoteTail:
    def __init__(self, remote: Remote, number: int) -> None:
        self._remote, self._number = remote, number
        self.log_offset = remote.tail_offset(number)

    def records(self) -> Any:
        found, self.log_offset = self._remote.tail_records(self._number)
        return found


class Server:
    """Answers a child's questions until it ends."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._tails: list[Any] = []

    def serve(self, connection: Connection) -> None:
        while True:
            try:
                name, arguments, named = connection.recv()
            except (EOFError, ConnectionResetError):
                return
            try:
                answer: tuple[str, Any] = ("told", self._answer(name, arguments, named))
            except Exception as error:
                answer = ("raised", error)
            try:
                connection.send(answer)
            except BrokenPipeError:
                return

    def _answer(self, name: str, arguments: Any, named: Any) -> Any:
        if name == "tail":
            self._tails.append(self._cluster.tail(*arguments, **named))
            return len(self._tails) - 1
        if name == "tail_offset":
            return self._tails[arguments[0]].log_offset
        if name == "tail_records":
            tail = self._tails[arguments[0]]
            return tail.records(), tail.log_offset
        if name == "now_ms":
            return self._cluster.now_ms
        return getattr(self._cluster, name)(*arguments, **named)


def in_child(made: World, work: Callable[[Remote], None], *, failpoint: str) -> bool:
    """Do `work` in a process of its own that is killed at a point; whether it came by."""
    ours, theirs = Pipe()
    child = fork()
    if child == 0:
        try:
            ours.close()
            failpoints._passed.clear()
            failpoints.settings = lambda: Settings(failpoint=failpoint)  # type: ignore[assignment]
            work(Remote(theirs))
            os._exit(0)
        finally:
            os._exit(1)
    theirs.close()
    Server(made.cluster).serve(ours)
    ours.close()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with the table apply_ledger alone, as publishing a run would have made it."""
    folder = tmp_path_factory.mktemp("lake")
    properties = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": str(folder)}
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("sexton")
    catalog.create_table("sexton.apply_ledger", TABLES["apply_ledger"].arrow_schema())
    yield open_lake(properties)
    catalog.close()


def rows_in(lake: Lake, plan_id: str) -> list[dict[str, Any]]:
    with lake.reader() as catalog:
        rows: pa.Table = plain(catalog.load_table("sexton.apply_ledger").scan(f"plan_id = '{plan_id}'").to_arrow())
    found: list[dict[str, Any]] = rows.to_pylist()
    return sorted(found, key=lambda row: (row["attempt"], row["log_partition"], row["position"]))


def applied(made: World, lake: Lake, client: Any) -> None:
    made.apply(client=client)
    publish_ledger(lake, made.ledger.entries(), as_of_ms=made.plan.record.as_of_ms)


def busy(seed: str, root: Path, *, is_admin: bool = False) -> World:
    """A cluster where every point is come by, most of the time."""
    faults = Faults(interference=10, races=350, lost_after=60)
    return world(seed, root, faults=faults, is_admin=is_admin)


@pytest.mark.parametrize(
    ("name", "is_admin"),
    [(name, False) for name in sorted(OF_APPLY)] + [(name, True) for name in sorted(OF_APPLY - OF_LOG)],
    ids=lambda value: {False: "log", True: "admin"}.get(value, value),
)
def test_an_apply_killed_anywhere(name, is_admin, full, seed, tmp_path, lake, tell):
    kills, number, totals, wanted = 0, 0, Counter[str](), 10 if full else 1
    while kills < wanted:  # with two seeds: 20
        made = busy(f"{seed} {name} {number}", tmp_path / str(number), is_admin=is_admin)
        rng = Random(f"{seed} {name} {number}")
        for at in sorted({rng.choice((1, 1, 2, 3, 5)), 1}):  # and the one that goes on may die as well
            kills += in_child(made, lambda client, made=made: applied(made, lake, client), failpoint=f"{name}:{at}")
            made.cluster.now_ms += 1_000  # far from the lease: that the process has ended is seen
        number += 1
        assert number < 60 * wanted, "this point is not come by"
        made.apply_until_done()
        publish_ledger(lake, made.ledger.entries(), as_of_ms=made.plan.record.as_of_ms)
        found = account(made)
        assert found.violations == []
        assert final_losses(made) == []
        assert_one_effect_each(made)
        rows = rows_in(lake, made.plan.record.plan_id)
        assert {(row["log_partition"], row["position"]) for row in rows} >= {
            (row["log_partition"], row["position"]) for row in made.plan.tombstones.to_pylist()
        }
        assert len({(row["log_partition"], row["position"], row["attempt"]) for row in rows}) == len(rows)
        totals.update({"our tombstones": found.ours, "newer ones taken": found.newer})
    tell(f"{kills} kills, 0 lost, 0 unrecorded deletions: {dict(totals)}")


def test_publishing_twice_changes_nothing(seed: int, tmp_path: Path, lake: Lake) -> None:
    made = busy(f"twice {seed}", tmp_path)
    made.apply_until_done()
    entries = made.ledger.entries()
    count = publish_ledger(lake, entries, as_of_ms=made.plan.record.as_of_ms)
    once = rows_in(lake, made.plan.record.plan_id)
    assert count == len(once)
    publish_ledger(lake, entries, as_of_ms=made.plan.record.as_of_ms)
    assert rows_in(lake, made.plan.record.plan_id) == once
    assert {row["approved_by"] for row in once} == {"ann"}
    assert all(row["before"] or row["action"] == "restore" or row["topic"] is None for row in once)


def test_without_a_lake_nothing_is_published(tmp_path: Path, seed: int) -> None:
    made = world(seed, tmp_path / "world")
    made.apply()
    nowhere = open_lake({"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/none.db", "warehouse": str(tmp_path)})
    assert publish_ledger(nowhere, made.ledger.entries(), as_of_ms=0) is None
