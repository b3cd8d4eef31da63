"""Loads a log partition like a coordinator, record by record, with the rules of a profile.

Readable and slow: the oracle of kernels.loading, which has the same names. Follows CoordinatorLoaderImpl of Kafka 4.3,
GroupMetadataManager.doLoadGroupsAndOffsets up to 3.9 and OffsetManager.loadOffsetsFromLog of 0.8.2. A coordinator stops
at the first record that it cannot decode or replay; this replay continues, and `failures` has the positions and
reasons.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from sexton.as_text import HOUR_MS
from sexton.coordinator import decoding, profiles
from sexton.coordinator.decoding import DecodedGroup, DecodedOffset, Undecodable, UnknownType
from sexton.coordinator.endless_load import NEVER_ENDS, Endless, is_too_large
from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.offsets import OffsetKey, Offsets, OpenTransaction, StoredOffset
from sexton.coordinator.profile import LEADERSHIP_LOST, LOADED, AfterFailure, PendingRule, Profile
from sexton.errors import LogError, TransitionError
from sexton.log.batch import (
    OUT_OF_ORDER_BATCH,
    BadRecord,
    Batch,
    Damage,
    Record,
    TornTail,
    batch_in,
    marker_of,
    read_batches,
    read_records,
)
from sexton.log.entry import MAX_BAD_RECORDS, NO_PRODUCER_ID

FUTURE_MS = HOUR_MS
"""A timestamp that is further after the snapshot than this cannot be the time of the write."""

GROUP_REMOVED, SHARE_GROUP, MISPLACED, UNDETERMINED = "group_removed", "share_group", "misplaced", "undetermined"
HOLDS_NOTHING = frozenset({AfterFailure.NOTHING.value, AfterFailure.EMPTY.value, NEVER_ENDS})
"""Outcomes of a load that leave nothing in memory: nothing of the log partition is served, listed or expired.

So the log partition is excluded from summaries, lists, metrics and differences. Tables keep its decoded rows, which
load_profile.load_outcome identifies.
"""
HOT_GROUPS = 5
"""How many groups are named, those with the most commits."""


@dataclass(slots=True, kw_only=True)
class Loaded:
    """A log partition as a coordinator holds it after loading it up to `cut`.

    `counters`: bytes, batches, records (those of control batches too), control_records, tombstones (of every type that
    the coordinator replays), read_values, largest_batch_bytes, future_batches. `cut` is the log_offset where reading
    stopped: the base offset of the first batch at or after as_of, or the end of the log.
    """

    profile: Profile
    groups: Groups
    state: Offsets
    undecodable: list[Undecodable] = field(default_factory=list)
    """The first undecodable rows (decoding.is_kept); counters["undecodable_records"] and ["undecodable_values"] count
    all."""
    failures: list[str] = field(default_factory=list)
    """Positions and reasons of the first failures, at most decoding.MAX_UNDECODABLE."""
    load_buffer_bytes: int | None = None
    endless: Endless | None = None
    """Where the load never ends; None where it ends, with or without a failure."""
    counters: Counter[str] = field(default_factory=Counter)
    unknown_types: Counter[int] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)
    """Offset values by group."""
    first_log_offset: int | None = None
    next_log_offset: int = 0
    max_timestamp_ms: int = -1
    max_commit_timestamp_ms: int = -1
    cut: int = 0
    leadership_lost: bool = False
    gone: Container[int] = frozenset()
    """Log offsets of records that are skipped because a cleaner removes them (coordinator.cleaning)."""
    _live_group_records: dict[bytes, bool] = field(default_factory=dict)

    @property
    def offsets(self) -> Mapping[OffsetKey, StoredOffset]:
        """Every committed offset, including those that no client can fetch."""
        return self.state.committed

    @property
    def pending(self) -> Mapping[int, Mapping[OffsetKey, StoredOffset]]:
        """Pending offsets by producer id; a producer whose every entry was cancelled may have an empty mapping."""
        return self.state.pending

    @property
    def open_transactions(self) -> Mapping[int, OpenTransaction]:
        """By producer id, the transactions with an offset value and no marker since."""
        return self.state.open_transactions

    @property
    def load_would_fail(self) -> bool:
        return self.endless is not None or bool(self.failures)

    @property
    def load_failure(self) -> str | None:
        """Why the load fails or never ends; None if it succeeds."""
        if self.endless is not None:
            return self.endless.text(self.counters["largest_batch_bytes"])
        return self.failures[0] if self.failures else None

    @property
    def load_outcome(self) -> str:
        """What a coordinator serves after the load: LOADED, a value of AfterFailure, LEADERSHIP_LOST or NEVER_ENDS."""
        if self.endless is not None:
            return NEVER_ENDS
        if self.leadership_lost:
            return LEADERSHIP_LOST
        return self.profile.after_failure.value if self.failures else LOADED

    @property
    def holds_nothing(self) -> bool:
        """Whether a coordinator has nothing in memory after the load, which fails or never ends."""
        return self.load_outcome in HOLDS_NOTHING

    @property
    def live_record_count(self) -> int:
        """Records that a perfect compaction would keep, without markers and tombstones."""
        pending = sum(len(entries) for entries in self.pending.values())
        return len(self.offsets) + pending + sum(self._live_group_records.values())


def load(
    chunks: Iterable[bytes],
    *,
    cap_bytes: int,
    profile: Profile = profiles.NEWEST,
    as_of_ms: int | None = None,
    taken_at_ms: int | None = None,
    stops_at_failure: bool = False,
    load_buffer_bytes: int | None = None,
    replays_out_of_order: bool = False,
    leads_until: int | None = None,
    gone: Container[int] = frozenset(),
) -> Loaded:
    """Replay the segments of one log partition, given in log order, as a coordinator does when it becomes leader.

    With `as_of_ms`, reading stops before the first batch whose largest timestamp is at or after that instant; batches
    stamped more than an hour after `taken_at_ms` do not stop it, and are counted. With `stops_at_failure`, reading
    stops at the first failure, as a coordinator does. With `load_buffer_bytes`, `endless` has the batch that an older
    coordinator could not read with a buffer of that size; the batch is replayed all the same. With
    `replays_out_of_order`, a batch whose base offset contradicts its neighbours is replayed in place, because a
    coordinator does not compare them; it is still reported. With `leads_until`, the broker loses the leadership before
    it reads the first batch at or after that log_offset. `gone` are log offsets of records that a cleaner has removed
    before the load.
    """
    loaded = _nothing_loaded(profile, load_buffer_bytes)
    loaded.gone = gone
    cut = _read(loaded, chunks, cap_bytes, as_of_ms, taken_at_ms, stops_at_failure, replays_out_of_order, leads_until)
    if cut < 0:
        loaded = _nothing_loaded(profile, load_buffer_bytes)
        note_damage(loaded, decoding.negative_end(cut))
    loaded.cut = max(cut, 0)
    held = {*loaded.offsets, *loaded.state.pending_keys()}
    loaded.groups.complete({group_id for group_id, _, _ in held})
    loaded.failures += loaded.groups.loading_failures()
    return loaded


def _nothing_loaded(profile: Profile, load_buffer_bytes: int | None) -> Loaded:
    return Loaded(
        profile=profile,
        groups=profiles.new_groups(profile),
        state=profiles.new_offsets(profile),
        load_buffer_bytes=load_buffer_bytes,
    )


def _read(
    loaded: Loaded,
    chunks: Iterable[bytes],
    cap_bytes: int,
    as_of_ms: int | None,
    taken_at_ms: int | None,
    stops_at_failure: bool,
    replays_out_of_order: bool,
    leads_until: int | None,
) -> int:
    """Replay the chunks; returns the log_offset where reading stopped."""
    torn_bytes = 0
    for chunk in chunks:
        for found in read_batches(chunk):
            if stops_at_failure and loaded.failures:
                return loaded.next_log_offset
            if torn_bytes and not isinstance(found, TornTail):
                note_damage(loaded, decoding.torn_segment(torn_bytes))
                torn_bytes = 0
            match found:
                case TornTail():
                    is_zeros = not any(chunk[found.position : found.position + found.size_bytes])
                    torn_bytes = decoding.torn_bytes(found.size_bytes, is_zeros=is_zeros) or torn_bytes
                case Damage():
                    note_damage(loaded, decoding.damage(found))
                    if replays_out_of_order and found.reason == OUT_OF_ORDER_BATCH:
                        lying = batch_in(chunk, found)
                        if is_past(loaded, lying, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms):
                            return loaded.next_log_offset
                        replay_batch(loaded, lying, cap_bytes, stops_at_failure)
                case Batch():
                    if leads_until is not None and found.base_offset >= leads_until and not loaded.load_would_fail:
                        _lose_leadership(loaded, found.base_offset)
                        return found.base_offset
                    if is_past(loaded, found, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms):
                        return found.base_offset
                    replay_batch(loaded, found, cap_bytes, stops_at_failure)
    return loaded.next_log_offset


def _lose_leadership(loaded: Loaded, log_offset: int) -> None:
    """From now on the broker takes -1 for the log end offset.

    Up to 3.9 the loop then ends as at the end of the log, and the records read so far are installed
    (doLoadGroupsAndOffsets; 0.8.2: OffsetManager.loadOffsets); in 4.x the load fails (CoordinatorLoaderImpl).
    """
    if loaded.profile.is_java:
        _fail(loaded, f"log_offset {log_offset}: the broker no longer leads the log partition")
    else:
        loaded.leadership_lost = True


def is_past(loaded: Loaded, batch: Batch, *, as_of_ms: int | None, taken_at_ms: int | None) -> bool:
    """Whether reading stops before `batch`; counts timestamps in the future, which are ignored."""
    if taken_at_ms is not None and batch.max_timestamp_ms > taken_at_ms + FUTURE_MS:
        loaded.counters["future_batches"] += 1
        return False
    if as_of_ms is not None and batch.max_timestamp_ms >= as_of_ms:
        return True
    loaded.max_timestamp_ms = max(loaded.max_timestamp_ms, batch.max_timestamp_ms)
    return False


def replay_batch(loaded: Loaded, batch: Batch, cap_bytes: int, stops_at_failure: bool) -> None:
    counters = loaded.counters
    counters["batches"] += 1
    counters["bytes"] += batch.size_bytes
    counters["largest_batch_bytes"] = max(counters["largest_batch_bytes"], batch.size_bytes)
    if loaded.first_log_offset is None:
        loaded.first_log_offset = batch.base_offset
    loaded.next_log_offset = batch.next_offset
    _watch_size(loaded, batch)
    if not batch.crc_ok:
        note_damage(loaded, decoding.bad_crc(batch))
    if batch.magic > loaded.profile.newest_format:
        note_damage(loaded, decoding.unread_format(batch))
        return
    if batch.is_control and batch.record_count == 0 and loaded.profile.empty_control_batch_fails:
        note_damage(loaded, decoding.empty_control_batch(batch))
    bad = 0
    for index, record in enumerate(read_records(batch, cap_bytes=cap_bytes)):
        if stops_at_failure and loaded.failures:
            return
        if bad == MAX_BAD_RECORDS:
            note_damage(loaded, decoding.rest_of_batch(batch, index=index, profile=loaded.profile))
            return
        if isinstance(record, BadRecord):
            note_damage(loaded, decoding.bad_record(batch, record, index=index, profile=loaded.profile))
            bad += 1
            continue
        if record.log_offset in loaded.gone:
            continue
        counters["records"] += 1
        if batch.is_control:
            counters["control_records"] += 1
            if (
                index == 0 or loaded.profile.pending_rule is PendingRule.WITH_PRODUCER_ID
            ):  # Scala reads the first one only
                bad += _replay_marker(loaded, batch, record)
        else:
            bad += replay_record(loaded, batch, record)


def _watch_size(loaded: Loaded, batch: Batch) -> None:
    """Record the first batch at which the load never ends, unless the load has failed before that."""
    limit = loaded.load_buffer_bytes
    is_first = loaded.endless is None and not loaded.failures
    if is_first and is_too_large(batch.size_bytes, buffer_bytes=limit, profile=loaded.profile):
        assert limit is not None
        loaded.endless = Endless(log_offset=batch.base_offset, batch_bytes=batch.size_bytes, buffer_bytes=limit)


def _replay_marker(loaded: Loaded, batch: Batch, record: Record) -> bool:
    """End the transaction of the batch's producer; returns whether the record is bad.

    A 4.x coordinator ignores control records of other types; up to 3.9 any type but COMMIT acts like ABORT.
    """
    try:
        marker = marker_of(record)
    except LogError as error:
        note_damage(loaded, decoding.undecodable(record, error.reason, error.detail, base_offset=batch.base_offset))
        return True
    if marker is None and loaded.profile.pending_rule is PendingRule.IF_TRANSACTIONAL:
        marker = "ABORT"
    if marker is not None:
        loaded.state.end_transaction(batch.producer_id, marker)
    return False


def replay_record(loaded: Loaded, batch: Batch, record: Record) -> bool:
    """Replay a record of a data batch; returns whether it counts as a bad record."""
    found = decoding.decode(record, base_offset=batch.base_offset, profile=loaded.profile)
    match found:
        case UnknownType():
            loaded.unknown_types[found.record_type] += 1
        case Undecodable():
            loaded.counters["read_values"] += found.is_offset_value
            note_damage(loaded, found)
            return decoding.counts_in_batch(found, loaded.profile)
        case DecodedOffset():
            loaded.counters["tombstones"] += found.value is None
            _replay_offset(loaded, batch, record, found)
        case DecodedGroup():
            loaded.counters["tombstones"] += found.value is None
            _replay_group(loaded, batch, record, found)
    return False


def _is_pending(profile: Profile, batch: Batch) -> bool:
    """Whether the offset values of `batch` are pending until a marker of its producer."""
    if profile.pending_rule is PendingRule.WITH_PRODUCER_ID:
        return batch.producer_id != NO_PRODUCER_ID
    return profile.pending_rule is PendingRule.IF_TRANSACTIONAL and batch.is_transactional


def _replay_offset(loaded: Loaded, batch: Batch, record: Record, decoded: DecodedOffset) -> None:
    key = (decoded.key.group_id, decoded.key.topic, decoded.key.partition)
    is_pending = _is_pending(loaded.profile, batch)
    if decoded.value is None:
        loaded.state.remove(key, only_of=batch.producer_id if is_pending else None)
        return
    loaded.commits[key[0]] += 1
    loaded.max_commit_timestamp_ms = max(loaded.max_commit_timestamp_ms, decoded.value.commit_timestamp_ms)
    loaded.counters["read_values"] += 1
    loaded.groups.ensure_simple_group(key[0])
    loaded.state.put(
        key,
        StoredOffset.from_value(
            decoded.value,
            log_offset=record.log_offset,
            producer_id=batch.producer_id,
            keeps_expire_of_minus_1=loaded.profile.keeps_expire_of_minus_1 and decoded.version == 1,
            reads_topic_id=loaded.profile.reads_topic_ids,
        ),
        producer_epoch=batch.producer_epoch,
        timestamp_ms=record.timestamp_ms,
        is_pending=is_pending,
    )


def _replay_group(loaded: Loaded, batch: Batch, record: Record, decoded: DecodedGroup) -> None:
    assert record.key is not None, "a decoded record has a key"
    try:
        loaded.groups.replay(decoded.record_type, decoded.key, decoded.value, log_offset=record.log_offset)
    except TransitionError as error:
        _fail(loaded, f"log_offset {record.log_offset}: {error}")
    except LogError as error:
        record_type = decoded.record_type
        note_damage(
            loaded,
            decoding.undecodable(
                record, error.reason, error.detail, base_offset=batch.base_offset, record_type=record_type
            ),
        )
    else:
        loaded._live_group_records[record.key] = decoded.value is not None


def note_damage(loaded: Loaded, row: Undecodable) -> None:
    loaded.counters["undecodable_records"] += 1
    loaded.counters["undecodable_values"] += row.is_offset_value
    if decoding.is_kept(row, loaded.undecodable, count=len(loaded.undecodable)):
        loaded.undecodable.append(decoding.shortened(row, len(loaded.undecodable)))
    if row.fails_load:
        _fail(loaded, str(row))


def _fail(loaded: Loaded, what: str) -> None:
    if len(loaded.failures) < decoding.MAX_UNDECODABLE:
        loaded.failures.append(what)
