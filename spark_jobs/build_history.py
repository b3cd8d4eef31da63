"""build_history: make runs of many instants of the archive; fold the log once, and publish the runs together."""

from sexton.job_params import HistoryRequest
from sexton.lake.catalog import open_lake
from sexton.pipeline import build_history, job
from sexton.policy import read_policy
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task
from sexton.runs.progress import ProgressLines


def run(asked: HistoryRequest, folder: RunFolder) -> dict[str, object]:
    policy = None if asked.policy is None else read_policy(asked.policy)
    with engine_of_task(iceberg=True, quiet=True) as engine:
        show = ProgressLines("Building history", items="instants").at
        history = build_history.run(engine, open_lake(), folder.sub("instants"), asked, policy=policy, show=show)
    return {
        "published": len(history.published),
        "published_before": len(history.published_before),
        "not_covered": len(history.not_covered),
        "failed": len(history.failed),
        "alerts": [f"as of {at_ms} ms: {why}" for at_ms, why in history.failed.items()],
        "warnings": [f"as of {at_ms} ms: {why}" for at_ms, why in history.not_covered.items()],
    }


if __name__ == "__main__":
    job.program("build_history", __doc__, run)
