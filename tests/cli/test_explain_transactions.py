"""`sexton explain` names whose the open transactions are that hold a group's offsets, as far as the input knows it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sexton.lake import catalog as lake_catalog
from sexton.lake.catalog import Lake
from sexton.transactions.reading import transactions_archive
from sexton.transactions.states import TransactionState
from tests.archived import Archive
from tests.cli.test_explain_diff import append
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.transactions.logs import OFFSETS, state_log, value
from tests.ui.lakes import lake_at
from tests.views.worlds import write_log

MINUTE_MS = 60_000
RUNNING, LATE, NOBODY, ELSEWHERE = 1, 2, 3, 4
"""Producer ids, each with an open transaction."""
HOSTILE = "late\u202e\x1b[31m"
Asked = Callable[..., dict[str, Any]]


def batch(minute: int, *entries: tuple[bytes, bytes], producer: int | None = None) -> BatchSpec:
    by = {} if producer is None else {"producer_id": producer, "transactional": True}
    return BatchSpec(entries=entries, timestamp_ms=BASE_MS + minute * MINUTE_MS, **by)


LOG = encode_log(
    [
        batch(0, commit("g", 5), commit("g", 6, partition=1), commit("other", 1)),
        batch(5, commit("g", 50), producer=RUNNING),
        batch(5, commit("g", 60, partition=1), producer=LATE),
        batch(5, commit("g", 70, "u"), commit("other", 9), producer=NOBODY),
        batch(5, commit("other", 8), producer=ELSEWHERE),
        batch(30, commit("other", 2)),
    ]
)
STATES = state_log(
    (
        "payments",
        value(
            TransactionState.ONGOING, producer_id=RUNNING, partitions={OFFSETS: [0]}, timeout_ms=3_600_000,
            updated_at_ms=BASE_MS + 5 * MINUTE_MS, started_at_ms=BASE_MS + 5 * MINUTE_MS,
        ),
    ),
    (
        HOSTILE,
        value(
            TransactionState.COMPLETE_COMMIT, producer_id=LATE, partitions={}, updated_at_ms=BASE_MS + 4 * MINUTE_MS
        ),
    ),
    *(
        (f"{name}-job", value(TransactionState.COMPLETE_COMMIT, producer_id=100 + name, partitions={}))
        for name in range(10)  # these prove that there is one partition
    ),
    version=1,
    at_ms=BASE_MS + 5 * MINUTE_MS,
)  # fmt: skip
WHOSE = {RUNNING: ("running", "payments"), LATE: ("hanging", HOSTILE), NOBODY: ("hanging", None)}
UNREAD = dict.fromkeys(WHOSE, ("unknown", None))


@pytest.fixture
def asked(asked: Asked) -> Asked:
    return partial(asked, "explain", "g")


def verdicts(answer: Mapping[str, Any]) -> dict[int, tuple[str, str | None]]:
    return {row["producer_id"]: (row["verdict"], row["transactional_id"]) for row in answer["transactions"]}


def disk(root: Path, states: bytes | None = None) -> tuple[str, Path]:
    write_log(root, {0: LOG})
    if states is not None:
        (root / "__transaction_state-0").mkdir()
        (root / "__transaction_state-0" / f"{0:020d}.log").write_bytes(states)
    return "--segments", root


@pytest.mark.parametrize("plain_bytes", [1 << 20, 0], ids=["plain", "compiled"])
def test_a_disk_with_the_states(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_bytes: int
) -> None:
    monkeypatch.setattr("sexton.views.log_parts.PLAIN_BYTES", plain_bytes)
    found = asked(*disk(tmp_path, STATES))
    assert verdicts(found) == WHOSE
    rows = {row["producer_id"]: row for row in found["transactions"]}
    assert [(one["topic"], one["committed_offset"]) for one in rows[NOBODY]["offsets"]] == [("u", 70)]
    assert rows[RUNNING]["ends_at_ms"] == BASE_MS + 65 * MINUTE_MS
    assert {row["since_ms"] for row in rows.values()} == {BASE_MS + 5 * MINUTE_MS}
    assert rows[LATE]["abort_arguments"] == f"abort --topic {OFFSETS} --partition 0 --start-offset 4"
    assert verdicts(asked("t:1", *disk(tmp_path / "again", STATES))) == {LATE: WHOSE[LATE]}


def test_a_disk_without_them(asked: Asked, tmp_path: Path) -> None:
    """Only what the offsets log proves."""
    found = asked(*disk(tmp_path))
    assert verdicts(found) == UNREAD
    assert {(row["reason"], row["since_ms"]) for row in found["transactions"]} == {
        ("not_read", BASE_MS + 5 * MINUTE_MS)
    }


def test_what_is_printed(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("explain", "g", *disk(tmp_path, STATES))
    assert code == 0
    for line in (
        "held by open transactions:",
        "producer 3: no transactional id has or had this producer id; to end it: kafka-transactions.sh",
        "producer 1: its coordinator knows it and aborts it when its timeout is over: payments is Ongoing",
    ):
        assert line in out
    assert "\u202e" not in out
    assert "\x1b" not in out


def test_an_archive_at_an_instant(asked: Asked, tmp_path: Path) -> None:
    """Only where it has the states then; before the transactions began there are none."""
    archive = tmp_path / "archive"
    Archive(archive, cluster_id="c", partitions=1).snapshot(BASE_MS + 40 * MINUTE_MS, {0: LOG})
    early, later = BASE_MS + 3 * MINUTE_MS, BASE_MS + 35 * MINUTE_MS
    of = "--archive", archive, "--as-of"
    assert verdicts(asked(*of, later)) == UNREAD
    states = Archive(Path(transactions_archive(str(archive), "c")), cluster_id="c", topic_id="states", partitions=1)
    states.snapshot(BASE_MS + 40 * MINUTE_MS, {0: STATES})
    assert verdicts(asked(*of, later)) == WHOSE
    assert asked(*of, early)["transactions"] == []


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A run in which producers hold offsets of g, and two audits: one that met them, one of an hour later."""
    made = lake_at(tmp_path)
    append(made, _published())
    monkeypatch.setattr(lake_catalog, "open_lake", lambda: made.lake)
    return made.lake


def _published() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    run = {"cluster_id": "c", "as_of_ms": BASE_MS, "run_id": "r"}
    none: dict[str, list[Any]] = {"snapshots": [], "missing_log_partitions": [], "counts": [], "warnings": []}
    common = {"log_partition": 0, "producer_epoch": 0}
    first = {"first_timestamp_ms": BASE_MS - 5, **common}
    pending = {**run, "log_partition": 0, "topic": "t", "committed_offset": 7}
    audit = {**common, "is_overdue": False, "is_confirmed": True, "group_ids": ["g"], "offsets": [], "evidence": "why"}
    return {
        "runs": [{**run, **none, "cuts": [{"log_partition": 0, "cut": 9}]}],
        "open_transactions": [
            {**run, **first, "producer_id": n, "first_log_offset": n, "last_log_offset": n, "group_ids": groups}
            for n, groups in ((RUNNING, ["g", "h"]), (LATE, ["g"]), (NOBODY, ["h"]))
        ],
        "pending_offsets": [
            {**pending, "group_id": group, "partition": n, "producer_id": n, "log_offset": n}
            for group, n in (("g", RUNNING), ("h", RUNNING), ("g", LATE), ("h", NOBODY))
        ],
        "transactions": [
            {
                **audit, "cluster_id": "c", "run_id": "a", "as_of_ms": BASE_MS + hours * 3_600_000,
                "producer_id": producer_id, "verdict": verdict, "reason": "ongoing", "transactional_id": "payments",
                "start_offset": start, "last_log_offset": start + 3,
            }
            for hours, producer_id, start, verdict in (
                (-1, RUNNING, 1, "completing"),
                (1, RUNNING, 1, "running"),
                (1, LATE, 40, "hanging"),  # a later transaction of that producer
            )
        ],
    }  # fmt: skip


@pytest.mark.usefixtures("lake")
def test_published_tables_with_the_newest_audit(asked: Asked) -> None:
    found = asked()
    assert verdicts(found) == {RUNNING: ("running", "payments"), LATE: ("unknown", None)}
    assert [row["audited_at_ms"] for row in found["transactions"]] == [BASE_MS + 3_600_000, None]
    assert [[one["partition"] for one in row["offsets"]] for row in found["transactions"]] == [[RUNNING], [LATE]]
    assert verdicts(asked("t:2")) == {LATE: ("unknown", None)}
    assert verdicts(asked("--as-of", BASE_MS)) == {RUNNING: ("completing", "payments"), LATE: ("unknown", None)}
