"""Which audits are due after a publication, and that an archive remembers it."""

import json
from pathlib import Path

import pytest

from sexton.as_text import HOUR_MS
from sexton.audits import due_audits
from sexton.audits.due_audits import LAG, TRANSACTIONS, announce
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake

NOON = 1_800_000_000_000
LAKE = Lake(properties={})


@pytest.fixture
def published(monkeypatch) -> list[int]:
    """The instants of published runs."""
    instants: list[int] = []
    monkeypatch.setattr(
        due_audits, "published_instants", lambda _, cluster_id: sorted((at, cluster_id) for at in instants)
    )
    return instants


def key(as_of_ms: int) -> RunKey:
    return RunKey(cluster_id="c", as_of_ms=as_of_ms, run_id="r")


@pytest.mark.parametrize(
    ("hours", "due"),
    [
        ([0], [LAG, TRANSACTIONS]),
        ([0, 1], [LAG]),
        ([0, 19], [LAG]),
        ([0, 20], [LAG, TRANSACTIONS]),
        ([0, 1, 20], [LAG, TRANSACTIONS]),  # counted from those that were due
        ([0, 20, 21], [LAG]),
        ([0, -5], []),  # a backfill of the past
        ([0, 30, 5], []),
        ([0, 20, 20], [LAG, TRANSACTIONS]),  # another attempt
        ([0, 1, 1], [LAG]),
        ([0, 1, 0], []),
    ],
    ids=str,
)
def test_what_is_due_after_the_last_of_these_publications(published, tmp_path: Path, hours, due) -> None:
    for hour in hours:
        published.append(NOON + hour * HOUR_MS)
        found = announce(LAKE, str(tmp_path), key(published[-1]))
    assert found == due


def test_a_run_of_the_past_leaves_no_trace(published, tmp_path: Path) -> None:
    published.extend([NOON, NOON - HOUR_MS])
    assert announce(LAKE, str(tmp_path), key(NOON - HOUR_MS)) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    announce(LAKE, str(tmp_path), key(NOON))
    (state,) = tmp_path.rglob("due_audits.json")
    assert json.loads(state.read_text()) == {"transactions_ms": NOON}
