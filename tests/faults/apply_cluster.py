"""A cluster in memory that plans are applied to: coordinators with a log, and everything that may happen meanwhile.

What a coordinator holds is what the rules of sexton.coordinator make of its log, record by record; what it answers to
a commit, a fetch and a describe is what sexton.coordinator.api says. OffsetDelete, DeleteGroups and the sweep are
played here as Kafka's coordinator does them: which checks, which tombstones, in one batch. Every record knows who wrote
it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from sexton.coordinator import loading, profiles
from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import describe_group
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.loading import Loaded, load
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError
from sexton.execution.kafka_admin import BrokerTime, ClusterIdentity, TopicPartition
from sexton.kafka.admin import GroupError, GroupNow
from sexton.kafka.admin_snapshot import GroupSnapshot
from sexton.kafka.failures import TransientError, Unsettled
from sexton.kafka.group_state import CommittedOffset, CommittedValue
from sexton.kafka.offset_transactions import ProducerIdentity
from sexton.kafka.tail import TailRecord, records_of
from sexton.log.batch import read_batches
from tests.log_builder import Entry, classic_fields, group_entry, offset_key, offset_value, subscription
from tests.log_encoding import encode_batch, encode_marker
from tests.plain_sweep import group_tombstones
from tests.record_fields import decode_key, decode_value

PROFILE = profiles.NEWEST
CAP_BYTES = 1 << 26
HOUR_MS = 3_600_000
START_MS = 1_800_000_000_000
US, OTHERS = "us", "others"
MAX_MESSAGE_BYTES = 1_048_588


@dataclass(frozen=True)
class Write:
    """A record of a log, and who had it written."""

    log_offset: int
    key: OffsetKey | None
    record_type: int
    value: Mapping[str, Any] | None
    by: str
    producer_id: int
    is_aborted: bool = False
    is_committed: bool = False


@dataclass
class SimLog:
    """One log partition with its coordinator."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    loaded: Loaded = field(default_factory=lambda: load([], cap_bytes=CAP_BYTES, profile=PROFILE))
    writes: list[Write] = field(default_factory=list)

    def append(
        self, entries: Sequence[Entry], *, by: str, now_ms: int, producer_id: int = -1, known: bool = True
    ) -> int:
        batch = encode_batch(
            entries, base_offset=self.end, timestamp_ms=now_ms, producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1, transactional=producer_id >= 0,
        )  # fmt: skip
        return self._take(batch, entries, by=by, producer_id=producer_id, known=known)

    def end_transaction(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        end = {"is_committed": True} if committed else {"is_aborted": True}
        self.writes = [
            replace(one, **end) if one.producer_id == producer_id and not one.is_committed else one
            for one in self.writes
        ]
        marker = encode_marker(
            committed, base_offset=self.end, timestamp_ms=now_ms, producer_id=producer_id, producer_epoch=0
        )
        self._take(marker, [], by=OTHERS, producer_id=producer_id, known=True)

    def _take(self, batch: bytes, entries: Sequence[Entry], *, by: str, producer_id: int, known: bool) -> int:
        base = self.end
        for at, (key, value) in enumerate(entries):
            record_type, fields = decode_key(key)
            about = (fields["group_id"], fields["topic"], fields["partition"]) if record_type <= 1 else None
            told = None if value is None else decode_value(1, value)[1] if record_type <= 1 else {}
            self.writes.append(Write(base + at, about, record_type, told, by, producer_id))
        self.batches.append(batch)
        (found_batch,) = read_batches(batch)
        if known:
            loading.replay_batch(self.loaded, found_batch, CAP_BYTES, False)
        self.end = found_batch.next_offset
        return base

    def reload(self) -> None:
        """Another coordinator loads the log: now it knows what went past the one before."""
        self.loaded = load(self.batches, cap_bytes=CAP_BYTES, profile=PROFILE)


@dataclass
class Faults:
    """How often which thing goes wrong, of a thousand calls."""

    interference: int = 150
    lost_before: int = 0
    lost_after: int = 0
    delayed: int = 0
    not_sent: int = 0
    loading: int = 0
    read_fails: int = 0
    denied: int = 0
    races: int = 0
    """Commits to what a deletion is about, in the very moment between its preflight check and its effect."""


class SimCluster:
    """The cluster and its clock, which every call moves on; also the AdminClient that applying is given."""

    def __init__(self, seed: int | str, *, log_partitions: int = 2, faults: Faults | None = None) -> None:
        self.rng = Random(seed)
        self.now_ms = START_MS
        self.skew_ms = 0
        self.cluster_id, self.topic_id = "sim", "AAAAAAAAAAAAAAAAAAAABQ"
        self.logs = [SimLog() for _ in range(log_partitions)]
        self.topics: dict[str, int] = {}
        self.faults = faults or Faults(interference=0)
        self.calls: list[str] = []
        self.max_message_bytes = MAX_MESSAGE_BYTES
        self.retention_ms: int | None = HOUR_MS
        self.between: Callable[[str], None] = lambda name: None
        self.hidden: set[TopicPartition] = set()
        """Offsets that admin snapshots may not see."""
        self.seen: dict[str, GroupSnapshot] = {}
        """The preflight check at each group."""
        self.snapshots_before: dict[tuple[str, int], GroupSnapshot] = {}
        """By group and log_offset of a tombstone of ours: the preflight check before it."""
        self._late: list[tuple[int, Callable[[], None]]] = []
        self._producers = 100
        self.takes_transactions = True
        self._ours: ProducerIdentity | None = None
        self._pended_in: int | None = None
        """The log partition where our transaction has something pending."""
        self._open: dict[int, int] = {}

    # --- what is there

    def log_of(self, group_id: str) -> SimLog:
        return self.logs[partition_of(group_id, len(self.logs))]

    @property
    def coordinator(self) -> Coordinator:
        shards = {
            number: CoordinatorShard(status=Status.ACTIVE, view=PlainView(log.loaded))
            for number, log in enumerate(self.logs)
        }
        return Coordinator(profile=PROFILE, partition_count=len(self.logs), shards=shards)

    def one(self, group_id: str) -> Coordinator:
        """The same with the shard of a group only, which is all that a question about it needs."""
        number = partition_of(group_id, len(self.logs))
        shard = CoordinatorShard(status=Status.ACTIVE, view=PlainView(self.logs[number].loaded))
        return Coordinator(profile=PROFILE, partition_count=len(self.logs), shards={number: shard})

    def group_ids(self) -> list[str]:
        return sorted(group_id for log in self.logs for group_id in log.loaded.groups.by_id)

    def offsets(self) -> dict[OffsetKey, tuple[int, int | None, str]]:
        """All that a client can fetch."""
        found = {}
        for group_id in self.group_ids():
            for one in fetch(self.one(group_id), group_id).offsets:
                found[group_id, one.topic, one.partition] = one.committed_offset, one.leader_epoch, one.metadata
        return found

    # --- what clients and coordinators do

    def commit(
        self, group_id: str, topic: str, partition: int, offset: int, *, producer_id: int = -1, **told: Any
    ) -> None:
        value = offset_value(offset, commit_timestamp_ms=self.broker_ms, **told)
        self.log_of(group_id).append(
            [(offset_key(group_id, topic, partition), value)], by=OTHERS, now_ms=self.broker_ms, producer_id=producer_id
        )
        if producer_id >= 0:
            self._open[producer_id] = partition_of(group_id, len(self.logs))

    def classic(self, group_id: str, *topics: str, members: int = 0, state_ms: int | None = None) -> None:
        told = [(f"m{number}", subscription(*topics)) for number in range(members)]
        state_ms = self.broker_ms if state_ms is None else state_ms
        entry = group_entry(2, group_id, classic_fields(*told, state_timestamp_ms=state_ms))
        self.log_of(group_id).append([entry], by=OTHERS, now_ms=self.broker_ms)

    def consumer(self, group_id: str, epoch: int = 1) -> None:
        """A group of the new protocol without members."""
        entries = [
            group_entry(3, group_id, {"epoch": epoch, "metadata_hash": 0}),
            group_entry(6, group_id, {"assignment_epoch": epoch, "assignment_timestamp": -1}),
        ]
        self.log_of(group_id).append(entries, by=OTHERS, now_ms=self.broker_ms)

    def end_transactions(self) -> None:
        for producer_id, number in list(self._open.items()):
            self.logs[number].end_transaction(producer_id, committed=self.rng.random() < 0.5, now_ms=self.broker_ms)
            del self._open[producer_id]

    def remove(self, group_id: str, partitions: Collection[TopicPartition], *, by: str) -> None:
        """Tombstones of what is committed or pending."""
        log = self.log_of(group_id)
        held = {(t, p) for g, t, p in (*log.loaded.offsets, *log.loaded.state.pending_keys()) if g == group_id}
        entries = [(offset_key(group_id, *key), None) for key in sorted(partitions) if key in held]
        if entries:
            base = log.append(entries, by=by, now_ms=self.broker_ms)
            if by == US and group_id in self.seen:
                self.snapshots_before |= {(group_id, base + at): self.seen[group_id] for at in range(len(entries))}

    def remove_group(self, group_id: str, *, by: str) -> None:
        log = self.log_of(group_id)
        held = {(t, p) for g, t, p in (*log.loaded.offsets, *log.loaded.state.pending_keys()) if g == group_id}
        entries: list[Entry] = [(offset_key(group_id, *key), None) for key in sorted(held)]
        entries += [(one.key, None) for one in group_tombstones(log.loaded.groups.by_id[group_id])]
        log.append(entries, by=by, now_ms=self.broker_ms)

    @property
    def broker_ms(self) -> int:
        return self.now_ms + self.skew_ms

    # --- what goes wrong

    def interfere(self, group_id: str | None = None) -> None:
        """Something happens to a group, mostly one that is asked about."""
        ids = self.group_ids()
        if not ids:
            return
        group_id = group_id if group_id in ids and self.rng.random() < 0.7 else self.rng.choice(ids)
        own = [(t, p) for g, t, p in self.log_of(group_id).loaded.offsets if g == group_id]
        known = [(t, p) for t, p in own if p < self.topics.get(t, 0)]
        group = self.log_of(group_id).loaded.groups.by_id[group_id]
        kind = self.rng.choice(
            ("commit", "commit", "same", "new", "pending", "marker", "join", "sweep", "admin", "reload")
        )
        if kind in ("commit", "same", "pending") and known and group.is_empty:
            topic, partition = self.rng.choice(known)
            there = self.log_of(group_id).loaded.offsets[group_id, topic, partition]
            offset = there.committed_offset if kind == "same" else there.committed_offset + self.rng.randint(1, 9)
            told = {"metadata": there.metadata} if kind == "same" else {}
            self._producers += kind == "pending"
            self.commit(
                group_id, topic, partition, offset, producer_id=self._producers if kind == "pending" else -1, **told
            )
        elif kind == "new" and group.is_empty:
            self.commit(group_id, "t0", self.rng.randrange(self.topics["t0"]), self.rng.randint(0, 99))
        elif kind == "marker":
            self.end_transactions()
        elif kind == "join" and group.group_type == "Classic":
            self.classic(group_id, "t0", members=1)
        elif kind == "sweep" and own and group.is_empty:
            self.remove(group_id, [self.rng.choice(own)], by=OTHERS)
        elif kind == "admin" and group.is_empty:
            self.remove_group(group_id, by=OTHERS)
        elif kind == "reload":
            self.log_of(group_id).reload()

    def commit_to(self, group_id: str, partitions: Collection[TopicPartition], *, producer_id: int = -1) -> None:
        """A client without a group commits to one of these, if it may."""
        may = [(t, p) for t, p in sorted(partitions) if p < self.topics.get(t, 0)]
        group = self.log_of(group_id).loaded.groups.by_id.get(group_id)
        if may and (group is None or group.is_empty):
            topic, partition = self.rng.choice(may)
            self.commit(group_id, topic, partition, 10_000 + self.rng.randint(0, 999), producer_id=producer_id)

    def _pass(self, name: str, group_id: str | None = None, *, is_read: bool) -> None:
        """The time between two calls of ours, in which everything happens."""
        self.calls.append(name)
        self.between(name)
        self.now_ms += self.rng.randint(1, 5)
        for due, effect in [one for one in self._late if one[0] <= self.now_ms]:
            self._late.remove((due, effect))
            effect()
        if self._hit(self.faults.interference):
            self.interfere(group_id)
        if is_read and self._hit(self.faults.read_fails):
            raise TransientError("no broker answers")

    def _hit(self, of_thousand: int) -> bool:
        return self.rng.randrange(1000) < of_thousand

    def _change(self, name: str, group_id: str, effect: Callable[[], Any], *, about: Collection[TopicPartition]) -> Any:
        """A call that changes something, and what may become of it on the way."""
        self._pass(name, group_id, is_read=False)
        if self._hit(self.faults.not_sent):
            raise TransientError("the coordinator is loading")
        if self._hit(self.faults.lost_before):
            raise Unsettled("no answer, nothing done")
        if self._hit(self.faults.delayed):

            def late() -> None:
                with suppress(BrokerError):  # nobody waits for the answer
                    effect()

            self._late.append((self.now_ms + self.rng.choice((10, 100, 1_000, 10_000, 45_000)), late))
            raise Unsettled("no answer, it will be done")
        if self._hit(self.faults.races):
            self._producers += 1
            is_pending = self.rng.random() < 0.2
            self.commit_to(group_id, about, producer_id=self._producers if is_pending else -1)
        answer = effect()
        if self._hit(self.faults.interference):
            self.interfere(group_id)
        if self._hit(self.faults.lost_after):
            raise Unsettled("no answer, it is done")
        return answer

    def drain(self) -> None:
        """All that is late happens now."""
        late, self._late = self._late, []
        for _, effect in late:
            effect()

    # --- AdminClient

    def identity(self, *, may_hide_log: bool = False) -> ClusterIdentity:
        self._pass("identity", is_read=True)
        return ClusterIdentity(
            cluster_id=self.cluster_id, topic_id=self.topic_id, partition_count=len(self.logs),
            max_message_bytes=self.max_message_bytes, retention_ms=self.retention_ms,
        )  # fmt: skip

    def broker_time(self) -> BrokerTime:
        self._pass("broker_time", is_read=True)
        return BrokerTime(at_least_ms=-1, now_ms=self.broker_ms)

    def tail(self, log_partition: int, *, from_log_offset: int) -> "SimTail":
        return SimTail(self, self.logs[log_partition], from_log_offset)

    def committed(self, group_id: str, *, require_stable: bool) -> dict[TopicPartition, CommittedOffset]:
        self._pass("committed", group_id, is_read=True)
        answer = fetch(self.one(group_id), group_id, require_stable=require_stable)
        return {
            (one.topic, one.partition): CommittedOffset(
                committed_offset=one.committed_offset,
                leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=int(one.error),
            )
            for one in answer.offsets
        }

    def group_now(self, group_id: str) -> GroupNow:
        self._pass("group_now", group_id, is_read=True)
        group = describe_group(self.one(group_id), group_id).group
        if group is None:
            return GroupNow(exists=False)
        return GroupNow(
            exists=True,
            group_type=group.group_type.lower(),
            state=group.state,
            protocol_type=group.protocol_type,
            member_count=group.member_count if group.group_type == "Classic" else None,
        )

    def snapshot(self, group_id: str, group_type: str, wanted: Collection[TopicPartition] = ()) -> GroupSnapshot:
        try:
            self._pass("snapshot", group_id, is_read=True)
            group = describe_group(self.one(group_id), group_id).group
            self._pass("look_offsets", group_id, is_read=True)
        except TransientError as error:
            return GroupSnapshot(group_id=group_id, group_type=group_type, error=error.message)
        plain, stable = (
            {
                (one.topic, one.partition): one
                for one in fetch(self.one(group_id), group_id, require_stable=is_stable).offsets
            }
            for is_stable in (False, True)
        )
        found = group if group is not None and group.group_type == group_type else None
        self.seen[group_id] = GroupSnapshot(
            group_id=group_id,
            group_type=group_type,
            state=None if found is None else found.state,
            protocol_type=None if found is None else found.protocol_type or None,
            group_epoch=None if found is None or group_type == "Classic" else found.generation,
            member_count=None if found is None else found.member_count,
            offsets={
                key: (one.committed_offset, one.leader_epoch, one.metadata)
                for key, one in plain.items()
                if key not in self.hidden
            },
            unstable=frozenset(key for key, one in stable.items() if int(one.error)),
            hidden={key: "TOPIC_AUTHORIZATION_FAILED" for key in wanted if key in self.hidden},
        )
        return self.seen[group_id]

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, str | None]:
        def effect() -> dict[TopicPartition, str | None]:
            if self._hit(self.faults.denied):
                raise GroupError("refused", error_name="GROUP_AUTHORIZATION_FAILED")
            group = self.log_of(group_id).loaded.groups.by_id.get(group_id)
            if group is None or group.group_type == "Share":
                raise GroupError("refused", error_name="GROUP_ID_NOT_FOUND")
            if group.group_type == "Classic" and not group.is_empty and group.protocol_type != "consumer":
                raise GroupError("refused", error_name="NON_EMPTY_GROUP")
            answers: dict[TopicPartition, str | None] = {}
            for topic, partition in partitions:
                if partition >= self.topics.get(topic, 0):
                    answers[topic, partition] = "UNKNOWN_TOPIC_OR_PARTITION"
                elif not group.is_empty and group.is_subscribed(topic):
                    answers[topic, partition] = "GROUP_SUBSCRIBED_TO_TOPIC"
                else:
                    answers[topic, partition] = None
            self.remove(group_id, [key for key, error in answers.items() if error is None], by=US)
            return answers

        return self._change("delete_offsets", group_id, effect, about=partitions)

    def delete_group(self, group_id: str) -> str | None:
        def effect() -> str | None:
            if self._hit(self.faults.denied):
                return "GROUP_AUTHORIZATION_FAILED"
            group = self.log_of(group_id).loaded.groups.by_id.get(group_id)
            if group is None:
                return "GROUP_ID_NOT_FOUND"
            if not group.is_empty:
                return "NON_EMPTY_GROUP"
            self.remove_group(group_id, by=US)
            return None

        own = [(t, p) for g, t, p in self.log_of(group_id).loaded.offsets if g == group_id]
        return self._change("delete_group", group_id, effect, about=[*own, ("t0", 0)])

    def begin_transactions(self, transactional_id: str) -> ProducerIdentity:
        self._pass("begin_transactions", is_read=True)
        if not self.takes_transactions:
            raise GroupError("refused", error_name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
        self._end_ours(committed=False)
        self._producers += 1
        self._ours = ProducerIdentity(transactional_id=transactional_id, producer_id=self._producers, producer_epoch=0)
        return self._ours

    def pend_offsets(
        self, producer: ProducerIdentity, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> dict[TopicPartition, str | None]:
        def effect() -> dict[TopicPartition, str | None]:
            if self._ours != producer:
                raise GroupError("refused", error_name="INVALID_PRODUCER_EPOCH")
            own = {"is_transactional": True, "api_version": 3, "producer_id": producer.producer_id}
            self._pended_in = partition_of(group_id, len(self.logs))
            return self._write(group_id, offsets, **own)

        return self._change("pend_offsets", group_id, effect, about=list(offsets))

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        def effect() -> None:
            if self._ours != producer:
                raise GroupError("refused", error_name="INVALID_PRODUCER_EPOCH")
            self._end_ours(committed=committed)

        self._change("end_transaction", "", effect, about=[])

    def _end_ours(self, *, committed: bool) -> None:
        if self._ours is not None and self._pended_in is not None:
            log, self._pended_in = self.logs[self._pended_in], None
            log.end_transaction(self._ours.producer_id, committed=committed, now_ms=self.broker_ms)

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> dict[TopicPartition, str | None]:
        return self._change("commit_offsets", group_id, lambda: self._write(group_id, offsets), about=list(offsets))

    def _write(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue], *, producer_id: int = -1, **own: Any
    ) -> dict[TopicPartition, str | None]:
        asked = tuple(
            CommitPartition(topic=topic, partition=partition, metadata=told[2])
            for (topic, partition), told in offsets.items()
        )
        commit = Commit(group_id=group_id, partitions=asked, producer_id=max(0, producer_id), **own)
        answers = validate_commit(self.one(group_id), commit, partition_counts=self.topics)
        entries = [
            (
                offset_key(group_id, *key),
                offset_value(
                    offsets[key][0],
                    leader_epoch=-1 if offsets[key][1] is None else offsets[key][1],
                    metadata=offsets[key][2],
                    commit_timestamp_ms=self.broker_ms,
                ),
            )
            for key, error in answers.items()
            if error.name == "NONE"
        ]
        if entries:
            self.log_of(group_id).append(entries, by=US, now_ms=self.broker_ms, producer_id=producer_id)
        return {key: None if error.name == "NONE" else error.name for key, error in answers.items()}

    def append_tombstones(self, log_partition: int, batches: bytes) -> int:
        def effect() -> int:
            entries = [(record.key, record.value) for record in records_of(batches)]
            return self.logs[log_partition].append(entries, by=US, now_ms=self.broker_ms, known=False)

        group_id = decode_key(records_of(batches)[0].key)[1]["group_id"]
        return self._change("append_tombstones", group_id, effect, about=[])


@dataclass
class SimTail:
    """Reads on, as TailReader does."""

    cluster: SimCluster
    log: SimLog
    log_offset: int

    def records(self) -> list[TailRecord]:
        self.cluster._pass("tail", is_read=True)
        data = b"".join(
            batch for batch in self.log.batches if next(iter(read_batches(batch))).next_offset > self.log_offset
        )
        found = [record for record in records_of(data) if record.log_offset >= self.log_offset]
        self.log_offset = self.log.end
        return found
