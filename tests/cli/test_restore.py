"""`sexton restore`: the diff first, then what was shown; what cannot come back; what is refused."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from sexton import cli
from sexton.execution import kafka_admin as real
from sexton.settings import settings
from tests.archived import Archive
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, value
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import instant, minute

GONE, LEFT = "gone", "left"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """At minute 1 both groups have offsets; before minute 2 those of one are deleted."""
    made = Archive(tmp_path / "archive", topics=[{"topic": "t", "id": "id", "partitions": [[0, 100], [0, 100]]}])
    before = minute(1, commit(GONE, 5, metadata="m"), commit(GONE, 7, partition=1), commit(LEFT, 3), first=0)
    made.snapshot(instant(1) + 2_000, {0: before})
    made.snapshot(
        instant(2) + 2_000, {0: minute(2, tombstone(GONE), tombstone(GONE, partition=1), commit(LEFT, 4), first=3)}
    )
    return made


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimulatedCluster]:
    """The cluster as it is now, behind the command."""
    made = SimulatedCluster(
        groups={LEFT: Group(offsets={("t", 0): value(4)})},
        topics_now={"t": ("id", [(0, 100), (0, 6)])},
        log_partition_count=1,
    )

    monkeypatch.setattr(real, "connected", lambda config: nullcontext(made))
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path))  # there is no lake
    settings.cache_clear()
    yield made
    settings.cache_clear()


@pytest.fixture
def run(capsys, archive):
    def command(*argv):
        code = cli.main(["restore", "--archive", archive.root, *map(str, argv)])
        out, err = capsys.readouterr()
        return code, out, err

    return command


@pytest.fixture
def asked(run):
    def command(*argv, code=0):
        got, out, err = run(*argv, "--json")
        assert (got, err) == (code, ""), err
        return json.loads(out)

    return command


THEN = ("--as-of", instant(1), "--pattern", ".*")
DO = ("--apply", "--approved-by", "ann")


def test_the_diff_comes_first_and_changes_nothing(run, cluster) -> None:
    code, out, err = run(*THEN)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"2 offsets of 1 group to put back, of 3 (as_of {instant(1)}, cluster cluster)"
    assert lines[1] == "1 restore, 1 beyond_log_end, 1 newer_now"
    assert "gone t 0 restore 5 m - 5 m -" in lines
    assert "gone t 1 beyond_log_end 7 - 7 the log has 0 to 6" in lines
    assert "left t 0 newer_now 3 4 - -" in lines
    assert [line for line in lines if line.startswith("left")] == [lines[-9]], "what is left alone comes last"
    assert (
        "does not come back: commit timestamps are those of the restore (they were from 2026-09-21 14:13:20 UTC" in err
    )
    assert "does not come back: a deleted group's type, generation and members" in err
    assert "1 offset outside of the log" in err
    restore_id = lines[-8].removeprefix("restore ")
    assert f"to apply it: sexton restore --id {restore_id} --apply --approved-by NAME" in err
    assert lines[-5:] == [
        *("cat > offsets.csv <<'END'", "t,0,5", "t,1,7", "END"),
        "kafka-consumer-groups.sh --bootstrap-server 127.0.0.1:19092 --group gone --reset-offsets --from-file "
        "offsets.csv --execute",
    ]
    assert cluster.commits == []


def test_what_was_shown_is_done(run, asked, cluster, archive) -> None:
    shown = asked(*THEN)
    assert not shown["is_applied"]
    assert asked("--id", shown["restore_id"]) == shown
    done = asked("--id", shown["restore_id"], *DO)
    assert done["is_applied"]
    assert (done["restore_id"], done["counts"], done["attempt"]) == (shown["restore_id"], {"done": 2}, 1)
    assert done["would"] == shown["counts"]
    assert [offset["outcome"] for offset in done["offsets"]] == ["done", "done"]
    assert done["windows"]["max_ms"] >= done["windows"]["p50_ms"] > 0
    assert cluster.groups[GONE].offsets == {("t", 0): value(5, None, "m"), ("t", 1): value(7)}
    assert cluster.groups[LEFT].offsets == {("t", 0): value(4)}
    again = asked("--id", shown["restore_id"], *DO)
    assert (again["attempt"], again["counts"]) == (0, {"done": 2})
    code, out, _ = run("--id", shown["restore_id"], *DO)
    assert (code, "nothing is left to do" in out) == (0, True)


def test_in_one_go(run, cluster) -> None:
    code, out, err = run(*THEN, "--clamp", "--overwrite", *DO)
    assert code == 0
    assert "2 restore, 1 clamped" in out
    assert "3 done" in out
    assert "at most" in err
    assert cluster.groups[GONE].offsets["t", 1] == value(6)
    assert cluster.groups[LEFT].offsets["t", 0] == value(3)


def test_the_same_loss_again_is_another_restore(asked, cluster) -> None:
    first = asked(*THEN, *DO)
    cluster.delete_group(GONE)
    second = asked(*THEN, *DO)
    assert second["counts"] == {"done": 2}
    assert second["restore_id"] != first["restore_id"]
    assert len(cluster.commits) == 2


def test_nothing_to_do(run, asked, cluster) -> None:
    asked(*THEN, *DO)
    told = asked(*THEN)
    assert (told["restore_id"], told["counts"]) == (None, {"same": 2, "newer_now": 1})
    code, out, err = run(*THEN, *DO)
    assert (code, "nothing to put back" in out, "to apply it" in err) == (0, True, False)


def test_a_group_with_members_is_refused_with_the_reason(run, asked, cluster) -> None:
    shown = asked(*THEN)
    cluster.groups[GONE] = Group(members=1)
    code, out, err = run("--id", shown["restore_id"], *DO)
    assert code == 1
    assert "2 refused" in out
    assert out.count("UNKNOWN_MEMBER_ID") == 2
    assert "to continue: sexton restore --id" in err
    told = asked(*THEN)
    assert told["counts"] == {"newer_now": 1, "group_has_members": 2}
    assert {offset["error"] for offset in told["offsets"]} == {None, "UNKNOWN_MEMBER_ID"}


def test_a_table_that_cannot_be_written_is_told_and_the_ledger_has_it(run, asked, cluster, monkeypatch) -> None:
    def fail() -> None:
        raise OSError("no space")

    with monkeypatch.context() as broken:
        broken.setattr("sexton.lake.catalog.open_lake", fail)
        code, out, err = run(*THEN, *DO)
    assert (code, "2 done" in out) == (1, True)
    assert "the table apply_ledger was not updated: no space (everything was done" in err
    restore_id = next(line for line in out.splitlines() if line.startswith("restore ")).removeprefix("restore ")
    assert asked("--id", restore_id, *DO)["counts"] == {"done": 2}


def test_sigterm_ends_it_after_the_step(asked, cluster) -> None:
    cluster.between = lambda name: os.kill(os.getpid(), signal.SIGTERM) if name == "end" else None
    before = signal.getsignal(signal.SIGTERM)
    told = asked(*THEN, "--overwrite", *DO, code=1)
    assert told["counts"] == {"done": 2, "not_done": 1}
    assert signal.getsignal(signal.SIGTERM) is before
    cluster.between = lambda _: None
    assert asked("--id", told["restore_id"], *DO)["counts"] == {"done": 3}


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        ([], 2, "give one of --from-plan PLAN_ID, --from-ledger PLAN_ID and --as-of INSTANT"),
        (["--as-of", instant(1), "--from-plan", "0" * 64], 2, "give one of"),
        (["--as-of", instant(1)], 2, "select what to put back"),
        (["--as-of", "yesterday", "--group", "g"], 2, "not an instant"),
        (["--as-of", instant(1), "--pattern", "("], 2, "--pattern: '('"),
        (["--as-of", instant(1), "--topic", ":1"], 2, "not TOPIC or TOPIC:PARTITION"),
        (["--as-of", instant(9), "--group", GONE], 4, "which needs one taken"),
        ([*THEN, "--apply"], 2, "restore not approved (pass --approved-by NAME)"),
        ([*THEN, "--apply", "--approved-by", " "], 2, "restore not approved (pass --approved-by NAME)"),
        (["--id", "0" * 64, "--clamp"], 2, "a kept restore is applied exactly as it was shown"),
        (["--id", "0" * 64], 2, "no restore 000"),
        (["--id", "../../x"], 2, "no restore_id"),
        (["--from-ledger", "0" * 64], 2, "it was never applied"),
        (["--from-plan", "0" * 64], 2, "no plan 000"),
    ],
)
def test_what_is_not_asked_well(refused, cluster, argv, code, told) -> None:
    assert told in refused(code, *argv)
    assert cluster.commits == []


def test_another_cluster_is_refused(run, cluster) -> None:
    cluster.cluster_id = "another"
    assert run(*THEN)[0] == 6


def test_hostile_names_are_shown_harmlessly(run, cluster, archive) -> None:
    name = "\u202egroup\x1b[31m"
    archive.snapshot(instant(4) + 2_000, {0: minute(3, commit(name, 1), first=6)})
    _, out, _ = run("--as-of", instant(3), "--group", name)
    assert "‹U+202E›group‹U+001B›[31m" in out
    assert "\x1b" not in out
