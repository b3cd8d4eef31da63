"""Stages by themselves: the plan of a log of which all is due, and an audit's stages on a cluster of two workers."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sexton.runs.folder import RunFolder
from sexton.runs.spark_session import spark_environment
from sexton_dev.processes import MARK
from tests.bench.cluster import WORKERS, spark_cluster
from tests.bench.generate import Shape, write
from tests.bench.planning import measure_planning
from tests.bench.replicas import measure_replicas
from tests.bench.watch import run_watched

SMALL = Shape(records=30_000, keys=2000, log_partitions=4)
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1_200)]


def test_every_offset_is_planned_for_deletion(tmp_path: Path) -> None:
    write(SMALL, tmp_path / "log")
    found = measure_planning(SMALL, tmp_path / "log", tmp_path)
    record = RunFolder(tmp_path / "planned").read_run()
    assert record.counts["committed_offsets"] > 1900
    assert found.tombstones == record.counts["tombstones"] >= record.counts["committed_offsets"]
    assert found.seconds > 0


def test_replicas_that_are_compacted_in_their_own_ways_do_not_differ(tmp_path: Path) -> None:
    """A difference would end the comparison with another exit code, which raises."""
    shape = replace(SMALL, records=600_000)
    write(shape, tmp_path / "log")
    found = measure_replicas(shape, tmp_path / "log", tmp_path)
    assert min(found.audit_s, found.compare_s, found.process_bytes, found.smaller_process_bytes) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["log", "smaller"]


@pytest.mark.full
@pytest.mark.usefixtures("needs_spark")
def test_stages_run_on_both_workers_and_all_is_stopped(tmp_path: Path) -> None:
    write(SMALL, tmp_path / "log")
    with spark_cluster(tmp_path / "spark") as master:
        environment = {**os.environ, **spark_environment(), "SEXTON_SPARK_MASTER": master}
        command = [sys.executable, "-m", "tests.bench.cluster", str(tmp_path / "log"), str(tmp_path / "out")]
        told = json.loads(run_watched(command, environment=environment).output.splitlines()[-1])
        executors = [list((tmp_path / "spark" / f"worker-{number}").glob("app-*/*")) for number in range(WORKERS)]
    assert told["seconds"] > 0
    assert [len(each) for each in executors] == [1, 1], "an executor of each worker took part"
    assert RunFolder(tmp_path / "out").read_run().counts["committed_offsets"] > 1900
    assert [one.pid for one in psutil.process_iter() if _is_of(one, tmp_path / "spark")] == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        return bool(process.environ().get(MARK) == str(folder))
    except psutil.Error:
        return False
