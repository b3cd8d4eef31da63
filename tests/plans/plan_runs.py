"""Runs of a small archive up to their plan."""

from pathlib import Path
from typing import Any

from sexton.pipeline import find_expired, plan_tombstones
from sexton.plans.plan import MANIFEST
from sexton.plans.write_plan import Page
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from tests.archived import Archive
from tests.log_builder import BASE_MS, commit
from tests.pipeline.archive_runs import instant, minute, run

PARTITIONS = 3


def plans_of(archive: Path | str, cluster_id: str) -> list[str]:
    """The plan_ids that an archive keeps of a cluster, in order."""
    return sorted(path.parent.name for path in Path(archive, cluster_id, "plans").glob(f"*/{MANIFEST}"))


def archive_of_commits(folder: Path) -> Archive:
    """Offsets of three groups in two of three log partitions: most due after a minute, one set later."""
    archive = Archive(folder, partitions=PARTITIONS)
    old: dict[str, Any] = {"commit_timestamp_ms": BASE_MS}
    labelled = commit("c", 5, version=4, leader_epoch=3, metadata="метка", **old)
    expiring = commit("c", 6, topic="u", partition=1, version=1, expire_timestamp_ms=BASE_MS + 1, **old)
    of_a = [commit("a", 8, **old), commit("a", 9, partition=1, **old)]
    first = {0: minute(1, labelled, expiring, commit("f", 7, **old), first=0), 1: minute(1, *of_a, first=0)}
    archive.snapshot(instant(1) + 2_000, first)
    late = commit("f", 10, topic="u", commit_timestamp_ms=instant(3))
    archive.snapshot(instant(3) + 2_000, {0: minute(3, late, first=3)})
    return archive


def planned(
    engine: Engine, out: Path, archive: Archive, *, at: int = 3, page: Page | None = None, **options: Any
) -> RunRecord:
    """Replay, judge and plan with a retention of a minute."""
    run(engine, out, archive, instant(at), retention_minutes=1, **options)
    find_expired.run(engine, RunFolder(out))
    return plan_tombstones.run(engine, RunFolder(out), page=page)
