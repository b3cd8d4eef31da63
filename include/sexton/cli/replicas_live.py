"""`sexton replicas probe` and `sexton replicas copy`: the replicas of the offsets topic, queried broker by broker."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sexton.as_text import now_ms, size, some
from sexton.cli.options import ClusterInput, Json, required, shared
from sexton.cli.output import print_aside, print_json, print_line, print_table, print_warnings
from sexton.cli.progress import bar, working
from sexton.errors import DataQualityFailure, UndecodableInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sexton.kafka.replicas import ReplicaProbe, ReplicaTransaction
    from sexton.replicas.copy import CopiedReplica

PROBE_COLUMNS = (
    *("LOG-PARTITION", "BROKER", "ROLE", "LOG-START", "HIGH-WATERMARK", "LAST-STABLE", "OPEN-TRANSACTIONS"),
    "ERROR",
)
COPY_COLUMNS = ("LOG-PARTITION", "BROKER", "ROLE", "LOG-START", "HIGH-WATERMARK", "LAST-STABLE", "SIZE", "ERROR")
FAILED = 1
PROBE_TIMEOUT_MS = 10_000
"""A probe is quick: a broker that needs longer counts as not answering."""

LogPartitions = Annotated[
    list[int] | None,
    shared("--log-partition N", "Only this log partition; may be repeated. Default: all.", min=0),
]


def probe(*, cluster: ClusterInput, log_partition: LogPartitions = None, json: Json = False) -> int:
    """Query each broker for the ends of its replicas of the offsets topic, and for the transactions open in them.

    If a replica was offline while a transaction ended, and the log cleaner has removed the marker since, the
    transaction stays open on that replica: as leader it answers UNSTABLE_OFFSET_COMMIT, or serves aborted offsets.
    Differences that replication lag explains are not reported. Sends two small requests per broker and needs READ on
    the topic. It cannot find deleted offsets that would come back: for these, `copy` the replicas and compare the
    copies.

    Exit code 3 if a replica is suspicious, 1 if a broker did not answer for all of its replicas.

    # could a broker that was away lead without harm?
    sexton replicas probe --bootstrap-servers kafka-1:9092,kafka-2:9092

    # transactions that are open on one replica alone, for scripts
    sexton replicas probe --bootstrap-servers kafka-1:9092 --json | jq '.replicas[] | select(.suspicion)'
    """
    from sexton.kafka.replicas import probe_replicas
    from sexton.kafka.session import ClusterSession

    with (
        working("Asking the brokers", is_quiet=json),
        ClusterSession(cluster.client(), request_timeout_ms=PROBE_TIMEOUT_MS) as session,
    ):
        rows = probe_replicas(session, log_partitions=log_partition)
    suspicions = [f"{_of(row)}: {row.suspicion}" for row in rows if row.suspicion]
    warnings = [*suspicions, *_faults(rows)]
    if json:
        print_json({"replicas": rows, "warnings": warnings})
    else:
        print_table(PROBE_COLUMNS, map(_probed, rows))
        print_warnings(warnings)
        if suspicions:
            print_line("do not let a suspicious replica lead: `sexton replicas copy`, and compare the copies")
    if suspicions:
        return DataQualityFailure.exit_code
    return FAILED if any(row.fault for row in rows) else 0


def copy(
    *,
    cluster: ClusterInput,
    out: Path = required("--out DIR", "Receives a folder for each broker; must be new or empty."),
    log_partition: LogPartitions = None,
    json: Json = False,
) -> int:
    """Copy each broker's replica of the offsets topic, byte for byte, into a folder with the layout of its disk.

    Followers serve consumers from their own log, up to their own high watermark, so READ is enough, without access to
    the disks. Every command that reads a broker's disk also reads these folders: compare them, or audit one with
    --segments.

    A replica that cannot be read completely is left out, and listed with its error. Reassignments, lag and bad batches
    are listed, too. Exit code 1 if a replica is left out, 5 if bytes are damaged on a broker.

    # every replica, into replicas/broker-1, replicas/broker-2, ...
    sexton replicas copy --bootstrap-servers kafka-1:9092,kafka-2:9092 --out replicas

    # two log partitions
    sexton replicas copy --bootstrap-servers kafka-1:9092 --log-partition 0 --log-partition 3 --out replicas
    """
    from sexton.replicas.copy import STATES_FILE, copy_replicas
    from sexton.settings import settings

    with bar("Copying replicas", is_quiet=json) as progress:
        copied = copy_replicas(
            cluster.client(),
            out,
            log_partition,
            taken_at_ms=now_ms(),
            bytes_per_second=settings().fetch_bytes_per_second or None,
            progress=progress,
        )
    warnings = [*copied.warnings, *_faults(copied.replicas)]
    whole = [one for one in copied.replicas if one.folder]
    if json:
        print_json({**asdict(copied), "warnings": warnings})
    else:
        print_table(COPY_COLUMNS, map(_copied, copied.replicas))
        print_warnings(warnings)
        held = f"{len(whole)} of {some(len(copied.replicas), 'replica')}, {size(sum(one.size_bytes for one in whole))}"
        print_line(f"copied {held} of cluster {copied.cluster_id}")
        print_aside(f"states  {out / STATES_FILE}")
    if any(one.fault == "corrupt" for one in copied.replicas):
        return UndecodableInput.exit_code
    return 0 if len(whole) == len(copied.replicas) else FAILED


def _faults(rows: "Iterable[ReplicaProbe | CopiedReplica]") -> list[str]:
    return [f"{_of(row)}: {row.error} ({row.fix})" for row in rows if row.fault]


def _of(row: "ReplicaProbe | CopiedReplica") -> str:
    return f"log partition {row.log_partition} on broker {row.broker}"


def _probed(row: "ReplicaProbe") -> tuple[object, ...]:
    return *_place(row), row.log_start_offset, row.high_watermark, row.last_stable_offset, _open(row), row.error


def _copied(row: "CopiedReplica") -> tuple[object, ...]:
    held = size(row.size_bytes) if row.folder else None
    return *_place(row), row.log_start_offset, row.high_watermark, row.last_stable_offset, held, row.error


def _place(row: "ReplicaProbe | CopiedReplica") -> tuple[object, ...]:
    role = "leader" if row.is_leader else "follower" if row.in_isr else "not in ISR"
    return row.log_partition, row.broker, f"{role}, {row.reassignment}" if row.reassignment else role


def _open(row: "ReplicaProbe") -> str | None:
    def shown(one: "ReplicaTransaction") -> str:
        return f"{one.producer_id}@{one.start_offset}"

    return None if row.open_transactions is None else " ".join(map(shown, row.open_transactions)) or "none"
