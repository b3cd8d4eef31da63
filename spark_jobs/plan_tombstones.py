"""plan_tombstones: write the tombstones of expired offsets as a plan with its page. Nothing is written to Kafka."""

from sexton.job_params import JobRequest
from sexton.pipeline import job, plan_tombstones
from sexton.report.plan_page import render_plan
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def run(_: JobRequest, folder: RunFolder) -> dict[str, object]:
    with engine_of_task() as engine:
        record = plan_tombstones.run(engine, folder, page=render_plan)
    return {"tombstones": record.counts["tombstones"], "plan_id": record.plan_id}


if __name__ == "__main__":
    job.program("plan_tombstones", __doc__, run)
