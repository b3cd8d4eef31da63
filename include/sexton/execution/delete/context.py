"""`DeleteContext`: the state of one attempt to apply a plan, which all modules of this package share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sexton.archive.looks_since import GroupThen
from sexton.execution.delete.group_calls import PlannedGroup
from sexton.execution.engine import ApplyContext
from sexton.execution.group_records import LogWatch
from sexton.ledger.entries import ItemId, Value
from sexton.plans.plan import Plan


@dataclass(slots=True, kw_only=True)
class DeleteContext(ApplyContext):
    """An attempt at a plan. `unsettled` are items with a call that had no answer: it may still be carried out.

    Of a plan by looks `then` has each of its groups as its look saw it, and `newer` the newer values that looks have
    seen since (None: of an open transaction, which no look shows). A call without an answer may still remove them.
    """

    plan: Plan
    groups: Sequence[PlannedGroup]
    max_batch_bytes: int
    unsettled: set[ItemId] = field(default_factory=set)
    then: Mapping[str, GroupThen] = field(default_factory=dict)
    newer: dict[ItemId, Value | None] = field(default_factory=dict)
    _watches: dict[int, LogWatch] = field(default_factory=dict)
    _positions: dict[int, int] = field(default_factory=dict)

    def watch(self, log_partition: int) -> LogWatch:
        """The tail of a log partition since the plan's cut, opened when it is first needed."""
        if log_partition not in self._watches:
            group_ids = {group.group_id for group in self.groups if group.log_partition == log_partition}
            cut = self.plan.record.cuts[log_partition]
            self._watches[log_partition] = LogWatch(self.client, log_partition, cut=cut, group_ids=group_ids)
        return self._watches[log_partition]

    def next_position(self, log_partition: int) -> int:
        """A position after those of the plan that no item has yet."""
        if log_partition not in self._positions:
            planned = sum(len(group.rows) for group in self.groups if group.log_partition == log_partition)
            used = [position for part, position in self.status.items if part == log_partition]
            self._positions[log_partition] = max([planned - 1, *used])
        self._positions[log_partition] += 1
        return self._positions[log_partition]
