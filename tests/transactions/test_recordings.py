"""Recordings of brokers from 0.11 to 4.4: the state of every id as a coordinator described it, and whose each was."""

import json
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import main
from sexton.transactions.reading import on_disk
from sexton.transactions.states import ENDED, TransactionalId
from sexton.transactions.verdicts import KnownStates
from tests.transactions.record import EXPIRED, LOG_PARTITIONS
from tests.transactions_broker import Described, replayed

GOLDEN = Path(__file__).parents[1] / "golden" / "transactions"
RECORDINGS = sorted(GOLDEN.iterdir())
HOUR_MS = 3_600_000

pytestmark = pytest.mark.parametrize("recording", RECORDINGS, ids=[path.name for path in RECORDINGS])


def states_of(recording: Path) -> KnownStates:
    release = tuple(map(int, recording.name.split(".")))
    log = on_disk([str(recording)], taken_at_ms=0, as_of_ms=None, release=release)
    assert log is not None
    states = log.load(lambda work, items: map(work, items))
    assert states.partition_count == LOG_PARTITIONS
    return states


def rows_of(recording: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (recording / name).read_text(encoding="utf-8").splitlines()]


def test_every_id_is_as_the_coordinator_described_it(recording: Path) -> None:
    states = states_of(recording)
    theirs = {
        row.pop("transactional_id"): Described(**{**row, "partitions": frozenset(map(tuple, row["partitions"]))})
        for row in rows_of(recording, "described.jsonl")
    }
    assert states.is_whole
    assert replayed(states.ids) == theirs
    assert {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"} <= {one.state for one in theirs.values()}


def test_the_release_took_each_id_for_the_producer_that_we_do(recording: Path) -> None:
    ours = {one.transactional_id: one for one in states_of(recording).ids}
    begun = {row["transactional_id"]: row for row in rows_of(recording, "begun.jsonl")}
    assert begun.keys() - ours.keys() == {*EXPIRED}
    assert {begun[name]["producer_epoch"] for name in EXPIRED} == {0}
    assert not {begun[name]["producer_id"] for name in EXPIRED} & {one.producer_id for one in ours.values()}
    assert {name: begun[name]["producer_id"] for name in ours} == {name: one.producer_id for name, one in ours.items()}
    for name, one in ours.items():
        assert begun[name]["producer_epoch"] - one.producer_epoch in _bumps(one), name


def _bumps(one: TransactionalId) -> set[int]:
    """A new producer of the id has the next epoch; one that ends a transaction may use up another for that."""
    return {1} if one.state in ENDED else {1, 2}


def test_every_open_transaction_has_its_verdict(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = {row["producer_id"]: row for row in rows_of(recording, "planted.jsonl")}
    newest_ms = max(one.updated_at_ms for one in states_of(recording).ids)
    code = main(["transactions", "--segments", str(recording), "--taken-at", str(newest_ms + HOUR_MS), "--json"])
    found = {row["producer_id"]: row for row in json.loads(capsys.readouterr().out)["transactions"]}
    assert code == 3
    assert {key: (row["verdict"], row["group_ids"]) for key, row in found.items()} == {
        key: (row["verdict"], row["group_ids"]) for key, row in planted.items()
    }
