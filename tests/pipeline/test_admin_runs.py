"""A run from admin snapshots from its archive to the lake: what is due at both ends is planned, what only bytes show is
NULL."""

from pathlib import Path
from typing import Any

import pytest

from sexton.analysis.forecast_result import FolderTables
from sexton.archive.admin_snapshots import AdminSnapshots
from sexton.errors import NoCoverage
from sexton.history.published_story import published_story
from sexton.job_params import ReplayRequest
from sexton.lake.catalog import Lake
from sexton.lake.read import published_runs, read_published
from sexton.pipeline import find_expired, plan_tombstones, publish_tables, replay_groups, validate_tables
from sexton.plans.read_plan import read_plan
from sexton.policy import Policy, read_policy
from sexton.quality.suites import NEEDS_LOG
from sexton.report import write_report
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.processes import SerialEngine
from sexton.tables import TABLES
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import CLUSTER, Archive
from tests.lake_session import check_by_duckdb, engine_of, iceberg_session, lake_at, use_lake

MINUTE_MS = 60_000
NOW_MS = 1_790_000_000_000
SNAPSHOTS = 15
"""One a minute; the broker's retention is ten of them."""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """`old` became Empty twelve minutes ago, `edge` between nine and ten, `new` two; `busy` has a member, `simple`
    commits for itself, `no` is refused."""
    archive = Archive(tmp_path / "archive")
    for number in range(SNAPSHOTS):
        ago = SNAPSHOTS - 1 - number
        stable = {"state": "Stable", "subscribed_topics": ["t"]}
        groups: dict[str, dict[str, Any]] = {
            "old": {} if ago <= 12 else stable,
            "edge": {} if ago <= 9 else stable,
            "new": {} if ago <= 2 else stable,
            "busy": stable,
            "simple": {"protocol_type": None},
            "no": {"error": "GROUP_AUTHORIZATION_FAILED"},
        }
        offsets = {(name, "t", 0): 5 for name in groups}
        write_snapshot(archive, NOW_MS - ago * MINUTE_MS, groups, offsets)
    return archive


def run(engine: Engine, out: Path, archive: Archive, *, policy: Policy | None = None, **asked: Any) -> RunRecord:
    folder = RunFolder(out)
    replay_groups.run(
        engine, folder, ReplayRequest(run_id=out.name, archive=archive.root, taken_at_ms=NOW_MS + 1, **asked)
    )
    find_expired.run(engine, folder, policy=policy)
    return plan_tombstones.run(engine, folder)


def rows(out: Path, record: RunRecord, table: str) -> list[dict[str, Any]]:
    return [row for part in record.log_partitions for row in RunFolder(out).read_table(table, part).to_pylist()]


def group_ids(found: list[dict[str, Any]]) -> list[str]:
    return [row["group_id"] for row in found]


def test_only_what_is_due_at_both_ends_is_planned(archive: Archive, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with SerialEngine(quiet=True) as engine:
        record = run(engine, out, archive)
    assert (record.coverage, record.as_of_ms, record.retention_ms) == ("admin", NOW_MS, 10 * MINUTE_MS)
    verdicts = rows(out, record, "offset_verdicts")
    assert {row["group_id"]: (row["broker_verdict"], row["broker_reason"]) for row in verdicts} == {
        "old": ("expire", "expired"), "edge": ("unknown", "between_snapshots"), "new": ("keep", "not_due"),
        "busy": ("keep", "subscribed"), "simple": ("unknown", "between_snapshots"), "no": ("unknown", "not_answered"),
    }  # fmt: skip
    (planned,) = rows(out, record, "tombstones")  # no record of the group: what it has pending is not shown
    assert (planned["group_id"], planned["target_committed_offset"], planned["target_log_offset"]) == ("old", 5, None)
    validate_tables.check_folder(RunFolder(out))
    summary = write_report(out)
    assert [check for check in summary.checks if not check.success] == []
    assert summary.expiring.unknown == {"between_snapshots": 2, "not_answered": 1}
    assert (summary.due, summary.run.coverage) == (1, "admin")
    assert "by Admin API, the log is not read: hidden" in (out / "report.html").read_text(encoding="utf-8")


POLICY = """
version: 1
limits: {max_share_of_groups: 1, max_share_of_owner: 1}
rules:
  - {name: short, match: {regex: ".*"}, retention: 9m, owner: me, reason: tests}
"""


def test_a_rule_counts_from_the_later_end(archive: Archive, tmp_path: Path) -> None:
    out, file = tmp_path / "run", tmp_path / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    with SerialEngine(quiet=True) as engine:
        record = run(engine, out, archive, policy=read_policy(file))
    assert group_ids(rows(out, record, "tombstones")) == ["old"]
    file.write_text(POLICY.replace("9m", "8m"), encoding="utf-8")
    with SerialEngine(quiet=True) as engine:
        record = run(engine, out, archive, policy=read_policy(file))
    assert sorted(group_ids(rows(out, record, "tombstones"))) == ["edge", "old"]


def test_an_older_snapshot_that_is_damaged_ends_no_run(archive: Archive, tmp_path: Path) -> None:
    damaged = Path(archive.root) / CLUSTER / "admin_snapshots" / str(NOW_MS - 5 * MINUTE_MS) / "offsets.parquet"
    damaged.write_bytes(b"damaged")
    with SerialEngine(quiet=True) as engine:
        record = run(engine, tmp_path / "run", archive)
    assert group_ids(rows(tmp_path / "run", record, "tombstones")) == ["old"]
    assert any(warning.startswith(f"an admin snapshot is left out: {damaged}") for warning in record.warnings)


def test_an_instant_without_a_snapshot(archive: Archive, tmp_path: Path) -> None:
    with SerialEngine(quiet=True) as engine, pytest.raises(NoCoverage):
        run(engine, tmp_path / "run", archive, as_of_ms=NOW_MS + 1)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = lake_at(tmp_path / "lake")
    use_lake(monkeypatch, lake)
    return lake


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_spark")
def test_a_run_is_checked_and_published(
    archive: Archive, tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stage on Spark, the first run's checks by Great Expectations on its branch."""
    out, engine = tmp_path / "run", engine_of(iceberg_session(lake))
    record = run(engine, out, archive, as_of_ms=NOW_MS)
    validate_tables.run(engine, RunFolder(out))
    checks = RunFolder(out).read_table("dq_results", 0).to_pylist()
    assert [row for row in checks if not row["success"]] == []
    assert {row["table"] for row in checks if row["observed"] == NEEDS_LOG} >= {"load_profile", "runs"}
    publish_tables.run(engine, RunFolder(out), archive=archive.root)
    plan = read_plan(archive.fs, archive.root, CLUSTER, str(record.plan_id))
    snapshot = AdminSnapshots(archive.fs, archive.root, CLUSTER).at(NOW_MS)
    assert snapshot is not None
    assert plan.record.admin_snapshot is not None
    assert (plan.record.coverage, plan.record.admin_snapshot.taken_at_ms) == ("admin", snapshot.taken_at_ms)
    assert plan.record.admin_snapshot.sha256 == snapshot.sha256
    assert set(plan.tombstones["record_type"].to_pylist()) == {1}
    (published,) = published_runs(lake, CLUSTER)
    assert (published.row["coverage"], published.row["as_of_ms"]) == ("admin", NOW_MS)
    for name in ("committed_offsets", "groups", "members", "offset_verdicts", "tombstones"):
        found = read_published(lake, published, name)
        from_log = [column.name for column in TABLES[name].columns if column.known_from == "log"]
        assert [column for column in from_log if found[column].null_count < found.num_rows] == []
    assert read_published(lake, published, "offset_verdicts").num_rows == 6
    assert record.warnings

    changed(archive)
    later = tmp_path / "later"
    run(engine, later, archive, since_ms=NOW_MS, as_of_ms=NOW_MS + 2 * MINUTE_MS)
    check_by_duckdb(monkeypatch)
    validate_tables.run(engine, RunFolder(later))
    publish_tables.run(engine, RunFolder(later), archive=archive.root)
    _, story = published_story(lake, "old", is_requested=lambda *_: True, as_of_ms=None, cluster_id=CLUSTER)
    gone, removed = story.events[-2:]
    assert (gone.what, gone.timestamp_ms) == ("expired or deleted or group_deleted", NOW_MS + MINUTE_MS + 5)
    assert (removed.what, removed.timestamp_ms) == ("removed", NOW_MS + 2 * MINUTE_MS)
    _, story = published_story(lake, "new", is_requested=lambda *_: True, as_of_ms=None, cluster_id=CLUSTER)
    (left,) = story.next_verdicts
    assert (left.due_after_ms, left.expires_at_ms) == (NOW_MS + 7 * MINUTE_MS - 999, NOW_MS + 11 * MINUTE_MS + 1_002)


def changed(archive: Archive) -> None:
    """Two admin snapshots more: `busy` has committed, `old` is gone, and so is an offset of a group that stays."""
    stable = {"state": "Stable", "subscribed_topics": ["t"]}
    groups: dict[str, dict[str, Any]] = {"edge": {}, "new": {}, "busy": stable, "simple": {"protocol_type": None}}
    write_snapshot(archive, NOW_MS + MINUTE_MS, groups, {("busy", "t", 0): 5, ("new", "t", 0): 5, ("new", "t", 1): 7})
    write_snapshot(archive, NOW_MS + 2 * MINUTE_MS, groups, {("busy", "t", 0): 6, ("new", "t", 0): 5})


def test_changes_between_snapshots_have_intervals_and_every_candidate(archive: Archive, tmp_path: Path) -> None:
    changed(archive)
    out = tmp_path / "run"
    with SerialEngine(quiet=True) as engine:
        record = run(engine, out, archive, since_ms=NOW_MS, as_of_ms=NOW_MS + 2 * MINUTE_MS)
    found = {(row["group_id"], row["partition"]): row for row in rows(out, record, "offset_changes")}
    assert record.changes_since_ms == NOW_MS
    assert record.counts["offset_changes"] == len(found)
    assert {key: (row["kind"], row["candidates"]) for key, row in found.items()} == {
        ("busy", 0): ("set", None),
        ("old", 0): ("ambiguous", ["expired", "deleted", "group_deleted"]),
        ("edge", 0): ("ambiguous", ["expired", "deleted", "group_deleted"]),
        ("simple", 0): ("ambiguous", ["expired", "deleted", "group_deleted"]),
    }
    busy, old = found["busy", 0], found["old", 0]
    assert (busy["old_committed_offset"], busy["new_committed_offset"], busy["evidence"]) == (5, 6, None)
    assert (busy["changed_after_ms"], busy["changed_by_ms"]) == (NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS + 1)
    assert (old["old_committed_offset"], old["new_committed_offset"], old["log_offset"]) == (5, None, None)
    assert (old["changed_after_ms"], old["changed_by_ms"]) == (NOW_MS, NOW_MS + MINUTE_MS + 5)
    assert any("changes of 1 groups are not recorded" in warning for warning in record.warnings)  # `no`
    validate_tables.check_folder(RunFolder(out))
    assert [check for check in write_report(out).checks if not check.success] == []
    assert FolderTables(RunFolder(out), record).sweeps() == {}


def test_there_are_no_changes_without_a_look_at_their_beginning(archive: Archive, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with SerialEngine(quiet=True) as engine:
        record = run(engine, out, archive, since_ms=NOW_MS - 3_600_000 * 24, as_of_ms=NOW_MS)
    assert record.changes_since_ms is None
    assert "offset_changes" not in record.counts
