"""The content of a run's plan: the values that would be removed, and the counts for approvers.

One task per shard computes its part (`part_of`) from the tables that the run has written, so a plan cannot contradict
them; `content_of` adds the parts up. write_plan makes files of the result.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.api.append_settings import append_settings
from sexton.coordinator.profiles import profile_of
from sexton.kafka_commands import delete_group, delete_offsets
from sexton.log.entry import CODECS
from sexton.plans.check_content import offset_rows
from sexton.plans.limits import (
    Unheeded,
    default_limits,
    entry_of,
    limits_exceeded,
    not_held,
    owner_totals,
    policy_of,
    unheeded,
)
from sexton.plans.plan import UNDO, Beyond, Losses, PlannedBatches, PlanRecord, PlanSnapshot, columns_of
from sexton.policy import Counts, Policy
from sexton.runs.folder import RunFolder, RunRecord, Shard
from sexton.runs.judging import judge_offsets, read_held
from sexton.verdicts.expiry import is_of_offset

GROUPS_SHOWN = 100
ROWS_SHOWN = 5
TYPED_OFFSETS = 1_000
"""Maximum number of offsets in a command of Kafka's: for more, no command is given."""
NAMES_SHOWN = 60
VERDICT = (
    *("broker_reason", "broker_expires_at_ms", "policy_reason", "policy_rule", "policy_expires_at_ms"),
    *("base_timestamp_ms", "orphan"),
)
GROUP = ("group_id", "group_type", "state", "offset_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLoss:
    """An offset that would be deleted: its value and the reason. `expires_at_ms` is None if unknown."""

    topic: str
    partition: int
    committed_offset: int
    metadata: str
    commit_timestamp_ms: int | None
    cause: str
    reason: str
    expires_at_ms: int | None
    orphan: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoss:
    """A group that would lose `offsets` of its `offset_count` offsets; `rows` are the first of the lost offsets.

    `command` is Kafka's own command for the same deletion; None if it would be too long to type.
    """

    group_id: str
    group_type: str
    state: str
    offsets: int
    offset_count: int
    is_deleted: bool
    rows: list[OffsetLoss]
    command: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroups:
    """The groups on a plan's page: those that lose most offsets, and the first deleted groups without offsets."""

    groups: list[GroupLoss]
    groups_with_offsets: int
    bare: list[str]
    bare_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContent:
    """A plan before it is written: `record` names no files yet."""

    record: PlanRecord
    shown: ShownGroups


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """What one shard adds to a plan; `counts` are those of PlanRecord. No group is in two shards of a log partition. A
    group with offsets in two log partitions, because the partition count has changed, counts in both."""

    shard: Shard
    counts: Counter[str]
    beyond: Beyond
    losses: list[Losses]
    unheeded: Unheeded | None
    totals: Counter[str]
    """Owner of a rule -> number of offsets."""
    shown: ShownGroups


def part_of(
    folder: RunFolder,
    record: RunRecord,
    shard: Shard,
    tombstones: pa.Table,
    judged: pa.Table,
    held: pa.Table,
    groups: pa.Table,
) -> tuple[PlanPart, pa.Table]:
    """(what the tombstones of a shard, in order, add to the plan; the values that they remove, as UNDO).

    The column target_row of `tombstones` (verdicts.expiry.plan) is the row of the offset in the held offsets of its log
    partition. `judged` (the verdicts: VERDICT, and VERDICTS of plans.limits), `held` (runs.judging.read_held) and
    `groups` have the shard's rows; rows of misplaced groups are read from `folder`.
    """
    undo, verdicts, at = _undo(folder, record, shard, offset_rows(tombstones.select(_TARGET)), judged, held)
    policy = policy_of(record)
    kept = undo["group_id"].filter(pc.not_equal(verdicts["broker_verdict"], "expire").take(at))
    own = groups if _is_home(tombstones, shard) else _groups_of(folder, tombstones)
    part = PlanPart(
        shard=shard,
        counts=Counter(
            tombstones=tombstones.num_rows,
            offsets=undo.num_rows,
            group_records=tombstones.num_rows - undo.num_rows,
            groups_losing=len(pc.unique(tombstones["group_id"])),
            groups_deleted=len(pc.unique(_group_rows(tombstones.select(_GROUP_OF))["group_id"])),
            groups_total=groups.num_rows,
        ),
        beyond=Beyond(offsets=len(kept), groups=len(pc.unique(kept))),
        losses=losses_of(tombstones, policy),
        unheeded=None if policy is None else unheeded(policy, judged),
        totals=Counter() if policy is None else owner_totals(judged),
        shown=shown_of(tombstones, undo, verdicts, at, own),
    )
    return part, undo


def content_of(record: RunRecord, parts: Sequence[PlanPart], batches: Sequence[PlannedBatches]) -> PlanContent:
    """The plan of a run, whose record already has the plan_id."""
    assert record.plan_id is not None, "plan_tombstones names the plan first"
    policy = policy_of(record)
    counts = Counter[str]()
    totals = Counter[str]()
    for part in parts:
        counts.update(part.counts)
        totals.update(part.totals)
    losses = joined_losses([part.losses for part in parts])
    held_expiring, not_kept = (
        (0, []) if policy is None else not_held(policy, [part.unheeded for part in parts if part.unheeded])
    )
    beyond = Beyond(
        offsets=sum(part.beyond.offsets for part in parts), groups=sum(part.beyond.groups for part in parts)
    )
    topic = append_settings(record.recorded, profile=profile_of(record.profile)).topic
    losing, total = counts["groups_losing"], counts["groups_total"]
    return PlanContent(
        record=PlanRecord(
            plan_id=record.plan_id,
            cluster_id=record.cluster_id,
            topic_id=record.topic_id,
            as_of_ms=record.as_of_ms,
            coverage=record.coverage,
            admin_snapshot=PlanSnapshot(taken_at_ms=record.taken_at_ms, sha256=record.admin_snapshot_sha256)
            if record.admin_snapshot_sha256
            else None,
            cuts=dict(sorted(record.cuts.items())),
            profile=record.profile,
            retention_ms=record.retention_ms,
            broker_retention_ms=record.broker_retention_ms,
            policy_sha256=record.policy_sha256,
            code_version=record.code_version,
            counts={**{name: counts[name] for name in _COUNTS}, "held_expiring": held_expiring},
            beyond=None if record.broker_retention_ms is None else beyond,
            losses=losses,
            batches=list(batches),
            largest_batch_bytes=max((one.largest_batch_bytes for one in batches), default=0),
            max_message_bytes=record.max_message_bytes,
            codec=CODECS[topic.codec],
            record_format=topic.magic(profile_of(record.profile)),
            over_limits=default_limits().exceeded(
                Counts(offset_count=counts["offsets"], group_count=losing, groups_total=total)
            )
            if policy is None
            else limits_exceeded(policy, totals, taken_by(losses), groups_losing=losing, groups_total=total),
            warnings=[*not_kept, *_warnings(record)],
            files={},
        ),
        shown=_joined_shown([part.shown for part in parts]),
    )


_TARGET = ["record_type", "target_log_partition", "target_row"]
_GROUP_OF = ["record_type", "group_id"]
_COUNTS = ("tombstones", "offsets", "group_records", "groups_losing", "groups_deleted", "groups_total")


def _warnings(record: RunRecord) -> list[str]:
    """Warnings that belong on the plan: they are the same for any run at the same instant."""
    blocked = sorted(record.blocked.items())
    found = [*record.profile_doubts, *(f"nothing is planned for log partition {part}: {why}" for part, why in blocked)]
    if record.coverage != "complete":
        found.append(f"coverage is {record.coverage}: {record.coverage_reason or 'the log is incomplete'}")
    return found


def losses_of(tombstones: pa.Table, policy: Policy | None = None) -> list[Losses]:
    """What is removed for each cause, sorted by cause; `tombstones` are in order."""
    coded, is_offset = tombstones["cause"].combine_chunks().dictionary_encode(), is_of_offset(tombstones).to_numpy()
    causes, group, count = np.asarray(coded.indices), _group_numbers(tombstones), len(coded.dictionary)
    of_group = np.flatnonzero(~is_offset)
    first = of_group[np.diff(group[of_group], prepend=-1) != 0]
    before = np.maximum(first - 1, 0)
    last = np.where(group[before] == group[first], before, first)  # its last offset tombstone, if it loses any
    pairs = np.unique((group * count + causes)[is_offset]) % max(count, 1)
    counted = (np.bincount(some, minlength=count).tolist() for some in (causes[is_offset], pairs, causes[last]))
    found = []
    for cause, offset_count, group_count, deleted_count in sorted(
        zip(coded.dictionary.to_pylist(), *counted, strict=True)
    ):
        if not (offset_count or deleted_count):
            continue  # only on group tombstones of groups that count for the cause of an offset
        rule = None if policy is None else entry_of(policy, cause)
        found.append(
            Losses(
                cause=cause,
                owner=rule.owner if rule else None,
                reason=rule.reason if rule else None,
                ticket=rule.ticket if rule else None,
                offsets=offset_count,
                groups=group_count,
                deleted_groups=deleted_count,
            )
        )
    return found


def _group_numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The number of each row's group, starting at 0; the rows of a group are adjacent."""
    names = rows["group_id"]
    changes = np.zeros(len(names), np.int64)
    changes[1:] = pc.not_equal(names.slice(1), names.slice(0, max(len(names) - 1, 0))).to_numpy()
    return np.cumsum(changes)


def joined_losses(parts: Sequence[Sequence[Losses]]) -> list[Losses]:
    """The losses of all parts, summed by cause."""
    found: dict[str, Losses] = {}
    for loss in (loss for part in parts for loss in part):
        known = found.get(loss.cause)
        names = ("offsets", "groups", "deleted_groups")
        sums = {name: getattr(known, name) + getattr(loss, name) for name in names} if known is not None else {}
        found[loss.cause] = loss.model_copy(update=sums)
    return [found[cause] for cause in sorted(found)]


def taken_by(losses: list[Losses]) -> dict[str, int]:
    """Owner of the rule -> number of removed offsets."""
    taken: dict[str, int] = {}
    for loss in losses:
        if loss.owner is not None:
            taken[loss.owner] = taken.get(loss.owner, 0) + loss.offsets
    return taken


def _group_rows(tombstones: pa.Table) -> pa.Table:
    return tombstones.filter(pc.invert(is_of_offset(tombstones)))


def shown_of(tombstones: pa.Table, undo: pa.Table, verdicts: pa.Table, at: pa.Array, groups: pa.Table) -> ShownGroups:
    """What the page shows of some tombstones. `undo` has a row for each offset tombstone, and `at` the row number of
    its verdict in `verdicts` (VERDICT). `groups` (GROUP) has a row for each group that loses offsets."""
    deleted = pc.unique(_group_rows(tombstones.select(_GROUP_OF))["group_id"])
    losing = pc.unique(undo["group_id"])
    bare = deleted.filter(pc.invert(pc.is_in(deleted, value_set=losing)))
    return ShownGroups(
        groups=_first_groups(tombstones, undo, verdicts, at, groups, deleted),
        groups_with_offsets=len(losing),
        bare=bare.slice(0, NAMES_SHOWN).to_pylist(),
        bare_count=len(bare),
    )


def _joined_shown(parts: Sequence[ShownGroups]) -> ShownGroups:
    return ShownGroups(
        groups=nsmallest(GROUPS_SHOWN, (one for part in parts for one in part.groups), key=_most_first),
        groups_with_offsets=sum(part.groups_with_offsets for part in parts),
        bare=[name for part in parts for name in part.bare][:NAMES_SHOWN],
        bare_count=sum(part.bare_count for part in parts),
    )


def _most_first(loss: GroupLoss) -> tuple[int, bytes]:
    return -loss.offsets, loss.group_id.encode()


def _first_groups(
    tombstones: pa.Table, undo: pa.Table, verdicts: pa.Table, at: pa.Array, groups: pa.Table, deleted: pa.Array
) -> list[GroupLoss]:
    """The groups that lose most offsets, in descending order of loss, then in the order of `undo`."""
    if not undo.num_rows:
        return []
    starts = np.flatnonzero(np.diff(_group_numbers(undo), prepend=-1))
    counts = np.diff(starts, append=undo.num_rows)
    largest = np.argsort(-counts, kind="stable")[:GROUPS_SHOWN]
    starts, counts = starts[largest], counts[largest]
    spans = list(zip(starts.tolist(), counts.tolist(), strict=True))
    shown = [np.arange(start, start + min(count, ROWS_SHOWN)) for start, count in spans]
    rows = pa.array(np.concatenate(shown))
    causes = tombstones["cause"].filter(is_of_offset(tombstones)).take(rows)
    each = zip(undo.take(rows).to_pylist(), verdicts.take(at.take(rows)).to_pylist(), causes.to_pylist(), strict=True)
    wanted = undo["group_id"].take(pa.array(starts)).combine_chunks()
    facts = {row["group_id"]: row for row in groups.filter(pc.is_in(groups["group_id"], value_set=wanted)).to_pylist()}
    gone = set(deleted.filter(pc.is_in(deleted, value_set=wanted)).to_pylist())
    return [
        GroupLoss(
            group_id=name,
            group_type=facts[name]["group_type"],
            state=facts[name]["state"],
            offsets=count,
            offset_count=facts[name]["offset_count"],
            is_deleted=name in gone,
            rows=[_loss(*one) for one in islice(each, min(count, ROWS_SHOWN))],
            command=_command(name, undo.slice(start, count), is_deleted=name in gone),
        )
        for name, (start, count) in zip(wanted.to_pylist(), spans, strict=True)
    ]


def kafka_commands(tombstones: pa.Table, most: int) -> Iterator[tuple[str, str | None]]:
    """The first `most` groups of planned tombstones, each with Kafka's own command for the same deletion."""
    is_offset = is_of_offset(tombstones)
    deleted = set(tombstones["group_id"].filter(pc.invert(is_offset)).to_pylist())
    offsets = tombstones.filter(is_offset)
    for name in pc.unique(tombstones["group_id"]).slice(0, most).to_pylist():
        own = offsets.filter(pc.equal(offsets["group_id"], name))
        yield name, _command(name, own, is_deleted=name in deleted)


def _command(group_id: str, offsets: pa.Table, *, is_deleted: bool) -> str | None:
    if is_deleted:
        return delete_group(group_id)
    if offsets.num_rows > TYPED_OFFSETS:
        return None
    return delete_offsets(group_id, zip(offsets["topic"].to_pylist(), offsets["partition"].to_pylist(), strict=True))


def _loss(value: dict[str, Any], verdict: dict[str, Any], cause: str) -> OffsetLoss:
    by = "policy" if cause.startswith("rule:") else "broker"
    return OffsetLoss(
        **{name: value[name] for name in ("topic", "partition", "committed_offset", "commit_timestamp_ms")},
        metadata=value["metadata"] or "",
        cause=cause,
        reason=verdict[f"{by}_reason"] or "",
        expires_at_ms=verdict[f"{by}_expires_at_ms"],
        orphan=verdict["orphan"],
    )


def _is_home(tombstones: pa.Table, shard: Shard) -> bool:
    """Whether all values that the tombstones remove are in the shard's log partition: no group is misplaced."""
    return pc.all(pc.equal(tombstones["target_log_partition"], shard.log_partition)).as_py() is not False


def _groups_of(folder: RunFolder, tombstones: pa.Table) -> pa.Table:
    """The groups of tombstones whose values are in several log partitions."""
    parts = sorted(set(tombstones["target_log_partition"].to_pylist()))
    return pa.concat_tables([folder.read_table("groups", part, list(GROUP)) for part in parts])


def _undo(
    folder: RunFolder, record: RunRecord, shard: Shard, planned: pa.Table, judged: pa.Table, held: pa.Table
) -> tuple[pa.Table, pa.Table, pa.Array]:
    """(values that the offset tombstones remove, in order; verdicts of all offsets: VERDICT, and the broker_verdict
    with the broker's own retention; the row of each tombstone's verdict in these verdicts)."""
    targets, rows = (np.asarray(planned[name]).copy() for name in ("target_log_partition", "target_row"))
    values, verdicts, before = [UNDO.empty_table()], [_VERDICTS.empty_table()], 0
    for part in np.unique(targets).tolist():  # several if a group is misplaced
        holder, own, offsets = shard, judged.select(_VERDICTS.names), held
        if part != shard.log_partition:
            holder = Shard(part)
            own, offsets = folder.read_table("offset_verdicts", holder, _VERDICTS.names), read_held(folder, holder)
        if record.broker_retention_ms not in (None, record.retention_ms):
            by_broker = record.model_copy(update={"retention_ms": record.broker_retention_ms})
            column = judge_offsets(folder, by_broker, holder)["broker_verdict"]
            own = own.set_column(own.column_names.index("broker_verdict"), "broker_verdict", column)
        values.append(offsets.select(UNDO.names).cast(UNDO))
        verdicts.append(own.cast(_VERDICTS))
        rows[targets == part] += before
        before += offsets.num_rows
    at = pa.array(rows, pa.int64())
    return pa.concat_tables(values).take(at), pa.concat_tables(verdicts), at


_VERDICTS = columns_of("offset_verdicts", [*VERDICT, "broker_verdict"])
