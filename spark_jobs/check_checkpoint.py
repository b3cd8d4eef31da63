"""check_checkpoint: replay the newest checkpoint's instant in full and compare the two.

A cluster is due when its last successful check is SEXTON_MAINTENANCE_CHECKPOINT_DAYS days old. The job ends with exit
code 3 where the checkpoint and the replay differ.
"""

from sexton.job_params import ArchiveRequest
from sexton.maintenance import check_checkpoint
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def run(asked: ArchiveRequest, folder: RunFolder) -> check_checkpoint.CheckedCheckpoints:
    days, scratch = settings().maintenance_checkpoint_days, RunFolder(folder.uri, "check_checkpoint")
    with Engine() as engine:
        return check_checkpoint.run(engine, asked.archive, scratch, now_ms=asked.now, days=days, only=asked.cluster_id)


if __name__ == "__main__":
    job.program("check_checkpoint", __doc__, run)
