"""`sexton show`: what a person and a machine read of a kept plan or restore; what was changed is refused."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, RestoreRow, Then, What, keep_restore
from sexton.execution.standing_approval import Terms
from sexton.plans.plan import Plan
from sexton.plans.read_plan import own_plan, plan_folder
from sexton.plans.write_plan import keep_plan
from sexton.report.approval_page import PLAN_QUESTIONS
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from tests.archived import CLUSTER
from tests.plans.plan_runs import archive_of_commits, planned

Show = Callable[..., tuple[int, str, str]]
THEN = OffsetValue(committed_offset=7, leader_epoch=None, metadata="")
ROW = RestoreRow(
    group_id="a", topic="t", partition=0, log_partition=0, what=What.RESTORE, then=Then(value=THEN), now=None, put=THEN
)


@pytest.fixture
def show(run: Show) -> Show:
    return partial(run, "show")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan, str]:
    """An archive with a plan and a restore."""
    folder = tmp_path_factory.mktemp("show")
    archive = archive_of_commits(folder / "archive")
    with SerialEngine(quiet=True) as engine:
        planned(engine, folder / "run", archive)
    plan = own_plan(RunFolder(folder / "run"))
    keep_plan(RunFolder(folder / "run"), plan.record, str(archive.root))
    restore = RestorePlan(cluster_id=CLUSTER, source="plan", rows=(ROW,))
    restore_id = keep_restore(pafs.LocalFileSystem(), str(archive.root), restore)
    return Path(archive.root), plan, restore_id


def test_a_plan(show: Show, kept: tuple[Path, Plan, str]) -> None:
    root, plan, _ = kept
    code, text, _ = show("plan", plan.record.plan_id, "--archive", root)
    assert code == 0
    assert text.startswith("**The broker's retention was not recorded")
    assert f"| sha256 | `{plan.sha256}` |" in text.splitlines()
    code, out, _ = show("plan", plan.record.plan_id, "--archive", root, "--json")
    told = json.loads(out)
    assert (code, told.pop("body")) == (0, text)
    counts = {name: plan.record.counts[name] for name in ("tombstones", "offsets", "groups_losing", "groups_deleted")}
    assert counts["tombstones"] > 2
    assert told == {
        "kind": "plan", "cluster_id": CLUSTER, "id": plan.record.plan_id, "sha256": plan.sha256, "counts": counts,
        "over_limits": plan.record.over_limits, "what_if": None, "lead": told["lead"],
        "coverage": plan.record.coverage,
        "questions": PLAN_QUESTIONS,
    }  # fmt: skip


def test_a_restore(show: Show, kept: tuple[Path, Plan, str]) -> None:
    root, _, restore_id = kept
    code, text, _ = show("restore", restore_id, "--archive", root)
    assert code == 0
    assert "| `a` | `t` | 0 | - | 7 | restore |" in text.splitlines()
    told = json.loads(show("restore", restore_id, "--archive", root, "--json")[1])
    assert (told["id"], told["sha256"], told["counts"]) == (restore_id, restore_id, {"offsets": 1, "groups": 1})
    assert told["cluster_id"] == CLUSTER


@pytest.mark.parametrize("kind", ["plan", "restore"])
@pytest.mark.parametrize("name", ["0" * 64, "../../x", ""])
def test_what_is_not_there(show: Show, kept: tuple[Path, Plan, str], kind: str, name: str) -> None:
    code, out, error = show(kind, name, "--archive", kept[0])
    assert (code, out) == (2, "")
    assert error.startswith("error: ")


def test_what_was_changed_is_refused(show: Show, kept: tuple[Path, Plan, str]) -> None:
    root, plan, _ = kept
    undo = Path(plan_folder(str(root), CLUSTER, plan.record.plan_id)) / "undo" / "0.parquet"
    whole = undo.read_bytes()
    undo.write_bytes(whole + b"x")
    try:
        code, out, error = show("plan", plan.record.plan_id, "--archive", root)
    finally:
        undo.write_bytes(whole)
    assert (code, out) == (6, "")
    assert "undo/0.parquet" in error


HOLD = "{name: kept, match: {prefix: a-}, kind: legal, owner: o, reason: '<b>{{ r }}', keep: 30d, restore: true}"
TERMS = ("--pattern", "a-.*", "--max-offsets", "5", "--max-joins", "2", "--days", "90")


def test_the_terms_of_a_standing_approval(show: Show, kept: tuple[Path, Plan, str], tmp_path: Path) -> None:
    policy, root = tmp_path / "policy.yaml", kept[0]
    policy.write_text(f"version: 1\nholds:\n  - {HOLD}\n")
    given = ("--policy", policy, "--archive", root)
    code, text, error = show("approval", *TERMS, *given)
    assert code == 0, error
    row = "| `kept` | `o` | `prefix: a-` | 30 d after the last commit | yes | `‹U+003C›b‹U+003E›"
    assert any(line.startswith(row) for line in text.splitlines()), text
    told = json.loads(show("approval", *TERMS, *given, "--json")[1])
    terms = Terms(**told["terms"])
    assert (told["body"], told["id"], told["sha256"], told["cluster_id"]) == (text, terms.sha256, terms.sha256, CLUSTER)
    assert (terms.patterns, terms.max_offsets_per_hour, terms.max_joins_per_hour, terms.days) == (["a-.*"], 5, 2, 90)
    policy.write_text(policy.read_text().replace("30d", "31d"))
    assert json.loads(show("approval", *TERMS, *given, "--json")[1])["id"] != told["id"]


@pytest.mark.parametrize(
    ("terms", "told"),
    [((*TERMS[:-1], "91"), "less than or equal to 90"), (("--pattern", "(", *TERMS[2:]), "not an RE2 regular")],
)
def test_terms_that_cannot_be(
    show: Show, kept: tuple[Path, Plan, str], tmp_path: Path, terms: tuple[str, ...], told: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nholds:\n  - {HOLD}\n")
    code, out, error = show("approval", *terms, "--policy", policy, "--archive", kept[0])
    assert (code, out) == (2, "")
    assert told in error
