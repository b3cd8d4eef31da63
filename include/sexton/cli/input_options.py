"""The input of a command as its options describe it: a log to query, or a log to replay and judge."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.as_text import now_ms
from sexton.cli.options import (
    AUTO_PROFILE,
    INPUT,
    RULES,
    Archive,
    ClusterId,
    PolicyFile,
    Profile,
    RetentionMinutes,
    RunDir,
    check_profile,
    check_retention,
    check_topics_file,
    codec_number,
    flag,
    option,
    parse_optional_instant,
)
from sexton.cli.progress import working
from sexton.errors import NoCoverage, UsageError
from sexton.log.entry import CODECS

if TYPE_CHECKING:
    from sexton.job_params import ReplayRequest
    from sexton.runs.folder import RunRecord
    from sexton.runs.source import LogSource
    from sexton.views.coordinator_view import CoordinatorView


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInput:
    """A log, an archive or a run folder that a command queries, at an instant and by a coordinator's rules."""

    segments: list[Path] | None = option(
        "--segments DIR",
        "A log directory with __consumer_offsets-N folders; may be repeated: all the log.dirs of one broker.",
        INPUT,
    )
    archive: Archive = None
    run: RunDir = None
    cluster_id: ClusterId = None
    topics: Path | None = option(
        "--topics FILE",
        "The cluster's topics as JSON lines (topic, id, partitions): for lag, topic ids and orphaned offsets.",
        INPUT,
    )
    partition_count: int | None = option(
        "--partition-count N",
        "The number of log partitions. Default: from --topics or the archive, else what the group ids prove.",
        INPUT,
        min=1,
        max=10_000,
    )
    as_of: str | None = option(
        "--as-of ISO|MS",
        "The instant to answer for; later records are not read. Default: the newest batch, admin snapshot or run.",
        RULES,
    )
    profile: Profile = None
    load_buffer_bytes: int | None = option(
        "--load-buffer-bytes N",
        "The broker's offsets.load.buffer.size; matters before 2.0.1. Default: as recorded, else 5242880.",
        RULES,
        min=1,
    )

    @property
    def is_log(self) -> bool:
        """Whether segments or an archive are given."""
        return self.segments is not None or self.archive is not None

    def view(self) -> "CoordinatorView":
        """Open the input as a view, which answers as a coordinator does."""
        check_profile(self.profile)
        self.check_cluster()
        if self.run is not None and self.load_buffer_bytes is not None:
            raise UsageError(
                "a run has a recorded load buffer", where="--load-buffer-bytes", fix="use --segments or --archive"
            )
        if self.run is not None and self.partition_count is not None:
            raise UsageError("a run has a recorded count", where="--partition-count", fix="leave it out")
        check_topics_file(self.topics)
        as_of_ms = parse_optional_instant(self.as_of, "--as-of")

        from sexton.views.coordinator_view import open_view

        return open_view(self.request(as_of_ms), _text(self.run))

    def request(self, as_of_ms: int | None, **more: Any) -> "ReplayRequest":
        """The log, read as of an instant; `more` are other fields of the request."""
        from sexton.job_params import ReplayRequest

        return ReplayRequest(
            segments=_texts(self.segments),
            archive=self.archive,
            cluster_id=self.cluster_id,
            topics_file=_text(self.topics),
            partition_count=self.partition_count,
            as_of_ms=as_of_ms,
            profile=self.profile or AUTO_PROFILE,
            load_buffer_bytes=self.load_buffer_bytes,
            **more,
        )

    def view_of(self, groups: Sequence[str], *, is_quiet: bool) -> "CoordinatorView":
        """Open the input, and read the log partitions of these groups; NoCoverage if one of them is not covered."""
        view = self.view()
        with working("Reading the log", is_quiet=is_quiet):
            view.check_coverage(groups)
        return view

    def source(self, as_of_ms: int | None) -> "LogSource":
        """The segments of the log, or of the archive as of an instant."""
        from sexton.runs.source import open_source

        return open_source(self.request(as_of_ms))

    def of_run(self, fix: str) -> "tuple[LogInput, RunRecord]":
        """The log that the run of --run read, at its instant, and the run's record; NoCoverage if it read no log."""
        from sexton.runs.folder import RunFolder

        assert self.run is not None
        record = RunFolder(self.run).read_run()
        if not record.knows_places:
            raise NoCoverage("the run read no log", where=self.run, fix=fix)
        own: dict[str, Any] = {"as_of": str(record.as_of_ms), "profile": self.profile or record.profile, "run": None}
        if record.positions:
            return replace(self, archive=record.source, cluster_id=record.cluster_id, **own), record
        places = [Path(place) for place in record.log_dirs or [record.source]]
        count = self.partition_count or record.partition_count
        return replace(self, segments=places, partition_count=count, **own), record

    def given(self) -> Iterator[tuple[str, str]]:
        """The options that are given, each with its value."""
        for one in fields(self):
            value = getattr(self, one.name)
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    yield f"--{one.name.replace('_', '-')}", str(each)

    def check_cluster(self) -> None:
        """UsageError if --cluster-id is given with an input that has only one cluster."""
        if self.cluster_id is not None and (self.segments is not None or self.run is not None):
            raise UsageError("it only applies to --archive", where="--cluster-id", fix="leave it out")

    def check_replayable(self, name: str) -> None:
        """UsageError for options that do not go together in `forecast`, `what-if` and `groups check-sweep`."""
        if sum(place is not None for place in (self.segments, self.archive, self.run)) > 1:
            raise UsageError(
                "give one of --segments, --archive and --run, or none for the published tables",
                fix=f"see `sexton {name} --help`",
            )
        self.check_cluster()
        for given, _ in self.given():
            if not self.is_log and given not in ("--run", "--cluster-id", "--as-of"):
                raise UsageError("applies only to a log", where=given, fix="give --segments or --archive")
        if self.run is not None and self.as_of is not None:
            raise UsageError("a run folder has one instant", where="--as-of", fix="leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput(LogInput):
    """A log or an archive that `audit` and `plan` replay, and the rules by which they judge it."""

    full: bool = flag("--full", "Replay the archive from its beginning instead of from a published checkpoint.")
    taken_at: str | None = option(
        "--taken-at ISO|MS",
        "When the segments were copied; batches stamped over an hour later are reported. Default: now.",
        INPUT,
    )
    retention_minutes: RetentionMinutes = None
    codec: str | None = option(
        f"--codec {'|'.join(CODECS)}",
        "offsets.topic.compression.codec, for the plan's batches. Default: as recorded, else none.",
        RULES,
    )
    policy: PolicyFile = None

    @property
    def folders(self) -> list[Path]:
        """The local folders that are read; empty if the archive is a URI."""
        places = _texts(self.segments) or [str(self.archive)]
        return [Path(place) for place in places if "://" not in place]

    def check(self, name: str) -> None:
        """UsageError for options that do not go together, before anything that takes long."""
        if (self.segments is None) == (self.archive is None):
            raise UsageError("give either --segments DIR or --archive URI", fix=f"see `sexton {name} --help`")
        if self.archive is None and (self.cluster_id is not None or self.full):
            option = "--full" if self.full else "--cluster-id"
            raise UsageError("only an archive has clusters and checkpoints", where=option, fix="give --archive URI")
        check_topics_file(self.topics)
        check_retention(self.retention_minutes)
        parse_optional_instant(self.as_of, "--as-of")
        parse_optional_instant(self.taken_at, "--taken-at")
        check_profile(self.profile)
        codec_number(self.codec)

    def replay(self, name: str) -> "ReplayRequest":
        """The request for a replay. Call `check` first: this imports what reads logs, which takes seconds."""
        taken_at_ms = parse_optional_instant(self.taken_at, "--taken-at")
        return self.request(
            parse_optional_instant(self.as_of, "--as-of"),
            run_id=f"{name}-{uuid.uuid4().hex[:16]}",
            taken_at_ms=now_ms() if taken_at_ms is None else taken_at_ms,
            retention_minutes=self.retention_minutes,
            codec=codec_number(self.codec),
            is_full=self.full,
        )


def _texts(paths: Sequence[Path] | None) -> list[str] | None:
    return None if paths is None else [str(path) for path in paths]


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
