"""Replays the group records of a fold with `coordinator.groups`, in plain Python: there are few of them.

Records that cannot be decoded or replayed become undecodable rows or failures of the load, as in `coordinator.loading`.
"""

import struct
from dataclasses import dataclass, field

from sexton.coordinator import decoding
from sexton.coordinator.decoding import Decoded, Undecodable
from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import new_groups
from sexton.errors import LogError, TransitionError
from sexton.kernels import layout as L
from sexton.kernels.columns import group_name
from sexton.kernels.layout import FoldState
from sexton.kernels.slow_path import UndecodableRows, keep_undecodable, log_order
from sexton.log.batch import Record
from sexton.records import decode_key

_CLASSIC = b"\0\2"


@dataclass(slots=True)
class GroupRecords:
    """The group records of a fold, replayed up to the last `catch_up`.

    An offset value after the records of a removed group creates the group again.
    """

    profile: Profile
    groups: Groups = field(init=False)
    rows_of: dict[str, int] = field(default_factory=dict)
    """Row in `groups` of every group with a group record, including removed groups; filled by `complete`."""
    undecodable: UndecodableRows = field(default_factory=list)
    undecodable_count: int = 0
    """The number of undecodable group records, including those without a row in `undecodable`."""
    failures: list[tuple[int, str]] = field(default_factory=list)
    live_records: dict[bytes, bool] = field(default_factory=dict)
    tombstones: int = 0
    _done: int = 0
    _last_own: dict[int, int] = field(default_factory=dict)
    """The log_offset of the last group record of each row of `groups`."""

    def __post_init__(self) -> None:
        self.groups = new_groups(self.profile)

    @property
    def has_failed(self) -> bool:
        """Whether a group record could not be decoded or replayed."""
        return self.undecodable_count > 0 or len(self.failures) > 0

    def removed_classic(self) -> list[str]:
        """Classic groups whose last group record (type 2) is a tombstone."""
        return [
            decode_key(key)[1].group_id
            for key, is_live in self.live_records.items()
            if not is_live and key[:2] == _CLASSIC
        ]

    def catch_up(self, state: FoldState) -> None:
        """Replay the group records that were added to `state` since the last call."""
        count = int(state.counts[L.RECORDS])
        for row in state.records[self._done : count].tolist():
            group = row[L.R_GROUP]
            self._revive(state, group, last_value=row[L.R_LAST_VALUE])
            self._last_own[group] = row[L.R_LOG_OFFSET]
            self._replay(state, row)
        self._done = count

    def revive(self, state: FoldState, group: int) -> None:
        """Restore the simple group that an offset value after the last group record has created, if any."""
        self._revive(state, group, last_value=int(state.groups[group, L.LAST_VALUE]))

    def complete(self, state: FoldState) -> None:
        """Revive every group and note its row in `rows_of`; call it after all records are replayed."""
        for group in self._last_own:
            self.rows_of[group_name(state, group)] = group
            self.revive(state, group)

    def _revive(self, state: FoldState, group: int, *, last_value: int) -> None:
        if last_value > self._last_own.get(group, L.NONE):
            self.groups.ensure_simple_group(group_name(state, group))

    def _replay(self, state: FoldState, row: list[int]) -> None:
        at, middle = row[L.R_AT], row[L.R_AT] + row[L.R_KEY_SIZE]
        key = state.record_bytes[at:middle].tobytes()
        value = None if row[L.R_VALUE_SIZE] < 0 else state.record_bytes[middle : middle + row[L.R_VALUE_SIZE]].tobytes()
        log_offset, base_offset = row[L.R_LOG_OFFSET], row[L.R_BASE_OFFSET]
        record = Record(log_offset=log_offset, timestamp_ms=-1, key=key, value=value)
        found = decoding.decode(record, base_offset=base_offset, profile=self.profile)
        if isinstance(found, Undecodable):
            self._add_undecodable(log_offset, found)
            return
        assert isinstance(found, Decoded), "the loop keeps only known types"
        self.tombstones += value is None
        try:
            self.groups.replay(found.record_type, found.key, found.value, log_offset=log_offset)
        except TransitionError as error:
            if len(self.failures) < decoding.MAX_UNDECODABLE:
                self.failures.append((log_order(log_offset), f"log_offset {log_offset}: {error}"))
        except LogError as error:
            (record_type,) = struct.unpack_from(">h", key)
            refused = decoding.undecodable(
                record, error.reason, error.detail, base_offset=base_offset, record_type=record_type
            )
            self._add_undecodable(log_offset, refused)
        else:
            self.live_records[key] = value is not None

    def _add_undecodable(self, log_offset: int, row: Undecodable) -> None:
        self.undecodable_count += 1
        keep_undecodable(self.undecodable, log_order(log_offset), row)


def replay_group_records(state: FoldState, profile: Profile) -> GroupRecords:
    """All group records of `state`, replayed."""
    replay = GroupRecords(profile)
    replay.catch_up(state)
    replay.complete(state)
    return replay
