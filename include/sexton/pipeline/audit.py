"""The stages of one run in one process and one Spark session, without Airflow, broker or lake: `sexton audit`."""

from dataclasses import dataclass
from pathlib import Path

from sexton.pipeline import find_expired, plan_tombstones, replay_groups, validate_tables
from sexton.policy import Policy
from sexton.requests import ReplayRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to audit (see ReplayRequest), the folder that receives every table, and a policy to judge by."""

    replay: ReplayRequest
    out: Path
    policy: Policy | None = None


def run_audit(engine: Engine, request: AuditRequest) -> RunRecord:
    """Replay, judge, plan and validate into `request.out`; a failed check is a row of dq_results, not an error."""
    folder = RunFolder(request.out, keeps_tables=True)
    replay_groups.run(engine, folder, request.replay, keeps_fold=False)
    find_expired.run(engine, folder, policy=request.policy)
    plan_tombstones.run(engine, folder)
    return validate_tables.check_folder(folder)
