"""Verdicts on pinned offsets name the transactional id and what becomes of it, where the input has the states."""

from pathlib import Path
from typing import Any

import pytest

from sexton.pipeline import find_expired
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.transactions.reading import transactions_archive
from sexton.transactions.states import TransactionState
from tests.archived import Archive
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.pipeline.archive_runs import run
from tests.transactions.logs import OFFSETS, state_log, value

MINUTE_MS = 60_000
AS_OF, READ_MS = BASE_MS + 30 * MINUTE_MS, BASE_MS + 40 * MINUTE_MS
RUNNING, NOBODY = 1, 2
"""Producer ids, each with an open transaction."""


def batch(minute: int, *entries: Any, **options: Any) -> BatchSpec:
    return BatchSpec(entries=entries, timestamp_ms=BASE_MS + minute * MINUTE_MS, **options)


LOG = encode_log(
    [
        batch(0, commit("a"), commit("b"), commit("free")),
        batch(5, commit("a", 9), producer_id=RUNNING, transactional=True),
        batch(6, commit("a", 9), commit("b", 9), producer_id=NOBODY, transactional=True),
    ]
)
STARTED_MS = BASE_MS + 5 * MINUTE_MS
STATES = state_log(
    (
        "payments",
        value(
            TransactionState.ONGOING, producer_id=RUNNING, partitions={OFFSETS: [0]}, timeout_ms=3_600_000,
            updated_at_ms=STARTED_MS, started_at_ms=STARTED_MS,
        ),
    ),
    at_ms=STARTED_MS,
)  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path / "archive", cluster_id="c", partitions=1)
    made.snapshot(READ_MS, {0: LOG})
    return made


def states_in(archive: Archive) -> Path:
    return Path(transactions_archive(archive.root, "c"))


def pins(engine: Engine, out: Path, archive: Archive) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
    """By group the pin of its offset; and warnings of the stage."""
    before = run(engine, out, archive, AS_OF)
    record = find_expired.run(engine, RunFolder(out))
    names = "pinned_by_producer_id", "pinned_by_transactional_id", "pinned_verdict"
    rows = RunFolder(out).read_table("offset_verdicts", 0).to_pylist()
    return {row["group_id"]: tuple(row[name] for name in names) for row in rows}, record.warnings[
        len(before.warnings) :
    ]


def test_without_the_states_the_log_alone_speaks(small: Engine, archive: Archive, tmp_path: Path) -> None:
    expected = {"a": (RUNNING, None, None), "b": (NOBODY, None, None), "free": (None, None, None)}
    assert pins(small, tmp_path / "run", archive) == (expected, [])


def test_with_the_states_at_that_instant(small: Engine, archive: Archive, tmp_path: Path) -> None:
    Archive(states_in(archive), cluster_id="c", topic_id="states", partitions=1).snapshot(READ_MS, {0: STATES})
    expected = {"a": (RUNNING, "payments", "running"), "b": (NOBODY, None, "hanging"), "free": (None, None, None)}
    assert pins(small, tmp_path / "run", archive) == (expected, [])


def test_states_that_end_before_the_instant_are_none(small: Engine, archive: Archive, tmp_path: Path) -> None:
    Archive(states_in(archive), cluster_id="c", topic_id="states", partitions=1).snapshot(AS_OF - 1, {0: STATES})
    found, warnings = pins(small, tmp_path / "run", archive)
    assert (found["b"], warnings) == ((NOBODY, None, None), [])


def test_states_that_cannot_be_read_are_a_warning(small: Engine, archive: Archive, tmp_path: Path) -> None:
    """The broker's verdicts need none of them."""
    Archive(states_in(archive), cluster_id="c", topic_id="states", partitions=1).snapshot(READ_MS, {0: STATES})
    for file in states_in(archive).rglob("*.log"):
        file.unlink()
    found, warnings = pins(small, tmp_path / "run", archive)
    assert found["b"] == (NOBODY, None, None)
    assert [text.partition(":")[0] for text in warnings] == [
        "__transaction_state could not be read, so no transactional id of a pinned offset is known"
    ]
