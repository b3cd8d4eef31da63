"""`sexton history build`: runs for many past instants of a log, published together."""

from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

from sexton.as_text import instant, now_ms, some
from sexton.cli.command import Without, command, command_group
from sexton.cli.input_options import LogInput
from sexton.cli.options import (
    AUTO_PROFILE,
    RULES,
    Json,
    PolicyFile,
    RetentionMinutes,
    check_profile,
    check_retention,
    option,
    parse_instant,
    parse_optional_instant,
    read_policy_file,
    required,
)
from sexton.cli.output import print_aside, print_json, print_line
from sexton.cli.progress import bar
from sexton.errors import DataQualityFailure, NoCoverage, UsageError

if TYPE_CHECKING:
    from sexton.archive.folder import Folder
    from sexton.pipeline.build_history import History

SHOWN = 10

app = command_group("Publish runs of many past instants.")


@command(app)
def build(
    *,
    since: str = required("--from ISO|MS", "The first instant.", RULES),
    until: str | None = option("--to ISO|MS", "The latest possible instant. Default: now.", RULES),
    step_minutes: int = option("--step-minutes N", "Minutes between instants.", RULES, default=60, min=1),
    log: Annotated[LogInput, Without({"run", "topics", "as_of", "load_buffer_bytes"})],
    retention_minutes: RetentionMinutes = None,
    policy: PolicyFile = None,
    json: Json = False,
) -> int:
    """Replay a log once, and publish the tables of every instant of a range: state, verdicts, plan, what changed.

    Instants that are already published stay as they are, so you can run it again; an interrupted build continues.
    Instants that the log does not cover are counted. Exit code 3 if an instant fails a critical check: only that
    instant stays unpublished. `explain`, `diff`, the dashboard and any reader of Iceberg read the published tables.

    # every hour of a month, from the archive
    sexton history build --archive s3://keep/offsets --from 2026-10-21 --to 2026-11-20

    # every day, from a broker's disk or a backup of one
    sexton history build --segments backup --from 2026-10-21 --step-minutes 1440

    # what one day of retention would have deleted, for scripts
    sexton history build --archive archive --from 2026-11-01 --retention-minutes 1440 --json | jq .published
    """
    if (log.segments is None) == (log.archive is None):
        raise UsageError("give either --segments DIR or --archive URI", fix="see `sexton history build --help`")
    if log.archive is not None and log.partition_count is not None:
        raise UsageError("an archive has its own count", where="--partition-count", fix="leave it out")
    check_retention(retention_minutes)
    check_profile(log.profile)
    first, last = parse_instant(since, "--from"), parse_optional_instant(until, "--to")
    rules = read_policy_file(policy)

    from sexton.archive.folder import Folder
    from sexton.job_params import HistoryRequest
    from sexton.lake.catalog import open_lake
    from sexton.pipeline import build_history
    from sexton.runs.processes import engine_of_task
    from sexton.settings import settings

    judged_by = (retention_minutes, log.profile, rules and rules.sha256)
    asked = (log.segments, log.archive, log.cluster_id, log.partition_count, first, step_minutes, judged_by)
    place = Folder(settings().runs_uri, "history", sha256(repr(asked).encode()).hexdigest()[:16])
    request = HistoryRequest(
        archive=log.archive or _archived(place, log),
        from_ms=first,
        to_ms=now_ms() if last is None else last,
        step_minutes=step_minutes,
        run_id=f"history-{place.uri[-16:]}",
        retention_minutes=retention_minutes,
        profile=log.profile or AUTO_PROFILE,
        cluster_id=log.cluster_id,
    )
    with (
        bar("Building history", is_quiet=json) as show,
        engine_of_task(iceberg=True, quiet=True) as engine,
    ):
        found = build_history.run(engine, open_lake(), place.sub("instants"), request, policy=rules, show=show)
    place.remove()
    _print(found, is_json=json)
    if found.failed:
        return DataQualityFailure.exit_code
    return 0 if found.published or found.published_before else NoCoverage.exit_code


def _archived(place: "Folder", log: LogInput) -> str:
    """Import the segments into an archive, which stays until the build is complete; returns its URI."""
    from sexton.pipeline import import_log

    directory, *others = map(str, log.segments or ())
    if others:
        raise UsageError("one log directory at a time", where="--segments", fix="import all into an archive first")
    archive = place.sub("archive").uri
    request = import_log.ImportRequest(
        source=directory, archive=archive, taken_at_ms=now_ms(), partition_count=log.partition_count
    )
    import_log.run(request)
    return archive


def _print(found: "History", *, is_json: bool) -> None:
    if is_json:
        print_json(asdict(found))
        return
    print_line(f"{some(len(found.published), 'instant')} published, {len(found.published_before)} already were")
    if found.not_covered:
        at_ms, why = next(iter(found.not_covered.items()))
        print_line(f"{some(len(found.not_covered), 'instant')} not covered, the first {instant(at_ms)}: {why}")
    for at_ms, why in list(found.failed.items())[:SHOWN]:
        print_aside(f"! {instant(at_ms)} is not published: {why}")
