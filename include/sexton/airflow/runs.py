"""The run folder as a scheduler sees it: where it is, and what the jobs in it said about their end."""

import json
import re
from pathlib import Path
from typing import Any

from sexton.settings import settings


def run_folder(dag_id: str, run_id: str, *, root: str | None = None) -> str:
    """Where the stages of one DAG run hand their work to each other; a cleared run fills the same folder again.

    Below `root`, by default where the settings want it. Run ids hold colons, slashes, anything.
    """
    return f"{(root or settings().runs_uri).rstrip('/')}/{dag_id}/{re.sub(r'[^A-Za-z0-9_.-]+', '_', run_id)}"


def outcome_file(folder: str, stage: str) -> Path:
    """The file in which a job leaves its exit code and its error, see `sexton.stages.job`."""
    return Path(folder) / "outcome" / f"{stage}.json"


def read_outcome(folder: str, stage: str) -> dict[str, Any]:
    """What the job of `stage` said about its end; empty when it could not say anything."""
    try:
        outcome = json.loads(outcome_file(folder, stage).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return outcome if isinstance(outcome, dict) else {}
