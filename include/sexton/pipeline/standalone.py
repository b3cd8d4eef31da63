"""The stages of one run in one process and one Spark session, without Airflow or a lake: `sexton audit` and `plan`.

They are the stages of the pipeline, so the plan of an instant is the same as from the DAG. A plan whose checks failed
is not stored: stored plans can be applied.
"""

from dataclasses import dataclass
from pathlib import Path

from sexton.archive.folder import filesystem
from sexton.job_params import ReplayRequest
from sexton.pipeline import find_expired, plan_tombstones, replay_groups, validate_tables
from sexton.plans.plan import Plan
from sexton.plans.read_plan import own_plan, plan_folder
from sexton.plans.write_plan import Page, keep_plan
from sexton.policy import Policy
from sexton.runs.choose_profile import AMBIGUOUS
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.tables import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A new plan. `kept_at` is its folder in the archive, None if it is not kept; `why_not` is the reason then."""

    record: RunRecord
    plan: Plan
    failed_checks: int
    kept_at: str | None
    why_not: str | None


def run_audit(engine: Engine, replay: ReplayRequest, out: Path, policy: Policy | None = None) -> RunRecord:
    """Replay, judge, plan and validate into `out`; a failed check is a row of dq_results, not an error."""
    folder = RunFolder(out, keeps_tables=True)
    replay_groups.run(engine, folder, replay, keeps_fold=False)
    find_expired.run(engine, folder, policy=policy)
    plan_tombstones.run(engine, folder)
    return validate_tables.check_folder(folder)


def make_plan(engine: Engine, replay: ReplayRequest, out: Path, policy: Policy | None, *, page: Page) -> Planned:
    """Make the plan of an instant in `out`. It is kept in the archive unless `_why_not` has a reason against it."""
    folder = RunFolder(out, keeps_tables=True)
    judged_run(engine, folder, replay, policy)
    plan_tombstones.run(engine, folder, page=page)
    record = validate_tables.check_folder(folder)
    plan, failed = own_plan(folder), failed_critical(folder)
    why_not, kept_at = _why_not(record, plan, failed), None
    if why_not is None:
        archive = str(replay.archive)
        keep_plan(folder, plan.record, archive)
        kept_at = plan_folder(filesystem(archive)[1], plan.record.cluster_id, plan.record.plan_id)
    return Planned(record=record, plan=plan, failed_checks=failed, kept_at=kept_at, why_not=why_not)


def judged_run(
    engine: Engine, folder: RunFolder, replay: ReplayRequest, policy: Policy | None, *, names_owners: bool = True
) -> RunRecord:
    """Replay and judge, with the broker's rules and a policy if there is one. `names_owners` is as in find_expired."""
    replay_groups.run(engine, folder, replay)
    return find_expired.run(engine, folder, policy=policy, names_owners=names_owners)


def failed_critical(folder: RunFolder) -> int:
    """Number of critical expectations that a run failed."""
    rows = folder.read_table(TABLES["dq_results"].name, 0, ["severity", "success"]).to_pylist()
    return sum(row["severity"] == "critical" and not row["success"] for row in rows)


def _why_not(record: RunRecord, plan: Plan, failed: int) -> str | None:
    if not (record.positions or record.admin_snapshot_sha256):
        return "the run does not read an archive"
    if record.profile_source == AMBIGUOUS:
        return "nothing proves whose rules it has to follow: name the --profile"
    if failed:
        return f"{failed} critical checks failed"
    return "it is empty" if plan.record.is_empty else None
