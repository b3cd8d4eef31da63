"""The ledger: a chain of files that is written once, claimed by one process at a time, and believed only when whole."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import write_whole
from sexton.coordinator.changes.model import OwnAction
from sexton.errors import Refused, UsageError
from sexton.ledger.entries import ClaimProcess, Entry
from sexton.ledger.ledger import Ledger
from sexton.ledger.recorded_steps import own_actions, recorded_steps
from tests.faults.stores import Fault, FaultyHandler, objects, s3_server
from tests.ledger.ledgers import CLUSTER, DEAD, LEASE_MS, LOCAL, PLAN_ID, T0, claim, conclude, intend, item, ledger
from tests.test_process_id import step_clock


def files(root: Path) -> list[Path]:
    return sorted((root / CLUSTER / "ledger" / PLAN_ID).glob("*.json"))


def filled(root: Path) -> list[Path]:
    """Two attempts: one that left a step open, one that closed."""
    first = ledger(root, process=DEAD)
    claim(first)
    conclude(first, intend(first, 0, item(0), item(1)))
    intend(first, 1, item(2))
    second = ledger(root)
    claim(second, T0 + LEASE_MS + 2)
    conclude(second, intend(second, 0, item(2)), at_ms=T0 + LEASE_MS + 3)
    second.close({"done": 3}, at_ms=T0 + LEASE_MS + 4)
    return files(root)


def test_an_attempt_is_told_entry_by_entry(tmp_path: Path) -> None:
    names = [path.name for path in filled(tmp_path)]
    assert names == [
        "0001-000000-claim.json", "0001-000001-intent.json", "0001-000002-outcome.json", "0001-000003-intent.json",
        "0002-000000-claim.json", "0002-000001-intent.json", "0002-000002-outcome.json", "0002-000003-close.json",
    ]  # fmt: skip
    entries = ledger(tmp_path).entries()
    assert [entry.name for entry in entries] == names
    told = recorded_steps(entries)
    assert [each.is_open for each in told] == [False, True, False]
    assert told[0].intent.items[1].before == item(1).before
    assert {place: result.outcome for place, (result, _) in told[0].results.items()} == {(3, 0): "done", (3, 1): "done"}


def test_a_ledger_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert ledger(tmp_path).entries() == []
    assert own_actions(LOCAL, str(tmp_path), CLUSTER) == ({}, {})
    with pytest.raises(UsageError, match="cannot name a folder"):
        Ledger(LOCAL, str(tmp_path), CLUSTER, "../plan")


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_byte_is_refused(tmp_path: Path, seed: int) -> None:
    random, written = Random(seed), filled(tmp_path)
    path = random.choice(written)
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    match random.choice(["flip", "cut", "insert", "delete"]):
        case "flip":
            data[at] ^= 1 << random.randrange(8)
        case "cut":
            del data[at:]
        case "insert":
            data.insert(at, random.randrange(256))
        case "delete":
            del data[at]
    path.write_bytes(bytes(data))
    with pytest.raises(Refused) as refused:
        ledger(tmp_path).entries()
    assert path.name in str(refused.value)


def resealed(data: bytes, **changes: object) -> bytes:
    """An entry with other words, sealed as if it had always been so."""
    told = json.loads(data)
    told.pop("sha256")
    return Entry.model_validate_json(json.dumps({**told, **changes}), strict=False).to_bytes()


@pytest.mark.parametrize("number", range(7))
def test_a_changed_entry_with_a_seal_of_its_own_breaks_the_chain(tmp_path: Path, number: int) -> None:
    path = filled(tmp_path)[number]
    path.write_bytes(resealed(path.read_bytes(), at_ms=T0 + 77))
    with pytest.raises(Refused, match="missing or was changed"):
        ledger(tmp_path).entries()


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 6])
def test_a_missing_entry_is_refused(tmp_path: Path, number: int) -> None:
    filled(tmp_path)[number].unlink()
    with pytest.raises(Refused, match="missing or was changed"):
        ledger(tmp_path).entries()


def test_an_entry_under_another_name_is_refused(tmp_path: Path) -> None:
    last = filled(tmp_path)[-1]
    last.with_name("0002-000004-close.json").write_bytes(last.read_bytes())
    with pytest.raises(Refused, match="not that of its entry"):
        ledger(tmp_path).entries()


def test_an_entry_of_another_plan_is_refused(tmp_path: Path) -> None:
    written = filled(tmp_path)
    other = Ledger(LOCAL, str(tmp_path), CLUSTER, "ef" * 32)
    Path(other.folder).mkdir()
    for path in written:
        Path(other.folder, path.name).write_bytes(path.read_bytes())
    with pytest.raises(Refused, match="not that of its entry"):
        other.entries()


def test_drafts_of_killed_processes_are_no_entries(tmp_path: Path) -> None:
    folder = filled(tmp_path)[0].parent
    (folder / ".0002-000004-intent.json.abc.part").write_bytes(b"{")
    assert len(ledger(tmp_path).entries()) == 8


@pytest.mark.parametrize(
    ("prepare", "at_ms", "is_free"),
    [
        (lambda book: book.close({}, at_ms=T0 + 1), T0 + 2, True),
        (lambda book: None, T0 + 2, False),
        (lambda book: None, T0 + LEASE_MS, False),
        (lambda book: None, T0 + LEASE_MS + 1, True),
        (lambda book: intend(book, at_ms=T0 + 100), T0 + LEASE_MS + 1, False),
    ],
    ids=["closed", "at work", "just within the lease", "silent for longer", "heard of since"],
)
def test_when_the_next_attempt_may_begin(
    tmp_path: Path, prepare: Callable[[Ledger], object], at_ms: int, is_free: bool
) -> None:
    first = ledger(tmp_path)
    claim(first)
    prepare(first)
    if is_free:
        assert claim(ledger(tmp_path), at_ms) == 2
    else:
        with pytest.raises(Refused, match="attempt 1 is running"):
            claim(ledger(tmp_path), at_ms)


def test_a_process_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    text = f"from tests.ledger.ledgers import *; claim(ledger({str(tmp_path)!r})); print(ClaimProcess.this().pid)"
    code = f"from sexton.ledger.entries import ClaimProcess; {text}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], env={**os.environ})
    assert claim(ledger(tmp_path), T0 + 1) == 2


def test_who_is_dead() -> None:
    me = ClaimProcess.this()
    assert not me.has_ended()
    assert me.model_copy(update={"started": f"{me.started}0"}).has_ended()  # its number was given again
    assert me.model_copy(update={"pid": 2**22 + 1}).has_ended()
    assert not DEAD.has_ended()


@pytest.mark.parametrize("step_s", [3, -3, 86_400, -86_400])
def test_a_clock_that_is_set_does_not_end_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: int) -> None:
    """Whoever is at work is at work, whatever time it is now."""
    claim(ledger(tmp_path))
    me = ClaimProcess.this()
    step_clock(monkeypatch, step_s)
    assert not me.has_ended()
    with pytest.raises(Refused, match="attempt 1 is running"):
        claim(ledger(tmp_path), T0 + 1)


def test_whoever_was_taken_over_stops(tmp_path: Path) -> None:
    zombie = ledger(tmp_path)
    claim(zombie)
    intent = intend(zombie)
    claim(ledger(tmp_path), T0 + LEASE_MS + 2)
    for act in (zombie.check_claim, lambda: intend(zombie, 1), lambda: zombie.close({}, at_ms=T0)):
        with pytest.raises(Refused, match="attempt 2 has taken over from attempt 1"):
            act()
    # But what its call did is told, whoever was faster.
    conclude(zombie, intent, at_ms=T0 + LEASE_MS + 9)
    (told,) = recorded_steps(ledger(tmp_path).entries())
    assert not told.is_open


def one_of_many_claims(root: Path | str, fs: pafs.FileSystem = LOCAL) -> int:
    """How many of eight that want the next attempt at once get it."""
    barrier = Barrier(8)

    def race(_: int) -> bool:
        book = ledger(root, fs)
        barrier.wait()
        try:
            claim(book)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(race, range(8)))


def test_one_of_many_claims_wins(tmp_path: Path) -> None:
    assert one_of_many_claims(tmp_path) == 1
    assert len(files(tmp_path)) == 1


def test_the_result_that_says_written_is_the_one_that_counts(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    claim(book)
    intent = intend(book)
    conclude(book, intent, "done", written_log_offset=70)
    conclude(book, intent, "not_done")
    (told,) = recorded_steps(book.entries())
    assert told.results[3, 0][0].written_log_offset == 70


def test_acts(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    claim(book)
    conclude(book, intend(book, 0, item(0)), written_timestamp_ms=T0 + 7)
    conclude(book, intend(book, 1, item(1)), at_ms=T0 + 9)
    conclude(book, intend(book, 2, item(2)), "refused")
    conclude(book, intend(book, 3, item(3), action="restore"), at_ms=T0 + 9)
    intend(book, 4, item(4))
    removed, restored = own_actions(LOCAL, str(tmp_path), CLUSTER)
    act = {"plan_id": PLAN_ID}
    assert removed == {
        ("g", "t", 0): [OwnAction(**act, intent_at_ms=T0 + 7, outcome_at_ms=T0 + 7)],
        ("g", "t", 1): [OwnAction(**act, intent_at_ms=T0 + 1, outcome_at_ms=T0 + 9)],
        ("g", "t", 4): [OwnAction(**act, intent_at_ms=T0 + 1, outcome_at_ms=T0 + 1 + 3_600_000)],
    }
    assert restored == {("g", "t", 3): [OwnAction(**act, intent_at_ms=T0 + 1, outcome_at_ms=T0 + 9)]}
    assert own_actions(LOCAL, str(tmp_path), CLUSTER, since_ms=T0 + 3_600_000) == (removed, restored), (
        "it is not closed"
    )
    book.close({}, at_ms=T0 + 10)
    assert own_actions(LOCAL, str(tmp_path), CLUSTER, since_ms=T0 + 10) == (removed, restored)
    assert own_actions(LOCAL, str(tmp_path), CLUSTER, since_ms=T0 + 11) == ({}, {})


def test_a_call_that_was_made_again_may_have_taken_effect_since_the_first(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    claim(book)
    conclude(book, intend(book, at_ms=T0 + 1), "not_done", at_ms=T0 + 20)
    conclude(book, intend(book, 1, at_ms=T0 + 30), at_ms=T0 + 40)
    removed, _ = own_actions(LOCAL, str(tmp_path), CLUSTER)
    assert removed == {("g", "t", 0): [OwnAction(plan_id=PLAN_ID, intent_at_ms=T0 + 1, outcome_at_ms=T0 + 40)]}


@pytest.fixture(scope="module")
def bucket() -> Iterator[pafs.FileSystem]:
    with s3_server() as query:
        uri = f"s3://key:secret@ledgers?{query}"
        store, root = pafs.FileSystem.from_uri(uri)
        store.create_dir(root)
        yield store


def test_on_an_object_store(bucket: pafs.FileSystem) -> None:
    first = ledger("ledgers/a", bucket, process=DEAD)
    claim(first)
    conclude(first, intend(first))
    with pytest.raises(Refused, match="attempt 1 is running"):
        claim(ledger("ledgers/a", bucket), T0 + 5)
    second = ledger("ledgers/a", bucket)
    claim(second, T0 + LEASE_MS + 5)
    second.close({}, at_ms=T0 + LEASE_MS + 6)
    assert [entry.kind for entry in second.entries()] == ["claim", "intent", "outcome", "claim", "close"]
    assert len(objects(bucket, "ledgers/a")) == 5


def test_one_of_many_claims_wins_on_an_object_store(bucket: pafs.FileSystem) -> None:
    assert one_of_many_claims("ledgers/race", bucket) == 1
    assert len(objects(bucket, "ledgers/race")) == 1


def test_an_entry_whose_answer_was_lost_is_our_own(bucket: pafs.FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks again, and then the store says that the file is there."""

    def create_twice(*call: Any, **named: Any) -> bool:
        create_whole(*call, **named)
        return create_whole(*call, **named)

    monkeypatch.setattr("sexton.ledger.ledger.create_whole", create_twice)
    book = ledger("ledgers/lost", bucket)
    claim(book)
    conclude(book, intend(book))
    assert len(book.entries()) == 3


def test_whoever_lost_its_claim_to_a_later_writer_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store without conditions two may find the name free. The first calls nothing once the second has written."""
    store = pafs.PyFileSystem(FaultyHandler(Fault()))
    first, second = ledger(tmp_path, store), ledger(tmp_path, store)
    claim(first)
    with monkeypatch.context() as patched:
        patched.setattr(second, "entries", lambda: [])
        patched.setattr("sexton.ledger.ledger.create_whole", lambda fs, path, data, **_: write_whole(fs, path, data))
        claim(second, T0 + 1)
    for act in (first.check_claim, lambda: intend(first), lambda: first.close({}, at_ms=T0 + 2)):
        with pytest.raises(Refused, match="already exists"):
            act()
    intend(second)
    assert [entry.kind for entry in second.entries()] == ["claim", "intent"]
