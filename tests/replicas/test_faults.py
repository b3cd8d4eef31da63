"""Disks as they are found: missing, cut short, corrupt, behind, of other leaders. Each has a clear result."""

import pickle
from pathlib import Path

import pytest

from sexton.errors import UsageError
from sexton.log.batch import encode_batch
from sexton.replicas import ReplicaFolder, compare, compare_partition, open_replicas, work_of
from sexton.replicas.archived import ARCHIVE
from sexton.replicas.folders import ReplicaLog
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE
from tests.log_builder import BASE_MS, offset_key, offset_value
from tests.replicas.disks import compared, log_of, write_replica


def commit(name: str, committed_offset: int | None, base_offset: int, *, epoch: int = 0, codec: int = 0) -> bytes:
    entry = offset_key(name), None if committed_offset is None else offset_value(committed_offset)
    where = {"base_offset": base_offset, "timestamp_ms": BASE_MS + base_offset, "leader_epoch": epoch}
    return encode_batch([entry], **where, codec=codec)


def log(*commits: tuple[str, int | None], first: int = 0, epoch: int = 0) -> bytes:
    return b"".join(commit(name, number, first + at, epoch=epoch) for at, (name, number) in enumerate(commits))


WHOLE = log(("a", 1), ("b", 2), ("c", 3), ("a", 4))


def status(root: Path, names: str = "ABC") -> dict[str, str]:
    found = compared(root, names).state
    return dict(zip(found["replica"].to_pylist(), found["status"].to_pylist(), strict=True))


def test_a_folder_without_the_log_is_refused(tmp_path: Path) -> None:
    write_replica(tmp_path / "A", {0: WHOLE})
    (tmp_path / "B").mkdir()
    with pytest.raises(UsageError, match="no segment of __consumer_offsets"):
        compared(tmp_path, "AB")
    with pytest.raises(UsageError, match="no such folder"):
        compare(open_replicas([str(tmp_path / "A"), str(tmp_path / "nowhere")], []))
    with pytest.raises(UsageError, match="nothing to compare"):
        open_replicas([str(tmp_path / "A")], [])
    with pytest.raises(UsageError, match="the same name"):
        open_replicas([str(tmp_path / "A"), str(tmp_path / "A")], [])


def test_names_are_node_ids_unless_given(tmp_path: Path) -> None:
    write_replica(tmp_path / "A", {0: WHOLE})
    (tmp_path / "A" / "meta.properties").write_text("version=1\nnode.id=7\n")
    assert ReplicaFolder.open(str(tmp_path / "A")).name == "broker-7"
    assert ReplicaFolder.open(str(tmp_path / "A"), "left").name == "left"


def test_a_torn_tail_is_where_a_log_ends(tmp_path: Path) -> None:
    write_replica(tmp_path / "A", {0: WHOLE})
    write_replica(tmp_path / "B", {0: WHOLE + commit("d", 5, 4)[:-9]})
    found = compared(tmp_path, "AB")
    assert found.differences.num_rows == 0
    assert found.state["status"].to_pylist() == ["same", "same"]
    assert found.state["log_end_offset"].to_pylist() == [4, 4]


@pytest.mark.parametrize("at", [70, 12], ids=["crc", "header"])
def test_a_corrupt_batch_is_reported_where_it_is_and_as_nothing_else(at: int, tmp_path: Path) -> None:
    size = len(commit("b", 2, 1))
    spoiled = bytearray(WHOLE)
    spoiled[size + at] ^= 0x55
    write_replica(tmp_path / "A", {0: WHOLE})
    write_replica(tmp_path / "B", {0: bytes(spoiled)} if at == 70 else {0: WHOLE[:size] + b"\xff" * 40 + WHOLE[size:]})
    write_replica(tmp_path / "C", {0: WHOLE})
    found = compared(tmp_path)
    assert found.differences.num_rows == 0
    assert status(tmp_path) == {"A": "same", "B": "corrupt", "C": "same"}
    (place,) = found.state["corrupt_bytes"].to_pylist()[1]
    assert f"at byte {size} of {tmp_path / 'B'}" in place
    assert "B is corrupt and was left out" in found.notes[0]


@pytest.mark.parametrize("name", [ARCHIVE, "D"])
@pytest.mark.parametrize(
    ("whole", "spoiled_at"),
    [(log(("a", 1), ("b", 2), ("a", None), ("b", 3)), 1), (log(("a", 1), ("b", 2), ("b", 3)), 0)],
    ids=["tombstone", "no-gap"],
)
def test_the_good_batches_of_a_corrupt_log_are_no_evidence(whole, spoiled_at, name, tmp_path):
    """In one they would show the tombstone of a, in the other that nothing can have deleted it."""
    last = commit("b", 3, 3 if spoiled_at else 2)
    for replica, data in (("A", last), ("B", last), ("C", commit("a", 1, 0) + last)):
        write_replica(tmp_path / replica, {0: data})
    spoiled = bytearray(whole)
    spoiled[spoiled_at * len(last) + 70] ^= 0x55
    write_replica(tmp_path / name, {0: bytes(spoiled)})
    if name == ARCHIVE:
        found = compared(tmp_path, archived=log_of(tmp_path / ARCHIVE, ARCHIVE))
    else:
        found = compared(tmp_path, f"ABC{name}")
    (row,) = [row for row in found.differences.to_pylist() if row["topic"] is not None]
    assert (row["kind"], row["proof"], row["wrong_replicas"]) == ("resurrected", "cleaned", ["C"])
    assert f"{name} is corrupt and was left out" in found.notes[0]


def test_corrupt_bytes_below_the_start_of_a_corrupt_replica_are_found(tmp_path: Path) -> None:
    """Records are compared from where the last log starts; without that one the others are read from further back."""
    size = len(commit("b", 2, 1))
    spoiled = bytearray(WHOLE)
    spoiled[70] ^= 0x55
    write_replica(tmp_path / "A", {0: bytes(spoiled[: 2 * size]), 2: WHOLE[2 * size :]})
    spoiled[-1] ^= 0x55
    write_replica(tmp_path / "D", {2: bytes(spoiled[2 * size :])})
    for name in "BC":
        write_replica(tmp_path / name, {0: WHOLE})
    assert status(tmp_path, "ABCD") == {"A": "corrupt", "B": "same", "C": "same", "D": "corrupt"}


def test_a_replica_that_is_behind_is_no_alarm(tmp_path: Path) -> None:
    write_replica(tmp_path / "A", {0: WHOLE}, high_watermark=4, epochs=[(0, 0)])
    write_replica(tmp_path / "B", {0: log(("a", 1), ("b", 2))}, high_watermark=2, epochs=[(0, 0)])
    found = compared(tmp_path, "AB")
    assert found.alarms.num_rows == 0
    assert status(tmp_path, "AB") == {"A": "same", "B": "behind"}
    rows = {row["group_id"]: row for row in found.differences.to_pylist() if row["topic"]}
    assert {name: (row["kind"], row["proof"]) for name, row in rows.items()} == dict.fromkeys("ac", ("lost", "behind"))


def test_bytes_above_the_high_watermark_are_not_compared(tmp_path: Path) -> None:
    write_replica(tmp_path / "A", {0: WHOLE}, high_watermark=3)
    write_replica(tmp_path / "B", {0: WHOLE[: 3 * len(WHOLE) // 4]}, high_watermark=3)
    assert compared(tmp_path, "AB").differences.num_rows == 0


def test_another_history_of_leaders_is_told_from_being_behind(tmp_path: Path) -> None:
    old = log(("a", 1), ("b", 2)) + log(("a", 9), ("d", 9), first=2, epoch=1)
    new = log(("a", 1), ("b", 2)) + log(("c", 3), first=2, epoch=3)
    write_replica(tmp_path / "A", {0: old}, epochs=[(0, 0), (1, 2)])
    write_replica(tmp_path / "B", {0: new}, epochs=[(0, 0), (3, 2)])
    found = compared(tmp_path, "AB")
    rows = found.differences.to_pylist()
    conflicts = {row["group_id"]: row for row in rows if row["kind"] == "conflict"}
    assert set(conflicts) == {"a", "c"}
    assert all(row["wrong_replicas"] == ["A"] and row["log_offsets"] == [2] for row in conflicts.values())
    lost = {
        row["group_id"] for row in rows if row["kind"] == "lost" and row["wrong_replicas"] == ["B"] and row["topic"]
    }
    assert lost == {"a", "d"}  # what A had acknowledged


@pytest.mark.parametrize("borders", [(), (3,), (2, 4)], ids=str)
def test_records_in_batches_of_other_borders_are_in_conflict(tmp_path: Path, borders: tuple[int, ...]) -> None:
    """One leader wrote three records in a batch, the other one in each, in segments that begin amid that batch."""
    entries = [(offset_key(name), offset_value(9)) for name in "xyz"]
    old_batch = encode_batch(entries, base_offset=2, timestamp_ms=BASE_MS, leader_epoch=1)
    common = log(("a", 1), ("b", 2))
    new = {at: commit(name, 3, at, epoch=3) for at, name in enumerate("cde", start=2)}
    segments = {0: common}
    for at, data in new.items():
        last = at if at in borders else max(segments)
        segments[last] = segments.get(last, b"") + data
    write_replica(tmp_path / "A", {0: common + old_batch}, epochs=[(0, 0), (1, 2)])
    write_replica(tmp_path / "B", segments, epochs=[(0, 0), (3, 2)])
    rows = [row for row in compared(tmp_path, "AB").differences.to_pylist() if "conflict" in row["kinds"]]
    assert {row["group_id"]: row["log_offsets"] for row in rows} == {
        name: [at] for names in ("xyz", "cde") for at, name in enumerate(names, start=2)
    }


def test_content_that_differs_has_no_right_side_of_two_and_a_majority_of_three(tmp_path: Path) -> None:
    other = log(("a", 1), ("b", 77), ("c", 3), ("a", 4))
    for name, data in (("A", WHOLE), ("B", other), ("C", WHOLE)):
        write_replica(tmp_path / name, {0: data})
    (of_two,) = [row for row in compared(tmp_path, "AB").differences.to_pylist() if row["kind"] == "conflict"]
    assert (of_two["right_replicas"], of_two["proof"]) == ([], "unknown")
    (of_three,) = [row for row in compared(tmp_path).differences.to_pylist() if row["kind"] == "conflict"]
    assert (of_three["wrong_replicas"], of_three["right_replicas"]) == (["B"], ["A", "C"])


def test_an_offset_of_a_topic_without_a_name_is_not_taken_for_its_group(tmp_path: Path) -> None:
    """No broker writes one."""
    odd = encode_batch([(offset_key("a", ""), offset_value(1))], base_offset=0, timestamp_ms=BASE_MS)
    write_replica(tmp_path / "A", {0: odd + commit("b", 2, 1)})
    write_replica(tmp_path / "B", {0: commit("b", 2, 1)})
    rows = compared(tmp_path, "AB").differences.to_pylist()
    assert [(row["topic"], row["partition"]) for row in rows] == [("", 0), (None, None)]


def test_a_partition_that_a_replica_lacks_or_that_is_empty(tmp_path: Path) -> None:
    for name in "AB":
        write_replica(tmp_path / name, {0: WHOLE})
    write_replica(tmp_path / "A", {0: WHOLE}, log_partition=1)
    (tmp_path / "B" / "__consumer_offsets-2").mkdir()
    write_replica(tmp_path / "A", {0: WHOLE}, log_partition=2)
    found = compared(tmp_path, "AB")
    rows = {(row["log_partition"], row["replica"]): row["status"] for row in found.state.to_pylist()}
    assert rows == {(0, "A"): "same", (0, "B"): "same", (1, "A"): "alone", (2, "A"): "alone", (2, "B"): "empty"}
    assert found.differences.num_rows == 0
    assert len(found.notes) == 2


@pytest.mark.parametrize("names", ["AB", "BA"])
def test_an_epoch_may_begin_later_where_its_first_records_were_cleaned_away(names: str, tmp_path: Path) -> None:
    """A copy knows leader epochs by the batches that are left, and a replica that was made anew by what it got."""
    kept = commit("b", 2, 1), commit("c", 3, 3, epoch=1)
    # The value of a and its tombstone, which was the first record of epoch 1, are gone from A.
    write_replica(tmp_path / "A", {0: b"".join(kept)}, epochs=[(0, 0), (1, 3)])
    whole = [commit("a", 1, 0), kept[0], commit("a", None, 2, epoch=1), kept[1]]
    write_replica(tmp_path / "B", {0: b"".join(whole)}, epochs=[(0, 0), (1, 2)])
    assert status(tmp_path, names) == {"A": "same", "B": "same"}
    assert compared(tmp_path, names).differences.num_rows == 0


TRUNCATIONS = {
    "same": ([(0, 0), (1, 20)], [(0, 0), (1, 20)], 40),
    "begins-later": ([(0, 0), (1, 20)], [(0, 0), (1, 24)], 40),
    "left-at-once": ([(0, 0), (1, 20)], [(0, 0), (2, 20)], 20),
    "left-earlier": ([(0, 0), (1, 20)], [(0, 0), (2, 30)], 20),
    "left-later": ([(0, 0), (1, 30)], [(0, 0), (2, 20)], 20),
    "fewer-records": ([(0, 0), (1, 20)], [(0, 0), (1, 20), (2, 30)], 30),
    "asks-again": ([(0, 0), (2, 20), (4, 30)], [(0, 0), (1, 10), (3, 15), (5, 50)], 10),
    "older-than-all": ([(3, 10)], [(5, 35)], 35),
    "unknown": ([], [(5, 35)], 40),
}


@pytest.mark.parametrize(("own", "leader", "kept"), TRUNCATIONS.values(), ids=TRUNCATIONS)
def test_a_follower_truncates_where_the_last_epoch_that_both_know_ends(own, leader, kept, tmp_path):
    folder = ReplicaFolder.open(str(tmp_path), "A")
    common = {"replica": "A", "log_partition": 0, "fs": folder.fs, "root": folder.roots[0]}
    follower = ReplicaLog(**common, end=40, epochs=own)
    other = ReplicaLog(**common, end=60, epochs=leader)
    assert follower.diverges_from(other) == kept


def test_batches_that_were_written_anew_are_the_same_records(tmp_path: Path) -> None:
    """In another codec, in larger batches, with a delete horizon: only the records count."""
    records = [(offset_key(name), offset_value(number)) for number, name in enumerate("abca", 1)]
    together = encode_batch(records, base_offset=0, timestamp_ms=BASE_MS, codec=4)
    apart = b"".join(
        encode_batch([record], base_offset=at, timestamp_ms=BASE_MS, codec=at) for at, record in enumerate(records)
    )
    write_replica(tmp_path / "A", {0: together})
    write_replica(tmp_path / "B", {0: apart})
    assert status(tmp_path, "AB") == {"A": "same", "B": "same"}
    assert compared(tmp_path, "AB").differences.num_rows == 0


def test_the_work_of_a_log_partition_can_be_sent_to_another_process(tmp_path: Path) -> None:
    for name in "AB":
        write_replica(tmp_path / name, {0: WHOLE if name == "A" else WHOLE[: len(WHOLE) // 4]})
    (work,) = work_of([ReplicaFolder.open(str(tmp_path / name), name) for name in "AB"], {})
    sent = pickle.loads(pickle.dumps(compare_partition(pickle.loads(pickle.dumps(work)))))
    assert sent == compare_partition(work)
    assert sent.differences.schema == REPLICA_DIFFERENCES.arrow_schema(with_run=False)
    assert sent.state.schema == REPLICA_STATE.arrow_schema(with_run=False)
