"""`sexton archive`: list and verify the archive, and import a broker's disk into it."""

import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.as_text import count, duration, instant, now_ms, size, some
from sexton.cli.command import command, command_group
from sexton.cli.options import (
    ArchiveUri,
    ClusterId,
    Json,
    archive_uri,
    check_topics_file,
    flag,
    open_archive_uri,
    option,
    parse_instant,
)
from sexton.cli.output import print_archived, print_aside, print_json, print_line, print_table
from sexton.cli.progress import bar
from sexton.errors import DataQualityFailure, UndecodableInput, UsageError
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.archive.inventory import ClusterInventory, LineageLine

LS_COLUMNS = (
    *("LOG-PARTITION", "LINEAGE", "ORIGIN", "START", "END", "SEGMENTS", "SIZE", "FIRST-BATCH", "LAST-BATCH"),
    "TAKEN",
)
VERIFY_SHOWN = 50

app = command_group("List, verify and repair the archive; import a broker's disk.")


@command(app)
def ls(*, archive: ArchiveUri = None, cluster_id: ClusterId = None, json: Json = False) -> int:
    """List clusters, log partitions and lineages: why each lineage began, its range, its size, and what is missing.

    A lineage is one unbroken history of a log partition. Opens two manifests per lineage and no segment.

    # what the archive has, and which instants it covers
    sexton archive ls

    # log partitions that do not reach back to their first record, for scripts
    sexton archive ls --archive s3://keep/offsets --json | jq '.clusters[].lineages[] | select(.start > 0)'
    """
    from sexton.archive.inventory import inventory
    from sexton.settings import settings

    uri = archive_uri(archive)
    fs, root = open_archive_uri(archive)
    found = inventory(fs, root, settle_ms=settings().settle_ms, cluster_id=cluster_id)
    if json:
        print_json({"archive": uri_without_login(uri), "clusters": found})
        return 0
    if not found:
        print_line(f"{uri_without_login(uri)} is empty: `sexton snapshot` fills it")
    for number, cluster in enumerate(found):
        if number:
            print_line()
        _print_cluster(cluster)
    return 0


def _print_cluster(cluster: "ClusterInventory") -> None:
    held = f"{some(cluster.segments, 'segment')}, {size(cluster.size_bytes)}"
    print_line(f"cluster {cluster.cluster_id}: {some(cluster.snapshots, 'snapshot')}, {held}")
    if cluster.admin_snapshots:
        print_line(
            f"  admin     {some(cluster.admin_snapshots, 'admin snapshot')}, "
            f"{instant(cluster.first_admin_snapshot_ms)} to {instant(cluster.last_admin_snapshot_ms)}"
        )
    for span in cluster.coverage:
        begin = "the beginning" if span.from_ms is None else instant(span.from_ms)
        end = "now" if span.to_ms is None else instant(span.to_ms)
        why = f"  {span.coverage.reason}" if span.coverage.reason else ""
        print_line(f"  {span.coverage.value:<8}  {begin} to {end}{why}")
    for topic_id in dict.fromkeys(line.topic_id for line in cluster.lineages):
        print_line(f"topic {topic_id}")
        print_table(LS_COLUMNS, (_row(line) for line in cluster.lineages if line.topic_id == topic_id))
    for line in cluster.lineages:
        if line.missing:
            a, b = line.missing
            print_aside(
                f"! log partition {line.log_partition}: log_offsets [{a}, {b}) are missing before {line.lineage}"
            )
        if line.detached:
            what = some(line.detached, "segment")
            print_aside(f"! log partition {line.log_partition}: {what} after a gap, which the next snapshot closes")


def _row(line: "LineageLine") -> tuple[object, ...]:
    dates = map(instant, (line.first_timestamp_ms, line.last_timestamp_ms, line.last_taken_at_ms))
    range_ = line.start, line.end, line.segments, size(line.size_bytes)
    return line.log_partition, line.lineage, line.reason, *range_, *dates


@command(app)
def verify(
    *,
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    subset: str | None = option(
        "--subset N/T", "Read part N of T of the bytes; T runs with N = 1 .. T read everything once."
    ),
    repair: bool = flag(
        "--repair", "First repair segments that do not match their manifests; old files stay in `aside`."
    ),
    json: Json = False,
) -> int:
    """Check names, sequences, sizes, manifests, SHA-256 and Kafka's CRC of every batch, and read every checkpoint.

    Exit code 0 if nothing has changed, 3 if the archive has lost or changed data, 5 if bytes are as on the broker but
    are not valid batches.

    # every byte
    sexton archive verify

    # a seventh of the bytes each day of the week
    sexton archive verify --archive s3://keep/offsets --subset $(date +%u)/7

    # repair segments that do not match their manifests
    sexton archive verify --repair
    """
    part = _part(subset)

    from sexton.archive.verify import CORRUPT, DAMAGED
    from sexton.archive.verify import verify as verify_archive
    from sexton.runs.checkpoint_verify import verify_checkpoints

    uri = archive_uri(archive)
    fs, root = open_archive_uri(archive)
    begun = time.monotonic()
    repaired: list[str] = []
    if repair:
        from sexton.archive.repair import repair as repair_segments

        repaired = repair_segments(fs, root, cluster_id=cluster_id)
    with bar("Verifying", is_quiet=json, in_percent=True) as progress:
        found = verify_archive(fs, root, cluster_id=cluster_id, subset=part, progress=progress)
    checkpoints, wrong = verify_checkpoints(fs, root, cluster_id=cluster_id, subset=part)
    found = replace(found, findings=[*found.findings, *wrong])
    kinds = {finding.kind for finding in found.findings}
    code = UndecodableInput.exit_code if DAMAGED in kinds else DataQualityFailure.exit_code if CORRUPT in kinds else 0
    if json:
        head = {"archive": uri_without_login(uri), "subset": f"{part[0]}/{part[1]}", "exit_code": code}
        print_json({**head, **asdict(found), "checkpoints": checkpoints, "repaired": repaired})
        return code
    for line in repaired:
        print_line(f"repaired  {line}")
    for finding in found.findings[:VERIFY_SHOWN]:
        print_line(f"{finding.kind}  {finding.where}: {finding.what}")
    if len(found.findings) > VERIFY_SHOWN:
        print_line(f"... and {count(len(found.findings) - VERIFY_SHOWN)} more (--json lists all)")
    read = f"{count(found.read)} of {some(found.segments, 'segment')} read ({size(found.read_bytes)})"
    read += f" and {some(checkpoints, 'checkpoint')}" if checkpoints else ""
    print_line(f"{read} in {duration(int((time.monotonic() - begun) * 1000))}: {some(len(found.findings), 'finding')}")
    if found.detached:
        print_aside(
            f"! {some(found.detached, 'segment')} after a gap that a dead snapshot left: the next one closes it"
        )
    if code:
        print_aside(f"error: {uri_without_login(uri)}: {some(len(found.findings), 'finding')}")
    if not repair and any(finding.kind == CORRUPT and finding.where.endswith(".log") for finding in found.findings):
        print_aside("! `sexton archive verify --repair` repairs segments that do not match their manifests")
    return code


def _part(subset: str | None) -> tuple[int, int]:
    if subset is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", subset.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"not a part: {subset!r}", where="--subset", fix="n/t with 1 <= n <= t, such as 3/7")
    return int(found[1]), int(found[2])


@command(app)
def import_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with __consumer_offsets-N folders.")],
    *,
    archive: ArchiveUri = None,
    topics: Path | None = option(
        "--topics FILE", "The topics at that time, as JSON lines. Default: those of __cluster_metadata, if any."
    ),
    partition_count: int | None = option(
        "--partition-count N", "The number of log partitions. Default: from the topics.", min=1
    ),
    taken_at: str | None = option("--taken-at ISO|MS", "When the disk was copied. Default: now."),
    cluster_id: str | None = option("--cluster-id ID", "The cluster's id. Default: as on the disk."),
    topic_id: str | None = option("--topic-id ID", "The id of __consumer_offsets. Default: as on the disk."),
    new_lineage: bool = flag("--new-lineage", "Keep a log that does not continue the archive as a new lineage."),
    json: Json = False,
) -> int:
    """Copy a broker's disk or a backup of one into the archive, byte for byte.

    Each log partition starts where its archive ends; importing the same disk again adds nothing. A log that differs
    from the one in the archive is refused (6) before anything is written.

    # the disk of a broker, with the topics as they were then
    sexton archive import /var/kafka-logs --topics topics.jsonl

    # a backup of last month
    sexton archive import backup --taken-at 2026-10-21T04:00:00Z --archive s3://keep/offsets
    """
    check_topics_file(topics)
    taken_at_ms = now_ms() if taken_at is None else parse_instant(taken_at, "--taken-at")

    from sexton.pipeline import import_log

    request = import_log.ImportRequest(
        source=str(directory),
        archive=archive_uri(archive),
        taken_at_ms=taken_at_ms,
        topics_file=None if topics is None else str(topics),
        partition_count=partition_count,
        cluster_id=cluster_id,
        topic_id=topic_id,
        new_lineage=new_lineage,
    )
    with bar("Importing", is_quiet=json, in_percent=True) as progress:
        taken = import_log.run(request, progress=progress)
    return print_archived(taken, request.archive, json=json)
