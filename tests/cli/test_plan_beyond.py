"""By how much a plan goes beyond what the broker itself would remove: what is said of it, and what apply does then."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import apply as apply_command
from sexton.execution import kafka_admin as real
from sexton.plans.plan import PlanRecord
from sexton.report.meanings import beyond_broker_sentence
from tests.archived import Archive
from tests.environment import with_settings
from tests.faults.apply_cluster import SimCluster
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.pipeline.archive_runs import instant

Run = Callable[..., tuple[int, str, str]]
GROUPS = 201
BROKERS = {"offsets.retention.minutes": "10080"}
LIMIT = "200 of 201 groups would lose offsets or be deleted; SEXTON_MAX_SHARE_OF_GROUPS is 0.5"


def archive_of(folder: Path, told: dict[str, str]) -> Archive:
    """200 groups that committed a minute before the instant, and one that did so just now; one log partition."""
    entries = [commit(f"g{number:03d}", commit_timestamp_ms=BASE_MS) for number in range(GROUPS - 1)]
    entries.append(commit("late", commit_timestamp_ms=instant(2)))
    archive = Archive(folder, settings=told)
    archive.snapshot(instant(3), {0: encode_log([BatchSpec(entries=tuple(entries), timestamp_ms=instant(2))])})
    return archive


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> SimCluster:
    """A broker behind `sexton apply` that says who it is and what its retention is; no group is ever reached."""
    cluster = SimCluster(1, log_partitions=1)
    cluster.cluster_id, cluster.topic_id, cluster.retention_ms = "cluster", "topic", 7 * 86_400_000
    monkeypatch.setattr(apply_command, "now_ms", lambda: instant(4))
    cluster.now_ms = instant(4)
    monkeypatch.setattr(real, "connected", lambda config: nullcontext(cluster))
    return cluster


@pytest.fixture
def every_group() -> Iterator[None]:
    """Limits under which every group may lose something."""
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1"):
        yield


def made(run: Run, archive: Archive, out: Path, *options: object) -> dict[str, Any]:
    code, told, err = run("plan", "--archive", archive.root, "--out", out, "--json", *options)
    assert code == 0, err
    found: dict[str, Any] = json.loads(told)
    return found


def test_a_minutes_retention_takes_what_the_broker_would_keep(run: Run, broker: SimCluster, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "archive", BROKERS)
    found = made(run, archive, tmp_path / "out", "--retention-minutes", 1)
    assert (found["counts"]["groups_losing"], found["counts"]["groups_total"]) == (200, 201)
    assert (found["retention_ms"], found["broker_retention_ms"]) == (60_000, 604_800_000)
    assert found["beyond"] == {"offsets": 200, "groups": 200}
    assert found["over_limits"] == [LIMIT]
    code, told, _ = run("plan", "--archive", archive.root, "--out", tmp_path / "out", "--retention-minutes", 1)
    first, *_ = told.splitlines()
    assert first.startswith("Deletes 200 offsets of 200 groups that the broker would keep")
    assert "not possible: it is a what-if: its retention is not the broker's" in told
    doing = ("--sink=coordinator", "--approved-by=ann")
    code, _, err = run("apply", found["plan_id"], "--archive", archive.root, *doing)
    assert (code, "over its limits" in err) == (6, True), err
    code, told, _ = run("show", "plan", found["plan_id"], "--archive", archive.root)
    assert told.startswith("**Deletes 200 offsets of 200 groups that the broker would keep (")
    assert not [call for call in broker.calls if call.startswith("delete")]


def test_a_what_if_is_looked_at_and_not_applied(
    run: Run, broker: SimCluster, tmp_path: Path, every_group: None
) -> None:
    archive = archive_of(tmp_path / "archive", BROKERS)
    plan_id = made(run, archive, tmp_path / "out", "--retention-minutes", 1)["plan_id"]
    code, told, _ = run("apply", plan_id, "--archive", archive.root)
    first, *_ = told.splitlines()
    assert (code, first.startswith("Deletes 200 offsets")) == (0, True), told
    assert "! it would be refused: plan " in told
    assert "made with a retention of 1m, the broker keeps offsets for 7d" in told
    code, _, err = run("apply", plan_id, "--archive", archive.root, "--sink=coordinator", "--approved-by=ann")
    assert (code, "it is a what-if" in err, "write" not in err) == (6, True, True), err
    assert not [call for call in broker.calls if call.startswith("delete")]


def test_without_a_record_of_it_the_broker_is_asked(
    run: Run, broker: SimCluster, tmp_path: Path, every_group: None
) -> None:
    """As of an archive that was imported from a disk: a plan of it is by Kafka's default, or by what was asked for."""
    archive = archive_of(tmp_path / "archive", {})
    found = made(run, archive, tmp_path / "out", "--retention-minutes", 1)
    assert (found["broker_retention_ms"], found["beyond"]) == (None, None)
    doing = ("apply", found["plan_id"], "--archive", archive.root, "--sink=coordinator", "--approved-by=ann")
    for retention_ms, said in ((None, "the broker's retention is unknown"), (604_800_000, "as the broker says now")):
        broker.retention_ms = retention_ms
        code, _, err = run(*doing)
        assert (code, said in err) == (6, True), err
    broker.retention_ms = 60_000
    _, told, err = run(*doing, "--json")
    assert json.loads(told)["items"] == 400, f"not refused as a whole: {err}"


def test_as_much_as_the_broker_is_not_beyond_it(run: Run, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "archive", {"offsets.retention.minutes": "1"})
    found = made(run, archive, tmp_path / "out")
    assert (found["broker_retention_ms"], found["beyond"]) == (60_000, {"offsets": 0, "groups": 0})
    again = made(run, archive, tmp_path / "out", "--retention-minutes", 1)
    assert again["plan_sha256"] == found["plan_sha256"], "a retention that was asked for and is the broker's own"
    _, told, _ = run("show", "plan", found["plan_id"], "--archive", archive.root)
    assert told.startswith("**Deletes exactly what the broker would delete, 0 offsets more (broker retention: ")


def test_a_policy_goes_beyond_the_broker_and_says_by_how_much(run: Run, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "archive", BROKERS)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nlimits: {max_share_of_groups: 1, max_share_of_owner: 1}\nrules:\n"
        "  - {name: some, match: {prefix: g00}, retention: 1m, owner: us, reason: a minute is enough here}\n"
    )
    found = made(run, archive, tmp_path / "out", "--policy", policy)
    assert (found["beyond"], found["over_limits"]) == ({"offsets": 10, "groups": 10}, [])
    _, told, _ = run("show", "plan", found["plan_id"], "--archive", archive.root)
    assert told.startswith("**Deletes 10 offsets of 10 groups that the broker would keep")


def test_the_counts_limit_holds_without_a_policy(run: Run, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "archive", {"offsets.retention.minutes": "1"})
    with with_settings(SEXTON_MAX_OFFSETS="199", SEXTON_MAX_SHARE_OF_GROUPS="1"):
        found = made(run, archive, tmp_path / "out")
    assert found["over_limits"] == ["200 offsets would be deleted; SEXTON_MAX_OFFSETS is 199"]


def test_a_plan_that_was_kept_before_there_was_a_mark_can_be_read() -> None:
    kept = {"plan_id": "a" * 64, "cluster_id": "c", "topic_id": "t", "as_of_ms": 1, "cuts": {}, "profile": "p"}
    more = {"retention_ms": 1, "policy_sha256": None, "code_version": "0", "counts": {}, "losses": [], "batches": []}
    last = {"largest_batch_bytes": 0, "max_message_bytes": None, "over_limits": [], "warnings": [], "files": {}}
    record = PlanRecord.model_validate({**kept, **more, **last})
    assert (record.is_what_if, record.beyond) == (False, None)
    assert beyond_broker_sentence(record).startswith("The broker's retention was not recorded")
