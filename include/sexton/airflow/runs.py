"""The run folder as a scheduler sees it: where it is, and what the jobs in it said about their end."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from sexton.settings import settings

_TAME = re.compile(r"(?!\.*$)(?!.*-[0-9a-f]{12}$)[A-Za-z0-9_.-]{1,100}")


def run_folder(dag_id: str, run_id: str, *, root: str | None = None) -> str:
    """Where the stages of one DAG run hand their work to each other; a cleared run fills the same folder again.

    Below `root`, by default where the settings want it. Run ids hold colons, slashes, anything, and whoever triggers a
    run may choose one: it never names another run's folder, nor one above.
    """
    name = run_id
    if not _TAME.fullmatch(run_id):
        digest = sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', run_id)[:100]}-{digest}"
    return f"{(root or settings().runs_uri).rstrip('/')}/{dag_id}/{name}"


def outcome_file(folder: str, stage: str) -> Path:
    """The file in which a job leaves its exit code and its error, see `sexton.pipeline.job`."""
    return Path(folder) / "outcome" / f"{stage}.json"


def read_outcome(folder: str, stage: str) -> dict[str, Any]:
    """What the job of `stage` said about its end; empty when it could not say anything."""
    try:
        outcome = json.loads(outcome_file(folder, stage).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return outcome if isinstance(outcome, dict) else {}
