"""Run folders as Airflow's tasks use them: their paths, and the outcomes that jobs write to them."""

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sexton.errors import UsageError
from sexton.settings import settings
from sexton.uris import below

if TYPE_CHECKING:
    from sexton.archive.folder import Folder

_TAME = re.compile(r"(?!\.*$)(?!.*-[0-9a-f]{64}$)[a-z0-9_.-]{1,100}")
"""Run ids that are folder names unchanged. No capitals, because some file systems ignore case."""


def run_folder(dag_id: str, run_id: str, *, root: str | None = None) -> str:
    """Return the folder that the stages of a DAG run share, below `root` (default: the settings' runs_uri).

    A cleared run uses the same folder again. Users may choose run ids with any characters. No run id, not even a
    malicious one, leads to another run's folder or out of `root`.
    """
    name = run_id
    if not _TAME.fullmatch(run_id):
        digest = sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', run_id)[:100]}-{digest}"
    return below(root or settings().runs_uri, dag_id, name)


def remove_outcome(folder: str, stage: str) -> None:
    """Remove the outcome of an earlier attempt of a job."""
    _outcomes(folder).remove(f"{stage}.json")


def read_outcome(folder: str, stage: str) -> dict[str, Any]:
    """Return the outcome of a job (`sexton.pipeline.job`), empty if it wrote none."""
    from sexton.archive.files import read_json

    outcomes = _outcomes(folder)
    try:
        return read_json(outcomes.fs, outcomes.path(f"{stage}.json"))
    except (UsageError, OSError):
        return {}


def has_file(folder: str, *names: str) -> bool:
    """Whether a run folder has a file; False if the folder cannot be read."""
    from sexton.archive.folder import Folder

    try:
        return Folder(folder).exists(*names)
    except (UsageError, OSError):
        return False


def _outcomes(folder: str) -> "Folder":
    from sexton.archive.folder import Folder  # pyarrow is imported when a task runs, not when a DAG file is read

    return Folder(folder, "outcome")
