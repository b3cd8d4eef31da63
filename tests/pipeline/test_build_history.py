"""Many instants of an archive, folded once and published together, are what a run of each alone is."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sexton.archive.folder import Folder
from sexton.errors import DataQualityFailure, UsageError
from sexton.job_params import HistoryRequest, ReplayRequest
from sexton.lake import branch, publish
from sexton.lake.catalog import Lake
from sexton.lake.read import load, published_runs, read_published
from sexton.pipeline import build_history, find_expired, plan_tombstones, replay_groups, validate_tables
from sexton.pipeline.build_history import History
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.processes import SerialEngine
from sexton.tables import SNAPSHOT_TABLES, interval_tables
from tests.archived import Archive
from tests.killed import Killed
from tests.lake_session import iceberg_session, lake_at
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import MINUTE_MS, SETTLE_MS, instant, minute
from tests.tiers import later

MINUTES = 8
NAMES = [table.name for table in (*SNAPSHOT_TABLES, *interval_tables(("log",)))]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """A snapshot after every minute: group `a` commits each time, `b` comes and goes, `c` in another log partition."""
    made = Archive(tmp_path_factory.mktemp("archive"), partitions=3)
    first = 0
    for number in range(1, MINUTES + 1):
        gone = [tombstone("b2")] if number == 5 else []
        entries: Sequence[Any] = [commit("a", number), commit(f"b{number}"), *gone]
        parts = {0: minute(number, *entries, first=first)}
        if number in (2, 6):
            parts[1] = minute(number, commit("c", number), first=number // 6)
        first += len(entries)
        made.snapshot(instant(number) + 2_000, parts)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_at(tmp_path)


@pytest.fixture
def engine(lake: Lake, needs_spark: None) -> Engine:
    """Stages in this process, two stretches at a time; the lake by Spark."""
    engine = SerialEngine(iceberg=True, quiet=True)
    engine.cores = 2
    engine._session = iceberg_session(lake)
    return engine


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_history, "BATCH", 3)


def asked(archive: Archive, first: int = 1, last: int = MINUTES, **more: Any) -> HistoryRequest:
    return HistoryRequest(
        archive=archive.root, from_ms=instant(first), to_ms=instant(last), step_minutes=1, settle_ms=SETTLE_MS,
        retention_minutes=3, **more,
    )  # fmt: skip


def build(engine: Engine, lake: Lake, root: Path, request: HistoryRequest) -> History:
    return build_history.run(engine, lake, Folder(root), request, show=lambda *_: None)


def alone(archive: Archive, folder: RunFolder, at_ms: int) -> None:
    engine = SerialEngine(quiet=True)
    request = ReplayRequest(
        archive=archive.root, as_of_ms=at_ms, since_ms=at_ms - MINUTE_MS, settle_ms=SETTLE_MS, retention_minutes=3,
        is_full=True,
    )  # fmt: skip
    replay_groups.run(engine, folder, request)
    find_expired.run(engine, folder)
    plan_tombstones.run(engine, folder)
    validate_tables.check_folder(folder)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Without the attempt, and without the examples of rows that fail a check, which are in no order."""
    names = [name for name in table.column_names if name not in ("run_id", "failing_rows")]
    return sorted(table.select(names).to_pylist(), key=repr)


def commits(lake: Lake) -> list[int]:
    files = [load(lake, name).metadata_location.rpartition("/")[2] for name in (*NAMES, "runs")]
    return [int(file.partition("-")[0]) for file in files]


def test_each_instant_is_as_a_run_alone(archive: Archive, engine: Engine, lake: Lake, tmp_path: Path) -> None:
    history = build(engine, lake, tmp_path / "history", asked(archive, first=-1))
    assert history.published == [instant(number) for number in range(1, MINUTES + 1)]
    assert list(history.not_covered) == [instant(-1), instant(0)]
    assert all("before" in reason for reason in history.not_covered.values())
    assert not history.failed
    runs = published_runs(lake)
    assert [run.key.as_of_ms for run in runs] == history.published
    changed = 0
    for run in runs:
        folder = RunFolder(tmp_path / "alone" / str(run.key.as_of_ms))
        alone(archive, folder, run.key.as_of_ms)
        record = folder.read_run()
        files = {**validate_tables.files_of(record), "dq_results": ["dq_results/0.parquet"]}
        for name in files:
            stems = [Path(file).stem for file in files[name]]
            own = [folder.read_table(name, int(stem)) for stem in stems]
            expected = [row for part in own for row in rows_of(part)]
            assert rows_of(read_published(lake, run, name)) == sorted(expected, key=repr), (name, run.key.as_of_ms)
            changed += len(expected) if name == "offset_changes" else 0
        assert {each["table"]: each["rows"] for each in run.row["counts"]} == record.counts
        assert run.row["plan_id"] == record.plan_id
    assert changed
    batches = -(-MINUTES // 3)
    assert max(commits(lake)) <= 2 + 2 * batches  # of each batch its branch, and main in its place
    assert not (tmp_path / "history").exists()
    before = commits(lake)
    again = build(engine, lake, tmp_path / "history", asked(archive, first=-1))
    assert (again.published, again.published_before) == ([], history.published)
    assert commits(lake) == before


def test_a_batch_that_was_killed_goes_on(
    archive: Archive, engine: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All instants of a batch name the same snapshots, whatever happened before."""
    for number, failpoint in enumerate(("history.built", "history.written", "publish.between", "publish.unnamed")):

        def die(name: str, at: str = failpoint) -> None:
            if name == at:
                raise Killed

        request = asked(archive, 2 * number + 1, 2 * number + 2)
        with monkeypatch.context() as patch:
            for module in (build_history, publish):
                patch.setattr(module, "failpoint", die)
            with pytest.raises(Killed):
                build(engine, lake, tmp_path / "history", request)
        if number:
            assert len(published_runs(lake)) == 2 * number
        history = build(engine, lake, tmp_path / "history", request)
        assert history.published == [instant(2 * number + 1), instant(2 * number + 2)]
    runs = published_runs(lake)
    assert [run.key.as_of_ms for run in runs] == [instant(number) for number in range(1, MINUTES + 1)]
    assert [runs[n].row["snapshots"] == runs[n + 1].row["snapshots"] for n in range(3)] == [True, False, True]


class KilledByCommit:
    """A process that dies of a commit: this one is there, and no other one from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self._lock = threading.Lock()
        for place, name in ((SqlCatalog, "commit_table"), (branch, "replace_partition")):
            monkeypatch.setattr(place, name, self._counted(getattr(place, name)))
        monkeypatch.setattr(publish, "replace_partition", branch.replace_partition)

    def _counted(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def committed(*given: Any, **named: Any) -> Any:
            with self._lock:
                if self.left <= 0:
                    raise Killed
                self.left -= 1
                is_last = not self.left
            result = commit(*given, **named)
            if is_last:
                raise Killed
            return result

        return committed


def everything(lake: Lake) -> dict[tuple[int, str], list[Any]]:
    """Every row that readers see, by instant and table, and of `runs` all but which snapshots they are in."""
    found: dict[tuple[int, str], list[Any]] = {}
    for run in published_runs(lake):
        at_ms = run.key.as_of_ms
        found |= {(at_ms, name): rows_of(read_published(lake, run, name)) for name in NAMES}
        found[at_ms, "runs"] = [{**run.row, "snapshots": [each["table"] for each in run.row["snapshots"]]}]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("every", later(pytest.mark.full, [9, 3], but=[9]))
def test_killed_again_and_again(
    archive: Archive, engine: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Each time it goes on with what the one before has left, and lives for some commits more: a batch is only whole
    once its branches are. Then the next batch."""
    calm, request = lake_at(tmp_path / "calm"), asked(archive, 1, 4)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_session", iceberg_session(calm))
        build(engine, calm, tmp_path / "calm" / "history", request)
    death = KilledByCommit(monkeypatch)
    lives, deaths, before = every, 0, 0
    while True:
        death.left = lives
        try:
            history = build(engine, lake, tmp_path / "history", request)
            break
        except Killed:
            deaths += 1
        published = len(published_runs(lake))
        assert published in (0, 3), "a batch is in `runs` as a whole"
        lives, before = every if published > before else lives + every, published
    assert deaths > 36 // every
    assert [*history.published_before, *history.published] == [instant(number) for number in range(1, 5)]
    assert everything(lake) == everything(calm)
    assert not (tmp_path / "history").exists()
    assert not [ref for name in NAMES for ref in load(lake, name).refs() if ref.startswith("run_")]
    state = commits(lake)
    build(engine, lake, tmp_path / "history", request)
    assert commits(lake) == state


def test_how_far_it_is(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants count as soon as they are built, wherever and in whatever order."""
    real, told = validate_tables.check_folder, list[tuple[int, int]]()

    @contextmanager
    def after_each(snapshot: Callable[[], None]) -> Iterator[None]:
        def check(folder: RunFolder) -> RunRecord:
            record = real(folder)
            snapshot()
            return record

        with monkeypatch.context() as patch:
            patch.setattr(validate_tables, "check_folder", check)
            yield

    monkeypatch.setattr(build_history, "every_few_seconds", after_each)
    monkeypatch.setattr(build_history, "published_instants", lambda *_: [])
    monkeypatch.setattr(build_history, "_publish", lambda *_: None)
    engine = SerialEngine(quiet=True)
    build_history.run(
        engine,
        None,
        Folder(tmp_path),
        asked(archive, 1, 5),
        show=lambda *given: told.append(given),  # type: ignore[arg-type]
    )
    assert told == [(1, 5), (2, 5), (3, 5), (3, 5), (4, 5), (5, 5), (5, 5)]


def test_an_instant_that_fails_a_check_stays_unpublished_alone(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, published = validate_tables.check_folder, list[int]()

    def check(folder: RunFolder) -> Any:
        if folder.read_run().as_of_ms == instant(2):
            folder.write_rows(folder.read_table("offset_verdicts", 0).slice(1), "offset_verdicts", 0)
        return real(folder)

    monkeypatch.setattr(validate_tables, "check_folder", check)
    monkeypatch.setattr(build_history, "published_instants", lambda *_: [])
    monkeypatch.setattr(build_history, "_publish", lambda *given: published.extend(r.as_of_ms for r in given[-1]))
    engine = SerialEngine(quiet=True)
    history = build_history.run(engine, None, Folder(tmp_path), asked(archive, 1, 3), show=lambda *_: None)  # type: ignore[arg-type]
    assert history.published == published == [instant(1), instant(3)]
    assert list(history.failed) == [instant(2)]


def test_a_batch_with_other_rows_than_were_checked_is_not_published(
    archive: Archive, engine: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = build_history.row_of

    def one_more(record: RunRecord) -> dict[str, Any]:
        counts = {**record.counts, "groups": record.counts["groups"] + (record.as_of_ms == instant(2))}
        return real(record.model_copy(update={"counts": counts}))

    monkeypatch.setattr(build_history, "row_of", one_more)
    with pytest.raises(DataQualityFailure, match=f"groups at {instant(2)}"):
        build(engine, lake, tmp_path / "history", asked(archive, 1, 3))
    assert published_runs(lake) == []


def test_an_empty_archive(tmp_path: Path) -> None:
    """Of which cluster would what is published be?"""
    request = HistoryRequest(archive=str(tmp_path / "nowhere"), from_ms=instant(1), to_ms=instant(2))
    with pytest.raises(UsageError, match="the archive is empty"):
        build_history.run(SerialEngine(quiet=True), None, Folder(tmp_path), request, show=lambda *_: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "last", "why"), [(2, 1, "before the beginning"), (0, 60_000, "at most")])
def test_what_is_no_range(archive: Archive, first: int, last: int, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        build_history.instants_of(asked(archive, first, last))
