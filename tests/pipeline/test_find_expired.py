"""A whole run by a policy: verdicts beside the broker's, the plan that follows them, warnings, every check passed."""

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from sexton.job_params import ReplayRequest
from sexton.pipeline import find_expired, replay_groups
from sexton.pipeline.standalone import run_audit
from sexton.policy import Policy, parse_policy
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from tests.archived import Archive
from tests.log_builder import BASE_MS, classic_fields, commit, group_entry, subscription
from tests.pipeline.archive_runs import LATER_MS, SETTLE_MS, instant, minute

R_MS = 100 * 60_000
RUNNING = group_entry(2, "ci-running", classic_fields(("m", subscription("t"))))
OLD = {"commit_timestamp_ms": BASE_MS - 50 * 60_000}
DUE = {"commit_timestamp_ms": BASE_MS - R_MS}


def policy_of(*, until: str = "") -> Policy:
    return parse_policy(
        f"""
version: 1
limits: {{max_share_of_groups: 1, max_share_of_owner: 1}}
holds:
  - {{name: litigation, match: {{prefix: bill}}, kind: legal, owner: legal, reason: LEG-17{until}}}
rules:
  - {{name: orphans, match: {{orphan: [topic_gone, topic_recreated, partition_gone]}}, retention: 1m, owner: lost, reason: r}}
  - {{name: ci, match: {{prefix: ci-}}, retention: 30m, owner: build, reason: builds are short}}
""",  # noqa: E501
        where="policy",
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    topics = [
        {"topic": "t", "id": None, "partitions": [[6, 9]]},
        {"topic": "__consumer_offsets", "id": None, "partitions": [[0, 9]]},
    ]
    made = Archive(tmp_path_factory.mktemp("archive"), partitions=1, topics=topics)
    entries = [
        commit("billing", 5, **DUE), commit("billing", 6, topic="gone", **OLD), commit("ci-old", 5, **OLD),
        commit("ci-running", 5, **OLD), RUNNING, commit("ci-young", 5, commit_timestamp_ms=BASE_MS - 60_000),
        commit("other", 6, **DUE), commit("other", 7, topic="gone", **OLD), commit("other", 8, partition=1, **OLD),
    ]  # fmt: skip
    made.snapshot(instant(1) + 2_000, {0: minute(1, *entries, first=0)})
    return made


def request(archive: Archive, out: Path, **options: Any) -> ReplayRequest:
    return ReplayRequest(
        run_id=out.name, archive=archive.root, as_of_ms=instant(1), taken_at_ms=LATER_MS, settle_ms=SETTLE_MS,
        retention_minutes=R_MS // 60_000, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def audited(archive: Archive, small: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, RunRecord]:
    out = tmp_path_factory.mktemp("run")
    file = tmp_path_factory.mktemp("topics") / "topics.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in archive.topics))
    asked = request(archive, out, topics_file=str(file))
    return RunFolder(out), run_audit(small, asked, out, policy_of())


def verdicts(folder: RunFolder) -> dict[tuple[str, str, int], dict[str, Any]]:
    rows = folder.read_table("offset_verdicts", 0).to_pylist()
    return {(row["group_id"], row["topic"], row["partition"]): row for row in rows}


def test_every_offset_has_both_verdicts(audited: tuple[RunFolder, RunRecord]) -> None:
    folder, _ = audited
    names = ("broker_verdict", "policy_verdict", "policy_reason", "policy_rule", "policy_owner", "orphan")
    assert {key: tuple(row[name] for name in names) for key, row in verdicts(folder).items()} == {
        ("billing", "t", 0): ("expire", "hold", "held_legal", "litigation", "legal", None),
        ("billing", "gone", 0): ("keep", "hold", "held_legal", "litigation", "legal", "topic_gone"),
        ("ci-old", "t", 0): ("keep", "expire", "expired", "ci", "build", None),
        ("ci-running", "t", 0): ("keep", "keep", "subscribed", "ci", "build", None),
        ("ci-young", "t", 0): ("keep", "keep", "not_due", "ci", "build", None),
        ("other", "t", 0): ("expire", "keep", "no_rule", None, None, None),
        ("other", "gone", 0): ("keep", "expire", "expired", "orphans", "lost", "topic_gone"),
        ("other", "t", 1): ("keep", "expire", "expired", "orphans", "lost", "partition_gone"),
    }
    behind = {key for key, row in verdicts(folder).items() if row["behind_log_start"]}
    assert behind == {(group, "t", 0) for group in ("billing", "ci-old", "ci-running", "ci-young")}
    assert verdicts(folder)["ci-young", "t", 0]["policy_expires_at_ms"] == BASE_MS + 29 * 60_000


def test_the_plan_is_what_the_policy_lets_go(audited: tuple[RunFolder, RunRecord]) -> None:
    folder, record = audited
    planned = folder.read_table("tombstones", 0).to_pylist()
    assert [(row["group_id"], row["topic"], row["partition"], row["cause"]) for row in planned] == [
        ("ci-old", "t", 0, "rule:ci"), ("ci-old", None, None, "group_empty"), ("other", "gone", 0, "rule:orphans"),
        ("other", "t", 1, "rule:orphans"),
    ]  # fmt: skip
    assert (record.policy, record.policy_sha256) == (policy_of().canonical, policy_of().sha256)


def test_what_a_policy_cannot_do_is_a_warning(audited: tuple[RunFolder, RunRecord]) -> None:
    _, record = audited
    assert [text for text in record.warnings if "raise offsets.retention.minutes" in text] == [
        "hold litigation (legal, legal) does not stop the broker, which deletes 2 offsets of it unless they are "
        f"committed again, the first at 2026-09-21T14:13:20Z: {find_expired._REMEDY}",
        f"the policy keeps 1 offset that the broker deletes now by its own retention: {find_expired._REMEDY}",
    ]


def test_every_check_is_passed(audited: tuple[RunFolder, RunRecord]) -> None:
    results = audited[0].read_table("dq_results", 0).to_pylist()
    failed = {row["expectation"] for row in results if not row["success"] and row["severity"] == "critical"}
    assert len(results) > 100
    assert failed == set()


def test_a_hold_warns_of_what_the_broker_takes_before_it_ends(archive: Archive, small: Engine, tmp_path: Path) -> None:
    """And judging again tells nothing twice; without a policy of its own it takes the one that the run has."""
    folder = RunFolder(tmp_path)
    replay_groups.run(small, folder, request(archive, tmp_path))
    ends = "2026-09-21T14:30:00Z"
    record = find_expired.run(small, folder, policy=policy_of(until=f", until: {ends}"))
    assert [text.split(" unless")[0] for text in record.warnings if text.startswith("hold")] == [
        "hold litigation (legal, legal) does not stop the broker, which deletes 1 offset of it"
    ]
    again = find_expired.run(small, folder)
    assert (again.warnings, again.policy) == (record.warnings, record.policy)


def test_who_does_not_see_every_topic_calls_none_gone(archive: Archive, small: Engine, tmp_path: Path) -> None:
    """As with facts of early releases, which do not say it."""
    folder = RunFolder(tmp_path)
    replay_groups.run(small, folder, request(archive, tmp_path))
    record = find_expired.run(small, folder, policy=policy_of())
    kinds = folder.read_table("offset_verdicts", 0)["orphan"]
    assert pc.unique(kinds).to_pylist() == [None, "partition_gone"]
    assert any(text.startswith("rule orphans finds no offsets of deleted topics") for text in record.warnings)


def test_without_topics_no_orphan_can_be_told(archive: Archive, small: Engine, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    record = replay_groups.run(small, folder, request(archive, tmp_path))
    folder.write_run(record.model_copy(update={"has_topics": False}))
    record = find_expired.run(small, folder, policy=policy_of())
    assert "no orphan can be recognized, so rule orphans finds nothing: the cluster's topics were not recorded" in (
        record.warnings
    )


def test_without_a_policy_there_is_none(archive: Archive, small: Engine, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    replay_groups.run(small, folder, request(archive, tmp_path))
    record = find_expired.run(small, folder)
    rows = folder.read_table("offset_verdicts", 0)
    assert (record.policy, record.policy_sha256) == (None, None)
    assert all(rows[name].null_count == rows.num_rows for name in rows.column_names if name.startswith("policy_"))
