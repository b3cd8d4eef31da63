"""A cluster in which everything is named by hostile names, taken through every stage: what each sink is fed with."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs as pafs

from sexton import cli
from sexton.coordinator.partitioner import partition_of
from sexton.execution.restore.restore_plan import (
    OffsetValue,
    RestorePlan,
    RestoreRow,
    Then,
    What,
    in_order,
    keep_restore,
)
from sexton.plans.plan import Plan
from sexton.plans.read_plan import read_plan
from sexton.report import write_report
from sexton.report.names import harmless
from sexton.runs.folder import RunFolder
from sexton.tables import SNAPSHOT_TABLES
from tests.archived import CLUSTER, Archive
from tests.faults.apply_cluster import SimCluster
from tests.faults.apply_worlds import World, plan_for
from tests.faults.names import Name
from tests.log_builder import BASE_MS, BatchSpec, classic_fields, encode_log, group_entry, subscription
from tests.ui.lakes import WrittenLake, lake_at
from tests.ui.worlds import HOUR_MS, key

LOG_PARTITIONS = 4
AS_OF_MS = BASE_MS + HOUR_MS
LEGAL = "legal"
LONGEST_WORDS = 500
"""Characters of an owner, a reason and a ticket of a policy."""


@dataclass
class Hostile:
    """An archive, a run of it with plan and report, a lake, a ledger and a restore, all of the same names."""

    root: Path
    names: Sequence[Name]
    plan: Plan
    restore_id: str
    lake: WrittenLake
    applied: World
    planned: str
    """What `sexton plan` printed."""

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def texts(self) -> list[str]:
        return [name.text for name in self.names]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return pq.read_table(self.run / table).to_pylist()


def sexton(*argv: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main([str(word) for word in argv])
    return code, out.getvalue(), err.getvalue()


def hostile_world(root: Path, names: Sequence[Name], random: Random) -> Hostile:
    """Everything that there is of a cluster of those names."""
    archive = Archive(root / "archive", partitions=LOG_PARTITIONS)
    archive.snapshot(AS_OF_MS + HOUR_MS, _logs(names))
    policy = root / "policy.yaml"
    policy.write_text(json.dumps(policy_of([name.text for name in names if may_be_words(name.text)])), encoding="utf-8")
    common = ("--archive", archive.root, "--as-of", AS_OF_MS, "--retention-minutes", 1, "--policy", policy)
    planned = sexton("plan", *common, "--out", root / "run")
    assert planned[0] == 0, planned
    write_report(root / "run")
    plan_id = RunFolder(root / "run").read_run().plan_id or ""
    fs = pafs.LocalFileSystem()
    lake = lake_at(root / "lake")
    tables = {table.name: pq.read_table(root / "run" / table.name) for table in SNAPSHOT_TABLES}
    lake.publish(key(0), {name: _of_run(rows) for name, rows in tables.items()}, plan_id=plan_id)
    return Hostile(
        root=root, names=names, plan=read_plan(fs, archive.root, CLUSTER, plan_id),
        restore_id=keep_restore(fs, archive.root, _restore(names)), lake=lake,
        applied=_applied(root / "applied", names, random), planned=planned[1],
    )  # fmt: skip


def policy_of(texts: Sequence[str]) -> dict[str, Any]:
    """A policy with a rule for each name, which is its owner, reason and ticket, too."""
    rules = [
        {
            "name": f"r{number}",
            "match": {"group": text},
            "retention": "1m",
            "owner": text,
            "reason": text,
            "ticket": text,
        }
        for number, text in enumerate(texts)
    ]
    limits = {"max_offsets": 10**6, "max_groups": 10**6, "max_share_of_groups": 1, "max_share_of_owner": 1}
    return {"version": 1, "limits": limits, "rules": rules}


def may_be_words(text: str) -> bool:
    """Whether a policy takes it for an owner: a line of something that can be seen."""
    return len(text.strip()) > 0 and len(text) <= LONGEST_WORDS and harmless(text) == text


def _logs(names: Sequence[Name]) -> dict[int, bytes]:
    """Of each name: a group with an offset of a topic of that name, and two whose member has it everywhere."""
    logs: dict[int, list[BatchSpec]] = {number: [] for number in range(LOG_PARTITIONS)}
    for number, name in enumerate(names):
        own = logs[partition_of(name.text, LOG_PARTITIONS)]
        for topic, metadata in ((name.raw, name.raw), (LEGAL.encode(), b"")):
            own.append(BatchSpec(entries=(_commit(name.raw, topic, metadata),), timestamp_ms=BASE_MS))
        living, modern = f"living-{number}", f"modern-{number}"
        for group, records in (
            (living, (group_entry(2, living, _group_of(name.text)),)),
            (modern, _modern_group(modern, name.text[:200])),
        ):
            logs[partition_of(group, LOG_PARTITIONS)].append(BatchSpec(entries=records, timestamp_ms=BASE_MS))
    return {number: encode_log(log) for number, log in logs.items()}


def _commit(group: bytes, topic: bytes, metadata: bytes) -> tuple[bytes, bytes]:
    """A commit by bytes that need not be UTF-8: key and value of version 3."""
    name = (1).to_bytes(2) + b"".join(len(part).to_bytes(2) + part for part in (group, topic)) + bytes(4)
    where = (3).to_bytes(2) + (5).to_bytes(8) + b"\xff" * 4
    return name, where + len(metadata).to_bytes(2) + metadata + BASE_MS.to_bytes(8)


def _group_of(text: str) -> dict[str, Any]:
    short = text[:200]
    fields = classic_fields((short, subscription(short)), protocol=short, instance_id=short)
    for member in fields["members"]:
        member |= {"client_id": short, "client_host": short}
    return fields


def _modern_group(group: str, name: str) -> tuple[tuple[bytes, bytes | None], ...]:
    """A group of KIP-848 whose member has a rack, an assignor and a regular expression, which the broker resolved."""
    member = dict.fromkeys(("instance_id", "rack_id", "client_id", "client_host", "server_assignor"), name)
    member |= {"subscribed_topic_names": [name], "subscribed_topic_regex": name, "rebalance_timeout_ms": 300}
    regex = {"topics": [name], "version": 1, "timestamp": BASE_MS}
    assigned = {"member_epoch": 1, "previous_member_epoch": 0, "state": 0}
    assigned |= {"assigned_partitions": [], "partitions_pending_revocation": []}
    return (
        group_entry(3, group, {"epoch": 1}),
        group_entry(5, group, {**member, "classic_member_metadata": None}, member_id=name),
        group_entry(16, group, regex, regular_expression=name),
        group_entry(6, group, {"assignment_epoch": 1, "assignment_timestamp": BASE_MS}),
        group_entry(8, group, assigned, member_id=name),
    )


def _of_run(rows: Any) -> Any:
    """A run's rows under the key that the lake has it by."""
    run = key(0)
    own = {"cluster_id": run.cluster_id, "as_of_ms": run.as_of_ms, "run_id": run.run_id}
    return [{**row, **own} for row in rows.to_pylist()]


def _restore(names: Sequence[Name]) -> RestorePlan:
    then = OffsetValue(committed_offset=7, leader_epoch=None, metadata="")
    rows = [
        RestoreRow(
            group_id=name.text, topic=name.text, partition=0, log_partition=0, what=What.RESTORE, then=Then(value=then),
            now=None, put=then,
        )
        for name in names
    ]  # fmt: skip
    return RestorePlan(
        cluster_id=CLUSTER, source="plan", warnings=tuple(name.text for name in names[:10]), rows=tuple(in_order(rows))
    )


def _applied(root: Path, names: Sequence[Name], random: Random) -> World:
    """A plan that was applied to a simulated cluster, and its ledger."""
    cluster = SimCluster(random.randrange(1 << 30), log_partitions=8 * LOG_PARTITIONS)
    for name in names:
        cluster.topics[name.text] = 1
        cluster.commit(name.text, name.text, 0, 5, metadata=name.text)
    cluster.now_ms += 10 * HOUR_MS
    world = World(cluster=cluster, plan=plan_for(cluster), root=root)
    world.apply(sink="coordinator", approved_by="ann")
    return world
