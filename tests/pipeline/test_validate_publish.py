"""From a run folder to the lake: what is sound gets published, what is not stays on its branch."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sexton.archive.folder import Folder
from sexton.errors import DataQualityFailure
from sexton.job_params import REQUESTS
from sexton.lake.append import replace_rows
from sexton.lake.branch import RunKey, ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import load, owner, partition_of, published_runs, read_published
from sexton.pipeline import job, publish_tables, validate_tables
from sexton.quality import spark_checks
from sexton.quality.declared_expectations import CHECKED_TABLES
from sexton.runs.engine import Engine
from sexton.runs.folder import LagCounts, ReplicaCounts, RunFolder, RunRecord, TransactionCounts
from sexton.runs.processes import AutoEngine
from sexton.summary.audit_counts import newest_lag
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE, SNAPSHOT_TABLES, TABLES, TRANSACTIONS
from tests.jobs import JOBS, load_job
from tests.lake_session import check_by_duckdb, engine_of, use_lake
from tests.quality import world
from tests.ui.lakes import as_table

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _own_lake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lake" in request.fixturenames:
        lake = request.getfixturevalue("lake")
        use_lake(monkeypatch, lake)


@pytest.fixture
def no_spark() -> Engine:
    """An engine whose session nobody may ask for."""
    return Engine(iceberg=True, quiet=True)


def fill(
    root: Path, run_id: str = "r1", *, cluster_id: str = "c1", broken: Callable[[world.Rows], object] | None = None
) -> RunFolder:
    """A run folder with the tables of the sound run, or with a broken one."""
    rows = world.sound()
    if broken is not None:
        broken(rows)
    record = RunRecord(
        run_id=run_id,
        cluster_id=cluster_id,
        as_of_ms=world.RUN.as_of_ms,
        taken_at_ms=2_000,
        profile="group_coordinator",
        retention_ms=60_000,
        retention_source="asked for",
        source="here",
        partition_count=2,
        log_partitions=[0, 1],
        cuts=dict(world.RUN.cuts),
        checkpoint_sha256="c0ffee",
        plan_id="plan",
        counts={name: len(found) for name, found in rows.items()},
        warnings=["told"],
    )
    folder = RunFolder(root)
    folder.write_run(record)
    for name, table in world.tables_of(rows).items():
        if not TABLES[name].per_log_partition:
            folder.write_table(record, name, table)
            continue
        for part in record.log_partitions:
            folder.write_table(record, name, table.filter(pa.compute.equal(table["log_partition"], part)), part)
    return folder


def failures(folder: RunFolder) -> list[tuple[str, str]]:
    rows = folder.read_table("dq_results", 0).to_pylist()
    return [(row["table"], row["severity"]) for row in rows if not row["success"]]


PLAN_A_KEPT_OFFSET = world.change("offset_verdicts", 0, broker_verdict="keep")


def test_a_sound_folder(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    record = validate_tables.check_folder(folder)
    assert failures(folder) == []
    assert folder.read_run() == record
    assert record.counts["dq_results"] == folder.read_table("dq_results", 0).num_rows > 100


def test_without_a_lake_failures_are_told(tmp_path: Path) -> None:
    folder = fill(tmp_path, broken=PLAN_A_KEPT_OFFSET)
    validate_tables.check_folder(folder)
    assert ("tombstones", "critical") in failures(folder)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


@pytest.mark.parametrize("damage", [Path.unlink, cut_short], ids=["missing", "cut short"])
@pytest.mark.parametrize("file", ["groups/1", "topic_partitions/0", "load_profile/0"])
def test_a_file_that_cannot_be_read(tmp_path: Path, file: str, damage: Callable[[Path], object]) -> None:
    folder = fill(tmp_path)
    damage(tmp_path / f"{file}.parquet")
    validate_tables.check_folder(folder)
    assert (file.split("/")[0], "critical") in failures(folder)


def audited(lake: Lake, cluster_id: str, as_of_ms: int, **tables: Sequence[Mapping[str, object]]) -> None:
    """What an audit leaves in the lake."""
    key = RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id="audit")
    for name, rows in tables.items():
        replace_rows(lake, TABLES[name], as_table(name, rows, key), partition_of(key))


def audited_replicas(lake: Lake, cluster_id: str, as_of_ms: int, differences: Sequence[Mapping[str, object]]) -> None:
    """An audit of three replicas of one log partition."""
    states = [{"log_partition": 0, "replica": f"broker-{number}", "status": "same"} for number in (1, 2, 3)]
    rows = [{"log_partition": 0, "ordinal": number, **row} for number, row in enumerate(differences)]
    audited(lake, cluster_id, as_of_ms, replica_state=states, replica_differences=rows)


def some_audits(lake: Lake, cluster_id: str, now_ms: int) -> ReplicaCounts:
    """Audits of the cluster and of another one; returns the counts of the newest at `now_ms`."""
    wrong = {"kind": "resurrected", "wrong_replicas": ["broker-3"], "needs_unclean_election": False}
    behind = {"kind": "lost", "wrong_replicas": ["broker-2"], "needs_unclean_election": True}
    audited_replicas(lake, cluster_id, now_ms - 2, [wrong] * 7)
    audited_replicas(lake, cluster_id, now_ms, [wrong, wrong, {**wrong, "kind": "stuck"}, behind])
    audited_replicas(lake, cluster_id, now_ms + 1, [])
    audited_replicas(lake, "another", now_ms, [behind])
    kinds = {"resurrected": 2, "stuck": 1}
    return ReplicaCounts(
        as_of_ms=now_ms, log_partitions=1, statuses={"same": 3}, kinds=kinds, wrong={"broker-3": 3}, behind=1
    )


def audited_transactions(lake: Lake, cluster_id: str, as_of_ms: int, rows: Sequence[Mapping[str, object]]) -> None:
    audited(lake, cluster_id, as_of_ms, transactions=[{"producer_id": n, **row} for n, row in enumerate(rows)])


def some_transactions(lake: Lake, cluster_id: str, now_ms: int) -> TransactionCounts:
    """Audits of the cluster and of another one; returns the counts of the newest at `now_ms`."""
    held = [{"group_id": "g", "topic": "t", "partition": n, "committed_offset": 1} for n in (0, 1)]
    hanging = {"verdict": "hanging", "group_ids": ["g"], "offsets": held, "since_ms": 7}
    audited_transactions(lake, cluster_id, now_ms - 2, [hanging] * 7)
    running = {"verdict": "running", "is_overdue": True, "group_ids": ["h"], "since_ms": 1}
    audited_transactions(lake, cluster_id, now_ms, [running, hanging, {**hanging, "since_ms": 5, "offsets": held[:1]}])
    audited_transactions(lake, cluster_id, now_ms + 1, [])
    audited_transactions(lake, "another", now_ms, [hanging])
    return TransactionCounts(
        as_of_ms=now_ms, verdicts={"hanging": 2, "running": 1}, overdue=1, hanging_groups=1, hanging_offsets=2,
        hanging_since_ms=5,
    )  # fmt: skip


def test_a_sound_run_is_published_whole(iceberg: Engine, lake: Lake, tmp_path: Path) -> None:
    """And names the newest audits: not those that are later, so that a later attempt counts the same."""
    folder = fill(tmp_path, cluster_id="whole")
    ensure_tables(iceberg.session, lake, (REPLICA_STATE, REPLICA_DIFFERENCES, TRANSACTIONS))
    audit = some_audits(lake, "whole", world.RUN.as_of_ms)
    transactions = some_transactions(lake, "whole", world.RUN.as_of_ms)
    validate_tables.run(iceberg, folder)
    assert published_runs(lake, "whole") == []
    publish_tables.run(iceberg, folder)
    (run,) = published_runs(lake, "whole")
    for table in SNAPSHOT_TABLES:
        written = pa.concat_tables(
            pq.read_table(file, partitioning=None) for file in sorted((tmp_path / table.name).glob("*.parquet"))
        )
        order = [(name, "ascending") for name in table.key] or [("log_partition", "ascending")]
        assert read_published(lake, run, table.name).sort_by(order).equals(written.sort_by(order)), table.name
    record = folder.read_run()
    assert (record.replicas, record.transactions) == (audit, transactions)
    assert run.cuts == record.cuts
    assert {each["table"]: each["rows"] for each in run.row["counts"]} == record.counts
    assert {name: run.row[name] for name in ("plan_id", "coverage", "code_version", "warnings")} == {
        name: getattr(record, name) for name in ("plan_id", "coverage", "code_version", "warnings")
    }
    assert run.row["checkpoint_sha256"] == "c0ffee"


@pytest.mark.thorough
def test_a_run_names_the_audit_of_lag_of_a_run_before_it(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_by_duckdb(monkeypatch)
    folder, at_ms = fill(tmp_path, cluster_id="lagging"), world.RUN.as_of_ms
    validate_tables.run(iceberg, folder)
    publish_tables.run(iceberg, folder)
    rows = [
        {"group_id": "g", "topic": "t", "partition": 0, "lag_min_ms": 5, "loses_at_ms": at_ms + DAY_MS},
        {"group_id": "g", "topic": "t", "partition": 1, "lag_min_ms": 9, "loses_at_ms": at_ms + DAY_MS + 1},
        {"group_id": "h", "topic": "t", "partition": 0, "would_reset": "truncated"},
    ]
    audited(lake, "lagging", at_ms, time_lag=rows)
    counts = LagCounts(as_of_ms=at_ms, offsets=3, longest_ms=9, losing=1, losing_groups=1, resets={"truncated": 1})
    assert newest_lag(lake, RunKey(cluster_id="lagging", as_of_ms=at_ms + 1, run_id="next")) == counts
    assert newest_lag(lake, RunKey(cluster_id="lagging", as_of_ms=at_ms, run_id="again")) is None
    assert newest_lag(lake, RunKey(cluster_id="never", as_of_ms=at_ms + 1, run_id="next")) is None


@pytest.mark.thorough
def test_a_failure_leaves_main_alone_and_keeps_the_branch(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_by_duckdb(monkeypatch)  # how Great Expectations fails: in the next test
    good, bad = (fill(tmp_path / name, name, cluster_id="failing") for name in ("good", "bad"))
    validate_tables.run(iceberg, good)
    publish_tables.run(iceberg, good)
    fill(bad.local, "bad", cluster_id="failing", broken=PLAN_A_KEPT_OFFSET)
    before = {table: load(lake, table).current_snapshot() for table in TABLES}
    with pytest.raises(DataQualityFailure, match="verdict is expire"):
        validate_tables.run(iceberg, bad)
    with pytest.raises(DataQualityFailure):
        publish_tables.run(iceberg, bad)
    assert {table: load(lake, table).current_snapshot() for table in TABLES} == before
    record = bad.read_run()
    branch = validate_tables.key_of(record).branch
    for table in SNAPSHOT_TABLES:
        assert (branch in load(lake, table.name).refs()) == (record.counts[table.name] > 0), table.name
    assert [run.key.run_id for run in published_runs(lake, "failing")] == ["good"]


@pytest.mark.parametrize("broken", [None, PLAN_A_KEPT_OFFSET], ids=["sound", "broken"])
def test_little_is_counted_without_spark(
    iceberg: Engine,
    lake: Lake,  # which the stage opens
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[world.Rows], object] | None,
) -> None:
    """What fails is asked again of Spark, by Great Expectations: the results are the same, the rows included."""
    by_engine = []
    raises = pytest.raises(DataQualityFailure, match="verdict is expire") if broken else nullcontext()
    auto = AutoEngine(iceberg=True)
    auto._session = iceberg.session
    for name, engine in (("spark", iceberg), ("auto", auto)):
        folder = fill(tmp_path / name, cluster_id=f"counted {broken}", broken=broken)
        with pytest.MonkeyPatch.context() as patch, raises:
            if engine is auto:
                patch.setattr(spark_checks, "count_broken", lambda *_: pytest.fail("Spark was asked to count"))
            validate_tables.run(engine, folder)
        assert folder.exists("dq", "index.html")
        by_engine.append(folder.read_table("dq_results", 0))
    assert by_engine[0].equals(by_engine[1])
    assert (pc.sum(by_engine[1]["success"]).as_py() < len(by_engine[1])) == (broken is not None)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Engine, AutoEngine])
def test_what_is_checked_is_the_branch(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Engine]
) -> None:
    """Rows that get lost on the way to the lake are missed, though the run folder has them."""
    if kind is Engine:
        check_by_duckdb(monkeypatch)
    else:
        session, iceberg = iceberg.session, AutoEngine(iceberg=True)
        iceberg._session = session
    folder = fill(tmp_path, cluster_id=f"lossy {kind}")
    real = validate_tables.write_branch

    def lossy(spark: object, lake: object, key: object, folder: Folder, files: dict[str, list[str]]) -> list[str]:
        some = {name: found[:1] if name == "groups" else found for name, found in files.items()}
        return real(spark, lake, key, folder, some)

    monkeypatch.setattr(validate_tables, "write_branch", lossy)
    with pytest.raises(DataQualityFailure, match="belongs to a group"):
        validate_tables.run(iceberg, folder)
    assert published_runs(lake, f"lossy {kind}") == []


@pytest.mark.thorough
@pytest.mark.parametrize("table", ["groups", "topic_partitions"])
def test_a_table_that_is_not_as_declared_never_reaches_the_lake(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    check_by_duckdb(monkeypatch)
    folder = fill(tmp_path, cluster_id=f"undeclared {table}")
    file = folder.local / table / "0.parquet"
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns([TABLES[table].columns[0].name]), file)
    with pytest.raises(DataQualityFailure, match=table):
        validate_tables.run(iceberg, folder)


@pytest.mark.thorough
def test_a_second_attempt_takes_the_place_of_the_first(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_by_duckdb(monkeypatch)
    for run_id in ("try.1", "try.2"):
        folder = fill(tmp_path, run_id, cluster_id="twice")
        validate_tables.run(iceberg, folder)
        publish_tables.run(iceberg, folder)
        publish_tables.run(iceberg, folder)
    (run,) = published_runs(lake, "twice")
    assert run.key.run_id == "try.2"
    owners = {owner(load(lake, table.name), run.key) for table in CHECKED_TABLES}
    assert owners == {"try.2", None}


@pytest.mark.parametrize("name", sorted(path.stem for path in JOBS.glob("*.py")))
def test_jobs_explain_themselves(name: str) -> None:
    help_text = job.parser(name, load_job(name).__doc__ or "", REQUESTS[name]).format_help()
    parts = (f"{name}: ", "--run-dir URI ", f"example:\n  spark-submit spark_jobs/{name}.py ", " --run-dir var/runs/")
    assert [text for text in parts if text not in help_text] == []


@pytest.mark.thorough
@pytest.mark.parametrize(("broken", "codes"), [(None, [0, 0]), (PLAN_A_KEPT_OFFSET, [3, 3])], ids=["sound", "broken"])
def test_jobs_end_with_their_exit_codes(
    iceberg: Engine,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[world.Rows], object] | None,
    codes: list[int],
) -> None:
    check_by_duckdb(monkeypatch)
    fill(tmp_path, cluster_id=f"jobs {codes}", broken=broken)
    ended = []
    for name in ("validate_tables", "publish_tables"):
        module = load_job(name)
        monkeypatch.setattr(module, "engine_of_task", lambda *_, **__: engine_of(iceberg.session))
        monkeypatch.setattr(Engine, "stop", lambda _: None)
        monkeypatch.setattr(module, "open_lake", lambda: lake, raising=False)
        ended.append(job.main(name, "", REQUESTS[name], module.run, ["--run-dir", str(tmp_path), "--json"]))
        outcome = json.loads((tmp_path / "outcome" / f"{name}.json").read_text())
        assert outcome["exit_code"] == ended[-1]
        assert ("error" in outcome) == bool(ended[-1])
    assert ended == codes
    assert len(published_runs(lake, f"jobs {codes}")) == codes.count(0) // 2
