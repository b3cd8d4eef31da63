"""`sexton audit` of recordings of real brokers equals the brokers' own answers and their own expiry sweeps.

What is compared is told by tests/golden/check_audit.py; the recordings by tests/golden/README.md.
"""

import json
from pathlib import Path

import pytest

from sexton.job_params import ReplayRequest
from sexton.log.batch import Batch, read_batches, read_records
from sexton.pipeline import replay_groups
from sexton.pipeline.standalone import run_audit
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from tests.coordinator.golden import GOLDEN, sweeps
from tests.golden.check_audit import check_state, check_sweep, table
from tests.record_fields import decode_key

RECORDINGS = {
    "kafka-4.3.1-plain": "group_coordinator", "kafka-4.3.1-lz4": "group_coordinator",
    "kafka-4.3.1-partial": "group_coordinator", "kafka-4.0.0": "group_coordinator:4.0.0",
    "kafka-3.9.1": "group_metadata_manager:3.9", "kafka-2.8.2-plain": "group_metadata_manager",
    "kafka-0.9.0.1": "offset_manager",
}  # fmt: skip
"""Whose rules; tests/coordinator holds all recordings against the rules themselves."""
TAKEN_AT_MS = 1_796_000_000_000  # some days after the recordings


def audit(engine: Engine, out: Path, segments: Path, **options: object) -> RunRecord:
    replay = ReplayRequest(run_id="test", segments=str(segments), taken_at_ms=TAKEN_AT_MS, **options)
    return run_audit(engine, replay, out)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_state_equals_what_the_broker_answers(small: Engine, tmp_path: Path, recording: str) -> None:
    audit(small, tmp_path, GOLDEN / recording / "before", profile=RECORDINGS[recording])
    assert check_state(GOLDEN / recording, tmp_path)[0] == 0


SWEEPS = [(name, number, at_ms) for name in RECORDINGS for number, (at_ms, _) in enumerate(sweeps(name))]


@pytest.mark.parametrize("recording, number, as_of_ms", SWEEPS)
def test_plan_equals_the_brokers_sweep(small, tmp_path, recording, number, as_of_ms):
    options = {"as_of_ms": as_of_ms, "retention_minutes": 1, "profile": RECORDINGS[recording]}
    record = audit(small, tmp_path, GOLDEN / recording / "swept", **options)
    assert check_sweep(GOLDEN / recording, tmp_path, number)[0] == 0
    assert planned_keys(tmp_path) == rows_of_plan(tmp_path)
    assert record.plan_id


def planned_keys(out: Path) -> list[tuple[int, str]]:
    """(log partition, key) of every record in the plan's own batches."""
    found = []
    for file in sorted((out / "batches").glob("*.log")):
        for batch in read_batches(file.read_bytes()):
            assert isinstance(batch, Batch)
            for record in read_records(batch, cap_bytes=1 << 20):
                assert record.value is None
                found.append((int(file.stem), record.key.hex()))
    return found


def rows_of_plan(out: Path) -> list[tuple[int, str]]:
    rows = table(out, "tombstones")
    for row in rows:
        record_type, fields = decode_key(row["key"])
        assert (record_type, fields["group_id"]) == (row["record_type"], row["group_id"])
    return [(row["log_partition"], row["key"].hex()) for row in rows]


def test_the_same_bytes_give_the_same_plan_and_checkpoint(small: Engine, engine: Engine, tmp_path: Path) -> None:
    """In one process, and in processes side by side."""
    recording = GOLDEN / "kafka-4.3.1-partial"
    (as_of_ms, _) = next(sweeps(recording.name))
    first, second = (
        audit(each, tmp_path / name, recording / "swept", as_of_ms=as_of_ms, retention_minutes=1)
        for name, each in (("a", small), ("b", engine))
    )
    assert first.plan_id == second.plan_id
    assert not (tmp_path / "a" / "fold").exists()  # nobody goes on from an audit
    asked = ReplayRequest(run_id="test", segments=str(recording / "swept"), as_of_ms=as_of_ms, taken_at_ms=TAKEN_AT_MS)
    one, other = (
        replay_groups.run(each, RunFolder(tmp_path / name), asked) for name, each in (("c", small), ("d", engine))
    )
    assert one.checkpoint_sha256 == other.checkpoint_sha256 is not None
    assert json.loads((tmp_path / "a" / "run.json").read_text())["cuts"]
