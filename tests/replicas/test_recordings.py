"""What was predicted of real brokers' disks, against what the same brokers answered once another replica led."""

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, FetchAnswer, fetch
from sexton.coordinator.api.listing import describe_group, listed_group
from sexton.replicas import records
from sexton.replicas.advice import advice_for
from sexton.replicas.judging import ReplicaDifference
from tests.replicas.recordings import SCENARIOS, by_key, compared, coordinator_of, key_text, scenario, unpack


@pytest.mark.parametrize("name", SCENARIOS)
def test_exactly_the_affected_keys_are_named(name: str, recorded: Path) -> None:
    root = unpack(name, recorded)
    story, found = scenario(root), compared(root)
    rows = by_key(found.differences)
    assert set(rows) == {(one["group"], one["key"]) for one in story["observed_C_leads_against_A_leads"]}
    expected = {(one["group"], one["key"]): one["kind"] for one in story["expected_affected"]}
    assert expected.keys() <= set(rows)
    if name == "stuck":  # the same bytes as of transactions whose producers return: nobody can say at once
        assert all("stuck" in rows[key]["kinds"] for key in expected)
    else:
        assert {key: rows[key]["kind"] for key in expected} == expected
    assert {tuple(row["wrong_replicas"]) for row in rows.values()} <= {("C",)}
    assert {tuple(row["right_replicas"]) for row in rows.values()} <= {("A", "B")}
    assert not found.notes


def test_a_group_that_lost_no_offset_is_named_for_its_member(recorded: Path) -> None:
    root = unpack("resurrected", recorded)
    rows = by_key(compared(root).differences)
    assert {(one["group"], None): one["kind"] for one in scenario(root)["expected_groups"]} == {
        key: row["kind"] for key, row in rows.items() if key[1] is None
    }


@pytest.mark.parametrize(
    ("name", "folder"), [("clean", "earlier"), ("clean", ".")], ids=["clean, earlier", "clean, later"]
)
def test_replicas_that_have_compacted_on_their_own_are_the_same(name: str, folder: str, recorded: Path) -> None:
    found = compared(unpack(name, recorded) / folder)
    assert found.differences.num_rows == 0
    assert set(found.state["status"].to_pylist()) == {"same"}


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("folder", ["unclean/diverged", "resurrected", "stuck", "clean"])
def test_how_much_is_compared_at_a_time_does_not_matter(folder, most, recorded, monkeypatch):
    name, _, inner = folder.partition("/")
    root = unpack(name, recorded) / inner
    at_once = compared(root)
    monkeypatch.setattr(records, "MAX_BATCHES", most)
    assert compared(root) == at_once


@pytest.mark.parametrize("names", ["AC", "CA", "CBA", "BC"])
def test_the_order_of_replicas_and_a_majority_do_not_matter(names: str, recorded: Path) -> None:
    root = unpack("committed-hidden", recorded)
    rows, whole = by_key(compared(root, names).differences), by_key(compared(root).differences)
    assert {key: (row["kinds"], row["wrong_replicas"]) for key, row in rows.items()} == {
        key: (row["kinds"], row["wrong_replicas"]) for key, row in whole.items()
    }


# --- what each replica answers


ANSWERS = [
    *((name, "C", "answers-C-leads.json") for name in SCENARIOS),
    ("clean", "B", "answers-B-leads.json"),
    *(
        (name, "after/A", "answers-A-leads-again.json")
        for name in ("resurrected", "aborted-to-committed", "committed-hidden", "unloadable")
    ),
    *((name, "after/C", "answers-C-leads-next-end.json") for name in ("aborted-to-committed", "committed-hidden")),
    ("stuck", "after/C", "answers-C-leads-later.json"),
    ("unclean", "after/C", "answers-C-leads-all-up.json"),
    ("unclean", "after-next-end/C", "answers-C-leads-next-end.json"),
    ("unclean", "after-next-end/A", "answers-A-leads-again.json"),
    ("unclean", "after-next-end/B", "answers-B-leads.json"),
]


@pytest.mark.parametrize(("name", "replica", "answers"), ANSWERS, ids=["-".join(one[:2]) for one in ANSWERS])
def test_if_it_led_it_would_answer_as_it_did(name: str, replica: str, answers: str, recorded: Path) -> None:
    root = unpack(name, recorded)
    coordinator = coordinator_of(root / replica)
    recording = json.loads((root / answers).read_text())["groups"]
    asked, is_live = 0, replica.endswith("/C")  # C had been leading for a while: it did not load these bytes
    for group_id, said in recording.items():
        listed = listed_group(coordinator, group_id) if said["fetch_error"] is None else None
        if listed is None and is_live and not said["fetch"]:
            assert said["listed"] in (None, ["classic", "", "Empty"])  # in its memory until the next sweep
        else:
            assert listed_text(listed) == said["listed"], group_id
        whole = fetch(coordinator, group_id)
        assert (whole.error.name if whole.error is not Error.NONE else None) == said["fetch_error"], group_id
        assert texts(whole) == said["fetch"], group_id
        if listed is not None and listed.group_type == "Classic":
            described = describe_group(coordinator, group_id)
            assert [None, described.state, listed.protocol_type or "", len(described.members)] == said["described"]
        if said["fetch_error"] is None:
            partitions = [AskedPartition(topic=key[0], partition=int(key[1])) for key in map(split, said["stable"])]
            assert texts(fetch(coordinator, group_id, partitions=partitions, require_stable=True)) == said["stable"]
        asked += 1
    assert asked > 5


def listed_text(group: Any) -> list[str] | None:
    return None if group is None else [group.group_type.lower(), group.protocol_type or "", group.state]


def split(key: str) -> tuple[str, str]:
    topic, _, partition = key.rpartition("-")
    return topic, partition


def texts(answer: FetchAnswer) -> dict[str, list[Any]]:
    return {
        f"{one.topic}-{one.partition}": [
            one.committed_offset,
            -1 if one.leader_epoch is None else one.leader_epoch,
            one.metadata,
            None if one.error is Error.NONE else one.error.name,
        ]
        for one in answer.offsets
    }


# --- what follows


@pytest.mark.parametrize(
    ("name", "column", "then"),
    [
        ("aborted-to-committed", "next_commit_offset", "served_as_committed"),
        ("aborted-to-committed", "next_abort_offset", "healed"),
        ("committed-hidden", "next_commit_offset", "after_next_COMMIT"),
        ("committed-hidden", "next_abort_offset", "after_next_ABORT"),
        ("unclean", "next_abort_offset", "committed_then_next_ABORT"),
        ("unclean", "next_commit_offset", "aborted_then_next_COMMIT"),
    ],
)
def test_what_the_producers_next_marker_serves(name: str, column: str, then: str, recorded: Path) -> None:
    root = unpack(name, recorded)
    served = scenario(root)["next_end"][then]
    seen = Counter[str]()
    for row in compared(root).differences.to_pylist():
        if (
            row["topic"] is not None
            and row["group_id"] in served
            and any(one["pending_offset"] for one in row["answers"])
        ):
            now = served[row["group_id"]].get(key_text(row))
            assert row[column] == (None if now is None else now[0]), row
            seen[row["group_id"]] += 1
    assert seen.keys() == served.keys()


def test_the_advice_ends_the_transactions_that_an_administrator_ended(recorded: Path) -> None:
    """By where they begin, as the broker itself said then."""
    root = unpack("stuck", recorded)
    told = {
        (row["log_partition"], int(start))
        for row in compared(root).differences.to_pylist()
        for start in re.findall(r"--start-offset (\d+)", row["advice"])
    }
    by_hand = scenario(root)["aborted_by_hand"]
    assert told == {(int(key.split("/")[0]), one["current_txn_start_offset"]) for key, (one, _) in by_hand.items()}


def test_commands_in_an_advice_are_safe_to_paste() -> None:
    name = "a; rm -rf `pwd` 'b'"
    key = (name, "t", 0)
    told = {"kinds": ("resurrected",), "proof": "cleaned", "evidence": "", "sides": {}}
    difference = ReplicaDifference(key=key, wrong=("C",), right=("A",), **told)
    assert shlex.quote(name) in advice_for(difference, {})


def test_offsets_that_were_truncated_are_lost_on_the_replicas_that_lack_them(recorded: Path) -> None:
    root = unpack("unclean", recorded)
    holes = {(one["group"], one["key"]) for one in scenario(root)["holes_C_leads_next_end_against_A_leads_again"]}
    rows = by_key(compared(root / "after").differences)
    assert set(rows) <= holes
    assert {(row["kind"], row["proof"], *row["wrong_replicas"]) for row in rows.values()} == {
        ("lost", "no_gap", "A", "B"),
        ("aborted_to_committed", "value", "C"),
    }


def test_records_of_another_leader_are_conflicts(recorded: Path) -> None:
    root = unpack("unclean", recorded)
    (root / "diverged" / "A").symlink_to(root / "A") if not (root / "diverged" / "A").exists() else None
    found = compared(root / "diverged", "AC")
    conflicts = [row for row in found.differences.to_pylist() if row["kind"] == "conflict"]
    assert {(tuple(row["wrong_replicas"]), row["proof"]) for row in conflicts} == {(("A",), "leader_epoch")}
    of_both = {(row["log_partition"], offset) for row in conflicts for offset in row["log_offsets"]}
    assert len(of_both) == 10
    # Once A is back it has truncated its records: what it then serves is known before.
    holes = {(row["group_id"], key_text(row)) for row in found.alarms.to_pylist() if row["wrong_replicas"] == ["A"]}
    assert {("moved-79598", "t-0"), ("gone-72085", None)} <= holes
