"""What commands say of loads that never end, of removed groups that come back, and of a profile that does not fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sexton.cli.lag import _committed
from sexton.coordinator.profiles import profile_of
from sexton.log.message_set import encode_message_set
from sexton.runs.folder import RunFolder
from tests.archived import Archive
from tests.campaign.test_mutants import log_that_ends_at
from tests.coordinator.test_endless_load import BUFFER, LOG, sizes
from tests.environment import with_settings
from tests.log_builder import (
    BAD_SUBSCRIPTION,
    BASE_MS,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    offset_key,
    offset_value,
)
from tests.views.worlds import write_log, write_run

Run = Callable[..., tuple[int, str, str]]
OLD = ("--profile", "group_metadata_manager:2.0.0")
SMALL_BUFFER = ("--load-buffer-bytes", BUFFER)
MUCH_LATER = ("--as-of", BASE_MS + 30 * 86_400_000)


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    return write_log(tmp_path / "disk", {0: LOG, 1: encode_log([BatchSpec(entries=(commit("z", version=1),))])})


def only_profile_row(out: Path) -> dict[str, object]:
    (file,) = (out / "load_profile").glob("*.parquet")
    (row,) = pq.ParquetFile(file).read().to_pylist()
    return dict(row)


def test_an_audit_of_a_load_that_never_ends(run: Run, segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, told, err = run("audit", "--segments", segments, *OLD, *SMALL_BUFFER, *MUCH_LATER, "--out", out, "--json")
    summary = json.loads(told)
    assert (code, summary["exit_code"]) == (5, 5)
    assert "1 log partition whose load would fail or never end" in err
    endless, fine = summary["log_partitions"]
    assert (endless["load_outcome"], fine["load_outcome"]) == ("never_ends", "loaded")
    assert f"at least {max(sizes(LOG))}" in endless["load_failure"]
    assert "KAFKA-7286" in endless["blocked"]
    planned = pq.ParquetDataset(out / "tombstones").read()["log_partition"].to_pylist()
    assert set(planned) == {1}
    assert any("COORDINATOR_LOAD_IN_PROGRESS" in text for text in summary["warnings"])
    failed = [check for check in summary["checks"] if not check["success"]]
    assert [(check["table"], check["expectation"]) for check in failed] == [
        ("load_profile", "a coordinator could load every log partition"),
        ("runs", "the log reaches back to its beginning and no log partition is missing"),
    ]
    assert "COORDINATOR_LOAD_IN_PROGRESS" in (out / "report.html").read_text(encoding="utf-8")

    code, told, err = run("fetch", "g", "--run", out, "--json")
    assert (code, json.loads(told)["error"]) == (0, "COORDINATOR_LOAD_IN_PROGRESS")
    assert run("fetch", "g", "--run", out, *SMALL_BUFFER)[0] == 2

    large = ("--load-buffer-bytes", max(sizes(LOG)))
    assert run("audit", "--segments", segments, *OLD, *large, "--out", out)[0] == 0


LARGE = BatchSpec(entries=(commit("n" * 999, version=1),))
NULL_KEY = BatchSpec(entries=((None, offset_value(1)),))
SHARE_RECORD = BatchSpec(entries=(group_entry(11, "h", {"epoch": 1, "metadata_hash": 1}),))
MALFORMED = BatchSpec(entries=(group_entry(2, "m", classic_fields(("m", BAD_SUBSCRIPTION))),))


@pytest.mark.parametrize(
    "profile, bad, more",
    [
        ("group_metadata_manager:2.8.2", NULL_KEY, ()), ("group_coordinator:4.3.1", MALFORMED, ()),
        ("group_coordinator:4.3.1", SHARE_RECORD, ()), (OLD[1], LARGE, SMALL_BUFFER),
    ],
    ids=["null key", "malformed subscription", "replay", "endless"],
)  # fmt: skip
def test_what_a_failed_load_holds_counts_for_nothing(
    run: Run, tmp_path: Path, profile: str, bad: BatchSpec, more: tuple[object, ...]
) -> None:
    held = BatchSpec(entries=(commit("h", version=1), commit("x", version=1)))
    fine = encode_log([BatchSpec(entries=(commit("y", version=1),))])
    log = write_log(tmp_path / "disk", {0: encode_log([held, bad]), 1: fine})
    asked = ("--segments", log, "--partition-count", 2, "--profile", profile, *more, *MUCH_LATER)
    code, told, err = run("audit", *asked, "--out", tmp_path / "out", "--json")
    summary = json.loads(told)
    assert code == 5, err
    assert (summary["group_count"], summary["offsets"]["live"], summary["expiring"]["never"]) == (1, 1, {})
    assert [line["group_id"] for line in summary["losing_groups"]["rows"]] == ["y"]
    columns = ["log_partition", "broker_verdict", "broker_reason", "broker_expires_at_ms", "changes_by"]
    rows = pq.ParquetDataset(tmp_path / "out" / "offset_verdicts").read().select(columns).to_pylist()
    failed = [tuple(row.values())[1:] for row in rows if row["log_partition"] == 0]
    assert set(failed) == {("keep", "load_would_fail", None, "sweep_unblocked")}
    code, told, _ = run("forecast", *asked, "--json")
    assert (code, [group["group_id"] for group in json.loads(told)["groups"]]) == (5, ["y"])
    code, told, _ = run("what-if", "--retention-minutes", 1, *asked, "--json")
    assert (code, json.loads(told)["counts"]["offsets_lost_proposed"]) == (5, 1)
    audited = RunFolder(tmp_path / "out")
    assert _committed(audited, audited.read_run(), None, (None, None))["group_id"].to_pylist() == ["y"]  # sexton lag


EARLY, LATE = commit("h", 1, version=1), [commit("h", 2, version=1), commit("late", 1, version=1)]


def around(bad: BatchSpec) -> bytes:
    """A commit, what ends the load, and two commits."""
    return encode_log([BatchSpec(entries=(EARLY,)), bad, BatchSpec(entries=tuple(LATE))])


OLDEST_LOG = b"".join(
    encode_message_set(entries, base_offset=at, magic=0, timestamp_ms=-1)
    for at, entries in enumerate(([EARLY], [(b"\0\x01bad", b"value")], LATE))
)
BY_OUTCOME = {
    "not_coordinator": ("group_coordinator:4.3.1", around(MALFORMED), (), "NOT_COORDINATOR", []),
    "empty_cache": ("group_metadata_manager:2.8.2", around(NULL_KEY), (), "NONE", []),
    "never_ends": (OLD[1], around(LARGE), SMALL_BUFFER, "COORDINATOR_LOAD_IN_PROGRESS", []),
    "prefix": ("offset_manager:0.9", OLDEST_LOG, (), "NONE", [1]),
}
"""By what the load leaves: whose load it is, the log, and what OffsetFetch answers about group h."""


@pytest.mark.parametrize("profile, data, more, error, served", BY_OUTCOME.values(), ids=BY_OUTCOME)
def test_the_story_of_a_group_whose_load_fails(
    run: Run, tmp_path: Path, profile: str, data: bytes, more: tuple[object, ...], error: str, served: list[int]
) -> None:
    """Up to 0.10.0 offsets are put into the cache one by one while it loads, and groups at the end."""
    log = write_log(tmp_path / "disk", {0: data})
    asked = ("--segments", log, "--partition-count", 1, "--profile", profile, *more)
    code, told, _ = run("fetch", "h", *asked, "--json")
    answer = json.loads(told)
    assert (answer["error"], [row["committed_offset"] for row in answer["offsets"]]) == (error, served)
    for group, value in (("h", served), ("late", [])):
        code, told, _ = run("explain", group, *asked, "--json")
        found = json.loads(told)
        on_disk = [(2 if group == "h" else 1, "load_would_fail")]
        assert (code, found["state"], found["is_held"]) == (0 if more else 5, None, bool(served))
        assert found["events"][-1]["what"] == "committed"
        verdicts = [(one["committed_offset"], one["reason"]) for one in found["next"]]
        assert verdicts == ([(one, "not_due") for one in value] if served else on_disk)
    told = run("explain", "h", *asked)[1]
    assert told.startswith(f"h (log partition 0): {'no such group now' if served else 'no coordinator has it'}")
    assert ("no coordinator has what is on the disk, and nothing in it expires" in told) is not bool(served)
    if served:
        code, _, err = run("forecast", *asked)
        assert (code, "verdicts and forecast are of all that could be decoded" in err) == (5, True)


@pytest.mark.parametrize(
    "profile, bad, more", [("group_coordinator:4.3.1", MALFORMED, ()), (OLD[1], LARGE, SMALL_BUFFER)],
    ids=["fails", "endless"],
)  # fmt: skip
def test_a_difference_has_nothing_of_a_failed_load(
    run: Run, tmp_path: Path, profile: str, bad: BatchSpec, more: tuple[object, ...]
) -> None:
    """The load of log partition 0 succeeds up to `bad`, so its groups are gone with it, and not for any record."""
    held, later = BatchSpec(entries=(commit("h", version=1),)), MUCH_LATER[1]
    bad = replace(bad, timestamp_ms=BASE_MS + 60_000)
    fine = encode_log([BatchSpec(entries=(commit("y", version=1),))])
    log = write_log(tmp_path / "disk", {0: encode_log([held, bad]), 1: fine})
    asked = ("--segments", log, "--partition-count", 2, "--profile", profile, *more)
    for before, after, change in ((BASE_MS + 30_000, later, "disappeared"), (later, later, None)):
        code, told, err = run("diff", before, after, *asked, "--json")
        found = json.loads(told)
        groups = [(row["group_id"], row["change"], row["cause"]) for row in found["groups"]]
        assert (code, groups) == (5, [("h", change, "load_would_fail")] if change else [])
        assert found["failed_loads"] == {"before": [] if change else [0], "after": [0]}
        assert [row["group_id"] for row in found["offsets"]] == (["h"] if change else [])
        assert f"! log partition 0 at {later}: no coordinator can load it" in err
    for name, instant in (("a", BASE_MS + 30_000), ("b", later)):
        run("audit", *asked, "--as-of", instant, "--out", tmp_path / name)
    code, told, _ = run("diff", tmp_path / "a", tmp_path / "b", "--json")
    assert (code, json.loads(told)["counts"]["groups"]["disappeared"]) == (5, 1)


def test_questions_of_a_load_that_never_ends(run: Run, tmp_path: Path) -> None:
    segments = ("--segments", write_log(tmp_path, {0: LOG}), *OLD, *SMALL_BUFFER)
    questions = (
        ("fetch", "g"), ("groups", "list"), ("groups", "describe", "g"), ("groups", "check-commit", "g", "t:0"),
    )  # fmt: skip
    for words in questions:
        code, told, err = run(*words, *segments)
        assert code == 0, words
        assert "COORDINATOR_LOAD_IN_PROGRESS" in told + err, words
        assert f"raise it to at least {max(sizes(LOG))}" in err, words
    code, told, err = run("fetch", "g", *segments[:4])
    assert (code, "COORDINATOR_LOAD_IN_PROGRESS" in told + err) == (0, False)


@pytest.mark.parametrize(
    "profile, answer, note",
    [
        ("offset_manager:0.8.2", "no offsets", "read up to log_offset 1 before another broker became the leader"),
        ("offset_manager:0.10.0", "5", "read up to log_offset 1 before another broker became the leader"),
        ("group_metadata_manager:3.9", "5", "read up to log_offset 1 before another broker became the leader"),
        ("group_coordinator:4.3.1", "NOT_COORDINATOR", "log_offset 1: the broker no longer leads the log partition"),
    ],
)
def test_a_load_that_loses_the_leadership(run: Run, tmp_path: Path, profile: str, answer: str, note: str) -> None:
    """What was read before is answered from 0.9 to 3.9; 0.8.2 keeps it, and answers nothing of it."""
    rules = profile_of(profile)
    key_type, magic = rules.offset_key_type, min(rules.record_format, 1)
    log = b"".join(
        encode_message_set(
            [(offset_key("g", record_type=key_type), offset_value(n, version=key_type, record_type=key_type))],
            base_offset=at,
            magic=magic,
            timestamp_ms=BASE_MS if magic else -1,
        )
        for at, n in enumerate((5, 7))
    )
    disk = ("--segments", write_log(tmp_path, {0: log}), "--partition-count", 1, "--profile", profile)
    code, told, _ = run("fetch", "g", *disk)
    assert (code, told.splitlines()[1].split()[2]) == (0, "7")
    code, told, err = run("fetch", "g", "--leads-until", 1, *disk)
    assert (code, answer in told, note in err) == (0, True, True)
    assert run("fetch", "g", "--leads-until", 2, *disk)[1].splitlines()[1].split()[2] == "7"


def test_a_run_cannot_be_loaded_in_part(run: Run, tmp_path: Path) -> None:
    run_folder = write_run(tmp_path / "run", segments=str(write_log(tmp_path / "disk", {0: LOG})), partition_count=1)
    code, _, err = run("fetch", "g", "--leads-until", 1, "--run", run_folder)
    assert (code, "no log partition to load in part" in err) == (2, True)


def test_the_buffer_that_the_archive_recorded_counts(run: Run, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a", settings={"offsets.load.buffer.size": str(BUFFER)}, broker_version="2.0.0")
    archive.snapshot(BASE_MS, {0: LOG})
    asked = ("fetch", "g", "--archive", archive.root)
    code, told, err = run(*asked)
    assert (code, "COORDINATOR_LOAD_IN_PROGRESS" in told + err) == (0, True)
    code, told, err = run(*asked, "--load-buffer-bytes", max(sizes(LOG)))
    assert (code, "COORDINATOR_LOAD_IN_PROGRESS" in told + err) == (0, False)


def test_an_unexpected_unload_is_in_the_audit_and_its_table(run: Run, tmp_path: Path) -> None:
    """A load up to 3.9 logs the error, last of all, and serves everything."""
    pending = BatchSpec(entries=(commit("g"),), producer_id=1, transactional=True)
    removed = BatchSpec(entries=(group_entry(2, "g", None),))
    log = write_log(tmp_path / "disk", {0: encode_log([removed, pending])})
    for profile, count in (("group_metadata_manager:2.8", 1), ("group_coordinator", 0)):
        out = tmp_path / f"out{count}"
        code, told, _ = run("audit", "--segments", log, "--profile", profile, "--out", out, "--json")
        assert code == 0
        row = only_profile_row(out)
        assert (row["unexpected_unloads"], row["load_outcome"]) == (count, "loaded")
        text = "Unexpected unload of active group g while loading partition __consumer_offsets-0"
        assert sum(text in warning for warning in json.loads(told)["warnings"]) == count


def test_every_command_warns_of_a_profile_that_the_log_contradicts(run: Run, tmp_path: Path) -> None:
    log = ("--segments", write_log(tmp_path / "disk", {0: encode_log([BatchSpec(entries=(commit("g", version=4),))])}))
    wrong = ("--profile", "group_metadata_manager")
    at = str(BASE_MS + 1)
    commands = (
        ("audit", *log, "--out", tmp_path / "audit"), ("plan", *log, "--out", tmp_path / "plan"), ("forecast", *log),
        ("what-if", "--retention-minutes", 1, *log), ("diff", at, at, *log), ("explain", "g", *log),
        ("fetch", "g", *log), ("groups", "list", *log), ("groups", "describe", "g", *log),
        ("groups", "coordinator", "g", *log), ("groups", "unload", 0, *log),
        ("groups", "check-commit", "g", "t:0", *log),
    )  # fmt: skip
    for words in (*commands, (*commands[2], "--json"), (*commands[6], "--json")):
        _, _, err = run(*words, *wrong)
        told = [line for line in err.splitlines() if "contradicts the profile group_metadata_manager:3.9" in line]
        assert len(told) == 1, words
    assert "contradicts" not in run("fetch", "g", *log)[2]
    assert "contradicts" not in run("audit", *log, "--out", tmp_path / "audit", *wrong)[1]  # said once


@pytest.mark.parametrize("task_bytes", [64, 1 << 20])
def test_an_audit_of_a_log_that_a_broker_deletes(run: Run, tmp_path: Path, task_bytes: int) -> None:
    """Its last batch ends below log_offset 0, whatever the pieces in which it is read; beside it is one that is kept,
    though it ends before its last batch begins."""
    disk = write_log(tmp_path / "disk", {0: log_that_ends_at(-8), 1: log_that_ends_at(7)})
    with with_settings(SEXTON_FOLD_TASK_BYTES=str(task_bytes)):
        options = ("--partition-count", 2, *MUCH_LATER, "--json")
        code, told, _ = run("audit", "--segments", disk, *options, "--out", tmp_path / "out")
    gone, kept = json.loads(told)["log_partitions"]
    assert (code, gone["load_outcome"], kept["load_outcome"]) == (5, "loaded", "loaded")
    assert (gone["first_log_offset"], gone["next_log_offset"], gone["records"], gone["undecodable"]) == (None, 0, 0, 1)
    assert (kept["first_log_offset"], kept["next_log_offset"], kept["records"], kept["undecodable"]) == (10, 7, 1, 0)
    disk = write_log(tmp_path / "one", {0: log_that_ends_at(-8)})
    assert run("fetch", "g", "--segments", disk, "--partition-count", 1)[0] == 5
