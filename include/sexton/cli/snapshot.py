"""`sexton snapshot`: copy what is new in `__consumer_offsets` from a cluster into the archive."""

from dataclasses import replace

from sexton.as_text import instant, now_ms
from sexton.cli.options import ArchiveUri, ClusterInput, Json, archive_uri, flag, option, parse_optional_instant
from sexton.cli.output import print_archived
from sexton.errors import UsageError


def snapshot(
    *,
    cluster: ClusterInput,
    archive: ArchiveUri = None,
    cluster_id: str | None = option("--cluster-id ID", "Refuse any other cluster before archiving anything."),
    as_of: str | None = option(
        "--as-of ISO|MS", "Wait until runs can describe this instant. Default: copy what is there now."
    ),
    transactions: bool = flag(
        "--transactions", "Also copy the new records of __transaction_state, which needs READ on it."
    ),
    admin: bool = flag("--admin", "Take an admin snapshot even if the offsets topic can be read."),
    json: Json = False,
) -> int:
    """Copy the new records of the offsets topic into the archive, byte for byte.

    Starts where the archive ends. Only reads from the cluster. If the topic is hidden or READ on it is refused, it
    archives an admin snapshot instead (the Admin API's answers about the groups): see docs/admin-only.md.

    # the broker of `make up`, into var/archive
    sexton snapshot

    # another cluster, into a bucket
    sexton snapshot --client-config client.properties --archive s3://keep/offsets

    # with the states of transactions, for `sexton transactions --archive`
    sexton snapshot --transactions

    # a cluster that hides its offsets log: take an admin snapshot
    sexton snapshot --client-config client.properties --admin

    # wait until that instant can be audited, about a minute after it
    sexton snapshot --as-of 2026-11-21T04:00:00Z
    """
    if admin and transactions:
        raise UsageError(
            "an admin snapshot reads no log", where="--transactions", fix="leave out one of --admin and --transactions"
        )
    as_of_ms = parse_optional_instant(as_of, "--as-of")

    from sexton.job_params import SnapshotRequest
    from sexton.pipeline import archive_transactions, snapshot_log
    from sexton.runs.processes import engine_here
    from sexton.settings import settings

    request = SnapshotRequest(
        config=cluster.client(),
        archive=archive_uri(archive),
        cluster_id=cluster_id,
        as_of_ms=as_of_ms,
        settle_ms=settings().settle_ms,
        bytes_per_second=settings().fetch_bytes_per_second or None,
        admin_only=admin or settings().admin_only,
        groups_per_second=settings().admin_groups_per_second or None,
    )
    with engine_here(quiet=json) as engine:
        taken = snapshot_log.run(engine, request, now_ms=now_ms)
        states = None
        if transactions and taken.admin_because is None:
            states = archive_transactions.run(engine, request, cluster_id=taken.cluster_id, now_ms=now_ms)
    if states is not None:
        sums = ("segments", "size_bytes", "log_offsets", "log_partitions", "batches", "warnings")
        taken = replace(taken, **{name: getattr(taken, name) + getattr(states, name) for name in sums})
    return print_archived(taken, request.archive, json=json, at=f", taken at {instant(taken.taken_at_ms)}")
