"""What the jobs make of a real broker's log, one call a step, without Spark: a snapshot, a run, a plan that is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sexton.as_text import now_ms
from sexton.job_params import ReplayRequest
from sexton.kafka.client import ClientConfig
from sexton.pipeline import find_expired, plan_tombstones, replay_groups, snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest, TakenSnapshot
from sexton.plans.read_plan import own_plan
from sexton.plans.write_plan import keep_plan
from sexton.policy import Policy
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.processes import SerialEngine


def snapshot(
    config: ClientConfig, archive: Path | str, *, now_ms: Callable[[], int] = now_ms, **asked: Any
) -> TakenSnapshot:
    request = SnapshotRequest(config=config, archive=str(archive), **asked)
    with SerialEngine(quiet=True) as engine:
        return snapshot_log.run(engine, request, now_ms=now_ms)


def replay(
    archive: Path | str, out: Path, *, policy: Policy | None = None, **asked: Any
) -> tuple[RunFolder, RunRecord]:
    """A run up to its verdicts."""
    folder = RunFolder(out)
    request = ReplayRequest(**{"run_id": out.name, "archive": str(archive), "taken_at_ms": now_ms(), **asked})
    with SerialEngine(quiet=True) as engine:
        replay_groups.run(engine, folder, request)
        return folder, find_expired.run(engine, folder, policy=policy)


def plan(archive: Path | str, out: Path, **asked: Any) -> RunRecord:
    """A run up to its plan, which the archive keeps as publishing has it kept."""
    folder, _ = replay(archive, out, **asked)
    with SerialEngine(quiet=True) as engine:
        record = plan_tombstones.run(engine, folder, page=lambda _: b"<html></html>\n")
    keep_plan(folder, own_plan(folder).record, str(archive))
    return record
