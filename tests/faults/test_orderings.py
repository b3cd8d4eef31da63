"""Scheduled runs, backfills, runs again, twice and side by side, in any order: the tables are those of one serial pass.

Real stages on a real Iceberg lake; only Great Expectations is left out, which no order can matter to. Each order has a
cluster and an archive of its own, so that every one begins with nothing settled, no checkpoint and nothing published.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sexton.errors import UsageError
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.pipeline import find_expired, plan_tombstones, publish_tables, validate_tables
from sexton.quality import spark_checks
from sexton.quality.expectation import ExpectationResult
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.tables import INTERVAL_TABLES, SNAPSHOT_TABLES
from tests.archived import Archive
from tests.lake_session import use_lake
from tests.pipeline.archive_runs import instant, run, three_minutes

pytestmark = pytest.mark.thorough

MINUTES = (1, 2, 3)
AT_ONCE = 2
OF_THE_ATTEMPT = {"cluster_id", "run_id", "plan_id", "plan_sha256", "snapshots", "warnings"}
"""What may differ: whose attempt it was, and by which checkpoint it came there. A plan names its cluster."""


@pytest.fixture(autouse=True)
def _own_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use_lake(monkeypatch, lake)


def passed(*_: Any, **__: Any) -> list[ExpectationResult]:
    return [
        ExpectationResult(
            table="groups", expectation="it is there", severity="critical", success=True, observed="0",
            failing_rows=[],
        )
    ]  # fmt: skip


@dataclass
class Attempt:
    """A run of one minute, step by step; one that `dies_at` a step never comes to it."""

    name: str
    minute: int
    dies_at: int | None = None
    is_twice: bool = False
    done: int = 0


@dataclass
class Deployment:
    """Everything that one order of runs works on; `told` is what happened, `owners` whose rows should be seen.

    As in a DAG, what is small is replayed and judged without Spark, which checks and publishes.
    """

    spark: Engine
    lake: Lake
    folder: Path
    cluster_id: str
    told: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    here: Engine = field(default_factory=lambda: SerialEngine(quiet=True))

    def __post_init__(self) -> None:
        self.archive: Archive = three_minutes(
            self.folder / "archive", cluster_id=self.cluster_id, settings={"offsets.retention.minutes": "1"}
        )

    def steps(self, attempt: Attempt) -> list[Callable[[], None]]:
        twice = [self._publish_again] if attempt.is_twice else []
        return [lambda step=step: step(attempt) for step in (self._replay, self._check, self._publish, *twice)]

    def advance(self, attempt: Attempt) -> bool:
        """Do the next step; whether there is another."""
        steps = self.steps(attempt)
        self.told.append(f"{attempt.name}:{attempt.done}")
        steps[attempt.done]()
        attempt.done += 1
        return attempt.done < len(steps) and attempt.done != attempt.dies_at

    def _out(self, attempt: Attempt) -> RunFolder:
        return RunFolder(self.folder / attempt.name)

    def _replay(self, attempt: Attempt) -> None:
        out = self._out(attempt)
        since_ms = instant(attempt.minute - 1)
        run(self.here, out.local, self.archive, instant(attempt.minute), since_ms=since_ms)
        find_expired.run(self.here, out)
        plan_tombstones.run(self.here, out)

    def _check(self, attempt: Attempt) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_checks, "check", passed)
            validate_tables.run(self.spark, self._out(attempt))

    def _publish(self, attempt: Attempt) -> None:
        publish_tables.run(self.spark, self._out(attempt))
        self.owners[attempt.minute] = attempt.name

    def _publish_again(self, attempt: Attempt) -> None:
        """A zombie: nothing happens while its rows are there, and it is refused once others took their place."""
        if self.owners[attempt.minute] == attempt.name:
            self._publish(attempt)
            return
        with pytest.raises(UsageError, match="no branch"):
            publish_tables.run(self.spark, self._out(attempt))

    def published(self) -> list[PublishedRun]:
        return published_runs(self.lake, self.cluster_id)

    def seen(self) -> dict[int, dict[str, Any]]:
        """By minute all that readers see of it."""
        found = {}
        for one in self.published():
            tables = {
                table.name: sorted(map(repr, _of_nobody(read_published(self.lake, one, table.name).to_pylist())))
                for table in (*SNAPSHOT_TABLES, *INTERVAL_TABLES)
            }
            (facts,) = _of_nobody([one.row])
            found[one.key.as_of_ms] = {**tables, "runs": facts}
        return found


def _of_nobody(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {name: value for name, value in row.items() if name not in OF_THE_ATTEMPT}


def attempts_of(rng: Random) -> list[Attempt]:
    """Each minute is run at least once to its end; more runs of them come in between, and some of those die."""
    first = [Attempt(name=f"{rng.choice(['scheduled', 'backfill'])}-{minute}", minute=minute) for minute in MINUTES]
    again = [
        Attempt(name=f"again-{number}", minute=rng.choice(MINUTES), dies_at=rng.choice([None, None, 1, 2]))
        for number in range(rng.randint(1, 3))
    ]
    attempts = [*first, *again]
    for attempt in attempts:
        attempt.is_twice = attempt.dies_at is None and rng.random() < 0.3
    rng.shuffle(attempts)
    return attempts


def play(deployment: Deployment, rng: Random) -> None:
    """Two runs at most are under way; whose step comes next is left to chance."""
    waiting, active = attempts_of(rng), []
    while waiting or active:
        if waiting and len(active) < AT_ONCE and (not active or rng.random() < 0.5):
            active.append(waiting.pop())
        attempt = rng.choice(active)
        if not deployment.advance(attempt):
            active.remove(attempt)


@pytest.fixture(scope="module")
def serial(iceberg: Engine, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """What readers see after one pass, minute by minute."""
    with pytest.MonkeyPatch.context() as patch:
        use_lake(patch, lake)
        deployment = Deployment(iceberg, lake, tmp_path_factory.mktemp("serial"), "serial")
        for minute in MINUTES:
            attempt = Attempt(name=f"scheduled-{minute}", minute=minute)
            while deployment.advance(attempt):
                pass
    seen = deployment.seen()
    assert [len(seen[instant(minute)]["offset_changes"]) for minute in MINUTES] == [3, 2, 2]
    assert all(seen[instant(minute)]["tombstones"] for minute in MINUTES[1:])
    return seen


def test_any_order_gives_what_one_pass_gives(iceberg, lake, serial, tmp_path, seed, full, tell):
    orders = 100 if full else 1
    runs = 0
    for number in range(orders):
        rng = Random(f"{seed}-{number}")
        deployment = Deployment(iceberg, lake, tmp_path / str(number), f"{seed}-{number}")
        play(deployment, rng)
        assert {one.key.as_of_ms: one.key.run_id for one in deployment.published()} == {
            instant(minute): name for minute, name in deployment.owners.items()
        }, deployment.told
        assert deployment.seen() == serial, deployment.told
        runs += len({step.partition(":")[0] for step in deployment.told})
    tell(f"{orders} orders of {runs} runs, all as in one pass")
