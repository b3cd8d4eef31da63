"""`sexton archive`: what the archive holds, whether it still does, and a broker's disk taken into it."""

import json as jsonlib
import re
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sexton.cli.input_options import tell_aside, tell_line, tell_table
from sexton.cli.options import Debug, Json, output, parse_instant
from sexton.cli.progress import bar
from sexton.errors import DataQualityFailure, UndecodableInput, UsageError
from sexton.report.figures import count, duration, instant, size, some
from sexton.report.names import harmless
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.archive.inventory import ClusterInventory, LineageLine

LS_EXAMPLES = """\
[b]Examples[/b]

[dim]# what is there, and which instants it answers for[/dim]
sexton archive ls

[dim]# log partitions that do not reach back to their first record, for scripts[/dim]
sexton archive ls --archive s3://keep/offsets --json | jq '.clusters[].lineages[] | select(.start > 0)'
"""
VERIFY_EXAMPLES = """\
[b]Examples[/b]

[dim]# every byte[/dim]
sexton archive verify

[dim]# a seventh of the bytes each day of the week[/dim]
sexton archive verify --archive s3://keep/offsets --subset $(date +%u)/7

[dim]# segments that their manifests do not describe[/dim]
sexton archive verify --repair
"""
IMPORT_EXAMPLES = """\
[b]Examples[/b]

[dim]# the disk of a broker, with the topics as they were then[/dim]
sexton archive import /var/kafka-logs --topics topics.jsonl

[dim]# a backup of last month[/dim]
sexton archive import backup --taken-at 2026-10-21T04:00:00Z --archive s3://keep/offsets
"""
LS_COLUMNS = (
    *("LOG-PARTITION", "LINEAGE", "ORIGIN", "START", "END", "SEGMENTS", "SIZE", "FIRST-BATCH", "LAST-BATCH"),
    "TAKEN",
)
VERIFY_SHOWN = 50

Archive = Annotated[str | None, typer.Option(metavar="URI", help="A folder or s3://, gs://, ... Default: var/archive.")]
ClusterId = Annotated[str | None, typer.Option(metavar="ID", help="Only this cluster of the archive.")]

app = typer.Typer(
    help="List and verify the archive, and take a broker's disk into it.",
    epilog=LS_EXAMPLES,
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


@app.command("ls", epilog=LS_EXAMPLES)
def ls(*, archive: Archive = None, cluster_id: ClusterId = None, json: Json = False, _debug: Debug = False) -> int:
    """Show clusters, log partitions and lineages: where each began and why, its range, its size, and what is missing.

    A lineage is one unbroken history of a log partition. Opens two manifests of each and no segment.
    """
    from sexton.archive.inventory import inventory
    from sexton.runs.source import filesystem
    from sexton.settings import settings

    uri = archive or settings().archive_uri
    fs, root = filesystem(uri)
    found = inventory(fs, root, settle_ms=settings().settle_ms, cluster_id=cluster_id)
    if json:
        told = {"archive": uri_without_login(uri), "clusters": [asdict(cluster) for cluster in found]}
        sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
        return 0
    if not found:
        tell_line(f"{uri_without_login(uri)} holds nothing: `sexton snapshot` fills it")
    for number, cluster in enumerate(found):
        if number:
            tell_line("")
        _show(cluster)
    return 0


def _show(cluster: "ClusterInventory") -> None:
    held = f"{some(cluster.segments, 'segment')}, {size(cluster.size_bytes)}"
    tell_line(f"cluster {cluster.cluster_id}: {some(cluster.snapshots, 'snapshot')}, {held}")
    for span in cluster.coverage:
        begin = "the beginning" if span.from_ms is None else instant(span.from_ms)
        end = "now on" if span.to_ms is None else instant(span.to_ms)
        why = f"  {span.coverage.reason}" if span.coverage.reason else ""
        tell_line(f"  {span.coverage.value:<8}  {begin} to {end}{why}")
    for topic_id in dict.fromkeys(line.topic_id for line in cluster.lineages):
        tell_line(f"topic {topic_id}")
        tell_table(LS_COLUMNS, (_row(line) for line in cluster.lineages if line.topic_id == topic_id))
    for line in cluster.lineages:
        if line.missing:
            a, b = line.missing
            tell_aside(
                f"! log partition {line.log_partition}: log_offsets [{a}, {b}) are missing before {line.lineage}"
            )
        if line.detached:
            what = some(line.detached, "segment")
            tell_aside(f"! log partition {line.log_partition}: {what} behind a gap: the next snapshot closes it")


def _row(line: "LineageLine") -> tuple[object, ...]:
    return (
        line.log_partition,
        line.lineage,
        line.reason,
        line.start,
        line.end,
        line.segments,
        size(line.size_bytes),
        instant(line.first_timestamp_ms),
        instant(line.last_timestamp_ms),
        instant(line.last_taken_at_ms),
    )


@app.command("verify", epilog=VERIFY_EXAMPLES)
def verify(
    *,
    archive: Archive = None,
    cluster_id: ClusterId = None,
    subset: Annotated[
        str | None,
        typer.Option(metavar="N/T", help="Read part N of T of the bytes: T runs with N = 1 .. T read everything once."),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="First mend segments that their manifests do not describe; what goes is kept in `aside`."
        ),
    ] = False,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Check names, chains, sizes, manifests, SHA-256 and Kafka's CRC of every batch, and read every checkpoint.

    Exit code 0 when all is as it was put in, 3 when the archive has lost or changed something, 5 when bytes are as the
    broker had them, but no good batches.
    """
    part = _part(subset)

    from sexton.archive.verify import CORRUPT, DAMAGED
    from sexton.archive.verify import verify as look
    from sexton.runs.checkpoint_verify import verify_checkpoints
    from sexton.runs.source import filesystem
    from sexton.settings import settings

    uri = archive or settings().archive_uri
    fs, root = filesystem(uri)
    begun = time.monotonic()
    mended: list[str] = []
    if repair:
        from sexton.archive.repair import repair as mend

        mended = mend(fs, root, cluster_id=cluster_id)
    with bar("Verifying", is_quiet=json, in_percent=True) as progress:
        found = look(fs, root, cluster_id=cluster_id, subset=part, progress=progress)
    checkpoints, wrong = verify_checkpoints(fs, root, cluster_id=cluster_id, subset=part)
    found = replace(found, findings=[*found.findings, *wrong])
    kinds = {finding.kind for finding in found.findings}
    code = UndecodableInput.exit_code if DAMAGED in kinds else DataQualityFailure.exit_code if CORRUPT in kinds else 0
    if json:
        told = {"archive": uri_without_login(uri), "subset": f"{part[0]}/{part[1]}", "exit_code": code, **asdict(found)}
        told |= {"checkpoints": checkpoints, "repaired": mended}
        sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
        return code
    for line in mended:
        tell_line(f"repaired  {line}")
    for finding in found.findings[:VERIFY_SHOWN]:
        tell_line(f"{finding.kind}  {finding.where}: {finding.what}")
    if len(found.findings) > VERIFY_SHOWN:
        tell_line(f"... and {count(len(found.findings) - VERIFY_SHOWN)} more (--json lists all)")
    read = f"{count(found.read)} of {some(found.segments, 'segment')} read ({size(found.read_bytes)})"
    read += f" and {some(checkpoints, 'checkpoint')}" if checkpoints else ""
    tell_line(f"{read} in {duration(int((time.monotonic() - begun) * 1000))}: {some(len(found.findings), 'finding')}")
    if found.detached:
        tell_aside(
            f"! {some(found.detached, 'segment')} behind a gap that a dead snapshot left: the next one closes it"
        )
    if code:
        tell_aside(f"error: {uri_without_login(uri)}: {some(len(found.findings), 'finding')}")
    if not repair and any(finding.kind == CORRUPT and finding.where.endswith(".log") for finding in found.findings):
        tell_aside("! `sexton archive verify --repair` mends segments that their manifests do not describe")
    return code


def _part(subset: str | None) -> tuple[int, int]:
    if subset is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", subset.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"no part: {subset!r}", where="--subset", fix="n/t with 1 <= n <= t, such as 3/7")
    return int(found[1]), int(found[2])


@app.command("import", epilog=IMPORT_EXAMPLES)
def import_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with __consumer_offsets-N folders.")],
    *,
    archive: Archive = None,
    topics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cluster's topics then, as JSON lines (topic, id, partitions)."),
    ] = None,
    taken_at: Annotated[
        str | None, typer.Option(metavar="ISO|MS", help="When the disk was as it is. Default: now.")
    ] = None,
    cluster_id: Annotated[str | None, typer.Option(metavar="ID", help="Default: as the disk says.")] = None,
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Of __consumer_offsets. Default: as the disk says.")
    ] = None,
    new_lineage: Annotated[
        bool, typer.Option("--new-lineage", help="Keep what does not go on from the archive as a lineage of its own.")
    ] = False,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Take a broker's disk or a backup of one into the archive, byte for byte.

    Each log partition goes on where its archive ends; taking the same disk in again adds nothing. A log that is not the
    one in the archive is refused (6) before anything is written.
    """
    if topics is not None and not topics.is_file():
        raise UsageError("no such file", where=topics, fix="--topics takes a file of JSON lines")
    taken_at_ms = time.time_ns() // 1_000_000 if taken_at is None else parse_instant(taken_at, "--taken-at")

    from sexton.pipeline import import_log
    from sexton.settings import settings

    request = import_log.ImportRequest(
        source=str(directory),
        archive=archive or settings().archive_uri,
        taken_at_ms=taken_at_ms,
        topics_file=None if topics is None else str(topics),
        cluster_id=cluster_id,
        topic_id=topic_id,
        new_lineage=new_lineage,
    )
    with bar("Importing", is_quiet=json, in_percent=True) as progress:
        taken = import_log.run(request, progress=progress)
    if json:
        sys.stdout.write(jsonlib.dumps(asdict(taken), indent=2) + "\n")
        return 0
    if taken.segments:
        new = f"{count(taken.log_offsets)} log_offsets, {size(taken.size_bytes)} in {some(taken.segments, 'segment')}"
    else:
        new = "nothing new"
    where = f"{some(taken.log_partitions, 'log partition')} of cluster {taken.cluster_id}"
    console = output()
    console.print(Text(harmless(f"{new} from {where}")), soft_wrap=True)
    for warning in taken.warnings:
        console.print(Text(harmless(f"! {warning}"), style="yellow"), soft_wrap=True)
    console.print(Text(harmless(f"archive  {uri_without_login(request.archive)}")), soft_wrap=True)
    return 0
