"""The changes of a log partition by plain replay: readable and slow; the tests compare kernels.changes.replay with it.

Continues record by record from a coordinator that has loaded everything before the interval (coordinator.loading), and
explains each write of tombstones before it replays it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sexton.coordinator import decoding, loading
from sexton.coordinator.batches import BATCH_FORMAT
from sexton.coordinator.changes.explain import changes_of_write
from sexton.coordinator.changes.model import (
    Change,
    ChangeEvidence,
    TombstoneRecord,
    TopicPartition,
    Write,
    continues,
    set_change,
)
from sexton.coordinator.decoding import DecodedGroup, DecodedOffset, Undecodable
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import PendingRule, Profile
from sexton.log.batch import BadRecord, Batch, Damage, Record, TornTail, read_batches, read_records


def changes(
    loaded: Loaded,
    chunks: Iterable[bytes],
    *,
    known: ChangeEvidence,
    cap_bytes: int,
    as_of_ms: int | None = None,
    taken_at_ms: int | None = None,
) -> list[Change]:
    """The rows of offset_changes from the end of `loaded` up to `as_of_ms`, in order of key and log_offset.

    `chunks` continue where those of `loaded` ended. `loaded` is replayed further: at the end it equals a `load` of
    everything, except for its counters.
    """
    start = dict(loaded.offsets)
    replay = _Replay(loaded=loaded, known=known, next_offset=loaded.next_log_offset)
    for chunk in chunks:
        for found in read_batches(chunk):
            if isinstance(found, TornTail):
                continue
            if isinstance(found, Damage):
                replay.flush()
                loading.note_damage(loaded, decoding.damage(found))
                continue
            if loading.is_past(loaded, found, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms):
                return replay.finish(start)
            replay.take(found, cap_bytes)
    return replay.finish(start)


@dataclass(slots=True)
class LoadedView:
    """`StateBefore` of a log partition that is being loaded."""

    loaded: Loaded

    def offsets_of(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        return {key[1:]: offset for key, offset in self.loaded.offsets.items() if key[0] == group_id}

    def pending_of(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset(key[1:] for key in self.loaded.state.pending_keys() if key[0] == group_id)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self.loaded.state.open_groups()

    def group(self, group_id: str) -> Group | None:
        return self.loaded.groups.by_id.get(group_id) or simple_group(group_id, self.loaded.profile)

    def holders_of(self, topic: str) -> Iterator[tuple[str, int, str | None]]:
        for (group_id, name, partition), offset in self.loaded.offsets.items():
            if name == topic:
                yield group_id, partition, offset.topic_id


def simple_group(group_id: str, profile: Profile) -> Group | None:
    """The simple group that exists as long as it has offsets, without a record; None if the release has none."""
    return ClassicGroup(group_id, profile) if profile.offsets_hold_groups else None


def removal_of(batch: Batch, record: Record, profile: Profile) -> TombstoneRecord | None:
    """The tombstone that the coordinator reads from `record`; None for any other record."""
    if record.value is not None or batch.is_control or batch.magic > profile.newest_format:
        return None
    found = decoding.decode(record, base_offset=batch.base_offset, profile=profile)
    if not isinstance(found, DecodedOffset | DecodedGroup):
        return None
    return TombstoneRecord(
        record_type=found.record_type,
        group_id=found.key.group_id,
        topic=found.key.topic if isinstance(found, DecodedOffset) else None,
        partition=found.key.partition if isinstance(found, DecodedOffset) else None,
        log_offset=record.log_offset,
        base_offset=batch.base_offset if batch.magic >= BATCH_FORMAT else None,
        timestamp_ms=record.timestamp_ms if batch.magic > 0 else None,
        producer_id=batch.producer_id,
    )


@dataclass(slots=True, kw_only=True)
class _Replay:
    """The state of the replay. `held` are the tombstones of the current write, which are not replayed yet."""

    loaded: Loaded
    known: ChangeEvidence
    next_offset: int
    is_dense: bool = True
    held: list[tuple[TombstoneRecord, Batch, Record]] = field(default_factory=list)
    held_is_whole: bool = True
    rows: list[Change] = field(default_factory=list)
    gone: set[OffsetKey] = field(default_factory=set)

    def take(self, batch: Batch, cap_bytes: int) -> None:
        """Replay a batch, except for tombstones at its end: their write may continue in the next batch."""
        records = list(read_records(batch, cap_bytes=cap_bytes))
        good = [record for record in records if isinstance(record, Record)]
        self._note_gaps(batch, good, is_sound=len(good) == len(records))
        removals = {record.log_offset: removal_of(batch, record, self.loaded.profile) for record in good}
        if not any(removals.values()):
            self.flush()
            loading.replay_batch(self.loaded, batch, cap_bytes, False)
            return
        if not self._goes_on(removals[good[0].log_offset]):
            self.flush()
        self.loaded.next_log_offset = batch.next_offset
        if not batch.crc_ok:
            loading.note_damage(self.loaded, decoding.bad_crc(batch))
        for index, record in enumerate(records):
            if isinstance(record, BadRecord):
                row = decoding.bad_record(batch, record, index=index, profile=self.loaded.profile)
                loading.note_damage(self.loaded, row)
            else:
                self._take_record(batch, record, removals[record.log_offset])

    def _note_gaps(self, batch: Batch, records: list[Record], *, is_sound: bool) -> None:
        """Note missing log_offsets, and records that the coordinator does not read."""
        expected = range(self.next_offset, self.next_offset + len(records))
        is_whole = [record.log_offset for record in records] == [*expected] and batch.next_offset == expected.stop
        is_read = batch.is_control or not any(
            isinstance(decoding.decode(record, base_offset=batch.base_offset, profile=self.loaded.profile), Undecodable)
            for record in records
        )
        self.is_dense &= is_whole and is_sound and is_read
        self.next_offset = batch.next_offset

    def _goes_on(self, removal: TombstoneRecord | None) -> bool:
        return removal is not None and bool(self.held) and continues(self.held[-1][0], removal)

    def _take_record(self, batch: Batch, record: Record, removal: TombstoneRecord | None) -> None:
        if not self._goes_on(removal):
            self.flush()
        if removal is None:
            loading.replay_record(self.loaded, batch, record)
            return
        if not self.held:
            self.held_is_whole = True
        self.held_is_whole &= self.is_dense and not self.loaded.undecodable and not self.loaded.failures
        self.held.append((removal, batch, record))

    def flush(self) -> None:
        """Explain the write that is held back, then replay it."""
        if not self.held:
            return
        write = Write(removals=tuple(removal for removal, _, _ in self.held), is_whole=self.held_is_whole)
        profile = self.loaded.profile
        if not takes_pending_alone(self.held[0][1].is_transactional, profile):
            found = changes_of_write(write, LoadedView(self.loaded), self.known, profile)
            self.rows += found
            self.gone |= {row.key for row in found}
        for _, batch, record in self.held:
            loading.replay_record(self.loaded, batch, record)
        self.held.clear()

    def finish(self, start: Mapping[OffsetKey, StoredOffset]) -> list[Change]:
        self.flush()
        for key, offset in self.loaded.offsets.items():
            row = set_change(key, None if key in self.gone else start.get(key), offset, self.known)
            if row is not None:
                self.rows.append(row)
        return sorted(self.rows, key=lambda row: (row.key, row.log_offset))


def takes_pending_alone(is_transactional: bool, profile: Profile) -> bool:
    """Whether a tombstone cancels only its producer's pending offsets, and keeps committed ones."""
    return (
        is_transactional
        and not profile.tombstones_cancel_pending
        and profile.pending_rule is PendingRule.IF_TRANSACTIONAL
    )
