"""Compares what other rules would delete at an instant with the rules in force; nothing is planned or written.

An offset is lost with given rules if the broker's retention or a rule of the policy expires it at that instant. The
broker also expires what a policy holds or keeps, except under a hold with `keep`, which `sexton keep` carries out. Both
sides are evaluated again from the same state of the log. Groups without offsets are left out: the broker deletes them
whatever the retention.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.analysis.forecast import going_of, whole_groups
from sexton.as_text import MINUTE_MS
from sexton.coordinator.profiles import profile_of
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, read_published
from sexton.ledger.recorded_steps import keep_steps_of
from sexton.plans.limits import entry_of
from sexton.policy import Policy
from sexton.runs.folder import RunFolder, RunRecord, Shard
from sexton.runs.judging import judge_offsets, read_held
from sexton.tables import TABLES
from sexton.verdicts.keeping import KeepSteps

_STATE = ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "open_transactions", "load_profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """A retention, and a policy or none; `source` says where the retention is from."""

    retention_ms: int
    policy: Policy | None
    source: str

    def asked(self, retention_minutes: int | None, policy: Policy | None) -> "RetentionRules":
        """These rules with another policy (or none), and another retention if one is requested."""
        if retention_minutes is None:
            return replace(self, policy=policy)
        return RetentionRules(retention_ms=retention_minutes * MINUTE_MS, policy=policy, source="asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedOffset:
    """An offset that the rules in force, the proposed rules or both would delete. `by` is broker or rule:<name>,
    according to the proposed rules if they delete it, else to the rules in force."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    commit_timestamp_ms: int
    in_force: bool
    proposed: bool
    by: str
    log_partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """A group that loses offsets on one side or both; `whole_*` is true if nothing is left of the group."""

    group_id: str
    group_type: str
    state: str
    offset_count: int
    lost_in_force: int
    lost_proposed: int
    newly_lost: int
    spared: int
    whole_in_force: bool
    whole_proposed: bool
    by: tuple[str, ...]
    log_partition: int

    @property
    def differs(self) -> bool:
        return bool(self.newly_lost or self.spared) or self.whole_in_force != self.whole_proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRule:
    """The deletions by the broker's retention (`by` is broker) or by a rule, on one side or both, in `groups` groups.

    An offset counts for the `by` of ComparedOffset. A group that the proposed rules delete entirely counts in
    `whole_groups` for the `by` of its last offset. `owner` and `reason` are None for the broker.
    """

    by: str
    owner: str | None
    reason: str | None
    lost_in_force: int
    lost_proposed: int
    newly_lost: int
    spared: int
    groups: int
    whole_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Both sides at one instant; `groups` and `offsets` are sorted by name."""

    in_force: RetentionRules
    proposed: RetentionRules
    groups: list[ComparedGroup]
    offsets: list[ComparedOffset]

    def differing(self) -> list[ComparedGroup]:
        """The groups that differ, the largest losses first."""
        found = (one for one in self.groups if one.differs)
        return sorted(found, key=lambda one: (-one.newly_lost, -one.spared, one.group_id))

    def rules(self) -> list[ComparedRule]:
        """The losses by rule; the broker's first, then by owner and name."""
        whole = {(one.group_id, one.log_partition) for one in self.groups if one.whole_proposed}
        last = {(one.group_id, one.log_partition): one.by for one in self.offsets if one.proposed}
        whole_by = Counter(last[group] for group in whole if group in last)
        found = []
        for by in {one.by for one in self.offsets}:
            own = [one for one in self.offsets if one.by == by]
            policies = (side.policy for side in (self.proposed, self.in_force) if side.policy is not None)
            rule = next((rule for policy in policies if (rule := entry_of(policy, by)) is not None), None)
            compared = ComparedRule(
                by=by,
                owner=rule.owner if rule else None,
                reason=rule.reason if rule else None,
                **_losses(own),
                groups=len({one.group_id for one in own}),
                whole_groups=whole_by[by],
            )
            found.append(compared)
        return sorted(found, key=lambda one: (one.owner or "", one.by))

    def counts(self) -> dict[str, int]:
        return {
            **{f"offsets_{name}": count for name, count in _losses(self.offsets).items()},
            "groups_that_differ": sum(one.differs for one in self.groups),
            "whole_groups_in_force": sum(one.whole_in_force for one in self.groups),
            "whole_groups_proposed": sum(one.whole_proposed for one in self.groups),
        }


def _losses(offsets: list[ComparedOffset]) -> dict[str, int]:
    """How many of the offsets each side deletes, and how many only one of them."""
    return {
        "lost_in_force": sum(one.in_force for one in offsets),
        "lost_proposed": sum(one.proposed for one in offsets),
        "newly_lost": sum(one.proposed and not one.in_force for one in offsets),
        "spared": sum(one.in_force and not one.proposed for one in offsets),
    }


def what_if(
    folder: RunFolder,
    record: RunRecord,
    *,
    in_force: RetentionRules,
    proposed: RetentionRules,
    group_id: str | None = None,
) -> WhatIf:
    """Evaluate the state in `folder` with the rules in force and with the proposed rules; for one group, or for all."""
    offsets: list[ComparedOffset] = []
    groups: list[ComparedGroup] = []
    steps = keep_steps_of(record)
    for shard in record.shards:
        before, after = (_lost(folder, record, shard, rules, group_id, steps) for rules in (in_force, proposed))
        own, losing = _of_shard(folder, record, shard, before, after)
        offsets += own
        groups += losing
    return WhatIf(
        in_force=in_force,
        proposed=proposed,
        groups=sorted(groups, key=lambda one: (one.group_id.encode(), one.log_partition)),
        offsets=sorted(offsets, key=lambda one: (one.group_id.encode(), one.topic.encode(), one.partition)),
    )


def published_folder(lake: Lake, run: PublishedRun, root: Path) -> tuple[RunFolder, RunRecord]:
    """Write the state of a published run to a run folder, for another evaluation; return folder and record."""
    folder = RunFolder(root)
    parts = sorted(run.cuts)
    for name in _STATE:
        rows = read_published(lake, run, name)
        for part in parts:
            folder.write_rows(rows.filter(pc.equal(rows["log_partition"], part)), name, part)
    topics = read_published(lake, run, "topic_partitions")
    folder.write_rows(topics, "topic_partitions")
    facts = {name: run.row[name] for name in ("topic_id", "taken_at_ms", "profile", "retention_ms", "coverage")}
    record = RunRecord(
        run_id=run.key.run_id,
        cluster_id=run.key.cluster_id,
        as_of_ms=run.key.as_of_ms,
        retention_source="the published run",
        source="published tables",
        partition_count=None,
        log_partitions=parts,
        cuts=run.cuts,
        has_topics=topics.num_rows > 0,
        **facts,
    )
    return folder, record


def _of_shard(
    folder: RunFolder, record: RunRecord, shard: Shard, before: pa.Table, after: pa.Table
) -> tuple[list[ComparedOffset], list[ComparedGroup]]:
    """The offsets and groups of a shard that either side deletes; `before` and `after` are those of `_lost`."""
    held = read_held(folder, shard)
    groups = folder.read_table("groups", shard, list(TABLES["groups"].column_names))
    profile = profile_of(record.profile)
    whole_before, whole_after = (
        set(whole_groups(side, held, groups, profile=profile).to_pylist()) for side in (before, after)
    )
    by_before, by_after = (
        dict(zip(side["row"].to_pylist(), side["by"].to_pylist(), strict=True)) for side in (before, after)
    )
    rows = sorted({*by_before, *by_after})
    names = ["group_id", "topic", "partition", "committed_offset", "commit_timestamp_ms"]
    values = held.select(names).take(pa.array(rows, pa.int64())).to_pylist()
    offsets = [
        ComparedOffset(
            **value,
            in_force=row in by_before,
            proposed=row in by_after,
            by=by_after.get(row) or by_before[row],
            log_partition=shard.log_partition,
        )
        for row, value in zip(rows, values, strict=True)
    ]
    return offsets, list(_groups(offsets, held, groups, whole_before, whole_after))


def _lost(
    folder: RunFolder, record: RunRecord, shard: Shard, rules: RetentionRules, group_id: str | None, steps: KeepSteps
) -> pa.Table:
    """Offsets that the rules delete at the instant: row (of `held`), at_ms, by."""
    judged_by = record.model_copy(update={"retention_ms": rules.retention_ms})
    verdicts = judge_offsets(folder, judged_by, shard, policy=rules.policy, steps=steps)
    going = going_of(verdicts, as_of_ms=record.as_of_ms, profile=profile_of(record.profile))
    lost = going.filter(pc.less_equal(going["at_ms"], record.as_of_ms))
    if group_id is None:
        return lost
    return lost.filter(pc.equal(verdicts["group_id"].take(lost["row"]), group_id))


def _groups(
    offsets: list[ComparedOffset], held: pa.Table, groups: pa.Table, whole_before: set[str], whole_after: set[str]
) -> Iterator[ComparedGroup]:
    own: dict[str, list[ComparedOffset]] = {}
    for one in offsets:
        own.setdefault(one.group_id, []).append(one)
    wanted = pa.array(own, pa.string())
    counted = pc.value_counts(held["group_id"].filter(pc.is_in(held["group_id"], value_set=wanted))).to_pylist()
    totals = {item["values"]: item["counts"] for item in counted}
    known = groups.filter(pc.is_in(groups["group_id"], value_set=wanted)).to_pylist()
    facts: dict[str, dict[str, Any]] = {row["group_id"]: row for row in known}
    for group_id, losses in own.items():
        yield ComparedGroup(
            group_id=group_id,
            group_type=facts[group_id]["group_type"],
            state=facts[group_id]["state"],
            offset_count=totals[group_id],
            **_losses(losses),
            whole_in_force=group_id in whole_before,
            whole_proposed=group_id in whole_after,
            by=tuple(sorted({one.by for one in losses})),
            log_partition=losses[0].log_partition,
        )
