"""find_expired: write a verdict for every offset: whether and when the broker and a policy expire it, and why."""

from sexton.job_params import JudgeRequest
from sexton.pipeline import find_expired, job
from sexton.policy import read_policy
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def run(asked: JudgeRequest, folder: RunFolder) -> dict[str, object]:
    policy = None if asked.policy is None else read_policy(asked.policy)
    with engine_of_task() as engine:
        record = find_expired.run(engine, folder, policy=policy)
    return {"offset_verdicts": record.counts["offset_verdicts"]}


if __name__ == "__main__":
    job.program("find_expired", __doc__, run)
