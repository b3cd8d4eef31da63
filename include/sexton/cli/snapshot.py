"""`sexton snapshot`: copy what is new in `__consumer_offsets` from a cluster into the archive."""

import json as jsonlib
import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from sexton.cli.options import BootstrapServers, ClientConfigFile, Debug, Json, client_of, output, parse_instant
from sexton.report.figures import count, instant, size, some
from sexton.report.names import harmless
from sexton.uris import uri_without_login

EXAMPLES = """\
[b]Examples[/b]

[dim]# the embedded broker, into var/archive[/dim]
sexton snapshot

[dim]# a cluster of yours, into a bucket[/dim]
sexton snapshot --client-config client.properties --archive s3://keep/offsets

[dim]# so that an audit of that instant is settled[/dim]
sexton snapshot --as-of 2026-11-21T04:00:00Z
"""


def snapshot(
    *,
    bootstrap_servers: BootstrapServers = None,
    client_config_file: ClientConfigFile = None,
    archive: Annotated[
        str | None, typer.Option(metavar="URI", help="A folder or s3://, gs://, ... Default: var/archive.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="ISO|MS", help="Wait until this instant has settled. Default: take what is there now."),
    ] = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Copy what is new in the offsets topic into the archive, byte for byte.

    It goes on where the archive ends and only ever reads from the cluster.
    """
    as_of_ms = None if as_of is None else parse_instant(as_of, "--as-of")

    from sexton.pipeline import snapshot_log
    from sexton.runs.engine import Engine
    from sexton.settings import settings

    request = snapshot_log.SnapshotRequest(
        config=client_of(bootstrap_servers, client_config_file),
        archive=archive or settings().archive_uri,
        as_of_ms=as_of_ms,
        settle_ms=settings().settle_ms,
        bytes_per_second=settings().fetch_bytes_per_second or None,
    )
    with Engine("sexton snapshot", quiet=json) as engine:
        taken = snapshot_log.run(engine, request, now_ms=lambda: time.time_ns() // 1_000_000)
    if json:
        sys.stdout.write(jsonlib.dumps(asdict(taken), indent=2) + "\n")
        return 0
    if taken.segments:
        new = f"{count(taken.log_offsets)} log_offsets, {size(taken.size_bytes)} in {some(taken.segments, 'segment')}"
    else:
        new = "nothing new"
    where = f"{some(taken.log_partitions, 'log partition')} of cluster {taken.cluster_id}"
    console = output()
    console.print(Text(harmless(f"{new} from {where}, taken at {instant(taken.taken_at_ms)}")), soft_wrap=True)
    for warning in taken.warnings:
        console.print(Text(harmless(f"! {warning}"), style="yellow"), soft_wrap=True)
    console.print(Text(harmless(f"archive  {uri_without_login(request.archive)}")), soft_wrap=True)
    return 0
