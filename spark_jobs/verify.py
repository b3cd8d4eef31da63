"""verify: read one part of the archive and compare it with its manifests, SHA-256 and CRC.

Each run reads the next part. The job ends with exit code 3 while the archive differs from what was written to it.
"""

import re
from dataclasses import asdict

from sexton.errors import DataQualityFailure, UsageError
from sexton.job_params import VerifyRequest
from sexton.maintenance import verify
from sexton.pipeline import job
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def run(asked: VerifyRequest, _: RunFolder) -> dict[str, object]:
    subset = None
    if asked.subset:
        part = re.fullmatch(r"(\d{1,9})/(\d{1,9})", asked.subset)
        if not part or not 1 <= int(part[1]) <= int(part[2]):
            fix = "n/t with 1 <= n <= t, such as 3/7"
            raise UsageError(f"no part: {asked.subset!r}", where="--subset", fix=fix)
        subset = int(part[1]), int(part[2])
    parts = settings().maintenance_verify_days
    found = verify.run(asked.archive, parts=parts, subset=subset, only=asked.cluster_id)
    if not found.corrupt:
        return asdict(found)
    error = f"the archive has lost or changed data ({found.corrupt} findings): no run expires until it is repaired"
    return {"exit_code": DataQualityFailure.exit_code, "error": error, **asdict(found)}


if __name__ == "__main__":
    job.program("verify", __doc__, run)
