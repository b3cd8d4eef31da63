"""The judged state that `forecast`, `what-if` and other commands read: a log replayed for them, or a published run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sexton.as_text import now_ms
from sexton.cli.input_options import LogInput, ReplayInput
from sexton.cli.options import ClusterInput, archive_uri, parse_instant, read_policy_file
from sexton.cli.output import print_doubts
from sexton.errors import NoCoverage

if TYPE_CHECKING:
    from sexton.analysis.forecast_result import RunTables
    from sexton.lake.catalog import Lake
    from sexton.lake.read import PublishedRun
    from sexton.runs.folder import RunFolder, RunRecord

L = TypeVar("L", bound=LogInput)


@contextmanager
def replayed(
    log: LogInput,
    name: str,
    *,
    retention_minutes: int | None = None,
    policy: Path | None = None,
    quiet: bool,
    plans: bool = False,
) -> "Iterator[tuple[RunFolder, RunRecord]]":
    """The log, replayed and judged in a temporary folder; with `plans` also planned."""
    replay = ReplayInput(**asdict(log), retention_minutes=retention_minutes)
    replay.check(name)
    rules = read_policy_file(policy)

    from sexton.pipeline.standalone import judged_run
    from sexton.runs.folder import RunFolder
    from sexton.runs.processes import engine_here

    with (
        tempfile.TemporaryDirectory(prefix="sexton-") as place,
        engine_here(quiet=quiet, reads=replay.folders) as engine,
    ):
        folder = RunFolder(place)
        record = judged_run(engine, folder, replay.replay(name), rules, names_owners=False)
        if plans:
            from sexton.pipeline import plan_tombstones

            record = plan_tombstones.run(engine, folder)
        if quiet:  # else they are among the warnings after the answer
            print_doubts(record.profile_doubts)
        yield folder, record


def with_snapshot(log: L, cluster: ClusterInput, *, quiet: bool) -> L:
    """Take a snapshot into the archive; returns the options with this archive and the cluster."""
    from sexton.job_params import SnapshotRequest
    from sexton.pipeline import snapshot_log
    from sexton.runs.processes import engine_here
    from sexton.settings import settings

    request = SnapshotRequest(
        config=cluster.client(),
        archive=archive_uri(log.archive),
        cluster_id=log.cluster_id,
        bytes_per_second=settings().fetch_bytes_per_second or None,
    )
    with engine_here(quiet=quiet) as engine:
        taken = snapshot_log.run(engine, request, now_ms=now_ms)
    return replace(log, archive=request.archive, cluster_id=taken.cluster_id)


def judged_tables(log: LogInput) -> "RunTables":
    """The tables of --run, else of the published run."""
    from sexton.analysis.forecast_result import FolderTables, LakeTables
    from sexton.runs.folder import RunFolder

    if log.run is None:
        return LakeTables(*published(log))
    folder = RunFolder(log.run)
    return FolderTables(folder, folder.read_run())


def published(log: LogInput) -> "tuple[Lake, PublishedRun]":
    """The newest published run; with --as-of, the newest one at or before that instant."""
    from sexton.lake.catalog import open_lake
    from sexton.lake.read import published_at, runs_of_cluster

    lake = open_lake()
    if log.as_of is not None:
        return lake, published_at(lake, parse_instant(log.as_of, "--as-of"), cluster_id=log.cluster_id)
    runs = runs_of_cluster(lake, log.cluster_id)
    if not runs:
        raise NoCoverage("no run is published", where=lake.where, fix="publish one, or give --archive or --segments")
    return lake, runs[-1]
