"""plan.html: who would lose what, for the person who approves it (templates.py makes pages safe).

The page shows the first rows of the groups that lose most; the plan's files have every row. The page uses no
clock: the same plan has the same page, and its hash is part of what is approved.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.batches import MAX_BATCH_BYTES
from sexton.plans.plan import Losses, PlanRecord
from sexton.plans.plan_content import PlanContent
from sexton.report import meanings
from sexton.report.arrow_counts import first_rows
from sexton.report.templates import render
from sexton.verdicts.expiry import is_of_offset

GROUPS_SHOWN = 100
ROWS_SHOWN = 5
NAMES_SHOWN = 60
PARTITIONS_SHOWN = 60
WARNINGS_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLoss:
    """An offset that would be deleted: its value and the reason. `expires_at_ms` is None if unknown."""

    topic: str
    partition: int
    committed_offset: int
    metadata: str
    commit_timestamp_ms: int
    cause: str
    reason: str
    expires_at_ms: int | None
    orphan: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoss:
    """A group that would lose `offsets` of its `offset_count`; `rows` are the first of them."""

    group_id: str
    group_type: str
    state: str
    offsets: int
    offset_count: int
    is_deleted: bool
    rows: list[OffsetLoss]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLoss:
    """The losses by the rules of one owner; None is the broker."""

    owner: str | None
    offsets: int
    deleted_groups: int


def render_plan(content: PlanContent) -> bytes:
    """The page of a plan, as HTML in UTF-8."""
    record = content.record
    deleted = _deleted(content.tombstones)
    shown = _first_groups(content, deleted)
    bare = deleted.filter(pc.invert(pc.is_in(deleted, value_set=pc.unique(content.undo["group_id"]))))
    html = render(
        "plan.html",
        p=record,
        status=_status(record),
        owners=owners_of(record.losses),
        groups=shown,
        groups_with_offsets=len(pc.unique(content.undo["group_id"])),
        bare=bare.slice(0, NAMES_SHOWN).to_pylist(),
        bare_count=len(bare),
        most_bytes=record.max_message_bytes or MAX_BATCH_BYTES,
        partitions=record.batches[:PARTITIONS_SHOWN],
        warnings=record.warnings[:WARNINGS_SHOWN],
        meanings=meanings,
    )
    return html.encode("utf-8")


def owners_of(losses: list[Losses]) -> list[OwnerLoss]:
    """The losses by the rules of each owner, the largest first."""
    sums: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
    for loss in losses:
        sums[loss.owner][0] += loss.offsets
        sums[loss.owner][1] += loss.deleted_groups
    found = [OwnerLoss(owner=owner, offsets=own[0], deleted_groups=own[1]) for owner, own in sums.items()]
    return sorted(found, key=lambda loss: (-loss.offsets, loss.owner or ""))


def _status(record: PlanRecord) -> tuple[str, str]:
    """(CSS class, label) of the plan's status."""
    if record.is_empty:
        return "good", "nothing to do"
    if record.is_what_if:
        return "bad", "a what-if: never applied"
    if record.over_limits:
        return "bad", "over its limits: never applied"
    return ("warn", "to be approved, with warnings") if record.warnings else ("good", "to be approved")


def _deleted(tombstones: pa.Table) -> pa.Array:
    """Ids of the groups deleted as a whole, in the plan's order."""
    of_groups = tombstones.filter(pc.invert(is_of_offset(tombstones)))
    return pc.unique(of_groups["group_id"])


def _first_groups(content: PlanContent, deleted: pa.Array) -> list[GroupLoss]:
    """Groups, the largest losses first, then by id."""
    undo = content.undo
    if not undo.num_rows:
        return []
    numbered = undo.select(["group_id"]).append_column("row", pa.array(np.arange(undo.num_rows)))
    sums = numbered.group_by("group_id").aggregate([([], "count_all"), ("row", "min")])
    order = [("count_all", "descending"), ("group_id", "ascending")]
    first = first_rows(sums, order, GROUPS_SHOWN)
    wanted = pa.array([row["group_id"] for row in first], pa.string())
    own = content.groups.filter(pc.is_in(content.groups["group_id"], value_set=wanted)).to_pylist()
    facts = {row["group_id"]: row for row in own}
    gone = set(deleted.filter(pc.is_in(deleted, value_set=wanted)).to_pylist())
    causes = _offset_causes(content)
    return [
        GroupLoss(
            group_id=row["group_id"],
            group_type=facts[row["group_id"]]["group_type"],
            state=facts[row["group_id"]]["state"],
            offsets=row["count_all"],
            offset_count=facts[row["group_id"]]["offset_count"],
            is_deleted=row["group_id"] in gone,
            rows=_first_rows(content, causes, row["row_min"], min(row["count_all"], ROWS_SHOWN)),
        )
        for row in first
    ]


def _offset_causes(content: PlanContent) -> pa.ChunkedArray:
    rows = content.tombstones
    return rows["cause"].filter(is_of_offset(rows))


def _first_rows(content: PlanContent, causes: pa.ChunkedArray, start: int, count: int) -> list[OffsetLoss]:
    """Rows of one group, which are adjacent in a plan."""
    values = content.undo.slice(start, count).to_pylist()
    verdicts = content.verdicts.slice(start, count).to_pylist()
    return [
        OffsetLoss(
            topic=value["topic"],
            partition=value["partition"],
            committed_offset=value["committed_offset"],
            metadata=value["metadata"] or "",
            commit_timestamp_ms=value["commit_timestamp_ms"],
            cause=cause,
            orphan=verdict["orphan"],
            **_why(cause, verdict),
        )
        for value, verdict, cause in zip(values, verdicts, causes.slice(start, count).to_pylist(), strict=True)
    ]


def _why(cause: str, verdict: dict[str, Any]) -> dict[str, Any]:
    by = "policy" if cause.startswith("rule:") else "broker"
    return {"reason": verdict[f"{by}_reason"] or "", "expires_at_ms": verdict[f"{by}_expires_at_ms"]}
