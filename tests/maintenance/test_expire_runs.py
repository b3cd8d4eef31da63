"""expire_runs takes what no rule keeps and nothing else, and leaves readers whole wherever it dies."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.archive import files as store
from sexton.as_text import HOUR_MS
from sexton.errors import NoCoverage
from sexton.failpoints import FAILPOINTS
from sexton.history.published_story import published_story
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.maintenance import expire_runs
from sexton.maintenance.expire_runs import ExpiredRuns
from sexton.maintenance.run_retention import RunRetention
from sexton.runs.engine import Engine
from tests.killed import Killed
from tests.lake_session import lake_at
from tests.maintenance.lakes import CHANGES, STATE, TOPIC, Runs, fill, plan_of

RETENTION = RunRetention(all_hours=2, hourly_days=1, daily_months=1)
NOW_MS = 1_000 * 24 * HOUR_MS + 12 * HOUR_MS
MINUTE_MS = 60_000
OLD = [NOW_MS - 5 * HOUR_MS + minutes * MINUTE_MS for minutes in (10, 20, 30)]
NEW = [NOW_MS - HOUR_MS, NOW_MS]
ALL = [*OLD, *NEW]
STAYS = [OLD[-1], *NEW]
POINTS = sorted(name for name in FAILPOINTS if name.startswith("expire_runs."))
TOLD = "zz"
CLUSTERS = (TOLD, "says", "takes", "holds", "applied", "another", "anew", *(f"dies-{name}" for name in POINTS))
WHOLE = (2, 1)
"""Rows of a run that readers see whole, in the two tables."""
Cluster = Callable[[str], Runs]


@pytest.fixture(scope="module", autouse=True)
def _runs(iceberg: Engine, lake: Lake) -> None:
    fill(
        iceberg.session,
        lake,
        [(cluster_id, at) for cluster_id in CLUSTERS for at in ALL],
        plans=[plan_of(("applied", OLD[0]))],
    )


def expired(engine: Engine, runs: Runs, **options: object) -> ExpiredRuns:
    (found,) = expire_runs.run(engine, runs.lake, str(runs.archive), now_ms=NOW_MS, retention=RETENTION, **options)  # type: ignore[arg-type]
    return found


def notes(runs: Runs) -> list[dict]:
    return [
        json.loads(file.read_text()) for file in sorted((runs.archive / runs.cluster_id / "maintenance").glob("*.json"))
    ]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_by_default_it_only_says_what_would_go(iceberg: Engine, runs_of: Cluster) -> None:
    runs = runs_of("says")
    for at in ALL:
        runs.checkpoint(at)
    before = files(runs.archive)
    no_spark = Engine(quiet=True)
    found = expired(no_spark, runs)
    assert found == ExpiredRuns(cluster_id="says", published=5, held=0, completed=0, runs=OLD[:2], checkpoints=2)
    assert runs.seen() == dict.fromkeys(ALL, WHOLE)
    assert files(runs.archive) == before


def test_only_one_of_several_clusters(runs_of: Cluster) -> None:
    runs = runs_of("says")
    runs_of("another").checkpoint(OLD[0])
    assert expired(Engine(quiet=True), runs, only="says").cluster_id == "says"
    both = expire_runs.run(Engine(quiet=True), runs.lake, str(runs.archive), now_ms=NOW_MS, retention=RETENTION)
    assert [found.cluster_id for found in both] == ["another", "says"]


def test_what_goes_and_what_stays(iceberg: Engine, runs_of: Cluster) -> None:
    runs = runs_of("takes")
    for at in [OLD[0] - HOUR_MS, *ALL]:
        runs.checkpoint(at)
    left_over = runs.checkpoint(OLD[0] + 1, is_whole=False)
    segment = runs.archive / runs.cluster_id / TOPIC / "0" / "000000-0" / "0.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"bytes")
    found = expired(iceberg, runs, deletes=True)
    assert (found.runs, found.checkpoints) == (OLD[:2], 4)
    assert runs.seen() == dict.fromkeys(STAYS, WHOLE)
    assert runs.rows_at(STATE) == runs.rows_at("runs") == {*STAYS}
    assert load(runs.lake, STATE).current_snapshot().summary.operation.value == "delete", "no file is written anew"
    assert runs.rows_at(CHANGES) == {*ALL}, "the ledger of intervals never expires"
    assert runs.checkpoints() == STAYS
    assert not left_over.exists()
    assert segment.exists()
    (note,) = notes(runs)
    assert note["is_done"]
    assert [run["plan_id"] for run in note["runs"]] == [plan_of(("takes", at)) for at in OLD[:2]]
    again = expired(iceberg, runs, deletes=True)
    assert (again.runs, again.checkpoints, again.completed) == ([], 0, 0)
    assert len(notes(runs)) == 1


def test_a_held_instant_stays_with_its_checkpoint(iceberg: Engine, runs_of: Cluster) -> None:
    runs = runs_of("holds")
    for at in ALL:
        runs.checkpoint(at)
    found = expired(iceberg, runs, deletes=True, held=frozenset({OLD[0], 5}))
    assert (found.held, found.runs) == (1, [OLD[1]])
    assert runs.named() == runs.checkpoints() == [OLD[0], *STAYS]


def test_a_run_whose_plan_was_applied_stays(iceberg: Engine, runs_of: Cluster) -> None:
    runs = runs_of("applied")
    assert expired(iceberg, runs, deletes=True).held == 1
    assert runs.seen() == dict.fromkeys([OLD[0], *STAYS], WHOLE)


def test_a_checkpoint_stays_from_which_a_kept_run_goes_on(iceberg: Engine, runs_of: Cluster) -> None:
    """The kept runs have none of their own: their writers died."""
    runs = runs_of("another")
    for at in OLD[:2]:
        runs.checkpoint(at)
    assert expired(iceberg, runs, deletes=True).checkpoints == 1
    assert runs.checkpoints() == [OLD[1]]


def test_the_ledger_of_changes_is_told_as_before(iceberg: Engine, lake: Lake, runs_of: Cluster) -> None:
    def told() -> list[int | None]:
        run, story = published_story(lake, "g0", is_requested=lambda *_: True, as_of_ms=None, cluster_id=TOLD)
        assert run.key.cluster_id == TOLD
        return [event.timestamp_ms for event in story.events if event.what == "set"]

    before = told()
    assert before == ALL
    expired(iceberg, runs_of(TOLD), deletes=True)
    assert told() == before


@pytest.mark.parametrize("name", POINTS)
def test_killed_anywhere(iceberg: Engine, runs_of: Cluster, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    runs = runs_of(f"dies-{name}")
    for at in ALL:
        runs.checkpoint(at)
    came_by = []

    def die(point: str) -> None:
        assert point in FAILPOINTS
        came_by.append(point)
        if point == name:
            raise Killed

    for module in (expire_runs, store):
        monkeypatch.setattr(module, "failpoint", die)
    with pytest.raises(Killed):
        expired(iceberg, runs, deletes=True)
    assert came_by[-1] == name or "expire_runs.between" in came_by  # tables go side by side
    seen = runs.seen()
    assert seen in (dict.fromkeys(ALL, WHOLE), dict.fromkeys(STAYS, WHOLE))
    assert {*runs.named()} <= runs.rows_at(STATE), "who reads today's table meets no run without its rows"
    monkeypatch.undo()
    expired(iceberg, runs, deletes=True)
    assert runs.seen() == dict.fromkeys(STAYS, WHOLE)
    assert runs.rows_at(STATE) == {*STAYS}
    assert runs.checkpoints() == STAYS
    assert all(note["is_done"] for note in notes(runs))
    assert sorted(run["as_of_ms"] for note in notes(runs) for run in note["runs"]) == OLD[:2]


def test_what_was_published_anew_since_is_judged_anew(
    iceberg: Engine, lake: Lake, runs_of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of("anew")

    def die(point: str) -> None:
        if point == "expire_runs.unnamed":
            raise Killed

    monkeypatch.setattr(expire_runs, "failpoint", die)
    with pytest.raises(Killed):
        expired(iceberg, runs, deletes=True)
    monkeypatch.undo()
    fill(iceberg.session, lake, [("anew", OLD[0])])
    found = expired(iceberg, runs, deletes=True, held={OLD[0]})
    assert (found.completed, found.runs) == (1, [])
    assert runs.named() == [OLD[0], *STAYS]
    assert runs.rows_at(STATE) == {OLD[0], *STAYS}


def test_where_nothing_was_published(iceberg: Engine, tmp_path: Path) -> None:
    with pytest.raises(NoCoverage):
        expire_runs.run(iceberg, lake_at(tmp_path / "lake"), str(tmp_path), now_ms=NOW_MS, retention=RETENTION)
