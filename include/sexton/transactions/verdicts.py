"""Whether an open transaction of the offsets log will end: joins its producer with the states of transactional ids.

A coordinator ends a transaction with a marker in every partition that its state lists. So a transaction in the offsets
log will end if its producer's state lists the log partition and is Prepare*, or Ongoing: then the timeout aborts it,
except for two-phase commit (KIP-939). Otherwise no marker will come, and the transaction hangs (KIP-664, KIP-890). This
is the rule of `kafka-transactions.sh find-hanging`; in addition it compares the producer's epoch, and it has no minimum
age of 15 minutes.

Instead of the age, the order of reading decides. The states must have been read after the offsets log, and must have
been written before the end of what was read of the offsets log: otherwise a transaction that ended or began in between
would seem to hang. Where a broker was asked afterwards (DescribeProducers), its answer decides instead of clocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sexton.as_text import MINUTE_MS
from sexton.coordinator.profile import Release
from sexton.topics import OFFSETS_TOPIC
from sexton.transactions.states import COMPLETING, ENDED, LoadedStates, TransactionalId, TransactionState

if TYPE_CHECKING:
    from sexton.kafka.replicas import ReplicaTransaction as OpenProducer

NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout of a transaction with two-phase commit."""
OVERDUE_MS = MINUTE_MS
"""How late the end of a transaction may be before it is overdue: coordinators check for timed-out transactions every
10 s, and send markers immediately."""
_BY_START_OFFSET: Release = (3, 0)
"""From this release on brokers identify a transaction to abort by its first log_offset."""

Producers = Mapping[int, "Sequence[OpenProducer]"]
"""The open transactions that leaders report (DescribeProducers), by log partition."""
Verdict = Literal["running", "completing", "hanging", "two_phase", "unknown"]
Reason = Literal[
    "ongoing",
    "markers_due",
    "no_timeout",
    "unknown_producer",
    "ended",
    "not_listed",
    "other_epoch",
    "not_read",
    "recent",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTransaction:
    """A producer with records in one log partition of the offsets topic, and no marker since.

    `offsets` are its pending offsets: group_id, topic, partition and committed_offset of each.
    """

    log_partition: int
    producer_id: int
    producer_epoch: int
    first_log_offset: int
    last_log_offset: int
    since_ms: int | None
    group_ids: Sequence[str]
    offsets: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class KnownStates:
    """The states of all transactional ids that could be read, at `read_at_ms`.

    `partition_count` is the number of partitions of `__transaction_state`; None where it is not known: then the verdict
    on every producer without a state is `unknown`.
    """

    partitions: Sequence[LoadedStates]
    partition_count: int | None
    read_at_ms: int

    @property
    def ids(self) -> Iterable[TransactionalId]:
        return (one for part in self.partitions for one in part.ids.values())

    @cached_property
    def _whole_partitions(self) -> set[int]:
        return {part.log_partition for part in self.partitions if part.is_whole}

    @cached_property
    def is_whole(self) -> bool:
        """Whether a producer without a state has no transaction."""
        return self.partition_count is not None and self._whole_partitions >= set(range(self.partition_count))

    def is_newest(self, transactional_id: TransactionalId) -> bool:
        """Whether the partition of the id was read completely, so that this state is the id's newest."""
        return transactional_id.log_partition in self._whole_partitions

    @cached_property
    def by_producer(self) -> Mapping[int, Sequence[TransactionalId]]:
        """The transactional ids by producer id: each by its current, its previous and its next producer id."""
        found: dict[int, list[TransactionalId]] = {}
        for one in self.ids:
            for producer_id in {one.producer_id, one.previous_producer_id, one.next_producer_id} - {None}:
                found.setdefault(producer_id, []).append(one)  # type: ignore[arg-type]  # None is taken out
        return found

    def coordinator_epoch(self, transactional_id: TransactionalId | None) -> int:
        """The epoch of the coordinator of an id, at least 0; without an id the highest epoch of all coordinators."""
        known = [
            part.leader_epoch
            for part in self.partitions
            if transactional_id is None or part.log_partition == transactional_id.log_partition
        ]
        return max([0, *known])


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An open transaction with its verdict.

    `start_offset` is its first log_offset; `is_confirmed` says that a broker reported the transaction as open, with
    this start. `ends_at_ms` is when its timeout aborts it. `is_overdue`: its coordinator should have ended it already.
    """

    transaction: OffsetsTransaction
    verdict: Verdict
    reason: Reason
    transactional_id: TransactionalId | None = None
    start_offset: int
    coordinator_epoch: int = 0
    ends_at_ms: int | None = None
    is_overdue: bool = False
    is_confirmed: bool = False

    def abort_arguments(self, release: Release | None = None) -> str | None:
        """Arguments of `kafka-transactions.sh` that end it on brokers of `release`; None unless it hangs."""
        if self.verdict != "hanging":
            return None
        one = self.transaction
        where = f"abort --topic {OFFSETS_TOPIC} --partition {one.log_partition}"
        if release is None or release >= _BY_START_OFFSET:
            return f"{where} --start-offset {self.start_offset}"
        producer = f"--producer-id {one.producer_id} --producer-epoch {one.producer_epoch}"
        return f"{where} {producer} --coordinator-epoch {self.coordinator_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionClocks:
    """What is known about clocks: everything that was written to the offsets log before `read_until_ms` was read; the
    clocks of brokers differ by less than `slack_ms`."""

    read_until_ms: int
    slack_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Every open transaction with its verdict. `ended` are the transactions that had ended when the brokers were asked,
    after the log was read."""

    judged: Sequence[Judged]
    ended: Sequence[OffsetsTransaction] = field(default=())

    def of(self, verdict: Verdict) -> list[Judged]:
        return [one for one in self.judged if one.verdict == verdict]


def judge_all(
    transactions: Iterable[OffsetsTransaction],
    states: KnownStates | None,
    clocks: TransactionClocks,
    *,
    producers: Producers | None = None,
) -> Judgement:
    """The verdict on each transaction: `unknown` without `states`.

    `producers` are brokers' answers from after the states were read; for a missing log partition there is no answer.
    """
    judged, ended = [], []
    for one in transactions:
        known = None if producers is None else producers.get(one.log_partition)
        same = (each for each in known or () if each.producer_id == one.producer_id)
        still = next((each for each in same if each.start_offset <= one.last_log_offset), None)
        if known is not None and still is None:
            ended.append(one)
        else:
            judged.append(_judge(one, states, clocks, still))
    return Judgement(judged=judged, ended=ended)


def _judge(
    one: OffsetsTransaction, states: KnownStates | None, clocks: TransactionClocks, still: "OpenProducer | None"
) -> Judged:
    unjudged = Judged(
        transaction=one,
        verdict="unknown",
        reason="not_read",
        start_offset=one.first_log_offset if still is None else still.start_offset,
        is_confirmed=still is not None,
    )
    if states is None:
        return unjudged
    found = states.by_producer.get(one.producer_id, ())
    active = [each for each in found if each.state not in ENDED and each.writes_to(OFFSETS_TOPIC, one.log_partition)]
    for each in active:
        if each.producer_id == one.producer_id and _ends(each, one.producer_epoch):
            return _expected(unjudged, each, now_ms=states.read_at_ms)
    newest = max([*active, *found], key=lambda each: (each in active, each.updated_at_ms), default=None)
    judged = replace(unjudged, transactional_id=newest, coordinator_epoch=states.coordinator_epoch(newest))
    is_read = states.is_whole if newest is None else states.is_newest(newest)
    if not is_read:
        return judged
    if still is None and not _is_settled(one, newest, states, clocks):
        return replace(judged, reason="recent")
    return replace(judged, verdict="hanging", reason=_why_hanging(newest, is_listed=bool(active)))


def _ends(transactional_id: TransactionalId, producer_epoch: int) -> bool:
    """Whether the markers of an id will end the transaction of a producer with `producer_epoch`.

    Ending a transaction may bump the epoch (KIP-890, or a fenced producer), and brokers accept markers with later
    epochs.
    """
    if transactional_id.state in COMPLETING:
        return producer_epoch <= transactional_id.producer_epoch
    return transactional_id.state == TransactionState.ONGOING and producer_epoch == transactional_id.producer_epoch


def _expected(judged: Judged, each: TransactionalId, *, now_ms: int) -> Judged:
    """The verdict on a transaction that is known to its coordinator."""
    judged = replace(judged, transactional_id=each)
    if each.state in COMPLETING:
        is_overdue = each.updated_at_ms + OVERDUE_MS < now_ms
        return replace(judged, verdict="completing", reason="markers_due", is_overdue=is_overdue)
    if each.timeout_ms == NO_TIMEOUT_MS:
        return replace(judged, verdict="two_phase", reason="no_timeout")
    ends_at_ms = (each.updated_at_ms if each.started_at_ms is None else each.started_at_ms) + each.timeout_ms
    is_overdue = ends_at_ms + OVERDUE_MS < now_ms
    return replace(judged, verdict="running", reason="ongoing", ends_at_ms=ends_at_ms, is_overdue=is_overdue)


def _is_settled(
    one: OffsetsTransaction, newest: TransactionalId | None, states: KnownStates, clocks: TransactionClocks
) -> bool:
    """Whether the states were read after the transaction began, and the state of its id (if any) was written before the
    end of what was read of the offsets log."""
    if one.since_ms is None or one.since_ms > states.read_at_ms - clocks.slack_ms:
        return False
    if newest is None:
        return True
    since_ms = newest.started_at_ms if newest.state == TransactionState.ONGOING else newest.updated_at_ms
    return since_ms is not None and since_ms <= clocks.read_until_ms - clocks.slack_ms


def _why_hanging(newest: TransactionalId | None, *, is_listed: bool) -> Reason:
    if newest is None:
        return "unknown_producer"
    if is_listed:
        return "other_epoch"
    return "ended" if newest.state in ENDED else "not_listed"
