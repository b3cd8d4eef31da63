"""`sexton audit`: replay, judge, plan and validate a log, with no broker and no Airflow."""

import json as jsonlib
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.input_options import tell_doubts
from sexton.cli.options import (
    DEFAULT_PROFILE,
    PROFILE_HELP,
    ClusterId,
    Codec,
    Debug,
    Full,
    Json,
    LoadBuffer,
    check_profile,
    codec_number,
    complete_profile,
    output,
    parse_instant,
)
from sexton.errors import UsageError

if TYPE_CHECKING:
    from sexton.policy import Policy

EXAMPLES = """\
[b]Examples[/b]

[dim]# a broker's disk, or a copy of one[/dim]
sexton audit --segments /var/kafka-logs --out run

[dim]# as it stood at that instant[/dim]
sexton audit --segments backup --as-of 2026-11-21T04:00:00Z --out run

[dim]# what one day of retention would delete[/dim]
sexton audit --archive s3://keep/offsets --retention-minutes 1440 --out run

[dim]# a log that a 2.8 broker wrote, by its own rules[/dim]
sexton audit --segments backup --profile group_metadata_manager:2.8 --out run

[dim]# what rules of your own would delete[/dim]
sexton audit --archive s3://keep/offsets --policy retention.yaml --out run

[dim]# for scripts[/dim]
sexton audit --segments backup --out run --json | jq .expiring.buckets
"""
MAX_RETENTION_MINUTES = 2**31 - 1  # offsets.retention.minutes is an int in Kafka
MARKER = ".sexton-run"
_INPUT = "Input, one of the two"
_RULES = "Rules"
_OUTPUT = "Output"


def audit(
    *,
    segments: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=_INPUT, help="A log directory with __consumer_offsets-N folders."),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="URI", rich_help_panel=_INPUT, help="Sexton's archive of segments: a folder or s3://, gs://, ..."
        ),
    ] = None,
    cluster_id: ClusterId = None,
    full: Full = False,
    topics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_INPUT,
            help="The cluster's topics as JSON lines (topic, id, partitions), to find orphaned offsets.",
        ),
    ] = None,
    taken_at: Annotated[
        str | None,
        typer.Option(
            metavar="ISO|MS",
            rich_help_panel=_INPUT,
            help="When the segments were copied; batches stamped over an hour later are reported. Default: now.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="ISO|MS",
            rich_help_panel=_RULES,
            help="The instant to judge; nothing written from then on is read. Default: 1 ms after the newest batch.",
        ),
    ] = None,
    retention_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=_RULES,
            help="offsets.retention.minutes. Default: the recorded broker's, else Kafka's: 10080 (1440 before 2.0).",
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME[:RELEASE]", rich_help_panel=_RULES, help=PROFILE_HELP, autocompletion=complete_profile
        ),
    ] = DEFAULT_PROFILE,
    load_buffer_bytes: LoadBuffer = None,
    codec: Codec = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_RULES,
            help="Judge by these retention rules and holds, too, and plan what they let go (see `sexton policy`).",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            help="Receives tables, batches, report.html and summary.json; an earlier run in it is replaced.",
        ),
    ],
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Replay a log, judge every offset, plan the tombstones and check the result.

    Needs neither a broker nor Airflow, and changes nothing but the folder given with --out. With --policy the plan is
    what its rules let go, never what a hold holds; what the broker's own sweep would do is told beside it.
    """
    check_replay(
        segments,
        archive,
        cluster_id=cluster_id,
        is_full=full,
        topics=topics,
        retention_minutes=retention_minutes,
        name="audit",
    )
    as_of_ms = None if as_of is None else parse_instant(as_of, "--as-of")
    taken_at_ms = None if taken_at is None else parse_instant(taken_at, "--taken-at")
    check_profile(profile)
    codec_as_number = codec_number(codec)
    rules = policy_from(policy)
    place = str(segments) if segments is not None else str(archive)
    claim(out, apart_from=None if "://" in place else Path(place))

    # From here on the work itself: numba and pyarrow take seconds to import, here and in the engine side by side.
    from sexton.runs.checker import Checker
    from sexton.runs.processes import engine_here

    with Checker() as checker, engine_here("sexton audit", quiet=json) as engine:
        from sexton.pipeline.audit import AuditRequest, run_audit
        from sexton.pipeline.replay_groups import ReplayRequest, now_ms
        from sexton.report import summary_json, write_report

        request = ReplayRequest(
            run_id=f"audit-{uuid.uuid4().hex[:16]}",
            segments=None if segments is None else str(segments),
            archive=archive,
            as_of_ms=as_of_ms,
            taken_at_ms=now_ms() if taken_at_ms is None else taken_at_ms,
            retention_minutes=retention_minutes,
            profile=profile,
            load_buffer_bytes=load_buffer_bytes,
            codec=codec_as_number,
            topics_file=None if topics is None else str(topics),
            cluster_id=cluster_id,
            is_full=full,
        )
        record = run_audit(engine, AuditRequest(replay=request, out=out, policy=rules), validate=checker.validate)
    tell_doubts(record.profile_doubts)
    summary = write_report(out)
    if json:
        sys.stdout.write(summary_json(summary))
    else:
        from sexton.report.terminal import print_summary

        console = output()
        print_summary(summary, console)
        console.print(f"\nreport  {out / 'report.html'}\ntables  {out}/<table>/*.parquet", markup=False, soft_wrap=True)
    if summary.exit_code:
        sys.stderr.write(f"error: {out}: {summary.exit_reason} (see {out / 'report.html'})\n")
    return summary.exit_code


def policy_from(path: Path | None) -> "Policy | None":
    """The policy of a file, before anything is read that takes long."""
    if path is None:
        return None
    from sexton.policy import read_policy

    return read_policy(path)


def check_replay(
    segments: Path | None,
    archive: str | None,
    *,
    cluster_id: str | None,
    is_full: bool,
    topics: Path | None,
    retention_minutes: int | None,
    name: str,
) -> None:
    """UsageError for options of the command `name` that do not go together, before anything that takes long."""
    if (segments is None) == (archive is None):
        raise UsageError("give --segments DIR or --archive URI, one of the two", fix=f"see `sexton {name} --help`")
    if archive is None and (cluster_id is not None or is_full):
        option = "--full" if is_full else "--cluster-id"
        raise UsageError("only an archive has clusters and checkpoints", where=option, fix="give --archive URI")
    if topics is not None and not topics.is_file():
        raise UsageError("no such file", where=topics, fix="--topics takes a file of JSON lines")
    check_retention(retention_minutes, "--retention-minutes")


def check_retention(minutes: int | None, option: str) -> None:
    """UsageError for a retention that Kafka's setting cannot hold."""
    if minutes is not None and minutes > MAX_RETENTION_MINUTES:
        raise UsageError(f"too long: {minutes}", where=option, fix=f"at most {MAX_RETENTION_MINUTES}")


def claim(out: Path, *, apart_from: Path | None) -> None:
    """Make `out` ours: new, empty, or holding nothing but an earlier run. Anything else is left alone and refused.

    `apart_from` is the input, which must neither lie in `out` nor hold it.
    """
    if apart_from is not None:
        one, other = out.resolve(), apart_from.resolve()
        if one == other or one in other.parents or other in one.parents:
            raise UsageError("overlaps the input", where=out, fix="give --out a folder of its own")
    if out.exists() and not out.is_dir():
        raise UsageError("is not a folder", where=out, fix="give --out a folder of its own")
    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in found if name not in _run_entries() or (out / name).is_symlink()]
    if foreign or (found and not _is_run(out)):
        what = f"holds {foreign[0]!r}" if foreign else "is not empty"
        raise UsageError(f"{what} and is no earlier run", where=out, fix="give --out a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    # Left at once, so that a run that was killed half way can be replaced too.
    (out / MARKER).write_text("A run folder of Sexton: the next run with this --out replaces it.\n", encoding="utf-8")


def _run_entries() -> set[str]:
    """Names of everything that a run leaves in its folder."""
    from sexton.tables import TABLES

    folders = {"fold", "partial", "internal", "batches", "plan", "dq", "outcome"}
    return {*TABLES, *folders, "run.json", "report.html", "summary.json", MARKER}


def _is_run(out: Path) -> bool:
    if (out / MARKER).is_file():
        return True
    try:
        record = jsonlib.loads((out / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and "run_id" in record
