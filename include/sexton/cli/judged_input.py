"""The state that forecast and what-if judge: a log replayed for the purpose, a run folder, or a published run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.cli.input_options import tell_doubts
from sexton.cli.options import DEFAULT_PROFILE, parse_instant
from sexton.cli.plan import replay_request, scratch
from sexton.errors import NoCoverage, UsageError

if TYPE_CHECKING:
    from sexton.lake.catalog import Lake
    from sexton.lake.read import PublishedRun
    from sexton.policy import Policy
    from sexton.runs.folder import RunFolder, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a command looks, as its options say. Without segments, archive and run it is the published tables."""

    segments: Path | None
    archive: str | None
    run: Path | None
    cluster_id: str | None
    topics: Path | None
    as_of: str | None
    profile: str | None
    name: str
    load_buffer_bytes: int | None = None

    def check(self) -> None:
        """UsageError for what does not go together."""
        if sum(place is not None for place in (self.segments, self.archive, self.run)) > 1:
            raise UsageError(
                "give one of --segments, --archive and --run, or none for the published tables",
                fix=f"see `sexton {self.name} --help`",
            )
        given = {"--topics": self.topics, "--profile": self.profile, "--load-buffer-bytes": self.load_buffer_bytes}
        option = next((option for option, value in given.items() if value is not None), None)
        if not self.is_log and option is not None:
            raise UsageError("only of a log that is replayed", where=option, fix="give --segments or --archive")
        if self.run is not None and self.as_of is not None:
            raise UsageError("a run folder is of one instant", where="--as-of", fix="leave it out")

    @property
    def is_log(self) -> bool:
        return self.segments is not None or self.archive is not None


@contextmanager
def replayed(
    asked: Asked, *, retention_minutes: int | None, policy: "Policy | None", quiet: bool
) -> "Iterator[tuple[RunFolder, RunRecord]]":
    """The log that is asked for, replayed and judged in a folder that goes away."""
    request = replay_request(
        asked.segments,
        asked.archive,
        cluster_id=asked.cluster_id,
        is_full=False,
        topics=asked.topics,
        as_of=asked.as_of,
        retention_minutes=retention_minutes,
        profile=asked.profile or DEFAULT_PROFILE,
        load_buffer_bytes=asked.load_buffer_bytes,
        name=asked.name,
    )
    from sexton.pipeline.standalone_plan import judged_run
    from sexton.runs.folder import RunFolder
    from sexton.runs.processes import engine_here

    with scratch() as place, engine_here(f"sexton {asked.name}", quiet=quiet) as engine:
        folder = RunFolder(place)
        record = judged_run(engine, folder, request, policy)
        if quiet:  # else they are among the warnings that the answer ends with
            tell_doubts(record.profile_doubts)
        yield folder, record


def published(asked: Asked) -> "tuple[Lake, PublishedRun]":
    """The newest published run at or before the instant asked for, or of all."""
    from sexton.lake.catalog import open_lake
    from sexton.lake.read import published_at, published_runs

    lake = open_lake()
    if asked.as_of is not None:
        return lake, published_at(lake, parse_instant(asked.as_of, "--as-of"), cluster_id=asked.cluster_id)
    runs = published_runs(lake, asked.cluster_id)
    if not runs:
        raise NoCoverage("no run is published", where=lake.place, fix="publish one, or give --archive or --segments")
    return lake, runs[-1]
