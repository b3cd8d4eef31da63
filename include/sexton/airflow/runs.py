"""Run folders as Airflow's tasks use them: their paths, and the outcomes that jobs write to them."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from sexton.settings import settings

_TAME = re.compile(r"(?!\.*$)(?!.*-[0-9a-f]{12}$)[A-Za-z0-9_.-]{1,100}")


def run_folder(dag_id: str, run_id: str, *, root: str | None = None) -> str:
    """Return the folder that the stages of a DAG run share, below `root` (default: the settings' runs_uri).

    A cleared run uses the same folder again. Users may choose run ids with any characters: no run id leads to another
    run's folder or out of `root`.
    """
    name = run_id
    if not _TAME.fullmatch(run_id):
        digest = sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', run_id)[:100]}-{digest}"
    return f"{(root or settings().runs_uri).rstrip('/')}/{dag_id}/{name}"


def outcome_file(folder: str, stage: str) -> Path:
    """Return the file to which a job writes its exit code and error (`sexton.pipeline.job`)."""
    return Path(folder) / "outcome" / f"{stage}.json"


def read_outcome(folder: str, stage: str) -> dict[str, Any]:
    """Return the outcome of a job, empty if it wrote none."""
    try:
        outcome = json.loads(outcome_file(folder, stage).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return outcome if isinstance(outcome, dict) else {}
