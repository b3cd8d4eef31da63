"""Shared types of this package: `DeleteContext`, the state of one attempt to apply a plan, and `Watch`, which finds out
how a group has changed since the plan was made, and what a call has done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sexton.execution.compare_and_set import OffsetWriter
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.engine import Answer, ApplyContext, Effects, Preflight
from sexton.execution.group_records import GroupTail
from sexton.ledger.entries import ItemId, Result
from sexton.plans.basis import Basis
from sexton.plans.plan import Plan

Rows = Sequence[PlannedRow]
Checks = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A group's rows compared with the cluster.

    `fresh` rows are unchanged. `ours` have a tombstone that a call of Sexton may have written. All others have a
    result. `checks` is recorded in the ledger.
    """

    fresh: tuple[PlannedRow, ...]
    results: tuple[Result, ...]
    checks: dict[str, Any]
    ours: tuple[PlannedRow, ...] = ()


class Watch(Protocol):
    """How an attempt observes the cluster, which depends on the basis of its plan. `checks` are those of a Comparison,
    as recorded in the ledger."""

    basis: Basis

    def compare(self, context: "DeleteContext", group: PlannedGroup, rows: Rows) -> Comparison:
        """Compare rows of a group with the cluster, before an intent."""

    def preflight_check(self, context: "DeleteContext", group: PlannedGroup, rows: Rows, checks: Checks) -> Preflight:
        """The preflight check, right before the call. A row that has changed since the comparison is not deleted."""

    def effects(
        self, context: "DeleteContext", group: PlannedGroup, rows: Rows, answer: Answer, checks: Checks
    ) -> Effects:
        """The effects of the call that followed the preflight check."""

    def settle(self, context: "DeleteContext", group: PlannedGroup, rows: Rows, checks: Checks) -> Effects:
        """The effects of a call whose process ended before it recorded an answer."""

    def wait(self, context: "DeleteContext", *, until_ms: int) -> None:
        """Wait until `until_ms`: before that, unanswered calls may still be carried out."""

    def settle_late(self, context: "DeleteContext", group: PlannedGroup) -> None:
        """Find out what earlier, abandoned calls did to a group, and record it."""


@dataclass(slots=True, kw_only=True)
class DeleteContext(ApplyContext):
    """An attempt at a plan. `unsettled` are items with an unanswered call, which may still be carried out."""

    plan: Plan
    watch: Watch
    groups: Sequence[PlannedGroup]
    max_batch_bytes: int
    writer: OffsetWriter = field(init=False)
    unsettled: set[ItemId] = field(default_factory=set)
    _tails: dict[int, GroupTail] = field(default_factory=dict)
    _positions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = OffsetWriter(context=self, plan_id=self.plan.record.plan_id)

    def tail(self, log_partition: int) -> GroupTail:
        """The tail of a log partition since the plan's cut, opened when it is first needed."""
        if log_partition not in self._tails:
            group_ids = {group.group_id for group in self.groups if group.log_partition == log_partition}
            cut = self.plan.record.cuts[log_partition]
            self._tails[log_partition] = GroupTail(self.client, log_partition, cut=cut, group_ids=group_ids)
        return self._tails[log_partition]

    def next_position(self, log_partition: int) -> int:
        """The next unused position after those of the plan, for an item that is not in the plan."""
        if log_partition not in self._positions:
            planned = sum(len(group.rows) for group in self.groups if group.log_partition == log_partition)
            used = [position for part, position in self.status.items if part == log_partition]
            self._positions[log_partition] = max([planned - 1, *used])
        self._positions[log_partition] += 1
        return self._positions[log_partition]
