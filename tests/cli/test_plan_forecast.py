"""sexton plan, forecast and what-if over a small archive: what they say, what they keep, and what they refuse."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from sexton.job_params import ReplayRequest
from sexton.pipeline.standalone import make_plan
from sexton.plans.read_plan import read_plan
from sexton.quality import duckdb_checks
from sexton.quality.expectation import ExpectationResult
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.tables import TABLES
from tests.archived import CLUSTER, Archive
from tests.log_builder import BASE_MS, BatchSpec, classic_fields, commit, encode_log, group_entry, subscription
from tests.pipeline.archive_runs import LATER_MS, instant
from tests.plans.plan_runs import archive_of_commits, plans_of
from tests.views.worlds import write_log

Run = Callable[..., tuple[int, str, str]]
OutOf = Callable[..., str]
Asked = Callable[..., Any]
LOCAL = pafs.LocalFileSystem()
POLICY = """\
version: 1
limits: {max_share_of_groups: 1, max_share_of_owner: 1}
holds:
  - {name: keep-a, match: {group: a}, kind: legal, owner: legal, reason: litigation}
rules:
  - {name: fast, match: {regex: '.*'}, retention: 1m, owner: build, reason: nobody needs them, ticket: OPS-1}
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archive_of_commits(tmp_path / "archive")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path / "policy.yaml"


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    entries = (commit("g", commit_timestamp_ms=BASE_MS), commit("g", partition=1, commit_timestamp_ms=BASE_MS + 1))
    return disk_of(tmp_path, *entries, at_ms=BASE_MS + 120_000)


def disk_of(folder: Path, *entries: tuple[bytes, bytes | None], at_ms: int = BASE_MS) -> Path:
    return write_log(folder / "disk", {0: encode_log([BatchSpec(entries=entries, timestamp_ms=at_ms)])})


def test_a_plan_is_made_kept_and_told(
    run: Run, printed: Callable[..., str], archive: Archive, policy: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    told = printed("plan", "--archive", archive.root, "--policy", policy, "--out", out)
    (plan_id,) = plans_of(archive.root, CLUSTER)
    kept = read_plan(LOCAL, archive.root, None, plan_id)
    for words in (plan_id, kept.sha256, "rule fast", "build", "nobody needs them", "3 offsets of 2 of 3 groups"):
        assert words in told, words
    assert f"sexton apply {plan_id} --archive {archive.root} --policy {policy} --plan-sha256 {kept.sha256}" in told
    assert "hold keep-a (legal, legal) does not protect 2 offsets" in told
    assert (out / "plan" / "plan.html").read_text().startswith("<!DOCTYPE html>")
    code, told, _ = run("plan", "--archive", archive.root, "--policy", policy, "--out", out, "--json")
    found = json.loads(told)
    assert (code, found["plan_id"], found["plan_sha256"]) == (0, plan_id, kept.sha256), "the same again, in its place"
    assert found["kept_at"].endswith(f"/plans/{plan_id}")
    assert found["losses"][0]["owner"] == "build"
    assert found["counts"]["held_expiring"] == 2
    told = printed("plan", "--archive", archive.root, "--policy", policy, "--out", out, "--tree")
    assert tree_of(told) == [
        "in all: 3 offsets, 1 whole group",
        "└─ build: 3 offsets, 1 whole group",
        "   └─ rule fast: 3 offsets, 1 whole group, of 2 groups: nobody needs them",
    ]


def tree_of(told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith(("in all", "├", "└", "│", "   └"))]


def test_a_disks_plan_is_only_to_look_at(printed: Callable[..., str], segments: Path, tmp_path: Path) -> None:
    told = printed("plan", "--segments", segments, "--retention-minutes", 1, "--out", tmp_path / "out")
    assert "not kept     the run does not read an archive" in told
    assert "sexton apply" not in told
    assert "2 offsets of 1 of 1 group, 1 whole group" in told


def test_a_plan_beyond_its_limits_is_kept_and_not_to_be_applied(run: Run, archive: Archive, tmp_path: Path) -> None:
    strict = tmp_path / "strict.yaml"
    strict.write_text(POLICY.replace("max_share_of_groups: 1", "max_offsets: 2, max_share_of_groups: 1"))
    code, told, _ = run("plan", "--archive", archive.root, "--policy", strict, "--out", tmp_path / "out")
    assert code == 0
    assert "over limit   3 offsets would be deleted; limits.max_offsets is 2" in told
    assert "not possible: it exceeds its limits" in told
    assert "sexton apply" not in told


def test_what_no_check_passed_is_not_kept(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = duckdb_checks.check

    def failing(*arguments: Any, **options: Any) -> list[ExpectationResult]:
        first, *others = real(*arguments, **options)
        return [replace(first, success=False, severity="critical"), *others]

    replay = ReplayRequest(run_id="r", archive=archive.root, taken_at_ms=LATER_MS, retention_minutes=1)
    with SerialEngine(quiet=True) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(duckdb_checks, "check", failing)
            made = make_plan(engine, replay, tmp_path / "out", None, page=lambda _: b"")
        kept = make_plan(engine, replay, tmp_path / "out", None, page=lambda _: b"").kept_at
    assert (made.kept_at, made.why_not, made.failed_checks) == (None, "1 critical checks failed", 1)
    assert kept is not None


def test_forecast_of_a_log(out_of: OutOf, asked: Asked, archive: Archive) -> None:
    found = asked("forecast", "--archive", archive.root, "--retention-minutes", 1440)
    horizons = [
        (one["days"], one["by"], one["offsets"], one["groups"], one["whole_groups"]) for one in found["horizons"]
    ]
    assert horizons == [(1, "broker", 5, 3, 2), (7, "broker", 6, 3, 3), (30, "broker", 6, 3, 3)]
    groups = [(own["group_id"], own["within_1_days"], own["whole_within_days"]) for own in found["groups"]]
    assert groups == [("c", 2, 1), ("a", 2, 1), ("f", 1, 7)]
    told = out_of("forecast", "--archive", archive.root, "--retention-minutes", 1440, "--limit", 1)
    assert "within 7 days" not in told, "one group is shown"
    assert "1 day    broker  5" in told


def test_forecast_of_a_group_says_what_would_turn_it(
    out_of: OutOf, asked: Asked, archive: Archive, policy: Path
) -> None:
    offsets = asked("forecast", "c", "--archive", archive.root, "--policy", policy)["offsets"]
    told = [(one["topic"], one["committed_offset"], one["by"], one["reason"]) for one in offsets]
    assert told == [("u", 6, "broker", "expired_explicit"), ("t", 5, "rule:fast", "expired")]
    assert "it has no offsets" in out_of("forecast", "nobody", "--archive", archive.root)


def test_forecast_of_a_run_folder(run: Run, asked: Asked, archive: Archive, policy: Path, tmp_path: Path) -> None:
    assert run("plan", "--archive", archive.root, "--policy", policy, "--out", tmp_path / "out", "--json")[0] == 0
    found = asked("forecast", "--run", tmp_path / "out")
    assert {(own["group_id"], tuple(own["by"])) for own in found["groups"]} == {
        ("c", ("broker", "rule:fast")),
        ("f", ("rule:fast",)),
        ("a", ("broker",)),
    }
    assert run("forecast", "a", "--run", tmp_path / "out")[0] == 0


def write_sweeps(place: Path, started_at_ms: int) -> int:
    """Have the run in `place` see a sweep of each of its log partitions; how many these are."""
    folder = RunFolder(place)
    record = folder.read_run().model_copy(update={"changes_since_ms": 1})
    folder.write_run(record)
    schema = TABLES["expiry_sweeps"].arrow_schema(with_run=False)
    for part in record.log_partitions:
        swept = {"log_partition": part, "first_log_offset": 0, "last_log_offset": 1, "started_at_ms": started_at_ms}
        swept |= {"offsets": 40, "certain_offsets": 2, "groups": 1}
        folder.write_table(record, "expiry_sweeps", pa.Table.from_pylist([swept], schema), part)
    return len(record.log_partitions)


def test_forecast_says_when_the_sweep_comes(
    run: Run, out_of: OutOf, asked: Asked, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the sweeps that the run saw; without one, and after another leader's, by when at the latest."""
    place = tmp_path / "out"
    assert run("plan", "--archive", archive.root, "--out", place, "--json")[0] == 0

    def last_due() -> dict[str, Any]:
        offsets = asked("forecast", "f", "--run", place)["offsets"]
        return max((one for one in offsets if one["by"] == "broker"), key=lambda one: one["expires_at_ms"])

    unseen = last_due()
    due_ms = unseen["expires_at_ms"]
    assert (unseen["gone_ms"], unseen["gone_from_ms"]) == (None, due_ms)
    assert due_ms + 600_000 < unseen["gone_until_ms"] < due_ms + 640_000
    assert re.search(r"by \d{4}-\d\d-\d\d", out_of("forecast", "f", "--run", place))

    write_sweeps(place, due_ms - 900_000)
    seen = last_due()
    assert seen["gone_ms"] == due_ms + 300_000
    assert due_ms < seen["gone_from_ms"] <= seen["gone_ms"] <= seen["gone_until_ms"]
    for led, expected in (((1, 0), seen), ((1, 1), unseen), (None, seen)):
        monkeypatch.setattr("sexton.analysis.forecast_result.led_from", lambda *_, led=led, **__: led)
        assert last_due() == expected


def test_a_sweep_and_the_failure_of_its_append(
    run: Run, out_of: OutOf, asked: Asked, archive: Archive, tmp_path: Path
) -> None:
    """What the plan without a policy takes is what the brokers' sweeps remove, by broker and log partition."""
    place = tmp_path / "out"
    counts = asked("plan", "--archive", archive.root, "--out", place)["counts"]
    assert counts["offsets"] > 0
    for source in (("--archive", archive.root), ("--run", place)):
        found = asked("groups", "check-sweep", *source)
        assert sum(sweep["offsets"] for sweep in found["sweeps"]) == counts["offsets"]
        parts = [part for sweep in found["sweeps"] for part in sweep["log_partitions"]]
        assert sum(part["records"] for part in parts) == counts["tombstones"]
        failed = {one["log_partition"]: one["leaves_cache"] for one in found["if_the_append_fails"]}
        assert failed == {part["log_partition"]: False for part in parts if part["records"]}
        assert (found["past_sweeps"], found["blocked"]) == ([], [])
    old = ("groups", "check-sweep", "--archive", archive.root, "--profile", "group_metadata_manager:3.9")
    told = out_of(*old)
    assert re.search(r"INFO Removed \d+ expired offsets in M milliseconds", told)
    assert "the next load restores them" in told
    assert run("groups", "check-sweep", "--run", place, "--retention-minutes", "1")[0] == 2


def test_a_commit_in_flight_keeps_its_offset_and_its_group(
    asked: Asked, out_of: OutOf, refused: Callable[..., str], tmp_path: Path
) -> None:
    """Not in 4.x, whose coordinator has the new value at once (pendingOffsetCommits)."""
    empty = group_entry(2, "e", classic_fields(state_timestamp_ms=BASE_MS))
    entries = (*(commit("e", partition=number) for number in (0, 1)), empty)
    log = ("--segments", disk_of(tmp_path, *entries, at_ms=BASE_MS + 120_000), "--partition-count", 1)
    sweep = ("groups", "check-sweep", *log, "--retention-minutes", 1)
    old = (*sweep, "--profile", "group_metadata_manager:3.9")

    def told(*options: str) -> tuple[int, list[tuple[str, str | None, int | None]]]:
        found = asked(*old, *options)
        return found["sweeps"][0]["offsets"], [tuple(row.values()) for row in found["kept_by_commits_in_flight"]]

    assert told() == (2, [])
    assert told("--in-flight", "e:t:1") == (1, [("e", "t", 1), ("e", None, None)])
    assert told("--in-flight", "e:new:0") == (2, [("e", None, None)])
    assert told("--in-flight", "other:t:1") == (2, [])
    assert re.search(
        r"commits in flight keep.*\nGROUP +TOPIC.*\ne +t +1\ne +- +-\n", out_of(*old, "--in-flight", "e:t:1")
    )
    assert "commits in flight keep no offsets" in refused(2, *sweep, "--in-flight", "e:t:1")
    assert "not GROUP:TOPIC:PARTITION: 't:1'" in refused(2, *old, "--in-flight", "t:1")


def test_past_sweeps_by_broker(run: Run, out_of: OutOf, archive: Archive, tmp_path: Path) -> None:
    place = tmp_path / "out"
    assert run("plan", "--archive", archive.root, "--out", place, "--json")[0] == 0
    log_partitions = write_sweeps(place, BASE_MS)
    told = out_of("groups", "check-sweep", "--run", place)
    assert re.search(rf"{40 * log_partitions} +{2 * log_partitions} ", told)


def test_what_if_retention_were_shorter(out_of: OutOf, asked: Asked, archive: Archive) -> None:
    found = asked("what-if", "--archive", archive.root, "--retention-minutes", 1)
    assert found["counts"] == {
        "offsets_lost_in_force": 1, "offsets_lost_proposed": 5, "offsets_newly_lost": 4, "offsets_spared": 0,
        "groups_that_differ": 3, "whole_groups_in_force": 0, "whole_groups_proposed": 2,
    }  # fmt: skip
    groups = [(own["group_id"], own["lost_proposed"], own["offset_count"]) for own in found["groups"]]
    assert groups == [("a", 2, 2), ("c", 2, 2), ("f", 1, 2)]
    told = out_of("what-if", "f", "--archive", archive.root, "--retention-minutes", 1)
    assert "stays     expires" in told
    assert told.count("broker") == 1


def test_what_if_at_a_past_instant(asked: Asked, archive: Archive) -> None:
    """A minute after the commits all of them were younger than two minutes."""
    found = asked("what-if", "--archive", archive.root, "--retention-minutes", 2, "--as-of", instant(1))
    assert found["counts"]["offsets_newly_lost"] == 0


def test_what_if_a_policy_changed(out_of: OutOf, asked: Asked, archive: Archive, policy: Path, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(POLICY.replace("group: a", "group: c"))
    argv = ("--archive", archive.root, "--policy", tmp_path / "new.yaml", "--against-policy", policy)
    found = asked("what-if", *argv)
    assert {(own["group_id"], own["newly_lost"], own["spared"]) for own in found["groups"]} == {
        ("a", 2, 0),
        ("c", 0, 1),  # the broker takes the other one whatever is held
        ("f", 0, 0),
    }
    told = out_of("what-if", *argv)
    assert "spared" in told
    assert not any(line.startswith("f ") for line in told.splitlines()), "nothing changes for it"
    assert [(one["owner"], one["by"]) for one in found["rules"]] == [(None, "broker"), ("build", "rule:fast")]
    for name in ("lost_in_force", "lost_proposed"):
        total = found["counts"][f"offsets_{name}"]
        assert sum(one[name] for one in found["rules"]) == total
    assert sum(one["whole_groups"] for one in found["rules"]) == found["counts"]["whole_groups_proposed"]
    assert tree_of(out_of("what-if", *argv, "--tree")) == [
        "in all: 4 offsets lost (2 newly), 1 spared, 1 whole group",
        "├─ the broker: 1 offset lost (0 newly), 0 spared, 0 whole groups",
        "│  └─ the broker's own retention: 1 offset lost (0 newly), 0 spared, 0 whole groups, of 1 group",
        "└─ build: 3 offsets lost (2 newly), 1 spared, 1 whole group",
        "   └─ rule fast: 3 offsets lost (2 newly), 1 spared, 1 whole group, of 3 groups: nobody needs them",
    ]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["plan", "--out", "out"], "give either --segments DIR or --archive URI"),
        (["plan", "--segments", "a", "--archive", "b", "--out", "out"], "give either --segments DIR or --archive URI"),
        (["plan", "--segments", "a", "--full", "--out", "out"], "only an archive has"),
        (["plan", "--archive", "nothing", "--policy", "missing.yaml", "--out", "out"], "missing.yaml"),
        (["plan", "--archive", "nothing", "--retention-minutes", "99999999999", "--out", "out"], "too long"),
        (["forecast", "--archive", "a", "--run", "b"], "give one of --segments, --archive and --run"),
        (["forecast", "--run", "b", "--retention-minutes", "1"], "a run already has verdicts, by its own rules"),
        (["forecast", "--run", "nowhere"], "no run here"),
        (["what-if", "--archive", "a"], "no rules to compare"),
        (["what-if", "--run", "b", "--as-of", "5", "--retention-minutes", "1"], "a run folder has one instant"),
        (["what-if", "--topics", "t", "--retention-minutes", "1"], "applies only to a log"),
        (["what-if", "--archive", "a", "--against-minutes", "99999999999", "--policy", "x"], "too long"),
    ],
)
def test_what_does_not_go_together(misused: Callable[..., str], argv: list[str], complaint: str) -> None:
    assert complaint in misused(*argv)


def test_forecast_of_a_group_whose_members_never_come_back(run: Run, asked: Asked, tmp_path: Path) -> None:
    group = group_entry(2, "g", classic_fields(("m1", subscription("t"))))
    commits = (commit("g", commit_timestamp_ms=BASE_MS), commit("g", 1, "u", commit_timestamp_ms=BASE_MS))
    disk = disk_of(tmp_path, group, *commits)
    options = ("forecast", "g", "--segments", disk, "--retention-minutes", "1440")
    loaded_ms = BASE_MS + 1
    told = asked(*options)["if_abandoned"]
    assert told["empty_at_ms"] == loaded_ms + 45_000
    assert told["steps"] == [{"at_ms": loaded_ms + 45_000, "state": "Empty", "member_count": 0}]
    due = {one["topic"]: one["expires_at_ms"] for one in told["offsets"]}
    assert due == dict.fromkeys("tu", loaded_ms + 45_000 + 86_400_000)
    code, out, _ = run(*options)
    assert (code, "its members never come back" in out) == (0, True)
    alone = asked("forecast", "nobody", "--segments", disk)
    assert alone["if_abandoned"] is None


def test_forecast_names_what_blocks_the_sweep(out_of: OutOf, asked: Asked, tmp_path: Path) -> None:
    """A consumer group with a target assignment left cannot be deleted: nothing in its log partition expires."""
    stuck = (group_entry(3, "stuck", {"epoch": 1}), group_entry(7, "stuck", {"topic_partitions": []}, member_id="gone"))
    group = group_entry(2, "g", classic_fields(("m1", subscription("t"))))
    disk = disk_of(tmp_path, *stuck, group, commit("g", commit_timestamp_ms=BASE_MS))
    options = ("forecast", "g", "--segments", disk, "--retention-minutes", "1440")
    told = asked(*options)["if_abandoned"]
    assert told["sweep_blocked"] == {"group_id": "stuck", "from_ms": None}
    assert [one["expires_at_ms"] for one in told["offsets"]] == [None]
    assert "The cause is group stuck" in out_of(*options)
