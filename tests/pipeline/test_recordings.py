"""`sexton audit` of recordings of real brokers equals the brokers' own answers and their own expiry sweeps.

What is compared is told by tests/golden/check_audit.py; the recordings by tests/golden/README.md.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.broker import dump_log
from sexton.log.batch import Batch, read_batches, read_records
from sexton.pipeline.audit import AuditRequest, run_audit
from sexton.pipeline.replay_groups import ReplayRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunRecord
from sexton.settings import settings, variable
from tests.record_fields import decode_key

GOLDEN = Path(__file__).parents[1] / "golden"
CHECK = GOLDEN / "check_audit.py"
RECORDINGS = {
    "kafka-4.3.1-plain": "group_coordinator", "kafka-4.3.1-lz4": "group_coordinator",
    "kafka-4.3.1-partial": "group_coordinator", "kafka-4.0.0": "group_coordinator:4.0.0",
    "kafka-3.9.1": "group_metadata_manager:3.9", "kafka-2.8.2-plain": "group_metadata_manager",
    "kafka-0.9.0.1": "offset_manager",
}  # fmt: skip
"""Whose rules; tests/coordinator holds all recordings against the rules themselves."""
DUMPED = re.compile(r"\| offset: (\d+) .* key: (\{.*\}) payload: (\S+)$", re.MULTILINE)
TAKEN_AT_MS = 1_796_000_000_000  # some days after the recordings


def check(*words: object) -> str:
    done = subprocess.run([sys.executable, str(CHECK), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def sweep_count(recording: str) -> int:
    if not (GOLDEN / recording / "sweeps.jsonl").exists():
        return 0
    for number in range(100):
        done = subprocess.run([sys.executable, str(CHECK), "as-of", str(GOLDEN / recording), str(number)], check=False)
        if done.returncode:
            return number
    raise AssertionError("endless sweeps")


def audit(engine: Engine, out: Path, segments: Path, **options: object) -> RunRecord:
    replay = ReplayRequest(run_id="test", segments=str(segments), taken_at_ms=TAKEN_AT_MS, **options)
    return run_audit(engine, AuditRequest(replay=replay, out=out))


@pytest.mark.parametrize("recording", RECORDINGS)
def test_state_equals_what_the_broker_answers(engine: Engine, tmp_path: Path, recording: str) -> None:
    audit(engine, tmp_path, GOLDEN / recording / "before", profile=RECORDINGS[recording])
    assert check("state", GOLDEN / recording, tmp_path).splitlines()[-1].startswith("equal:")


@pytest.mark.parametrize(
    "recording, number", [(name, number) for name in RECORDINGS for number in range(sweep_count(name))]
)
def test_plan_equals_the_brokers_sweep(small: Engine, tmp_path: Path, recording: str, number: int) -> None:
    as_of_ms = int(check("as-of", GOLDEN / recording, number))
    options = {"as_of_ms": as_of_ms, "retention_minutes": 1, "profile": RECORDINGS[recording]}
    record = audit(small, tmp_path, GOLDEN / recording / "swept", **options)
    assert check("sweep", GOLDEN / recording, tmp_path, number).splitlines()[-1].startswith("equal:")
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
    import pyarrow.parquet as pq

    files = sorted((out / "tombstones").glob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    for row in rows:
        record_type, fields = decode_key(row["key"])
        assert (record_type, fields["group_id"]) == (row["record_type"], row["group_id"])
    return [(row["log_partition"], row["key"].hex()) for row in rows]


def test_the_real_kafka_dump_log_shows_the_same_records(small: Engine, tmp_path: Path) -> None:
    recording = GOLDEN / "kafka-4.3.1-plain"
    as_of_ms = int(check("as-of", recording, 0))
    audit(small, tmp_path, recording / "swept", as_of_ms=as_of_ms, retention_minutes=1)
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    kafka_jars = jars.ensure(settings().cache, "kafka")
    shown = []
    for file in sorted((tmp_path / "batches").glob("*.log")):
        # kafka-dump-log takes the base offset from the name of the file, as of any segment.
        cut = json.loads((tmp_path / "run.json").read_text())["cuts"][file.stem]
        segment = tmp_path / file.stem / f"{cut:020d}.log"
        segment.parent.mkdir()
        segment.write_bytes(file.read_bytes())
        text = dump_log([segment], java=java, jars=kafka_jars)
        assert "isvalid: false" not in text
        for offset, key, payload in DUMPED.findall(text):
            told = json.loads(key)
            assert payload in ("null", "<DELETE>")
            shown.append((int(file.stem), int(offset) - cut, int(told["type"]), *told["data"].values()))
    planned = []
    for part, key_hex in rows_of_plan(tmp_path):
        record_type, fields = decode_key(bytes.fromhex(key_hex))
        planned.append((part, record_type, *fields.values()))
    assert [(part, *rest) for part, _, *rest in shown] == planned
    positions = {part: [at for own, at, *_ in shown if own == part] for part in {row[0] for row in shown}}
    assert all(found == list(range(len(found))) for found in positions.values())


def test_the_same_bytes_give_the_same_plan_and_checkpoint(small: Engine, tmp_path: Path) -> None:
    recording = GOLDEN / "kafka-4.3.1-partial"
    as_of_ms = int(check("as-of", recording, 0))
    first, second = (
        audit(small, tmp_path / name, recording / "swept", as_of_ms=as_of_ms, retention_minutes=1) for name in "ab"
    )
    assert first.plan_id == second.plan_id
    assert first.checkpoint_sha256 == second.checkpoint_sha256
    assert json.loads((tmp_path / "a" / "run.json").read_text())["cuts"]
