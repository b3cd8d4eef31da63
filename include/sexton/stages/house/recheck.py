"""recheck: the proof of increments, every week: the newest checkpoint held against a full replay of its instant."""

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sexton.errors import NoCoverage
from sexton.log.lineage import clusters_of
from sexton.log.store import safe_name
from sexton.stages.checkpoint_check import check_checkpoint
from sexton.stages.house.keeping import DAY_MS
from sexton.stages.run import RunFolder
from sexton.stages.source import filesystem
from sexton.stages.spark import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Rechecked:
    """What was confirmed, by cluster id (`checkpoint_check.Checked`); none on the days between."""

    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    next_in_days: int = 0


def run(engine: Engine, archive: str, scratch: Path, *, now_ms: int, days: int, only: str | None = None) -> Rechecked:
    """Replay every cluster, or `only` one, in full, in a folder of its own that is removed, on one day of `days`.

    DataQualityFailure where a checkpoint is not what the log says; NoCoverage where no cluster has one.
    """
    if since := now_ms // DAY_MS % days:
        return Rechecked(next_in_days=days - since)
    fs, root = filesystem(archive)
    checked, untold = {}, NoCoverage("the archive holds no cluster", place=archive)
    for cluster_id in clusters_of(fs, root, only):
        folder = scratch / safe_name(cluster_id, what="cluster id")
        try:
            found = check_checkpoint(engine, RunFolder(folder), archive=archive, cluster_id=cluster_id)
        except NoCoverage as error:
            untold = error
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        checked[cluster_id] = asdict(found)
    if not checked:
        raise untold
    return Rechecked(clusters=checked, next_in_days=days)
