"""`sexton rehearse`: its verdict, its exit code, its page and its inputs."""

import json
from pathlib import Path

import pytest

from sexton import cli
from tests.coordinator.golden import GOLDEN
from tests.log_builder import BatchSpec, encode_log, offset_key, offset_value
from tests.views.worlds import write_log

UPGRADES = GOLDEN / "upgrades"
CLEANED = ("--segments", str(UPGRADES / "4.2.0-cleaned"), "--partition-count", "4")


def rehearse(*argv: str) -> int:
    return cli.main(["rehearse", *argv])


def ends(capsys: pytest.CaptureFixture[str], verdict: str) -> None:
    """The first line has the verdict, and nothing contradicts a release that was only asked about."""
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].endswith(f": {verdict}")
    assert "contradicts" not in printed.err + printed.out


@pytest.mark.parametrize(
    "to, since, code, verdict",
    [
        ("4.2.1", "4.2.0", 0, "safe"),
        ("4.2.0", "4.2.0", 3, "not safe"),
        ("group_coordinator:3.9", "4.2.1", 3, "not safe"),
        ("3.9", "4.2.1", 3, "not safe"),
    ],
)
def test_the_verdict_is_the_first_line(
    to: str, since: str, code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearse("--to", to, "--from", since, *CLEANED) == code
    ends(capsys, verdict)


@pytest.mark.parametrize(
    "since, code, verdict",
    [("3.4.0", 3, "safe, but no way back after the first commit"), ("3.4.1", 0, "safe"), ("3.9.1", 0, "safe")],
)
def test_one_commit_is_enough(
    since: str, code: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = offset_key("g"), offset_value(1, commit_timestamp_ms=1_790_000_000_000)
    write_log(tmp_path, {0: encode_log([BatchSpec(entries=[commit])])})
    assert rehearse("--to", "4.3.1", "--from", since, "--segments", str(tmp_path)) == code
    ends(capsys, verdict)


def test_a_fault_is_shown_with_its_record_and_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse("--to", "4.2.0", "--from", "4.2.1", *CLEANED, "--json", "--out", str(tmp_path)) == 3
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "rehearsal.json").read_text("utf-8"))
    (fault,) = document["faults"]
    assert (fault["when"], fault["issue"], fault["log_offset"]) == ("now", "KAFKA-20254", 27)
    assert fault["record"]["name"] == "StreamsGroupTopology"
    assert fault["groups"] == ["app2", "mig0", "plain1"]
    page = (tmp_path / "rehearsal.html").read_text("utf-8")
    assert '<span class="badge bad">not safe</span>' in page
    for text in ("KAFKA-20254", "Group app2 is not a streams group.", "StreamsGroupTopology", "NOT_COORDINATOR"):
        assert text in page


def test_a_run_is_rehearsed_by_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the profile of the run, whatever the log proves."""
    segments = ("--segments", str(UPGRADES / "4.3.1"), "--partition-count", "4")
    assert cli.main(["audit", *segments, "--profile", "group_coordinator:4.2.2", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert rehearse("--to", "4.4.0", "--run", str(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["from"]["profile"] == "group_coordinator:4.2.2"


def test_an_archive_is_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["archive", "import", str(UPGRADES / "4.2.0-cleaned"), "--archive", str(tmp_path)]) == 0
    capsys.readouterr()
    assert rehearse("--to", "4.2.0", "--archive", str(tmp_path), "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert [one["log_offset"] for one in document["faults"]] == [27]


@pytest.mark.parametrize(
    "argv, message",
    [
        (("--to", "5.0", *CLEANED), "not the coordinator of Kafka 5.0"),
        (("--to", "4.x", *CLEANED), "not a release"),
        (("--to", "4.3.1"), "give one of --segments"),
        (("--to", "4.3.1", "--profile", "group_coordinator", *CLEANED), "No such option: --profile"),
    ],
)
def test_what_is_refused(argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse(*argv) == 2
    assert message in capsys.readouterr().err


def test_the_way_back_by_log_partition(capsys: pytest.CaptureFixture[str]) -> None:
    segments = ("--segments", str(UPGRADES / "4.3.1"), "--partition-count", "4")
    assert rehearse("--to", "4.4.0", "--from", "3.4.0", *segments, "--back") == 3
    shown = capsys.readouterr().out
    assert "Unknown offset message version: 4" in shown
    assert "start at auto.offset.reset" in shown


def test_before_the_first_record_there_is_no_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse("--to", "4.2.1", *CLEANED, "--as-of", "2020-01-01") == 4
    assert "no record was written before" in capsys.readouterr().err


def test_it_says_what_is_not_here_and_what_is_not_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = offset_key("g"), offset_value(1, commit_timestamp_ms=1_790_000_000_000)
    write_log(tmp_path, {0: encode_log([BatchSpec(entries=[commit])])})
    log = ("--segments", str(tmp_path), "--partition-count", "2")
    assert rehearse("--to", "4.3.1", "--from", "auto", *log, "--json") == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert "log partitions not here: 1" in warnings
    assert any("nothing in the log proves" in text and "--from sets another" in text for text in warnings)
