"""Every law of replica_state and replica_differences holds for a sound audit and fails for one that breaks it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sexton.quality.laws import AUDIT_LAWS
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE
from tests.quality.world import Break, Rows, append, broken_laws, change, remove
from tests.replicas.recordings import SCENARIOS, compared, unpack

STATE, DIFFERENCES = REPLICA_STATE.name, REPLICA_DIFFERENCES.name
LAWS = [law for law in AUDIT_LAWS if law.table in (STATE, DIFFERENCES)]
READ = {
    "log_start_offset": 0, "high_watermark": 40, "log_end_offset": 41, "last_stable_offset": 40,
    "open_transactions": 0, "record_count": 9, "batch_count": 9, "loads": True,
}  # fmt: skip


def replica(name: str, status: str, log_partition: int = 0, **values: Any) -> dict[str, Any]:
    read = dict.fromkeys(READ) if status == "empty" else READ
    where = {"log_partition": log_partition, "replica": name, "status": status, "folder": "/copies"}
    return {**where, **read, "leader_epochs": [], "corrupt_bytes": [], **values}


def difference(ordinal: int, **values: Any) -> dict[str, Any]:
    return {
        "log_partition": 0, "ordinal": ordinal, "group_id": "g", "topic": "t", "partition": 0, "kind": "resurrected",
        "kinds": ["resurrected"], "wrong_replicas": ["C"], "right_replicas": ["A", "B"], "proof": "tombstone",
        "needs_unclean_election": False, "since_log_offset": 20, "since_timestamp_ms": 5, **values,
    }  # fmt: skip


def sound() -> Rows:
    """In log partition 0, C is wrong in two offsets, B only as it lies; D and E have nothing to compare. In 1, A has a
    log and no other replica."""
    lost = {"kind": "lost", "kinds": ["lost"], "proof": "behind", "since_log_offset": None, "since_timestamp_ms": None}
    stuck = {"kind": "committed_to_aborted", "kinds": ["committed_to_aborted", "stuck"], "proof": "marker"}
    return {
        STATE: [
            replica("A", "same"),
            replica("B", "behind"),
            replica("C", "differs", loads=False, load_error="a group is of another type"),
            replica("D", "corrupt", corrupt_bytes=["no batch at byte 0"]),
            replica("E", "empty"),
            replica("A", "alone", log_partition=1),
            replica("B", "empty", log_partition=1),
        ],
        DIFFERENCES: [
            difference(0),
            difference(1, partition=1, **stuck),
            difference(2, topic=None, partition=None),
            difference(3, group_id=None, topic=None, partition=None, right_replicas=[], proof="unknown"),
            difference(4, **lost, wrong_replicas=["B"], right_replicas=["A"], needs_unclean_election=True),
        ],
    }


def broken(rows: Rows) -> set[str]:
    tables = {
        table.name: pa.Table.from_pylist(rows[table.name], table.arrow_schema())
        for table in (REPLICA_STATE, REPLICA_DIFFERENCES)
    }
    return {name for name, count in broken_laws(tables, LAWS).items() if count}


def test_sound() -> None:
    assert broken(sound()) == set()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_comparison_of_recorded_replicas_is_sound(name: str, tmp_path: Path) -> None:
    found = compared(unpack(name, tmp_path))
    tables = {STATE: found.state, DIFFERENCES: found.differences}
    assert not any(broken_laws(tables, LAWS).values())


BROKEN: dict[str, tuple[str, Break]] = {
    "log partition left out": ("not_compared", lambda rows: rows[STATE].__delitem__(slice(5, None))),
    "offsets of nothing": ("empty", change(STATE, 4, high_watermark=0)),
    "nothing of a log": ("empty", change(STATE, 0, record_count=None)),
    "two alone": ("alone", append(STATE, replica("C", "alone", log_partition=1))),
    "alone beside a corrupt one": (
        "alone",
        append(STATE, replica("C", "corrupt", log_partition=1, corrupt_bytes=["no batch at byte 0"])),
    ),
    "corrupt without bytes": ("corrupt_bytes", change(STATE, 3, corrupt_bytes=[])),
    "bytes of a good one": ("corrupt_bytes", change(STATE, 0, corrupt_bytes=["no batch at byte 0"])),
    "fails without a reason": ("load_error", change(STATE, 0, loads=False)),
    "reason without a failure": ("load_error", change(STATE, 2, loads=True)),
    "wrong and the same": ("differs", change(STATE, 2, status="same")),
    "differs in nothing": ("differs", change(STATE, 0, status="differs")),
    "differs only as it lies": ("differs", change(STATE, 1, status="differs")),
    "start above the high watermark": ("log_offsets", change(STATE, 0, log_start_offset=41)),
    "high watermark above the end": ("log_offsets", change(STATE, 0, high_watermark=42)),
    "stable above the end": ("log_offsets", change(STATE, 0, last_stable_offset=42)),
    "nobody wrong": ("replicas", change(DIFFERENCES, 4, wrong_replicas=[])),
    "wrong and right": ("replicas", change(DIFFERENCES, 0, right_replicas=["A", "C"])),
    "named twice": ("replicas", change(DIFFERENCES, 0, right_replicas=["A", "A"])),
    "not in the state": ("replicas", remove(STATE, 0)),
    "of another log partition": ("replicas", append(DIFFERENCES, difference(0, log_partition=1))),
    "corrupt and right": ("replicas", change(DIFFERENCES, 0, right_replicas=["A", "D"])),
    "empty and right": ("replicas", change(DIFFERENCES, 0, right_replicas=["A", "E"])),
    "another kind": ("kinds", change(DIFFERENCES, 0, kind="lost")),
    "unknown kind": ("kinds", change(DIFFERENCES, 0, kinds=["resurrected", "odd"])),
    "kind twice": ("kinds", change(DIFFERENCES, 0, kinds=["resurrected", "resurrected"])),
    "topic without partition": ("key", change(DIFFERENCES, 0, partition=None)),
    "partition without topic": ("key", change(DIFFERENCES, 2, partition=0)),
    "offset without group": ("key", change(DIFFERENCES, 0, group_id=None)),
    "since without time": ("since", change(DIFFERENCES, 0, since_timestamp_ms=None)),
    "time without since": ("since", change(DIFFERENCES, 4, since_timestamp_ms=5)),
    "proof that is not named": ("since", change(DIFFERENCES, 1, since_log_offset=None, since_timestamp_ms=None)),
    "gap": ("ordinals", change(DIFFERENCES, 4, ordinal=5)),
    "not from 0": ("ordinals", change(DIFFERENCES, 0, ordinal=5)),
    "ordinal twice": ("ordinals", change(DIFFERENCES, 0, ordinal=4)),
}
"""What breaks each law."""


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    law, breaks = BROKEN[name]
    rows = sound()
    breaks(rows)
    assert law in broken(rows)


def test_every_law_is_broken() -> None:
    assert {law for law, _ in BROKEN.values()} == {law.name for law in LAWS}
