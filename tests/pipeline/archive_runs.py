"""Runs of small archives, made minute by minute, and what they leave."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sexton.pipeline import replay_groups
from sexton.pipeline.replay_groups import STATE_TABLES, ReplayRequest
from sexton.runs.checkpoint import publish_checkpoint
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from tests.archived import Archive
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log, tombstone

MINUTE_MS = 60_000
SETTLE_MS = 1_000
LATER_MS = BASE_MS + 100 * MINUTE_MS


def run(engine: Engine, out: Path, archive: Archive, as_of_ms: int | None, **options: Any) -> RunRecord:
    told = {"run_id": out.name, "taken_at_ms": LATER_MS, "settle_ms": SETTLE_MS, **options}
    return replay_groups.run(engine, RunFolder(out), ReplayRequest(archive=archive.root, as_of_ms=as_of_ms, **told))


def publish(out: Path, record: RunRecord, archive: Archive) -> Path:
    return Path(publish_checkpoint(RunFolder(out), record, archive.root))


def passed_over(record: RunRecord) -> list[str]:
    """Warnings about checkpoints."""
    return [warning for warning in record.warnings if "passed over" in warning]


def tables(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of a run, but for which attempt it was."""
    return {
        f"{name}/{file.name}": pq.read_table(file, partitioning=None).drop_columns(["run_id"]).to_pylist()
        for name in (*STATE_TABLES, "topic_partitions")
        for file in sorted((out / name).glob("*.parquet"))
    }


def told(record: RunRecord) -> dict[str, Any]:
    """What a run says of itself, but for which attempt it was and how it came there."""
    left_out = {"run_id", "base_as_of_ms", "warnings"}
    return {name: value for name, value in record.model_dump().items() if name not in left_out}


def minute(number: int, *entries: Any, first: int, **fields: Any) -> bytes:
    """A log of one batch per entry, stamped in the minute before the `number`-th instant."""
    stamp_ms = BASE_MS + number * MINUTE_MS - 10_000
    specs = [BatchSpec(entries=(entry,), timestamp_ms=stamp_ms, **fields) for entry in entries]
    return encode_log(specs, base_offset=first)


def instant(number: int) -> int:
    return BASE_MS + number * MINUTE_MS


def three_minutes(folder: Path, **told: Any) -> Archive:
    """Three minutes of two log partitions; `told` as Archive has it."""
    archive = Archive(folder, partitions=3, **told)
    archive.snapshot(
        instant(1) + 2_000,
        {0: minute(1, commit("a"), commit("b", topic="u"), first=0), 1: minute(1, commit("c"), first=0)},
    )
    archive.snapshot(instant(2) + 2_000, {0: minute(2, commit("a", 7), tombstone("b", "u"), first=2)})
    archive.snapshot(instant(3) + 2_000, {0: minute(3, commit("a", 8), first=4), 1: minute(3, commit("c", 9), first=1)})
    return archive
