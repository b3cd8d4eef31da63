"""Runs of an archive where `sexton keep` has been at work: policies count from what clients did, and of each held
offset it is known until when it is kept, and what was not."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.analysis.forecast_result import FolderTables, offsets_of
from sexton.analysis.what_if import RetentionRules, what_if
from sexton.job_params import ReplayRequest
from sexton.ledger.entries import EMPTY_SINCE, Action, Intent, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger
from sexton.pipeline.standalone import run_audit
from sexton.policy import Policy, parse_policy
from sexton.policy.field_types import FOREVER_MS
from sexton.report.run_page import render_page
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.summary.summarize import summarize
from tests.archived import Archive
from tests.log_builder import BASE_MS, COMMIT, BatchSpec, classic_fields, commit, encode_log, group_entry
from tests.pipeline.archive_runs import LATER_MS, MINUTE_MS, SETTLE_MS, instant

OURS, THEIRS = 77, 78
"""Producer ids."""
EMPTY_MS = BASE_MS + MINUTE_MS
AS_OF_MS, OUR_MS = instant(60), instant(50)
RETENTION_MINUTES = 100
PLAN = "a" * 64
POLICY = """
version: 1
limits: {max_share_of_groups: 1, max_share_of_owner: 1}
holds:
  - {name: ended, match: {prefix: ended-}, kind: operational, owner: o, reason: r, keep: 30m}
  - {name: kept, match: {prefix: kept-}, kind: operational, owner: o, reason: r, keep: 90m}
  - {name: always, match: {prefix: always-}, kind: operational, owner: o, reason: r, keep: true}
rules:
  - {name: idle, match: {prefix: idle-, idle: 55m}, retention: 30m, owner: o, reason: r}
  - {name: short, match: {prefix: short-}, retention: 55m, owner: o, reason: r}
"""
KINDS = ("simple", "classic")
NAMES = [f"{what}-{kind}" for what in ("ended", "kept", "always", "idle", "short") for kind in KINDS]


def made(
    folder: Path, *, keeps: bool, by: int = OURS, action: Action = "keep", outcome: str | None = "done"
) -> Archive:
    """An archive of groups whose clients committed at BASE_MS; in minute 50 somebody committed and joined once more."""
    made = Archive(folder, partitions=1)
    empty = {name: group_entry(2, name, classic_fields(state_timestamp_ms=EMPTY_MS)) for name in NAMES}
    entries = [commit(name, 5, commit_timestamp_ms=BASE_MS) for name in NAMES]
    entries += [empty[name] for name in NAMES if name.endswith("classic")]
    log = [BatchSpec(entries=(entry,), timestamp_ms=BASE_MS + MINUTE_MS) for entry in entries]
    first = encode_log(log)
    made.snapshot(instant(2), {0: first})
    steps: list[tuple[str, int]] = []
    again = []
    if keeps:
        for name in NAMES:
            steps.append((name, len(entries) + len(again)))
            classic = group_entry(2, name, classic_fields(state_timestamp_ms=OUR_MS))
            own = commit(name, 5, commit_timestamp_ms=OUR_MS) if name.endswith("simple") else classic
            plain = {} if name.endswith("classic") else {"producer_id": by, "transactional": True}
            again.append(BatchSpec(entries=(own,), timestamp_ms=OUR_MS, **plain))
        again.append(BatchSpec(control=(COMMIT,), producer_id=by, transactional=True, timestamp_ms=OUR_MS))
        recorded(made, steps, action=action, outcome=outcome)
    again.append(BatchSpec(entries=(commit("other", commit_timestamp_ms=OUR_MS),), timestamp_ms=OUR_MS))
    made.snapshot(AS_OF_MS + 2_000, {0: encode_log(again, base_offset=len(entries))})
    return made


def recorded(archive: Archive, steps: list[tuple[str, int]], *, action: Action, outcome: str | None) -> None:
    """The ledger of these steps; a step without an outcome is open."""
    ledger = Ledger(pafs.LocalFileSystem(), archive.root, archive.cluster_id, PLAN)
    about = {"action": action}
    ledger.claim(at_ms=OUR_MS, lease_ms=1, approved_by="ann", sink="coordinator", plan_sha256=PLAN, about=about)
    for number, (name, place) in enumerate(steps):
        value = Value(committed_offset=5, commit_timestamp_ms=BASE_MS)
        item = Item(log_partition=0, position=number, group_id=name, topic="t", partition=0, before=value)
        checks = {"producer_id": OURS, EMPTY_SINCE: EMPTY_MS if name.endswith("classic") else None}
        ledger.intent(Intent(step=number, action=action, items=[item], checks=checks), at_ms=OUR_MS)
        if outcome is not None:
            result = Result.of(item.item_id, outcome, written=(place, OUR_MS))
            ledger.outcome(StepOutcome(step=number, of_attempt=1, items=[result]), at_ms=OUR_MS + 1)
    ledger.close({}, at_ms=OUR_MS + 2)


def policy() -> Policy:
    return parse_policy(POLICY, where="policy")


def audited(engine: Engine, archive: Archive, out: Path, **options: Any) -> dict[str, dict[str, Any]]:
    """offset_verdicts by group."""
    folder, _ = audit(engine, archive, out, **options)
    return {row["group_id"]: row for row in folder.read_table("offset_verdicts", 0).to_pylist()}


def audit(engine: Engine, archive: Archive, out: Path, **options: Any) -> tuple[RunFolder, RunRecord]:
    asked = {"retention_minutes": RETENTION_MINUTES, "settle_ms": SETTLE_MS, "taken_at_ms": LATER_MS, **options}
    request = ReplayRequest(run_id=out.name, archive=archive.root, as_of_ms=AS_OF_MS, **asked)
    return RunFolder(out), run_audit(engine, request, out, policy())


OF_POLICY = ("policy_verdict", "policy_reason", "policy_rule", "policy_expires_at_ms", "kept_until_ms")


@pytest.mark.parametrize("outcome", ["done", None])
def test_our_own_commits_and_joins_are_no_activity(tmp_path: Path, small: Engine, outcome: str | None) -> None:
    """Whatever the rule: as if only the clients had committed. The broker counts from ours. A repeated commit without
    an outcome is known by its producer id, a join without one counts as a client's."""
    without = audited(small, made(tmp_path / "one", keeps=False), tmp_path / "a")
    having = audited(small, made(tmp_path / "two", keeps=True, outcome=outcome), tmp_path / "b")
    for name in NAMES:
        if outcome is None and name.endswith("classic"):
            continue
        assert [having[name][column] for column in OF_POLICY] == [without[name][column] for column in OF_POLICY], name
        assert having[name]["broker_expires_at_ms"] - without[name]["broker_expires_at_ms"] >= 49 * MINUTE_MS
    assert without["idle-simple"]["policy_verdict"] == without["short-simple"]["policy_verdict"] == "expire"
    assert having["idle-simple"]["client_commit_timestamp_ms"] == BASE_MS
    if outcome:
        assert having["idle-classic"]["client_state_timestamp_ms"] == EMPTY_MS
        assert having["short-classic"]["policy_verdict"] == "expire"
    assert {row["client_commit_timestamp_ms"] for row in without.values()} == {None}


@pytest.mark.parametrize("by, action", [(THEIRS, "keep"), (OURS, "restore")])
def test_what_others_commit_is_activity(tmp_path: Path, small: Engine, by: int, action: Action) -> None:
    """A client's transaction, and what a restore has put back."""
    found = audited(small, made(tmp_path / "one", keeps=True, by=by, action=action), tmp_path / "a")
    assert (found["idle-simple"]["policy_reason"], found["ended-simple"]["keep_status"]) == ("no_rule", "due")
    assert found["idle-simple"]["client_commit_timestamp_ms"] is None


def test_until_when_each_offset_is_kept(tmp_path: Path, small: Engine) -> None:
    """In the verdicts and in the forecast."""
    folder, record = audit(small, made(tmp_path / "one", keeps=True), tmp_path / "a")
    found = {row["group_id"]: row for row in folder.read_table("offset_verdicts", 0).to_pylist()}
    status = {name: (found[name]["keep_status"], found[name]["kept_until_ms"]) for name in NAMES}
    for kind in KINDS:
        assert status[f"ended-{kind}"] == ("ended", BASE_MS + 30 * MINUTE_MS)
        assert status[f"kept-{kind}"] == ("due", BASE_MS + 90 * MINUTE_MS)
        assert status[f"always-{kind}"] == ("due", FOREVER_MS)
        assert status[f"idle-{kind}"] == (None, None)
    assert (found["kept-simple"]["keep_at_ms"], found["kept-simple"]["keep_outcome"]) == (OUR_MS + 1, "done")
    tables = FolderTables(folder, record)
    (kept,), (always,), (ended,) = (offsets_of(tables, f"{name}-simple") for name in ("kept", "always", "ended"))
    own_ms = OUR_MS + RETENTION_MINUTES * MINUTE_MS
    assert (kept.expires_at_ms, kept.kept_until_ms) == (own_ms, BASE_MS + 90 * MINUTE_MS)
    assert (always.expires_at_ms, always.kept_until_ms) == (None, FOREVER_MS)
    assert ended.expires_at_ms == own_ms
    forecast = folder.read_table("expiry_forecast", 0).to_pylist()
    assert not any(row["group_id"].startswith("always") for row in forecast)
    assert {row["group_id"] for row in forecast if row["by"] == "broker"} >= {"kept-simple", "ended-classic"}
    summary = summarize(folder)
    assert summary.policy is not None
    kept_by = {(row.hold, row.status, row.commits, row.joins, row.until_ms) for row in summary.policy.kept.rows}
    assert kept_by == {
        ("always", "due", 1, 1, None),
        ("kept", "due", 1, 1, BASE_MS + 90 * MINUTE_MS),
        ("ended", "ended", 1, 1, BASE_MS + 30 * MINUTE_MS),
    }
    page = render_page(summary)
    assert "Kept alive by holds" in page
    assert "without an end" in page


@pytest.mark.parametrize("outcome, is_late, status", [
    ("refused", False, "not_kept"), ("done", False, "due"), ("done", True, "not_kept"), (None, False, "not_kept"),
])  # fmt: skip
def test_what_was_not_kept_is_an_alert(
    tmp_path: Path, small: Engine, outcome: str | None, is_late: bool, status: str
) -> None:
    """Within two runs of its expiry after an attempt that failed; within one run of it whatever was done."""
    archive = made(tmp_path / "one", keeps=True, outcome=outcome)
    every_minutes = 85 if is_late else 45
    folder, record = audit(small, archive, tmp_path / "a", since_ms=AS_OF_MS - every_minutes * MINUTE_MS)
    assert record.changes_since_ms is not None
    found = {row["group_id"]: row for row in folder.read_table("offset_verdicts", 0).to_pylist()}
    assert found["always-simple"]["keep_status"] == status
    checks = folder.read_table("dq_results", 0).to_pylist()
    (alert,) = (row for row in checks if "under a hold with keep" in row["expectation"])
    assert (alert["success"], alert["severity"]) == (status != "not_kept", "warning")
    assert any("hold always" in text for text in record.warnings) == (status == "not_kept")


def test_what_if_knows_what_keep_will_do(tmp_path: Path, small: Engine) -> None:
    folder, record = audit(small, made(tmp_path / "one", keeps=True), tmp_path / "a")
    in_force = RetentionRules(retention_ms=MINUTE_MS, policy=None, source="test")
    found = what_if(folder, record, in_force=in_force, proposed=in_force.asked(None, policy()))
    spared = {one.group_id for one in found.offsets if one.in_force and not one.proposed}
    assert spared == {f"{what}-{kind}" for what in ("kept", "always") for kind in KINDS}
