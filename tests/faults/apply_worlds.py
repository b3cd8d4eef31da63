"""Clusters with a plan, applying it however often it takes, and what must be true of ledger and log afterwards."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from sexton import __version__
from sexton.archive.snapshots_since import GroupThen
from sexton.coordinator.api.listing import describe_group
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.tombstones import plan_id, tombstones_sha256
from sexton.errors import BrokerError, Refused
from sexton.execution.delete.admin_watch import AdminWatch
from sexton.execution.delete.apply_plan import apply_plan
from sexton.execution.delete.context import Watch
from sexton.execution.delete.log_watch import LogWatch
from sexton.execution.delete.preconditions import Rules
from sexton.execution.delete.summary import ApplySummary
from sexton.execution.engine import Clocks
from sexton.execution.kafka_admin import KafkaAdmin
from sexton.execution.status import PlanStatus
from sexton.ledger.entries import ClaimProcess, Item, Result
from sexton.ledger.ledger import Ledger
from sexton.ledger.recorded_steps import own_actions, recorded_steps
from sexton.plans.plan import TOMBSTONES, UNDO, Plan, PlanRecord, PlanSnapshot
from sexton.policy import DefaultLimits
from tests.faults.apply_cluster import OTHERS, PROFILE, US, Faults, SimCluster, Write
from tests.plain_sweep import Tombstone, group_tombstones, in_plan_order, offset_tombstone, sweep

LOCAL = pafs.LocalFileSystem()
HOUR_MS = 3_600_000
LEASE_MS = 600_000
ANY = DefaultLimits(max_offsets=1 << 62, max_share_of_groups=1)
"""Limits under which a plan may take every group there is."""
RUNS_AT_MOST = 40


def dead_process(token: str = "dead") -> ClaimProcess:
    """Of a process that nobody can see: only the lease tells that it is gone."""
    return ClaimProcess(host="elsewhere", pid=1, started="0", token=token)


@dataclass
class World:
    """A cluster, a plan made from it, and an archive folder with its ledger.

    Of a plan from admin snapshots `then` is what its admin snapshot saw, and `placed` where in the log each of its
    values was."""

    cluster: SimCluster
    plan: Plan
    root: Path
    then: Mapping[str, GroupThen] | None = None
    placed: Mapping[OffsetKey, int] = field(default_factory=dict)
    summaries: list[ApplySummary] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return Ledger(LOCAL, str(self.root), self.cluster.cluster_id, self.plan.record.plan_id)

    def rules(self, **changes: Any) -> Rules:
        told = {
            "approved_by": "ann", "plan_sha256": self.plan.sha256, "policy_sha256": None,
            "max_age_ms": 1_000 * HOUR_MS, "lease_ms": LEASE_MS, "limits": ANY, "allow_log_sink": True,
        }  # fmt: skip
        return Rules(**{**told, **changes})

    @property
    def watch(self) -> Watch:
        """A watch for one attempt."""
        return LogWatch() if self.then is None else AdminWatch(self.then, self.plan.record.basis)

    @property
    def clocks(self) -> Clocks:
        def sleep(seconds: float) -> None:
            self.cluster.now_ms += int(seconds * 1000)

        return Clocks(now_ms=lambda: self.cluster.now_ms, ticks_ms=lambda: float(self.cluster.now_ms), sleep=sleep)

    def apply(
        self, *, sink: str = "log", client: KafkaAdmin | None = None, ledger: Ledger | None = None, **rules: Any
    ) -> ApplySummary:
        if self.then is not None and sink == "log":
            sink = "coordinator"  # the other one is refused
        summary = apply_plan(
            client or self.cluster,
            self.plan,
            ledger or self.ledger,
            sink=sink,  # type: ignore[arg-type]
            rules=self.rules(**rules),
            clocks=self.clocks,
            watch=self.watch,
        )
        self.summaries.append(summary)
        return summary

    def apply_until_done(self, *, sink: str = "log") -> ApplySummary:
        """As a scheduler would: again after whatever broke, and once more at the end, when the cluster is quiet."""
        for number in range(RUNS_AT_MOST):
            process = dead_process(str(number))
            ledger = Ledger(LOCAL, str(self.root), self.cluster.cluster_id, self.plan.record.plan_id, process=process)
            try:
                self.apply(sink=sink, ledger=ledger)
                break
            except BrokerError:
                self.cluster.now_ms += LEASE_MS + 1
        self.cluster.drain()
        self.cluster.faults = Faults(interference=0)
        self.cluster.now_ms += LEASE_MS + 1
        return self.apply(sink=sink)


def world(
    seed: int | str, root: Path, *, faults: Faults | None = None, orphans: bool = True, is_admin: bool = False
) -> World:
    """A cluster with groups of several kinds, and a plan for some (never nothing) of what they have; one per seed."""
    cluster = SimCluster(seed, faults=Faults(interference=0))
    rng = cluster.rng
    cluster.topics = {"t0": 3, "t1": 3, "gone": 2}
    for number in range(rng.randint(3, 6)):
        _group(cluster, f"g{number}", rng)
    if orphans:
        del cluster.topics["gone"]
    cluster.now_ms += 10 * HOUR_MS
    while True:
        made = World(cluster=cluster, plan=plan_for(cluster, rng), root=root)
        made = by_admin(made) if is_admin else made
        if made.plan.tombstones.num_rows:
            break
        cluster.commit("left", "t1", 0, 7)
        cluster.now_ms += 10 * HOUR_MS
    cluster.now_ms += rng.randint(1, HOUR_MS)
    cluster.faults = faults or cluster.faults
    return made


def by_admin(made: World) -> World:
    """The same with a plan from admin snapshots: the offsets of groups that are Empty, without what only the log
    shows."""
    cluster, plan = made.cluster, made.plan
    groups = {group_id: describe_group(cluster.one(group_id), group_id).group for group_id in cluster.group_ids()}
    then: dict[str, GroupThen] = {}
    for group_id, group in groups.items():
        assert group is not None
        if group.state == "Empty":
            then[group_id] = GroupThen(
                group_type=group.group_type,
                state=group.state,
                protocol_type=group.protocol_type or None,
                group_epoch=None if group.group_type == "Classic" else group.generation,
                offsets={key[1:]: value for key, value in cluster.offsets().items() if key[0] == group_id},
            )
    rows = [row for row in plan.tombstones.to_pylist() if row["record_type"] <= 1 and row["group_id"] in then]
    positions: Counter[int] = Counter()
    for row in rows:
        row |= {"position": positions[row["log_partition"]], "target_log_offset": None}
        positions[row["log_partition"]] += 1
    undo = [row for row in plan.undo.to_pylist() if row["group_id"] in then]
    placed = {(row["group_id"], row["topic"], row["partition"]): row["log_offset"] for row in undo}
    unknown = {"log_offset": None, "commit_timestamp_ms": None, "topic_id": None}
    record = plan.record.model_copy(
        update={"coverage": "admin", "admin_snapshot": PlanSnapshot(taken_at_ms=cluster.now_ms, sha256={})}
    )
    seen = replace(
        plan,
        record=record,
        tombstones=pa.Table.from_pylist(rows, schema=TOMBSTONES),
        undo=pa.Table.from_pylist([{**row, **unknown} for row in undo], schema=UNDO),
    )
    return replace(made, plan=seen, then=then, placed=placed)


def _group(cluster: SimCluster, group_id: str, rng: Random) -> None:
    kind = rng.choice(("simple", "classic", "consumer", "member", "simple"))
    if kind == "classic":
        cluster.classic(group_id)
    elif kind == "consumer":
        cluster.consumer(group_id)
    for _ in range(rng.randint(1, 5)):
        topic = rng.choice(("t0", "t1", "t1", "gone"))
        metadata, epoch = rng.choice(("", "m")), rng.randint(-1, 2)
        partition = rng.randrange(cluster.topics[topic])
        cluster.commit(group_id, topic, partition, rng.randint(0, 999), metadata=metadata, leader_epoch=epoch)
        cluster.now_ms += rng.randint(1, 50)
    if kind == "member":
        cluster.classic(group_id, "t0", members=1)


def swept_plan(cluster: SimCluster, *, as_of_ms: int, retention_ms: int) -> Plan:
    """The plan of a sweep at an instant, by whichever clock that was told."""
    rows: list[tuple[int, Tombstone]] = []
    values: dict[OffsetKey, Any] = {}
    for number, log in enumerate(cluster.logs):
        swept = sweep(log.loaded, retention_ms=retention_ms, now_ms=as_of_ms)
        rows += [(number, one) for one in in_plan_order(swept)]
        values |= log.loaded.offsets
    return _plan(cluster, rows, values, as_of_ms=as_of_ms, retention_ms=retention_ms)


def plan_for(cluster: SimCluster, rng: Random | None = None) -> Plan:
    """A plan of what the coordinators hold now: of all they may lose, or of some of it."""
    rows: list[tuple[int, Tombstone]] = []
    values: dict[OffsetKey, Any] = {}
    for number, log in enumerate(cluster.logs):
        found: list[Tombstone] = []
        for group_id, group in sorted(log.loaded.groups.by_id.items()):
            own = {key: one for key, one in log.loaded.offsets.items() if key[0] == group_id}
            free = {key: one for key, one in own.items() if group.is_empty or not group.is_subscribed(key[1])}
            is_whole = group.is_empty and (rng is None or rng.random() < 0.5)
            some = {key: one for key, one in free.items() if is_whole or rng is None or rng.random() < 0.6}
            found += [offset_tombstone(key, one, cause="broker_retention") for key, one in some.items()]
            values |= some
            if is_whole:
                found += group_tombstones(group)
        rows += [(number, one) for one in in_plan_order(found)]
    return _plan(cluster, rows, values, as_of_ms=cluster.broker_ms)


def _plan(
    cluster: SimCluster,
    rows: list[tuple[int, Tombstone]],
    values: dict[OffsetKey, Any],
    *,
    as_of_ms: int,
    retention_ms: int = HOUR_MS,
) -> Plan:
    cuts = {number: log.end for number, log in enumerate(cluster.logs)}
    return plan_of(
        rows, values, cluster_id=cluster.cluster_id, topic_id=cluster.topic_id, as_of_ms=as_of_ms, cuts=cuts,
        retention_ms=retention_ms,
    )  # fmt: skip


def plan_of(
    rows: list[tuple[int, Tombstone]], values: Mapping[OffsetKey, StoredOffset], *, cluster_id: str, topic_id: str,
    as_of_ms: int, cuts: dict[int, int], retention_ms: int = HOUR_MS,
) -> Plan:  # fmt: skip
    """A plan of tombstones by log partition, in memory; `values` has what each of an offset removes."""
    told = {
        "cluster_id": cluster_id, "topic_id": topic_id, "as_of_ms": as_of_ms, "cuts": cuts, "profile": PROFILE.name,
        "retention_ms": retention_ms, "policy_sha256": None,
    }  # fmt: skip

    def table_of(some: list[Tombstone]) -> pa.Table:
        return pa.table({"key": [one.key for one in some], "cause": [one.cause for one in some]})

    hashes = {
        number: tombstones_sha256([table_of([one for part, one in rows if part == number])])
        for number in {part for part, _ in rows}
    }
    identity = plan_id(**told, tombstones=hashes)  # type: ignore[arg-type]
    offsets = [(number, one) for number, one in rows if one.topic is not None]
    losing = len({one.group_id for _, one in rows})
    counts = {"tombstones": len(rows), "offsets": len(offsets), "groups_losing": losing, "groups_total": losing}
    full = PlanRecord.model_validate(
        {
            **told,
            "plan_id": identity,
            "code_version": __version__,
            "counts": counts,
            "broker_retention_ms": retention_ms,
            "beyond": {"offsets": 0, "groups": 0},
            "losses": [],
            "batches": [],
            "largest_batch_bytes": 0,
            "max_message_bytes": None,
            "over_limits": [],
            "warnings": [],
            "files": {},
        }
    )
    return Plan(
        record=full,
        sha256="5" * 64,
        folder="memory",
        tombstones=pa.Table.from_pylist(_planned(rows, identity), schema=TOMBSTONES),
        undo=pa.Table.from_pylist([_undo(number, one, values) for number, one in offsets], schema=UNDO),
    )


def _planned(rows: list[tuple[int, Tombstone]], identity: str) -> list[dict[str, Any]]:
    positions: Counter[int] = Counter()
    found = []
    for number, one in rows:
        found.append(
            {
                "plan_id": identity, "log_partition": number, "position": positions[number],
                "target_log_partition": number, "key": one.key,
                **{name: getattr(one, name) for name in Tombstone.__slots__},
            }
        )  # fmt: skip
        positions[number] += 1
    return found


def _undo(number: int, one: Tombstone, values: Mapping[OffsetKey, StoredOffset]) -> dict[str, Any]:
    assert one.topic is not None
    assert one.partition is not None
    stored = values[one.group_id, one.topic, one.partition]
    key = {"group_id": one.group_id, "topic": one.topic, "partition": one.partition}
    return {**asdict(stored), **key, "log_partition": number}


# --- what must be true


@dataclass
class Account:
    """What our own tombstones did, key by key."""

    ours: int = 0
    newer: int = 0
    unseen: int = 0
    """Of a plan from admin snapshots: newer values that no admin snapshot can have seen."""
    returned: int = 0
    violations: list[str] = field(default_factory=list)


def account(made: World, *, log_sink: bool = True) -> Account:
    """Compare the log with the ledger: what we wrote, what it took along, and what the ledger says of both."""
    cluster = made.cluster
    entries = made.ledger.entries()
    status = PlanStatus.of(entries)
    planned = {(row["group_id"], row["topic"], row["partition"]): row for row in made.plan.undo.to_pylist()}
    told: dict[OffsetKey, list[tuple[Item, Result]]] = {}
    for each in recorded_steps(entries):
        for item in each.intent.items:
            if item.key is not None and item.item_id in each.results:
                told.setdefault(item.key, []).append((item, each.results[item.item_id][0]))
    for place, result in status.results.items():
        item = status.items[place]
        if item.key is not None:
            told.setdefault(item.key, []).append((item, result))
    found = Account()
    for log in cluster.logs:
        history: dict[OffsetKey, list[Write]] = {}
        for write in log.writes:
            if write.key is None or write.is_aborted:
                continue
            before = history.setdefault(write.key, [])
            if write.by == US:
                if write.value is None:
                    _our_tombstone(found, write, before, planned, told, made)
                else:
                    _our_value(found, write, before, planned, told)
            before.append(write)
    open_ones = [each for each in recorded_steps(entries) if each.is_open]
    if open_ones:
        found.violations.append(f"{len(open_ones)} intents without an outcome")
    if any(result.outcome == "unknown" for result in status.results.values()):
        found.violations.append("an outcome is unknown")
    if made.then is None and status.unreturned():
        found.violations.append("something a race took along was forgotten")
    _check_acts(made, found)
    return found


def _our_tombstone(
    found: Account,
    write: Write,
    before: list[Write],
    planned: dict[OffsetKey, dict[str, Any]],
    told: dict[OffsetKey, list[tuple[Item, Result]]],
    made: World,
) -> None:
    found.ours += 1
    assert write.key is not None
    results = [result for _, result in told.get(write.key, [])]
    values = [one for one in before if one.value is not None]
    last = before[-1] if before else None
    if last is None or last.value is None:
        if made.then is None and not any(result.written_log_offset for result in results):
            found.violations.append(f"{write}: a tombstone of nothing, and nobody tells of it")
        return
    in_doubt = made.then is not None and any(result.outcome == "not_done" and result.found for result in results)
    if not in_doubt and not any(result.outcome in ("done", "raced") for result in results):
        found.violations.append(f"{write}: an unrecorded deletion: {results}")
    was = planned.get(write.key)
    newest = values[-1]
    if made.then is not None:
        _our_tombstone_by_admin(found, write, newest, was, results, made)
    elif was is None or newest.log_offset > was["log_offset"]:
        found.newer += 1
        if not any(
            result.outcome == "raced" and (result.found.log_offset if result.found else -1) >= newest.log_offset
            for result in results
        ):
            found.violations.append(f"{write}: took the newer {newest} along, and nobody tells: {results}")


def _our_tombstone_by_admin(
    found: Account, write: Write, newest: Write, was: dict[str, Any] | None, results: list[Result], made: World
) -> None:
    """A newer value may be taken along without a word where the preflight check did not show it."""
    assert write.key is not None
    if was is None:
        found.violations.append(f"{write}: not in the plan")
        return
    if newest.log_offset <= made.placed[write.key]:
        return
    found.newer += 1
    snapshot = made.cluster.snapshots_before[write.key[0], write.log_offset]
    shown = snapshot.offsets.get(write.key[1:])
    if shown not in (None, (was["committed_offset"], was["leader_epoch"], was["metadata"])):
        is_told = any(result.outcome == "raced" and result.found is not None for result in results)
    elif write.key[1:] in snapshot.unstable:
        is_told = any(result.outcome == "raced" or "transaction" in str(result.error) for result in results)
    else:
        found.unseen += 1
        return
    if not is_told:
        found.violations.append(f"{write}: took the newer {newest} along, which an admin snapshot has seen: {results}")


def _our_value(
    found: Account,
    write: Write,
    before: list[Write],
    planned: dict[OffsetKey, dict[str, Any]],
    told: dict[OffsetKey, list[tuple[Item, Result]]],
) -> None:
    """Only what a race has taken along is ever committed by us, and only over nothing, or over what is told."""
    found.returned += 1
    assert write.key is not None
    assert write.value is not None
    values = [one.value for one in before if one.by == OTHERS and one.value is not None]
    ours = write.value["committed_offset"], write.value["metadata"]
    if ours not in [(value["committed_offset"], value["metadata"]) for value in values]:
        found.violations.append(f"{write}: nobody ever committed that")
    if write.producer_id != -1 and before[-1].value is not None and before[-1].by == OTHERS:
        found.violations.append(f"{write}: it has replaced the newer {before[-1]}")
    if not any(item.after is not None for item, _ in told.get(write.key, [])):
        found.violations.append(f"{write}: a commit of ours that nobody tells of")


def _check_acts(made: World, found: Account) -> None:
    """What offset_changes will believe of us: every tombstone of ours is covered by an act of ours."""
    removed, _ = own_actions(LOCAL, str(made.root), made.cluster.cluster_id)
    for log in made.cluster.logs:
        for write in log.writes:
            if write.by == US and write.value is None and write.key is not None and not removed.get(write.key):
                found.violations.append(f"{write}: no act of ours")


def final_losses(made: World) -> list[str]:
    """Newer values that are gone at the end though their group would take them back, and nobody says why not."""
    if made.then is not None:  # from admin snapshots nothing is put back
        return []
    status = PlanStatus.of(made.ledger.entries())
    lost = []
    offsets = made.cluster.offsets()
    for place, result in status.results.items():
        item = status.items[place]
        if result.outcome != "raced" or item.key is None or item.key in offsets:
            continue
        restores = [
            status.results[other].outcome
            for other in status.restored
            if status.items[other].key == item.key and other in status.results
        ]
        if not restores:
            lost.append(f"{item.key}: raced, and no word of putting it back")
    return lost


__all__ = [
    "LOCAL", "Account", "BrokerError", "Refused", "World", "account", "by_admin", "final_losses", "plan_for",
    "world",
]  # fmt: skip
