"""audit_lag: measure how late each group of the newest published run was, what it will lose, and which would reset.

The job only reads from the cluster, and reads no message. It archives the brokers' answers.
"""

from sexton.as_text import now_ms
from sexton.audits import audit_lag
from sexton.job_params import LagRequest
from sexton.lake.catalog import open_lake
from sexton.pipeline import job
from sexton.runs.folder import RunFolder


def run(asked: LagRequest, folder: RunFolder) -> audit_lag.LagAudit:
    return audit_lag.run(folder, open_lake(), asked, as_of_ms=asked.now, now_ms=now_ms)


if __name__ == "__main__":
    job.program("audit_lag", __doc__, run)
