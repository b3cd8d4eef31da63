"""check_checkpoint: compare the newest checkpoint with a full replay of its instant, every week.

The instant of the last successful check is stored, so that a cluster becomes due whatever the DAG's schedule:

    <archive>/<cluster_id>/maintenance/check_checkpoint.json
"""

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sexton.archive.files import safe_name
from sexton.archive.lineages import clusters_of
from sexton.errors import NoCoverage
from sexton.maintenance.checkpoint_comparison import compare_checkpoint
from sexton.maintenance.run_retention import DAY_MS
from sexton.maintenance.task_state import read_state, write_state
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.source import filesystem

TASK = "check_checkpoint"


class CheckState(BaseModel):
    """When a cluster's newest checkpoint was last confirmed; None if never."""

    model_config = ConfigDict(extra="ignore")

    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCheckpoints:
    """The confirmed checkpoints of clusters that were due, as `Checked` by cluster id, and when the next is due."""

    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    next_in_days: int = 0


def run(
    engine: Engine, archive: str, scratch: Path, *, now_ms: int, days: int, only: str | None = None
) -> CheckedCheckpoints:
    """Check every cluster, or `only` one, that was not confirmed in the `days` before `now_ms`. `scratch` is emptied.

    DataQualityFailure if a checkpoint differs from the replay; NoCoverage if no due cluster has a checkpoint;
    UsageError if a state file is invalid.
    """
    fs, root = filesystem(archive)
    checked, missing = {}, NoCoverage("the archive holds no cluster", where=archive)
    waits = []
    for cluster_id in clusters_of(fs, root, only):
        since = _days_since(read_state(fs, root, cluster_id, TASK, CheckState), now_ms)
        if since is not None and 0 <= since < days:  # a state from the future comes from a wrong clock
            waits.append(days - since)
            continue
        folder = scratch / safe_name(cluster_id, what="cluster id")
        try:
            found = compare_checkpoint(engine, RunFolder(folder), archive=archive, cluster_id=cluster_id)
        except NoCoverage as error:
            missing = error
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        write_state(fs, root, cluster_id, TASK, CheckState(at_ms=now_ms))
        checked[cluster_id] = asdict(found)
    if not checked and not waits:
        raise missing
    return CheckedCheckpoints(clusters=checked, next_in_days=min(waits, default=days))


def _days_since(state: CheckState, now_ms: int) -> int | None:
    """Return the calendar days (UTC) since the last check, so that a late run does not delay the next ones."""
    return None if state.at_ms is None else now_ms // DAY_MS - state.at_ms // DAY_MS
