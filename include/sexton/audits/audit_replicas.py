"""audit_replicas: copy every replica of the offsets topic from its broker, compare them, and publish the differences.

The copies are made in the run folder, one folder per broker, and compared with one task per log partition. Copies of
log partitions without differences are removed; the others stay as evidence. Great Expectations checks the result. The
tables `replica_state` and `replica_differences` get it; a repeated attempt replaces its rows. The cluster is only read.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyarrow import fs as pafs

from sexton.audits.publish_audit import publish_audit
from sexton.coordinator.profiles import of_broker
from sexton.errors import NoCoverage
from sexton.job_params import ReplicaRequest
from sexton.kafka.replicas import describe_replicas
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import require_cluster
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.replicas import ReplicaComparison, ReplicaFolder, ReplicaLog, archived_logs, compare
from sexton.replicas.copy import ReplicaCopy, copy_replicas
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE

COPIES = "replicas"
"""Subfolder of the run folder with the copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAudit:
    """The result, in numbers. `differences`: keys and groups that a wrong replica would serve after any leader change;
    `behind`: those that it would serve only after an unclean election; `kinds`: both by kind. `left_out`: replicas that
    could not be read, or are `corrupt`.
    """

    cluster_id: str
    log_partitions: int
    replicas: int
    left_out: int
    corrupt: int
    differences: int
    behind: int
    kinds: dict[str, int]
    alerts: list[str] = field(default_factory=list)


def run(
    engine: Engine,
    folder: RunFolder,
    lake: Lake,
    request: ReplicaRequest,
    *,
    as_of_ms: int,
    connect: Connect = ClusterSession,
) -> ReplicaAudit:
    """Copy, compare, check, publish. UsageError without the topic or the right to read it; Refused if the cluster's id
    is not `request.cluster_id`; BrokerError if the cluster cannot be reached; DataQualityFailure if a check fails."""
    for name in (COPIES, REPLICA_STATE.name, REPLICA_DIFFERENCES.name):
        folder.remove(name)
    with connect(request.config) as session:
        cluster_id = describe_replicas(session, log_partitions=request.log_partitions).cluster_id
        profile = of_broker(session.broker_version)
    require_cluster(cluster_id, request.cluster_id, where=request.config.bootstrap_servers)
    copied = _copy(folder, request, as_of_ms=as_of_ms, connect=connect)
    archived: Mapping[int, ReplicaLog] = {}
    with suppress(NoCoverage):  # before the cluster's first snapshot
        archived = archived_logs(request.archive, copied.cluster_id)
    brokers = sorted({one.broker for one in copied.replicas if one.folder is not None})
    found = compare(
        [ReplicaFolder.open(folder.sub(COPIES, f"broker-{broker}").uri) for broker in brokers],
        profile=profile,
        archived=archived,
        cap_bytes=settings().inflated_cap_bytes,
        spread=lambda work, items: engine.map("Comparing replicas", items, work),
    )
    _remove_equal(folder, copied, found)
    key = RunKey(cluster_id=copied.cluster_id, as_of_ms=as_of_ms, run_id=request.run_id)
    tables = {REPLICA_STATE: found.state, REPLICA_DIFFERENCES: found.differences}
    failed = publish_audit(engine, folder, lake, key, tables, cuts=_high_watermarks(copied))
    return _result(copied, found, failed)


def _copy(folder: RunFolder, request: ReplicaRequest, *, as_of_ms: int, connect: Connect) -> ReplicaCopy:
    """Copy the replicas into the run folder; through this machine's disk if the run folder is in a store."""

    copy_to = partial(
        copy_replicas,
        request.config,
        log_partitions=request.log_partitions,
        taken_at_ms=as_of_ms,
        connect=connect,
        bytes_per_second=request.bytes_per_second,
    )
    target = folder.sub(COPIES)
    if isinstance(target.fs, pafs.LocalFileSystem):
        return copy_to(folder=target.local)
    with tempfile.TemporaryDirectory(prefix="sexton-replicas-") as scratch:
        copied = copy_to(folder=Path(scratch) / COPIES)
        here = pafs.LocalFileSystem()
        pafs.copy_files(f"{scratch}/{COPIES}", target.path(), source_filesystem=here, destination_filesystem=target.fs)
    return copied


def _remove_equal(folder: RunFolder, copied: ReplicaCopy, found: ReplicaComparison) -> None:
    """Remove the copies of log partitions in which all replicas are the same."""
    states = found.state.select(["log_partition", "status"]).to_pylist()
    differing = {row["log_partition"] for row in states if row["status"] not in ("same", "alone")}
    for one in copied.replicas:
        if one.log_partition not in differing:
            folder.remove(COPIES, f"broker-{one.broker}", f"__consumer_offsets-{one.log_partition}")


def _high_watermarks(copied: ReplicaCopy) -> dict[int, int]:
    """The highest high watermark of each log partition with a copied replica."""
    found: dict[int, int] = {}
    for one in copied.replicas:
        if one.folder is not None:
            found[one.log_partition] = max(one.high_watermark or 0, found.get(one.log_partition, 0))
    return found


def _result(copied: ReplicaCopy, found: ReplicaComparison, failed: Sequence[str]) -> ReplicaAudit:
    statuses = Counter(found.state["status"].to_pylist())
    missing = [one for one in copied.replicas if one.folder is None]
    return ReplicaAudit(
        cluster_id=copied.cluster_id,
        log_partitions=len({one.log_partition for one in copied.replicas}),
        replicas=len(copied.replicas),
        left_out=len(missing) + statuses["corrupt"],
        corrupt=statuses["corrupt"],
        differences=found.alarms.num_rows,
        behind=found.differences.num_rows - found.alarms.num_rows,
        kinds=found.counts(),
        alerts=[
            *_alarms(found),
            *(f"log partition {one.log_partition} on broker {one.broker}: {one.error} ({one.fix})" for one in missing),
            *copied.warnings,
            *(note for note in found.notes if "corrupt" in note),
            *failed,
        ],
    )


def _alarms(found: ReplicaComparison) -> list[str]:
    """A line for each replica that would serve wrong data; no names of groups."""
    kinds: dict[str, Counter[str]] = {}
    parts: dict[str, set[int]] = {}
    for row in found.alarms.select(["log_partition", "kind", "wrong_replicas"]).to_pylist():
        for replica in row["wrong_replicas"]:
            kinds.setdefault(replica, Counter())[row["kind"]] += 1
            parts.setdefault(replica, set()).add(row["log_partition"])
    return [
        f"{replica} would serve {counted.total()} groups and offsets wrongly if it led, in {len(parts[replica])} log "
        f"partitions ({', '.join(f'{kind} {count}' for kind, count in counted.most_common())}): do not let it lead; "
        "replica_differences has the steps"
        for replica, counted in sorted(kinds.items())
    ]
