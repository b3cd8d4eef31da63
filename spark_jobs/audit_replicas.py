"""audit_replicas: compare what each broker's own replica of the offsets topic would serve if it became the leader.

The job only reads from the cluster. It copies every replica once, to the run folder.
"""

from dataclasses import asdict

from sexton.audits import audit_replicas
from sexton.errors import UndecodableInput
from sexton.job_params import ReplicaRequest
from sexton.lake.catalog import open_lake
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder


def run(asked: ReplicaRequest, folder: RunFolder) -> dict[str, object]:
    with Engine(iceberg=True) as engine:
        done = audit_replicas.run(engine, folder, open_lake(), asked, as_of_ms=asked.now)
    return {**asdict(done), **({"exit_code": UndecodableInput.exit_code} if done.corrupt else {})}


if __name__ == "__main__":
    job.program("audit_replicas", __doc__, run)
