"""Applies a restore: commits its values, group by group, one transaction without a member for each step.

Group, topics and offsets are checked again right before the transaction, and only offsets that are unchanged since the
diff are committed: a later commit is never replaced (compare_and_set). Then the group's offsets and its log partition
are read back.

Where the log is hidden (see the restore's basis) or the broker accepts no transaction from this principal, the step is
an OffsetCommit, and only for offsets that have no value now. It replaces a commit of a client that arrives after the
preflight check. The log shows such a commit: it is reported as `raced`, with its value in the ledger. Without the log
it goes unnoticed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from sexton.coordinator.api.view import TopicPartition
from sexton.coordinator.offsets import OffsetKey
from sexton.errors import BrokerError, LogError, Refused
from sexton.execution.compare_and_set import NO_LOG, OffsetWriter
from sexton.execution.engine import (
    NO_ANSWER,
    SETTLE_WAIT_S,
    Answer,
    ApplyContext,
    Clocks,
    Effects,
    Preflight,
    Progress,
    Step,
    attempt,
    execute_step,
    read_until_settled,
)
from sexton.execution.group_records import GroupRecord, Transactions, group_record
from sexton.execution.kafka_admin import ClusterIdentity, KafkaAdmin, TopicView
from sexton.execution.restore.diff import GroupView, Judge, group_view
from sexton.execution.restore.restore_plan import (
    KEPT,
    WRITTEN,
    OffsetValue,
    RestorePlan,
    RestoreRow,
    Then,
    What,
    positions,
)
from sexton.execution.standing_approval import APPROVAL_ID, IS_JOIN, PACED, Allowance
from sexton.execution.status import PlanStatus
from sexton.kafka.membership import PROTOCOLS
from sexton.kafka.tail import TailRecord
from sexton.ledger.entries import EMPTY_SINCE, FINAL, Item, ItemId, Result, Value
from sexton.ledger.ledger import Ledger
from sexton.policy.inputs import LAST_MS
from sexton.records import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value

SINK = "coordinator"
JOIN_TRIES = 8
"""How often to check for the end of a join: about 25 s, because brokers hold a new rebalance open for 3 s by
default."""
STEP_BYTES = 400_000
"""Limit of one commit's records, which are one batch: far below the default of max.message.bytes."""
RECORD_OVERHEAD_BYTES = 96
ALREADY = "it was there already"

Rows = Mapping[ItemId, RestoreRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSummary:
    """The result of a restore: `results` has every item, in order. `attempt` is 0 where nothing was left to do.

    `windows_ms` are the times between the preflight check of a group's offsets and the answer to its commit, in order.
    `warnings` are reasons why a newer commit may have been replaced.
    """

    restore_id: str
    attempt: int
    results: list[tuple[RestoreRow, Result]]
    windows_ms: list[float] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """The number of items by outcome."""
        return dict(sorted(Counter(str(result.outcome) for _, result in self.results).items()))

    @property
    def may_be_tried_again(self) -> bool:
        return any(result.outcome not in FINAL for _, result in self.results)


@dataclass(slots=True, kw_only=True)
class RestoreContext(ApplyContext):
    """An attempt at a restore. `rows` are its items, in order; `paced` are the items that the limits of a standing
    approval leave for later."""

    plan: RestorePlan
    identity: ClusterIdentity
    rows: Rows
    allowance: Allowance | None = None
    paced: set[ItemId] = field(default_factory=set)
    writer: OffsetWriter = field(init=False)
    swept: frozenset[OffsetKey] = field(init=False)

    def __post_init__(self) -> None:
        gone = (row.key for row in self.rows.values() if row.what not in KEPT)
        self.swept = frozenset(gone if self.plan.keeps else ())
        why = None if self.plan.basis.needs_log else NO_LOG
        self.writer = OffsetWriter(
            context=self, plan_id=self.plan.restore_id, plain_because=why, among_members=self.plan.keeps
        )

    @property
    def judge(self) -> Judge:
        return Judge(
            identity=self.identity,
            overwrites=True,
            clamps=False,
            keeps=self.plan.keeps,
            swept=self.swept,
            plain_because=self.writer.plain_because,
        )

    def left(self) -> Rows:
        """The items without a final outcome, in order."""
        return {item_id: row for item_id, row in self.rows.items() if not self.status.is_final(item_id)}


def apply_restore(
    client: KafkaAdmin,
    plan: RestorePlan,
    ledger: Ledger,
    *,
    approved_by: str,
    lease_ms: int,
    clocks: Clocks,
    progress: Progress = lambda _done, _total: True,
    allowance: Allowance | None = None,
) -> RestoreSummary:
    """Carry out a restore, or the rest of it, and return its summary; with an `allowance` only what it admits.

    Refused when the restore is for another cluster, or another attempt is running. If a broker does not answer, the
    attempt ends with a BrokerError and is closed: unlike a late deletion, a late commit does no harm, so the next
    attempt may begin immediately.
    """
    identity = client.identity(may_hide_log=not plan.basis.needs_log)
    if identity.cluster_id != plan.cluster_id:
        raise Refused(f"the restore is for cluster {plan.cluster_id}, this is {identity.cluster_id}")
    context = RestoreContext(
        client=client,
        ledger=ledger,
        clocks=clocks,
        status=PlanStatus.of(ledger.entries()),
        plan=plan,
        identity=identity,
        rows={(row.log_partition, position): row for position, row in positions(plan.items)},
        allowance=allowance,
    )
    if not context.status.open and not context.left() and not plan.left_alone:
        return _summary(context, attempt=0)
    action = "keep" if plan.keeps else "restore"
    about = {"source": plan.source, "overwrites": plan.overwrites, "clamps": plan.clamps, "action": action}
    about |= plan.basis.about
    about |= _approval(context)
    with attempt(
        context,
        counts=lambda: _summary(context, attempt=0).counts(),
        closes_on=(BrokerError, Refused),
        lease_ms=lease_ms,
        approved_by=approved_by,
        sink=SINK,
        plan_sha256=plan.restore_id,
        about=about,
    ):
        windows = len(context.status.windows_ms)
        _record_left_alone(context)
        if context.status.open or context.left():
            context.writer.begin()
        _settle_open(context)
        _commit_all(context, progress)
        return _summary(context, attempt=ledger.attempt, windows_ms=context.status.windows_ms[windows:])


def is_done(ledger: Ledger, plan: RestorePlan) -> bool:
    """Whether every item of a restore has a final outcome."""
    status = PlanStatus.of(ledger.entries())
    return all(status.is_final((row.log_partition, position)) for position, row in positions(plan.items))


def _summary(context: RestoreContext, *, attempt: int, windows_ms: Sequence[float] = ()) -> RestoreSummary:
    results = [
        (
            row,
            context.status.results.get(item_id)
            or Result.of(item_id, "not_done", PACED if item_id in context.paced else "not tried"),
        )
        for item_id, row in context.rows.items()
    ]
    return RestoreSummary(
        restore_id=context.plan.restore_id,
        attempt=attempt,
        results=results,
        windows_ms=list(windows_ms),
        warnings=context.writer.warnings if attempt else [],
    )


def _record_left_alone(context: RestoreContext) -> None:
    """Record which offsets cannot be kept, and why; no call is made for them."""
    items, left = context.plan.items, context.plan.left_alone
    places = [*positions([*items, *left])][len(items) :]
    rows = {(row.log_partition, position): row for position, row in places}
    if rows:
        results = [Result.of(item_id, "refused", _why(row)) for item_id, row in rows.items()]
        context.conclude(results, beyond=[_item(item_id, row, keeps=True) for item_id, row in rows.items()])


def _why(row: RestoreRow) -> str:
    if row.what is What.REFUSED and row.error is not None:
        return row.error
    return row.what.value if row.error is None else f"{row.what.value}: {row.error}"


def _settle_open(context: RestoreContext) -> None:
    """Read the effects of steps that earlier attempts left open."""
    for step in context.status.open:
        rows = {item.item_id: context.rows[item.item_id] for item in step.intent.items}
        since = step.intent.checks.get("log_offset")
        read = _joined if _is_join(rows) else _read
        results = read(context, rows, NO_ANSWER, since=since)
        context.conclude(_decided(results), step=step.intent.step, of_attempt=step.entry.attempt)


def _commit_all(context: RestoreContext, progress: Progress) -> None:
    """Commit the remaining items, step by step. Under a standing approval the offsets that expire first come first, and
    offsets that are already gone come last."""
    left, total, allowance = context.left(), len(context.rows), context.allowance
    done = total - len(left)
    kinds: dict[tuple[str, What | None], dict[ItemId, RestoreRow]] = {}
    for item_id, row in left.items():
        kinds.setdefault((row.group_id, _kind(row)), {})[item_id] = row
    steps = list(kinds.values())
    if allowance is not None:
        due_ms = allowance.due_ms
        steps.sort(key=lambda rows: min(due_ms.get(row.key, LAST_MS) for row in rows.values()))
    for of_group in steps:
        for chunk in _chunks(of_group.items()):
            if not progress(done, total):
                return
            rows = chunk if allowance is None else allowance.admit(chunk, is_join=_is_join(chunk))
            context.paced |= chunk.keys() - rows.keys()
            if rows:
                execute_step(context, _step(context, rows))
            done += len(chunk)
    progress(done, total)


def _chunks(items: Iterable[tuple[ItemId, RestoreRow]]) -> Iterator[Rows]:
    """A group's items in chunks whose records certainly fit in a batch."""
    rows: dict[ItemId, RestoreRow] = {}
    size_bytes = 0
    for item_id, row in items:
        own = len(row.group_id.encode()) + len(row.topic.encode()) + len(row.to_put.metadata.encode())
        if rows and size_bytes + own + RECORD_OVERHEAD_BYTES > STEP_BYTES:
            yield rows
            rows, size_bytes = {}, 0
        rows[item_id] = row
        size_bytes += own + RECORD_OVERHEAD_BYTES
    if rows:
        yield rows


def _step(context: RestoreContext, rows: Rows) -> Step:
    """One transaction for items of one group, or one join that keeps the items alive."""
    group_id, log_partition = _group(rows)
    is_join = _is_join(rows)
    since = context.client.log_end(log_partition) if context.plan.basis.needs_log else None
    protocol_type = ""

    def preflight() -> Preflight:
        nonlocal protocol_type
        if context.allowance is not None:
            context.allowance.check(now_ms=context.clocks.now_ms())
        topics = context.client.topics(sorted({row.topic for row in rows.values()}))
        wanted = {(row.topic, row.partition) for row in rows.values()}
        group = group_view(context.client, group_id, wanted, keeps=context.plan.keeps, ticks_ms=context.clocks.ticks_ms)
        protocol_type = group.protocol_type
        return group.checked_ms, _objections(context.judge, rows, group, topics)

    def call(left: Collection[ItemId]) -> Answer:
        if is_join:
            return Answer(whole=context.client.join_and_leave(group_id, protocol_type))
        put = {item_id: rows[item_id] for item_id in left}
        values = {item_id: ((row.topic, row.partition), row.to_put.as_committed) for item_id, row in put.items()}
        return context.writer.write(group_id, log_partition, values, since=since)

    def read_back(left: Collection[ItemId], answer: Answer) -> Effects:
        committed = {item_id: rows[item_id] for item_id in left}
        if is_join:
            return _joined(context, committed, answer, since=since), []
        context.writer.settle()
        if not answer.was_sent:
            return [Result.of(item_id, "not_done", answer.whole) for item_id, row in committed.items()], []
        results = read_until_settled(context, answer, lambda: _read(context, committed, answer, since=since))
        return _decided(results), []

    return Step(
        action="keep" if _kind(next(iter(rows.values()))) else "restore",
        items=[_item(item_id, row, keeps=context.plan.keeps) for item_id, row in rows.items()],
        checks={
            **(context.plan.basis.about if since is None else {"log_offset": since}),
            **context.writer.checks,
            **_approval(context),
            **({IS_JOIN: True, EMPTY_SINCE: next(iter(rows.values())).then.empty_since_ms} if is_join else {}),
        },
        preflight=preflight,
        call=call,
        read_back=read_back,
    )


def _objections(judge: Judge, rows: Rows, group: GroupView, topics: Mapping[str, TopicView]) -> list[Result]:
    """The results of items that must not be committed: changed since the diff, or refused."""
    # With the topic id that the diff saw: a topic that was recreated since must not get the value.
    wanted = {(row.topic, row.partition): Then(value=row.to_put, topic_id=row.now_topic_id) for row in rows.values()}
    judged = {(row.topic, row.partition): row for row in judge.rows(group, wanted, topics)}
    results = []
    for item_id, row in rows.items():
        now = judged[row.topic, row.partition]
        changed = None
        if now.now == row.put and row.what not in KEPT:
            changed = ALREADY
        elif now.what is What.TOPIC_RECREATED:
            changed = "the topic was recreated"
        elif now.now != row.now:
            changed = _moved(row.now, now.now)
        if changed is not None:
            results.append(Result.of(item_id, "changed_since", changed, found=_ledger_value(now.now)))
        elif now.what not in WRITTEN:
            results.append(Result.of(item_id, "refused", now.error))
        elif row.what in KEPT and now.what is not row.what:
            results.append(Result.of(item_id, "refused", "the group now has another type"))
    return results


def _joined(context: RestoreContext, rows: Rows, answer: Answer, *, since: int | None) -> list[Result]:
    """The result of a join: done once the log after `since` shows the group Empty again, with a protocol type."""
    group_id, log_partition = _group(rows)
    if answer.whole is not None and (answer.is_settled or not answer.was_sent):
        return [Result.of(item_id, "refused" if answer.was_sent else "not_done", answer.whole) for item_id in rows]
    assert since is not None
    tail = context.client.tail(log_partition, from_log_offset=since, topic_id=context.identity.topic_id)
    for number in range(JOIN_TRIES):
        for record in tail.records():
            if (at := _empty_again(record, group_id)) is not None:
                return [Result.of(item_id, "done", written=at) for item_id in rows]
        context.clocks.sleep(SETTLE_WAIT_S * 2**number)
    return [Result.of(item_id, "not_done", "the log does not have the group Empty again") for item_id in rows]


def _empty_again(record: TailRecord, group_id: str) -> tuple[int, int] | None:
    """The log_offset and the state timestamp of a record that made a classic group Empty; None for other records."""
    with suppress(LogError):
        record_type, key = (None, None) if record.is_control else decode_key(record.key or b"")
        if record_type is not None and isinstance(key, GroupMetadataKey) and key.group_id == group_id and record.value:
            _, value = decode_value(record_type, record.value)
            assert isinstance(value, GroupMetadataValue)
            if not value.members and value.protocol_type in PROTOCOLS:
                return record.log_offset, value.current_state_timestamp_ms
    return None


def _read(context: RestoreContext, rows: Rows, answer: Answer, *, since: int | None) -> list[Result]:
    """The results of committed items, from the current state of their group and its log partition; `unknown` if not
    done yet.

    Without `since`, from the group's state alone.
    """
    group_id, log_partition = _group(rows)
    group = group_view(context.client, group_id, (), ticks_ms=context.clocks.ticks_ms)
    written: dict[TopicPartition, list[GroupRecord]] = {}
    for record in () if since is None else _records(context, log_partition, group_id, since=since):
        written.setdefault(record.topic_partition, []).append(record)
    results = []
    for item_id, row in rows.items():
        key = row.topic, row.partition
        if (error := answer.error_of(item_id)) is not None and answer.is_settled:
            results.append(Result.of(item_id, "refused", error))
        elif since is None:
            results.append(_settled_outcome(item_id, row, group, answer))
        else:
            results.append(_outcome(item_id, row, now=group.offsets.get(key), written=written.get(key, [])))
    return results


def _records(context: RestoreContext, log_partition: int, group_id: str, *, since: int) -> Iterator[GroupRecord]:
    """The offset records of a group since a log_offset, without unreadable records and those of aborted transactions.

    A deletion must not miss a record (GroupTail). Here only records written by Sexton are searched.
    """
    tail = context.client.tail(log_partition, from_log_offset=since, topic_id=context.identity.topic_id)
    records, transactions = tail.records(), Transactions()
    for record in records:
        with suppress(LogError):
            transactions.take(record)
    for record in records:
        with suppress(LogError):
            found = group_record(record, (group_id,))
            if found is not None and found.is_offset and record.log_offset not in transactions.aborted:
                yield found


def _outcome(item_id: ItemId, row: RestoreRow, *, now: OffsetValue | None, written: Sequence[GroupRecord]) -> Result:
    """The result of an item, from the group's current value and the records since before the step."""
    values = [None if one.value is None else OffsetValue(*one.value.as_committed) for one in written]
    if row.put in values:
        at = values.index(row.put)
        if now != row.put and at == len(values) - 1:
            return Result.of(
                item_id, "unknown", "it is in the log, and another value is served", found=_ledger_value(now)
            )
        # Our commit replaced the value right before it. If the diff did not see that value, it is reported.
        taken = values[at - 1] if at and values[at - 1] != row.now else None
        ours = written[at].value
        assert ours is not None
        assert ours.commit_timestamp_ms is not None
        stamp = written[at].log_offset, ours.commit_timestamp_ms
        return Result.of(item_id, "done" if taken is None else "raced", written=stamp, found=_ledger_value(taken))
    if now == row.now:
        return Result.of(item_id, "unknown", "it is not in the log")
    return Result.of(
        item_id, "changed_since", ALREADY if now == row.put else _moved(row.now, now), found=_ledger_value(now)
    )


def _settled_outcome(item_id: ItemId, row: RestoreRow, group: GroupView, answer: Answer) -> Result:
    """The result of an item, from an admin snapshot alone."""
    now = group.offsets.get((row.topic, row.partition))
    if group.error is not None:
        return Result.of(item_id, "unknown", f"the outcome of the commits cannot be read: {group.error}")
    if now == row.put:
        return Result.of(item_id, "done")
    if answer.is_settled:
        return Result.of(item_id, "done", "another offset was committed since", found=_ledger_value(now))
    if now == row.now:
        return Result.of(item_id, "unknown", "an admin snapshot does not show it")
    return Result.of(item_id, "changed_since", _moved(row.now, now), found=_ledger_value(now))


def _decided(results: Iterable[Result]) -> list[Result]:
    """The results, with `not_done` for items that are still `unknown` after the last read."""
    return [
        result.model_copy(update={"outcome": "not_done"}) if result.outcome == "unknown" else result
        for result in results
    ]


def _group(rows: Rows) -> tuple[str, int]:
    row = next(iter(rows.values()))
    return row.group_id, row.log_partition


def _item(item_id: ItemId, row: RestoreRow, *, keeps: bool) -> Item:
    return Item(
        log_partition=item_id[0],
        position=item_id[1],
        group_id=row.group_id,
        topic=row.topic,
        partition=row.partition,
        before=_kept_value(row) if row.what in KEPT or row.put is None else _ledger_value(row.now),
        after=_kept_value(row) if keeps and row.put is not None else _ledger_value(row.put),
    )


def _kept_value(row: RestoreRow) -> Value:
    """The kept value for the ledger, with the timestamp of the client's commit, which the repeated commit hides."""
    value = _ledger_value(row.then.value)
    assert value is not None
    return value.model_copy(update={"commit_timestamp_ms": row.then.commit_timestamp_ms})


def _is_join(rows: Rows) -> bool:
    return next(iter(rows.values())).what is What.JOIN


def _approval(context: RestoreContext) -> dict[str, str]:
    """The standing approval for the ledger; empty where a person has approved this restore itself."""
    return {} if context.allowance is None else {APPROVAL_ID: context.allowance.approval_id}


def _kind(row: RestoreRow) -> What | None:
    """KEEP or JOIN for a row that is kept alive, None for one that is put back: a step has rows of one kind."""
    return row.what if row.what in KEPT else None


def _moved(before: OffsetValue | None, after: OffsetValue | None) -> str:
    was, now = ("nothing" if value is None else str(value.committed_offset) for value in (before, after))
    return f"{was} when it was shown, now {now}"


def _ledger_value(value: OffsetValue | None) -> Value | None:
    return None if value is None else Value(**asdict(value))
