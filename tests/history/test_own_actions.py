"""What Sexton itself did is told as that: by the plan that removed an offset, and by the restore that put it back."""

from pathlib import Path
from typing import Any

import pytest

from sexton import cli
from sexton.errors import Refused
from sexton.ledger.ledger import Ledger
from sexton.runs.engine import Engine
from tests.archived import CLUSTER, Archive
from tests.history.test_interval import rows
from tests.ledger.ledgers import LOCAL, act
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import instant, minute, run

PLAN, RESTORE = "aa" * 32, "bb" * 32
AT_MS = {number: instant(number) - 10_000 for number in range(1, 9)}
"""When the records of each minute were written."""


def changes(out: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["group_id"], row["topic"], row["partition"]): row for row in rows(out)}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Minute 1: commits of `a` and `b`; 2: both are removed; 3: `a` is back as it was; 4: it commits by itself."""
    made = Archive(tmp_path / "archive")
    removed = minute(2, tombstone("a"), tombstone("b"), first=2)
    back = minute(3, commit("a", 1, commit_timestamp_ms=AT_MS[3]), first=4)
    own = minute(4, commit("a", 9, commit_timestamp_ms=AT_MS[4]), first=5)
    made.snapshot(instant(5), {0: minute(1, commit("a"), commit("b"), first=0) + removed + back + own})
    return made


A, B = ("a", "t", 0), ("b", "t", 0)


@pytest.mark.parametrize("written", [True, False], ids=["by the broker's clock", "by ours"])
def test_what_we_removed_has_our_plan(small: Engine, tmp_path: Path, archive: Archive, written: bool) -> None:
    act(archive, PLAN, "tombstone", [A], at_ms=AT_MS[2], written_ms=AT_MS[2] if written else None)
    run(small, tmp_path / "r", archive, instant(2), since_ms=instant(1))
    found = changes(tmp_path / "r")
    assert (found[A]["kind"], found[A]["by_plan_id"], found[A]["candidates"]) == ("deleted", PLAN, None)
    assert found[B]["by_plan_id"] is None


def test_what_we_put_back_is_restored(small: Engine, tmp_path: Path, archive: Archive) -> None:
    act(archive, RESTORE, "restore", [A], at_ms=AT_MS[3], written_ms=AT_MS[3])
    run(small, tmp_path / "r", archive, instant(3), since_ms=instant(2))
    found = changes(tmp_path / "r")
    assert (found[A]["kind"], found[A]["by_plan_id"]) == ("restored", RESTORE)
    assert (found[A]["old_committed_offset"], found[A]["new_committed_offset"]) == (None, 1)


def test_what_a_client_set_after_it_is_set(small: Engine, tmp_path: Path, archive: Archive) -> None:
    act(archive, RESTORE, "restore", [A], at_ms=AT_MS[3], written_ms=AT_MS[3])
    run(small, tmp_path / "r", archive, instant(4), since_ms=instant(2))
    assert (changes(tmp_path / "r")[A]["kind"], changes(tmp_path / "r")[A]["by_plan_id"]) == ("set", None)


@pytest.mark.parametrize(
    ("outcome", "is_ours"), [("done", True), ("raced", True), (None, True), ("refused", False), ("not_done", False)]
)
def test_what_came_of_it_decides(small, tmp_path, archive, outcome, is_ours):
    """An intent without an outcome may have been carried out at any time since."""
    act(archive, PLAN, "tombstone", [A], at_ms=AT_MS[2], outcome=outcome)
    run(small, tmp_path / "r", archive, instant(2), since_ms=instant(1))
    assert (changes(tmp_path / "r")[A]["by_plan_id"] == PLAN) == is_ours


def test_another_time_is_another_act(small: Engine, tmp_path: Path, archive: Archive) -> None:
    act(archive, PLAN, "tombstone", [A, B], at_ms=AT_MS[2] + 5_000)
    run(small, tmp_path / "r", archive, instant(2), since_ms=instant(1))
    assert [row["by_plan_id"] for row in changes(tmp_path / "r").values()] == [None, None]


def test_it_is_told_alike_ever_after(small: Engine, tmp_path: Path, archive: Archive) -> None:
    """Whatever is applied later, also to the same offsets."""
    act(archive, PLAN, "tombstone", [A], at_ms=AT_MS[2])
    run(small, tmp_path / "first", archive, instant(2), since_ms=instant(1))
    act(archive, RESTORE, "restore", [A], at_ms=AT_MS[3])
    act(archive, "cc" * 32, "tombstone", [A, B], at_ms=instant(9), outcome=None)
    run(small, tmp_path / "again", archive, instant(2), since_ms=instant(1))
    assert changes(tmp_path / "again") == changes(tmp_path / "first")


def test_a_ledger_that_was_changed_is_not_believed(small: Engine, tmp_path: Path, archive: Archive) -> None:
    act(archive, PLAN, "tombstone", [A], at_ms=AT_MS[2])
    (intent,) = Path(Ledger(LOCAL, archive.root, CLUSTER, PLAN).folder).glob("*-intent.json")
    intent.write_bytes(intent.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(Refused, match="changed"):
        run(small, tmp_path / "r", archive, instant(2), since_ms=instant(1))


def test_explain_names_both(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    act(archive, PLAN, "tombstone", [A], at_ms=AT_MS[2])
    act(archive, RESTORE, "restore", [A], at_ms=AT_MS[3], written_ms=AT_MS[3])
    assert cli.main(["explain", "a", "--archive", archive.root]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    (deleted,) = [line for line in lines if " deleted " in line]
    (restored,) = [line for line in lines if " restored " in line]
    committed = [line for line in lines if " committed " in line]
    assert deleted.endswith(f"by plan {PLAN[:12]}")
    assert restored.endswith(f"1 commit of 1 partition of t; by restore {RESTORE[:12]}")
    assert len(committed) == 2
