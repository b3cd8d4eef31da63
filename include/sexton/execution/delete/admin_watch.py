"""`AdminWatch`: the watch for a plan made from admin snapshots, where the log cannot be read. It takes fresh snapshots.

If a group has changed since the plan's admin snapshot, the whole group is left alone. It has changed if it is not
Empty, has another group epoch or protocol type, has any offset with another value, or changed in any later admin
snapshot in the archive. A group without an answer is left alone, too.

Unlike the log, admin snapshots cannot show a commit between the preflight check and the call's effect. Such a commit is
deleted unseen, so nothing is put back here. That window is measured, and if a snapshot after the call shows that the
group was active, its items say so.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sexton.archive.snapshots_since import GroupThen
from sexton.execution.delete.context import Checks, Comparison, DeleteContext, Rows
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.engine import NO_ANSWER, Answer, Effects, Preflight, read_until_settled
from sexton.kafka.admin_snapshot import GroupSnapshot
from sexton.ledger.entries import ItemId, Result, Value
from sexton.plans.basis import Basis

WATCH_S = 1.0
NOT_FOUND = "GROUP_ID_NOT_FOUND"
NO_ANSWER_GONE = "a call had no answer, and an admin snapshot shows that it is gone"
OPEN_TRANSACTION = "a transaction that is open may change it"
_OF_GROUP = ("state", "protocol_type", "group_epoch", "member_count", "subscribed_topics")
_STILL_THERE = "the request timed out; the offset still exists"


@dataclass(slots=True)
class AdminWatch:
    """Watches groups with admin snapshots. `then` has each group of the plan as the plan's admin snapshot saw it.

    `newer` are newer values that admin snapshots have seen since (None: a pending value, which no admin snapshot
    shows): a call without an answer may still remove them. `last` has the admin snapshot of each group's last preflight
    check.
    """

    then: Mapping[str, GroupThen]
    basis: Basis
    newer: dict[ItemId, Value | None] = field(default_factory=dict)
    last: dict[str, GroupSnapshot] = field(default_factory=dict)

    def compare(self, context: DeleteContext, group: PlannedGroup, rows: Rows) -> Comparison:
        now = self._snapshot(context, group, rows)
        fresh, results = self._judge(context, group, rows, now)
        checks = {
            **self.basis.about,
            "group_type": now.group_type,
            "state": now.state,
            "members": now.member_count,
            "group_epoch": now.group_epoch,
            "offsets": len(now.offsets),
        }
        return Comparison(fresh=tuple(fresh), results=tuple(results), checks=checks)

    def preflight_check(self, context: DeleteContext, group: PlannedGroup, rows: Rows, _: Checks) -> Preflight:
        checked_ms = context.clocks.ticks_ms()  # before the request: a change during the answer is not seen
        now = self.last[group.group_id] = self._snapshot(context, group, rows)
        return checked_ms, self._judge(context, group, rows, now)[1]

    def effects(self, context: DeleteContext, group: PlannedGroup, rows: Rows, answer: Answer, _: Checks) -> Effects:
        return self._settled(context, group, rows, answer, self.last[group.group_id]), []

    def settle(self, context: DeleteContext, group: PlannedGroup, rows: Rows, _: Checks) -> Effects:
        return self._settled(context, group, rows, NO_ANSWER, None), []

    def wait(self, context: DeleteContext, *, until_ms: int) -> None:
        """Take snapshots until then: if a newer value was seen and is then gone, an unanswered call removed it."""
        while context.clocks.now_ms() < until_ms:
            for group in context.groups:
                if rows := _unsettled(context, group):
                    self._snapshot(context, group, rows)
            context.clocks.sleep(WATCH_S)

    def settle_late(self, context: DeleteContext, group: PlannedGroup) -> None:
        """Record the results of late calls: `raced` with the value, which `sexton restore --from-ledger` puts back."""
        if not (rows := _unsettled(context, group)):
            return
        now = self._snapshot(context, group, rows)
        late = {row.item_id: result for row in rows if (result := self._late(context, row, now)) is not None}
        if late:
            context.conclude(list(late.values()), beyond=[row.item for row in rows if row.item_id in late])

    def _snapshot(self, context: DeleteContext, group: PlannedGroup, rows: Rows) -> GroupSnapshot:
        then = self.then[group.group_id]
        now = context.client.snapshot(group.group_id, then.group_type, [row.topic_partition for row in rows])
        for row in rows:
            known = context.status.results.get(row.item_id)
            if known is not None and (known.found is not None or known.error == OPEN_TRANSACTION):
                self.newer.setdefault(row.item_id, known.found)  # seen by an earlier attempt
            if (found := _newer(row, now)) is not None:
                self.newer[row.item_id] = found
            elif row.topic_partition in now.unstable:
                self.newer.setdefault(row.item_id, None)
        return now

    def _gone_by_doubtful_call(self, row: PlannedRow) -> Result:
        """The result of a missing offset for which a call had no answer."""
        if row.item_id not in self.newer:
            return Result.of(row.item_id, "done", NO_ANSWER_GONE)
        newer = self.newer[row.item_id]
        if newer is None:
            return Result.of(row.item_id, "done", f"{NO_ANSWER_GONE}: a transaction was open that had committed to it")
        return Result.of(row.item_id, "raced", "a call that had no answer removed a newer commit", found=newer)

    def _judge(
        self, context: DeleteContext, group: PlannedGroup, rows: Rows, now: GroupSnapshot
    ) -> tuple[list[PlannedRow], list[Result]]:
        """The rows that are unchanged since the plan, and the results of the others."""
        if now.error is not None:
            why = f"its group cannot be read: {now.error}"
            return [], [Result.of(row.item_id, "refused", why) for row in rows]
        then = self.then[group.group_id]
        changed = then.changed or then.change(
            state=now.state,
            protocol_type=now.protocol_type,
            group_epoch=now.group_epoch,
            member_count=now.member_count,
            offsets=now.offsets,
        )
        fresh: list[PlannedRow] = []
        results: list[Result] = []
        for row in rows:
            key = row.topic_partition
            assert row.item.before is not None
            if key in now.hidden:
                results.append(Result.of(row.item_id, "refused", now.hidden[key]))
            elif key not in now.offsets and key not in now.unstable:
                if row.item_id in context.status.doubtful:
                    results.append(self._gone_by_doubtful_call(row))
                else:
                    results.append(Result.of(row.item_id, "gone", "already deleted, by a sweep or another client"))
            elif changed is not None:
                results.append(Result.of(row.item_id, "changed_since", changed, found=_newer(row, now)))
            elif key in now.unstable:
                results.append(Result.of(row.item_id, "changed_since", OPEN_TRANSACTION))
            elif now.offsets[key] != row.item.before.as_committed:
                why = "the committed offset has changed"
                results.append(Result.of(row.item_id, "changed_since", why, found=_newer(row, now)))
            else:
                fresh.append(row)
        return fresh, results

    def _settled(
        self, context: DeleteContext, group: PlannedGroup, rows: Rows, answer: Answer, before: GroupSnapshot | None
    ) -> list[Result]:
        """The results of a call, from snapshots after it; `unknown` only where no admin snapshot shows the outcome.

        `before` is the snapshot of the preflight check before the call, None where it is no longer known.
        """
        if not answer.was_sent:
            return [Result.of(row.item_id, "not_done", answer.whole) for row in rows]

        def read() -> list[Result]:
            now = self._snapshot(context, group, rows)
            if now.error is not None:
                why = f"the outcome of the call cannot be seen: {now.error}"
                return [Result.of(row.item_id, "unknown", why) for row in rows]
            active = None if before is None else _activity(before, now, planned={row.topic_partition for row in rows})
            return [self._result(row, answer, now, active) for row in rows]

        results = read_until_settled(context, answer, read)
        if answer.is_settled:
            return results
        context.unsettled |= {result.item_id for result in results if result.outcome != "done"}
        return [_not_done(result, answer) for result in results]

    def _result(self, row: PlannedRow, answer: Answer, now: GroupSnapshot, active: str | None) -> Result:
        key, error = row.topic_partition, answer.error_of(row.item_id)
        if key in now.hidden:
            return Result.of(row.item_id, "unknown", f"the outcome of the call cannot be seen: {now.hidden[key]}")
        is_gone = key not in now.offsets and key not in now.unstable
        newer = _newer(row, now)
        if not answer.is_settled:
            if is_gone:
                return self._gone_by_doubtful_call(row)
            if newer is not None:  # which the call may still remove
                why = "a newer offset is there: whether the one before it was removed cannot be seen"
                return Result.of(row.item_id, "not_done", f"no answer came, and {why}", found=newer)
            return Result.of(row.item_id, "unknown", _STILL_THERE)
        if error == NOT_FOUND:
            return Result.of(row.item_id, "gone", error)
        if error is not None:
            return Result.of(row.item_id, "refused", error)
        if is_gone:
            return Result.of(row.item_id, "done", active)
        if newer is not None:
            return Result.of(row.item_id, "done", "another offset was committed since", found=newer)
        # Committed again with the same value, or never deleted: in both cases it is not ours to delete any more.
        again = "the coordinator reported success, but an admin snapshot still shows it: left alone"
        return Result.of(row.item_id, "changed_since", again)

    def _late(self, context: DeleteContext, row: PlannedRow, now: GroupSnapshot) -> Result | None:
        """The result of a row after the watch; None where the known result stays."""
        known = context.status.results.get(row.item_id)
        if now.error is not None or row.topic_partition in now.hidden:
            return None
        if row.topic_partition in now.offsets or row.topic_partition in now.unstable:
            return None
        found = self._gone_by_doubtful_call(row)
        return None if known is not None and known.outcome in ("raced", found.outcome) else found


def _unsettled(context: DeleteContext, group: PlannedGroup) -> list[PlannedRow]:
    return [row for row in group.rows if row.item_id in context.unsettled]


def _not_done(result: Result, answer: Answer) -> Result:
    """`not_done` for an item that an unanswered call has not changed so far; the item is watched until the call cannot
    arrive any more."""
    if result.outcome != "unknown" or result.error != _STILL_THERE:
        return result
    return Result.of(result.item_id, "not_done", answer.whole or "no answer came")


def _activity(before: GroupSnapshot, now: GroupSnapshot, *, planned: Collection[tuple[str, int]]) -> str | None:
    """The evidence, in two admin snapshots around a call, that the group was active: a commit in between may be deleted
    as well."""
    if now.state is None:  # a group is gone without its last offset
        return None
    moved = [key for key, value in now.offsets.items() if key not in planned and before.offsets.get(key) != value]
    if not moved and all(getattr(now, name) == getattr(before, name) for name in _OF_GROUP):
        return None
    return "the group was active during the call: a commit in that moment may be deleted as well"


def _newer(row: PlannedRow, now: GroupSnapshot) -> Value | None:
    """The value of an offset, if it exists and differs from the plan's."""
    value = now.offsets.get(row.topic_partition)
    assert row.item.before is not None
    if value is None or value == row.item.before.as_committed:
        return None
    return Value(committed_offset=value[0], leader_epoch=value[1], metadata=value[2])
