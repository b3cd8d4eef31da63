"""Sweeps recognised in the log, equal to those that recorded brokers made; and the commits of an interval."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sexton.archive.folder import Folder
from sexton.coordinator.profiles import profile_of
from sexton.history.interval_counts import (
    COMMITS,
    SWEEP_GAP_MS,
    SWEEPS,
    commits_between,
    sweeps_of,
    sweeps_of_brokers,
    swept_by,
)
from sexton.kernels.checkpoint.commits import read_commits
from sexton.runs.engine import Engine
from sexton.tables import TABLES
from tests.archived import Archive
from tests.coordinator.golden import GOLDEN, lines
from tests.coordinator.test_changes_recordings import WITH_SWEEPS, swept
from tests.kernels.compare import fold_bytes
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log, tombstone
from tests.pipeline.archive_runs import instant, minute, run, three_minutes

CHANGES = TABLES["offset_changes"].arrow_schema(with_run=False)


def changes(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"log_partition": 0, "group_id": "g", **row} for row in rows], schema=CHANGES)


def expired(log_offset: int, at_ms: int | None, **fields: Any) -> dict[str, Any]:
    return {"kind": "expired", "log_offset": log_offset, "timestamp_ms": at_ms, **fields}


def sweeps_by_broker(recording: str) -> list[tuple[int, int, int, int, int, int]]:
    """(log partition, first and last log_offset, start, offsets, groups) of what the broker wrote, by its batches."""
    written = [
        (batch["log_partition"], batch["base_offset"] + at, batch["at_ms"], key["group"])
        for batch in lines(GOLDEN / recording / "sweeps.jsonl")
        for at, (record_type, key) in enumerate(batch["tombstones"])
        if record_type in (0, 1)
    ]
    found = []
    for log_partition, records in groupby(sorted(written), key=lambda record: record[0]):
        sweep: list[tuple[int, int, int, str]] = []
        for record in [*records, None]:
            if sweep and (record is None or record[2] - sweep[-1][2] > SWEEP_GAP_MS):
                groups = {group for _, _, _, group in sweep}
                found.append((log_partition, sweep[0][1], sweep[-1][1], sweep[0][2], len(sweep), len(groups)))
                sweep = []
            if record is not None:
                sweep.append(record)
    return found


@pytest.mark.parametrize("recording", WITH_SWEEPS)
def test_the_sweeps_are_those_of_the_broker(recording: str) -> None:
    found, certain = [], 0
    told = sorted(swept(recording), key=lambda pair: pair[0])
    for log_partition, rows in groupby(told, key=lambda pair: pair[0]):
        own = [{**row.to_row(), "log_partition": log_partition} for _, row in rows]
        for sweep in sweeps_of(pa.Table.from_pylist(own, schema=CHANGES)).to_pylist():
            certain += sweep.pop("certain_offsets")
            assert list(sweep) == [name for name in TABLES[SWEEPS].column_names if name in sweep]
            names = ("log_partition", "first_log_offset", "last_log_offset", "started_at_ms", "offsets", "groups")
            found.append(tuple(sweep[name] for name in names))
    assert found == sweeps_by_broker(recording)
    assert certain == sum(row.kind == "expired" for _, row in told)


def test_a_second_between_two_tombstones_is_another_sweep() -> None:
    rows = [expired(5, BASE_MS), expired(7, BASE_MS + 1_000, group_id="h"), expired(8, BASE_MS + 2_001)]
    found = sweeps_of(changes(*rows)).to_pylist()
    assert [(row["first_log_offset"], row["offsets"], row["groups"]) for row in found] == [(5, 2, 2), (8, 1, 1)]


def test_what_may_be_of_a_sweep_is_counted_and_is_not_certain() -> None:
    ambiguous = expired(6, BASE_MS, kind="ambiguous", candidates=["expired", "group_deleted"])
    other = expired(7, BASE_MS, kind="ambiguous", candidates=["deleted", "group_deleted"])
    deleted = {"kind": "deleted", "log_offset": 8, "timestamp_ms": BASE_MS}
    (found,) = sweeps_of(changes(expired(5, BASE_MS), ambiguous, other, deleted)).to_pylist()
    assert (found["offsets"], found["certain_offsets"], found["last_log_offset"]) == (2, 1, 6)
    assert sweeps_of(changes(other, deleted)).num_rows == 0
    assert sweeps_of(changes()).schema == TABLES[SWEEPS].arrow_schema(with_run=False)


def test_without_timestamps_neighbours_are_one_sweep() -> None:
    found = sweeps_of(changes(expired(5, None), expired(6, None), expired(9, None))).to_pylist()
    told = [(row["first_log_offset"], row["offsets"], row["started_at_ms"]) for row in found]
    assert told == [(5, 2, None), (9, 1, None)]


def test_a_broker_sweeps_all_its_log_partitions_at_once() -> None:
    """Log partitions 0 and 2 are of broker 1; each row is within a second of the one before it, or another sweep."""
    rows = [(0, BASE_MS, 5, 4), (2, BASE_MS + 900, 7, 7), (1, BASE_MS + 300, 1, 1), (2, BASE_MS + 1_901, 2, 0)]
    empty = TABLES[SWEEPS].arrow_schema(with_run=False)
    named = ("log_partition", "started_at_ms", "offsets", "certain_offsets")
    places = {"first_log_offset": 0, "last_log_offset": 9, "groups": 1}
    sweeps = pa.Table.from_pylist([places | dict(zip(named, row, strict=True)) for row in rows], schema=empty)
    found = sweeps_of_brokers(sweeps, {0: 1, 2: 1, 1: 7})
    columns = ("coordinator", "started_at_ms", "offsets", "certain_offsets", "log_partitions")
    assert [tuple(one[name] for name in columns) for one in found] == [
        (1, BASE_MS, 12, 11, 2),
        (7, BASE_MS + 300, 1, 1, 1),
        (1, BASE_MS + 1_901, 2, 0, 1),
    ]


def test_a_sweep_is_of_whoever_led_then() -> None:
    """Not of who led when the snapshot was taken, where that is another; as long as nobody knows, it is of that one."""
    sweeps = sweeps_of(changes(expired(5, BASE_MS), expired(8, BASE_MS + 9_000), expired(9, BASE_MS + 20_000)))
    assert sweeps["coordinator"].null_count == 3
    assert swept_by(sweeps, None, 0)["coordinator"].null_count == 3
    led = swept_by(sweeps, 4, 8)
    assert led.schema == sweeps.schema
    assert led["coordinator"].to_pylist() == [None, 4, 4]
    assert [one["coordinator"] for one in sweeps_of_brokers(led, {0: 6})] == [6, 4, 4]


def test_a_run_names_the_broker_of_a_sweep(small: Engine, tmp_path: Path) -> None:
    """The second batch is of the leader of the snapshots, the first of one before it."""
    archive = Archive(tmp_path / "archive", settings={"offsets.retention.minutes": "1"})
    committed = (commit("a", partition=n, commit_timestamp_ms=instant(2 * n)) for n in range(3))
    archive.snapshot(instant(1) + 2_000, {0: minute(1, *committed, first=0)})
    for number, partition, epoch in ((3, 0, -1), (5, 1, 0)):
        gone = minute(number, tombstone("a", partition=partition), first=3 + partition)
        archive.snapshot(instant(number) + 2_000, {0: gone[:12] + epoch.to_bytes(4, signed=True) + gone[16:]})
    run(small, tmp_path / "r", archive, instant(5), since_ms=instant(1))
    (file,) = (tmp_path / "r" / SWEEPS).glob("*.parquet")
    rows = pq.read_table(file, partitioning=None).to_pylist()
    assert [(row["first_log_offset"], row["coordinator"]) for row in rows] == [(3, None), (4, 1)]


def test_commits_are_values_between_two_instants(tmp_path: Path) -> None:
    """Tombstones are no commits; a transaction that is aborted has committed all the same."""
    first = [BatchSpec(entries=(commit("a"), commit("b")))]
    aborted = BatchSpec(entries=(commit("a", 9),), producer_id=1, transactional=True)
    then = [BatchSpec(entries=(commit("a", 2), tombstone("b"))), aborted, BatchSpec(producer_id=1, control=(0,))]
    profile = profile_of("group_coordinator")
    logs = {"start": first, "end": first + then, "holes": [*first, BatchSpec(gap=1, entries=(commit("c"),))]}
    for name, log in logs.items():
        fold_bytes(encode_log(log), profile=profile).write_parquet(Folder(tmp_path / name))
    start, end = read_commits([Folder(tmp_path / "start")]), read_commits([Folder(tmp_path / "end")])
    (row,) = commits_between(start, end, log_partition=3, span_ms=4_000).to_pylist()
    assert row == {"group_id": "a", "log_partition": 3, "commits": 2, "commits_per_second": 0.5, "is_whole": True}
    rows = commits_between(read_commits([]), end, log_partition=0, span_ms=1_000).to_pylist()
    assert [(row["group_id"], row["commits"]) for row in rows] == [("a", 3), ("b", 1)]
    (row,) = commits_between(start, read_commits([Folder(tmp_path / "holes")]), log_partition=0, span_ms=1).to_pylist()
    assert (row["group_id"], row["is_whole"]) == ("c", False)
    assert commits_between(end, end, log_partition=0, span_ms=1).schema == TABLES[COMMITS].arrow_schema(with_run=False)


def test_a_run_of_an_interval_has_both_tables(small: Engine, tmp_path: Path) -> None:
    archive: Archive = three_minutes(tmp_path / "archive")
    record = run(small, tmp_path / "r", archive, instant(3), since_ms=instant(1))
    for name in (SWEEPS, COMMITS):
        files = sorted((tmp_path / "r" / name).glob("*.parquet"))
        assert len(files) == len(record.log_partitions)
        rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
        assert len(rows) == record.counts[name]
    assert {row["group_id"] for row in rows} == {"a", "c"}
    assert all(row["commits_per_second"] == row["commits"] / 120 and row["is_whole"] for row in rows)
