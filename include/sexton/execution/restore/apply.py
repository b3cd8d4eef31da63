"""apply_restore: commit what a restore says, group by group, with a ledger entry before and after each call.

A step is one OffsetCommit for one group, without a member, as an administrator sends it. Its intent is written first;
then group, topics and offsets are looked at once more, and only what is still as the diff showed it is committed; then
the group's offsets and its log partition are read back, which tells for each offset whether it is done. An answer that
never came is settled in the same way. Whoever comes back after a crash settles first what was left open.

The API has no compare-and-set: a commit that reaches the coordinator between the last look and ours is replaced by
ours. Only a client without a group could send one, or a member that joins, commits and leaves in that time, for groups
with members are refused. It is found in the log, told as `raced`, and its value is in the ledger.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sexton.coordinator.api.view import TopicPartition
from sexton.errors import BrokerError, Refused
from sexton.execution.restore.judge import Judge
from sexton.execution.restore.keep import RestorePlan, positions
from sexton.execution.restore.make import judge_of
from sexton.execution.restore.port import GroupView, RestorePort, TopicView, Written
from sexton.execution.restore.rows import WRITTEN, OffsetValue, RestoreRow, Then, What
from sexton.kafka.session import TransientError, Unsettled
from sexton.ledger.entries import FINAL, Entry, Intent, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger, Told, told_of

SINK = "coordinator"
STEP_BYTES = 400_000
"""A commit's records go into one batch: far below the default of max.message.bytes."""
RECORD_OVERHEAD_BYTES = 96
LOOKS, LOOK_EVERY_S = 3, 1.0
"""So often a commit without an answer is looked for: it may be under way still."""
ALREADY = "it was there already"

Numbered = tuple[int, RestoreRow]
"""A row with its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSummary:
    """What came of a restore: `results` has every item, in order. `attempt` is 0 where there was nothing left to do.

    `windows_ms` are the times between the last look at a group's offsets and the answer to its commit, in order.
    """

    restore_id: str
    attempt: int
    results: list[tuple[RestoreRow, Result]]
    windows_ms: list[float] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many items ended in each outcome, by its name."""
        found: dict[str, int] = {}
        for _, result in self.results:
            found[result.outcome] = found.get(result.outcome, 0) + 1
        return dict(sorted(found.items()))

    @property
    def may_be_tried_again(self) -> bool:
        return any(result.outcome not in FINAL for _, result in self.results)


def apply_restore(
    port: RestorePort,
    plan: RestorePlan,
    ledger: Ledger,
    *,
    approved_by: str,
    now_ms: Callable[[], int],
    lease_ms: int,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[int, int], bool] = lambda _done, _total: True,
) -> RestoreSummary:
    """Carry out a restore, or what is left of it; what is done already is not done again.

    `progress` is told before each step how many items are behind and how many there are; it may end the attempt by
    answering False.

    Refused when the cluster is another one, or another attempt is at work. A broker that gives no answer ends the
    attempt with its BrokerError: the next one goes on from there.
    """
    if port.cluster_id != plan.cluster_id:
        raise Refused(f"the restore is of cluster {plan.cluster_id}, this is {port.cluster_id}")
    work = _Work(port, plan, ledger, now_ms=now_ms, sleep=sleep)
    work.read(ledger.entries())
    if work.is_over:
        return work.summary(attempt=0)
    about = {"source": plan.source, "overwrites": plan.overwrites, "clamps": plan.clamps}
    before = ledger.claim(
        at_ms=now_ms(),
        lease_ms=lease_ms,
        approved_by=approved_by,
        sink=SINK,
        plan_sha256=plan.restore_id,
        about={**about, "action": "restore"},
    )
    work.read(before)
    attempt = ledger.attempt
    try:
        work.settle()
        work.run(progress)
    except BrokerError:
        ledger.close(work.summary(attempt=attempt).counts(), at_ms=now_ms())
        raise
    summary = work.summary(attempt=attempt)
    ledger.close(summary.counts(), at_ms=now_ms())
    return summary


def is_done(ledger: Ledger, plan: RestorePlan) -> bool:
    """Whether a restore has been carried out as far as it ever will be."""
    latest = _latest(ledger.entries())
    return all(_is_final(latest.get((row.log_partition, position))) for position, row in positions(plan.items))


class _Work:
    """One attempt: what is known of each item, and the steps that are left."""

    def __init__(
        self,
        port: RestorePort,
        plan: RestorePlan,
        ledger: Ledger,
        *,
        now_ms: Callable[[], int],
        sleep: Callable[[float], None],
    ) -> None:
        self._port, self._plan, self._ledger = port, plan, ledger
        self._now_ms, self._sleep = now_ms, sleep
        self._judge: Judge = judge_of(port, overwrites=True, clamps=False)
        self._items = {(row.log_partition, position): row for position, row in positions(plan.items)}
        self._results: dict[tuple[int, int], Result] = {}
        self._windows_ms: list[float] = []
        self._step = 0
        self._open: list[Told] = []

    def read(self, entries: Sequence[Entry]) -> None:
        """Take in what attempts before have told."""
        self._results = _latest(entries)
        self._open = [told for told in told_of(entries) if told.is_open]

    @property
    def is_over(self) -> bool:
        """Whether every item has its final outcome, and nothing is left open."""
        return not self._open and not self.left()

    def left(self) -> list[Numbered]:
        """The items without a final outcome, in order."""
        return [
            (position, row)
            for (log_partition, position), row in self._items.items()
            if not _is_final(self._results.get((log_partition, position)))
        ]

    def summary(self, *, attempt: int) -> RestoreSummary:
        told = [
            (row, self._results.get(place) or _result(place, "not_done", error="not tried"))
            for place, row in self._items.items()
        ]
        return RestoreSummary(
            restore_id=self._plan.restore_id, attempt=attempt, results=told, windows_ms=self._windows_ms
        )

    def settle(self) -> None:
        """Tell by reading what came of the steps that earlier attempts left open."""
        for told in self._open:
            some = [(item.position, self._items[item.place]) for item in told.intent.items]
            results = self._read_back(some, since=told.intent.checks["log_end"], answered={})
            self._tell(told.intent.step, told.entry.attempt, results)
        self._open = []

    def run(self, progress: Callable[[int, int], bool]) -> None:
        """Commit what is left, step by step."""
        left = self.left()
        behind, total = len(self._items) - len(left), len(self._items)
        for _, own in groupby(left, key=lambda numbered: numbered[1].group_id):
            for some in _steps(own):
                if not progress(behind, total):
                    return
                self._step += 1
                self._do(some)
                behind += len(some)
        progress(behind, total)

    def _do(self, some: Sequence[Numbered]) -> None:
        """One step, from its intent to its outcome."""
        group_id, log_partition = some[0][1].group_id, some[0][1].log_partition
        log_end = self._port.log_end(log_partition)
        items = [_item(position, row) for position, row in some]
        checks: dict[str, Any] = {"log_end": log_end}
        self._ledger.intent(Intent(step=self._step, action="restore", items=items, checks=checks), at_ms=self._now_ms())
        topics = self._port.topics(sorted({row.topic for _, row in some}))
        view = self._port.group(group_id)
        results = self._check(some, view, topics)
        wanted = [(position, row) for position, row in some if (row.log_partition, position) not in results]
        window_ms = None
        if wanted:
            answered, why_not = self._commit(group_id, wanted)
            window_ms = (time.perf_counter() - view.looked_at_s) * 1000
            self._windows_ms.append(window_ms)
            if why_not is None:
                results |= self._settled(wanted, since=log_end, answered=answered)
            else:
                places = ((row.log_partition, position) for position, row in wanted)
                results |= {place: _result(place, "not_done", error=why_not) for place in places}
        self._tell(self._step, self._ledger.attempt, results, window_ms=window_ms)

    def _check(
        self, some: Iterable[Numbered], view: GroupView, topics: Mapping[str, TopicView]
    ) -> dict[tuple[int, int], Result]:
        """The results of items that are not to be committed: no longer what the diff showed, or refused."""
        some = list(some)
        wanted = {(row.topic, row.partition): _as_shown(row) for _, row in some}
        judged = {(row.topic, row.partition): row for row in self._judge.rows(view, wanted, topics)}
        found = {}
        for position, row in some:
            place, now = (row.log_partition, position), judged[row.topic, row.partition]
            if now.now == row.put:
                found[place] = _result(place, "changed_since", error=ALREADY, found=_value(now.now))
            elif now.now != row.now or now.what is What.TOPIC_RECREATED:
                found[place] = _result(place, "changed_since", error=_why(row, now), found=_value(now.now))
            elif now.what not in WRITTEN:
                found[place] = _result(place, "refused", error=now.error)
        return found

    def _commit(
        self, group_id: str, some: Sequence[Numbered]
    ) -> tuple[Mapping[TopicPartition, str | None] | None, str | None]:
        """The coordinator's answer, None where none came that tells; and why the commit was surely not made."""
        values = {(row.topic, row.partition): _put(row) for _, row in some}
        try:
            return self._port.commit(group_id, values), None
        except Unsettled:
            return None, None
        except TransientError as error:
            return None, error.message

    def _settled(
        self, some: Sequence[Numbered], *, since: int, answered: Mapping[TopicPartition, str | None] | None
    ) -> dict[tuple[int, int], Result]:
        """What came of a commit; one without an answer is looked for again, as it may be under way."""
        if answered is not None:
            return self._read_back(some, since=since, answered=answered)
        for look in range(LOOKS):
            if look:
                self._sleep(LOOK_EVERY_S)
            found = self._read_back(some, since=since, answered={})
            if all(result.outcome != "not_done" for result in found.values()):
                break
        return found

    def _read_back(
        self, some: Sequence[Numbered], *, since: int, answered: Mapping[TopicPartition, str | None]
    ) -> dict[tuple[int, int], Result]:
        """The results of items by what their group and its log partition say now."""
        group_id, log_partition = some[0][1].group_id, some[0][1].log_partition
        view = self._port.group(group_id)
        log: dict[TopicPartition, list[Written]] = {}
        for record in self._port.written(log_partition, group_id, since=since):
            log.setdefault(record.key, []).append(record)
        found = {}
        for position, row in some:
            key, place = (row.topic, row.partition), (row.log_partition, position)
            if (error := answered.get(key)) is not None:
                found[place] = _result(place, "refused", error=error)
            else:
                found[place] = _outcome(place, row, now=view.offsets.get(key), log=log.get(key, []))
        return found

    def _tell(
        self, step: int, of_attempt: int, results: Mapping[tuple[int, int], Result], *, window_ms: float | None = None
    ) -> None:
        self._results |= results
        body = StepOutcome(step=step, of_attempt=of_attempt, items=list(results.values()), window_ms=window_ms)
        self._ledger.outcome(body, at_ms=self._now_ms())


def _outcome(where: tuple[int, int], row: RestoreRow, *, now: OffsetValue | None, log: Sequence[Written]) -> Result:
    """What came of an item, by what its group has now and what was written of it since before the step."""
    at = next((index for index, record in enumerate(log) if record.value == row.put), None)
    if at is not None:
        own, earlier, later = log[at], log[:at], log[at + 1 :]
        if now == row.put or later:
            # What was there right before ours, if it came after the diff: what came and went is nothing that ours took.
            taken = earlier[-1].value if earlier and earlier[-1].value != row.now else None
            return _result(
                where,
                "done" if taken is None else "raced",
                found=_value(taken),
                written_log_offset=own.log_offset,
                written_timestamp_ms=own.timestamp_ms,
            )
        return _result(where, "not_done", error="it is in the log, and another value is served", found=_value(now))
    if now == row.now:
        return _result(where, "not_done", error="it is not in the log")
    return _result(where, "changed_since", error=ALREADY if now == row.put else _moved(row.now, now), found=_value(now))


def _latest(entries: Sequence[Entry]) -> dict[tuple[int, int], Result]:
    """What was told last of each item."""
    return {
        result.place: result for entry in entries if isinstance(entry.body, StepOutcome) for result in entry.body.items
    }


def _is_final(result: Result | None) -> bool:
    return result is not None and result.outcome in FINAL


def _steps(items: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """A group's items in pieces whose records surely fit a batch."""
    some: list[Numbered] = []
    size_bytes = 0
    for position, row in items:
        own = len(row.group_id.encode()) + len(row.topic.encode()) + len(_put(row).metadata.encode())
        if some and size_bytes + own + RECORD_OVERHEAD_BYTES > STEP_BYTES:
            yield some
            some, size_bytes = [], 0
        some.append((position, row))
        size_bytes += own + RECORD_OVERHEAD_BYTES
    if some:
        yield some


def _item(position: int, row: RestoreRow) -> Item:
    return Item(
        log_partition=row.log_partition,
        position=position,
        group_id=row.group_id,
        topic=row.topic,
        partition=row.partition,
        before=_value(row.now),
        after=_value(_put(row)),
    )


def _as_shown(row: RestoreRow) -> Then:
    """What is to be put, for the topic that the diff was made with."""
    return Then(value=_put(row), topic_id=row.now_topic_id)


def _put(row: RestoreRow) -> OffsetValue:
    assert row.put is not None
    return row.put


def _why(row: RestoreRow, now: RestoreRow) -> str:
    if now.what is What.TOPIC_RECREATED:
        return "the topic was made anew"
    return _moved(row.now, now.now)


def _moved(before: OffsetValue | None, after: OffsetValue | None) -> str:
    told = ["nothing" if value is None else str(value.committed_offset) for value in (before, after)]
    return f"{told[0]} when it was shown, now {told[1]}"


def _value(value: OffsetValue | None) -> Value | None:
    if value is None:
        return None
    return Value(committed_offset=value.committed_offset, leader_epoch=value.leader_epoch, metadata=value.metadata)


def _result(where: tuple[int, int], outcome: Any, **told: Any) -> Result:
    return Result(log_partition=where[0], position=where[1], outcome=outcome, **told)
