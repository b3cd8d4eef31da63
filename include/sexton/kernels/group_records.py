"""Replays the group records that a fold kept by `coordinator.groups`, as the plain replay does: there are few.

Records that cannot be decoded or replayed become rows and failures, as in `coordinator.loading`.
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
from sexton.kernels.layout import State
from sexton.kernels.slow_path import UndecodableRows, keep_undecodable, log_order
from sexton.log.batch import Record
from sexton.records import decode_key

_CLASSIC = b"\0\2"


@dataclass(slots=True)
class GroupRecords:
    """The group records of a fold, replayed."""

    profile: Profile
    groups: Groups
    rows_of: dict[str, int] = field(default_factory=dict)
    """Row in the fold's `groups` of every group with a group record, also of removed groups."""
    undecodable: UndecodableRows = field(default_factory=list)
    undecodable_count: int = 0
    """Including those without a row."""
    failures: list[tuple[int, str]] = field(default_factory=list)
    live_records: dict[bytes, bool] = field(default_factory=dict)
    tombstones: int = 0

    def removed_classic(self) -> list[str]:
        """Classic groups whose last group record (type 2) is a tombstone."""
        return [
            decode_key(key)[1].group_id
            for key, is_live in self.live_records.items()
            if not is_live and key[:2] == _CLASSIC
        ]


def replay_group_records(state: State, profile: Profile) -> GroupRecords:
    """Replay the group records. An offset value between two records of a removed group makes the group again."""
    replay = GroupRecords(profile, new_groups(profile))
    last_own: dict[int, int] = {}
    names = GroupNames(state)
    for row in state.records[: state.counts[L.RECORDS]].tolist():
        group, log_offset, last_value = row[L.R_GROUP], row[L.R_LOG_OFFSET], row[L.R_LAST_VALUE]
        if last_value > last_own.get(group, L.NONE):
            replay.groups.ensure_simple_group(names[group])
        last_own[group] = log_offset
        _replay_record(replay, state, row)
    for group in last_own:
        replay.rows_of[names[group]] = group
        if state.groups[group, L.LAST_VALUE] > last_own[group]:
            replay.groups.ensure_simple_group(names[group])
    return replay


@dataclass(slots=True)
class GroupNames:
    """Group ids by their row."""

    state: State

    def __getitem__(self, group: int) -> str:
        at, size = self.state.groups[group, [L.GROUP_AT, L.GROUP_LENGTH]].tolist()
        return self.state.key_bytes[at : at + size].tobytes().decode()


def _replay_record(replay: GroupRecords, state: State, row: list[int]) -> None:
    at, middle = row[L.R_AT], row[L.R_AT] + row[L.R_KEY_SIZE]
    key = state.record_bytes[at:middle].tobytes()
    value = None if row[L.R_VALUE_SIZE] < 0 else state.record_bytes[middle : middle + row[L.R_VALUE_SIZE]].tobytes()
    log_offset, base_offset = row[L.R_LOG_OFFSET], row[L.R_BASE_OFFSET]
    record = Record(log_offset=log_offset, timestamp_ms=-1, key=key, value=value)
    judged = decoding.decode(record, base_offset=base_offset, profile=replay.profile)
    if isinstance(judged, Undecodable):
        _add_undecodable(replay, log_offset, judged)
        return
    assert isinstance(judged, Decoded), "the loop keeps only known types"
    replay.tombstones += value is None
    try:
        replay.groups.replay(judged.record_type, judged.key, judged.value, log_offset=log_offset)
    except TransitionError as error:
        if len(replay.failures) < decoding.MOST_UNDECODABLE:
            replay.failures.append((log_order(log_offset), f"log_offset {log_offset}: {error}"))
    except LogError as error:
        (record_type,) = struct.unpack_from(">h", key)
        refused = decoding.undecodable(
            record, error.reason, error.detail, base_offset=base_offset, record_type=record_type
        )
        _add_undecodable(replay, log_offset, refused)
    else:
        replay.live_records[key] = value is not None


def _add_undecodable(replay: GroupRecords, log_offset: int, row: Undecodable) -> None:
    replay.undecodable_count += 1
    keep_undecodable(replay.undecodable, log_order(log_offset), row)
